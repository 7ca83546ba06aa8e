package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/forgeyard/concurrency/shared/lease"
)

// NodeState says whether a node may come.
type NodeState string

// The states of a node. One that nobody decided about is admitted: its
// certificate was enough.
const (
	NodeAdmitted NodeState = "admitted"
	NodeRevoked  NodeState = "revoked" // refused, its certificates and its enrolment, until it is restored
	NodeRemoved  NodeState = "removed" // refused with the certificates that it has; a new enrolment admits it
)

// Certificate is what a node proved itself with.
type Certificate struct {
	Issuer    string // key that signed it
	IssuedAt  time.Time
	ExpiresAt time.Time
}

// Node is what the authority knows of a node beside its sessions. A node that
// never came and about which nobody decided has an empty Name.
type Node struct {
	Name        string
	Tenants     []string
	State       NodeState
	Reason      string
	ChangedBy   string
	ChangedAt   time.Time // zero: never
	AdmitFrom   time.Time // certificates issued earlier are refused
	Certificate Certificate
	SeenAt      time.Time
	Via         string // the replica that it came to last
}

// Visit is a node that comes with a certificate.
type Visit struct {
	Node        string
	Tenants     []string
	Certificate Certificate
	Enrolled    bool   // the certificate was made just now
	Via         string // the replica; empty: leaves what is known
}

// Refuses says why a certificate of the node is not taken; empty: it is.
func (n Node) Refuses(c Certificate) string {
	switch {
	case n.State == NodeRevoked || n.State == NodeRemoved:
		return fmt.Sprintf("node %s was %s by %s on %s: %s", n.Name, n.State, n.ChangedBy, n.ChangedAt.Format(time.RFC3339), n.Reason)
	case c.IssuedAt.Before(n.AdmitFrom):
		return fmt.Sprintf("node %s was removed and enrolled anew: this certificate is of before", n.Name)
	}
	return ""
}

// NodeChange is a person's decision about a node.
type NodeChange struct {
	Name   string
	From   NodeState // the state that the decision was made upon; empty: none was known
	To     NodeState
	By     string
	Reason string
}

// ErrTokenRefused says that a join token is unknown, spent or expired.
var ErrTokenRefused = errors.New("store: join token unknown, spent or expired")

// JoinToken lets a node enrol. The secret is known by its SHA-256 only.
type JoinToken struct {
	Hash      [32]byte
	Tenants   []string
	Uses      int // allowed in all; 0: made by an earlier version
	UsesLeft  int
	ExpiresAt time.Time
	MadeBy    string
	MadeAt    time.Time
}

// Fingerprint names the token in lists and logs: the first 16 hexadecimal
// digits of its hash tell nothing about the secret.
func (t JoinToken) Fingerprint() string { return hex.EncodeToString(t.Hash[:8]) }

// Fleet is the part of the contract about nodes and their enrolment.
type Fleet interface {
	// SeeNode records a visit and returns what is known of the node. After an enrolment a removed node is admitted again, with
	// certificates from that one on.
	SeeNode(ctx context.Context, v Visit) (Node, error)
	Node(ctx context.Context, name string) (Node, error)
	// Nodes lists them by name; Refused only those that are not admitted.
	Nodes(ctx context.Context) ([]Node, error)
	Refused(ctx context.Context) ([]string, error)
	// ChangeNode writes a decision and its audit line, both or none. A removed
	// node that is admitted is so with certificates issued from now on. It fails
	// with ErrConflict when the node's state is not c.From any more.
	ChangeNode(ctx context.Context, c NodeChange) error

	PutJoinToken(ctx context.Context, t JoinToken) error
	// SpendJoinToken takes one use. It fails with ErrTokenRefused.
	SpendJoinToken(ctx context.Context, hash [32]byte) (JoinToken, error)
	// JoinTokens lists those that are not pruned yet, newest first.
	JoinTokens(ctx context.Context) ([]JoinToken, error)
	// DropJoinToken fails with ErrTokenRefused when there is none.
	DropJoinToken(ctx context.Context, hash [32]byte) error

	// Record writes one audit line, at the store's own time.
	Record(ctx context.Context, a lease.Audit) error
}
