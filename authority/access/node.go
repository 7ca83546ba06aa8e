package access

import (
	"fmt"
	"slices"
	"strings"

	"github.com/forgeyard/concurrency/shared/scope"
)

// ForeignTenantError says that a node named a scope outside its tenants.
type ForeignTenantError struct {
	Node    string
	Scope   scope.Scope
	Tenants []string // the node's own
}

// Error implements error.
func (e *ForeignTenantError) Error() string {
	return fmt.Sprintf("scope %s: tenant %q is not one of node %s, which may use %s",
		e.Scope, e.Scope.Tenant(), e.Node, strings.Join(e.Tenants, ", "))
}

// NodeMay fails with *ForeignTenantError unless the scope's tenant is one of
// the node's certificate. System scopes belong to no node (I10).
func NodeMay(node string, tenants []string, s scope.Scope) error {
	if s.Tenant() != scope.SystemTenant && slices.Contains(tenants, s.Tenant()) {
		return nil
	}
	return &ForeignTenantError{Node: node, Scope: s, Tenants: tenants}
}
