package coordinator

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/forgeyard/concurrency/authority/access"
	"github.com/forgeyard/concurrency/authority/store"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// Bounds of join tokens.
const (
	maxTokenUses  = 10000
	maxTokenValid = 30 * 24 * time.Hour
	defaultValid  = time.Hour
)

// CreateJoinToken makes a token with which nodes enrol for tenants. Its text is
// returned once and stored as a hash only.
func (c *Coordinator) CreateJoinToken(ctx context.Context, p access.Person, tenants []string, uses int, valid time.Duration) (text, fingerprint string, err error) {
	if err := p.May(access.Admin); err != nil {
		return "", "", err
	}
	if uses == 0 {
		uses = 1
	}
	if valid == 0 {
		valid = defaultValid
	}
	if err := checkToken(p, tenants, uses, valid); err != nil {
		return "", "", err
	}
	text = NewSecret()
	t := store.JoinToken{
		Hash: access.Hash(text), Tenants: tenants, UsesLeft: uses, ExpiresAt: c.cfg.Engine.StoreNow().Add(valid), MadeBy: p.Principal(),
	}
	if err := c.cfg.Store.PutJoinToken(ctx, t); err != nil {
		return "", "", fmt.Errorf("store join token: %w", err)
	}
	detail := fmt.Sprintf("token %s for %s, %d uses, valid for %s", t.Fingerprint(), strings.Join(tenants, ", "), uses, valid)
	return text, t.Fingerprint(), c.recordToken(ctx, p, "join-token-made", detail)
}

func (c *Coordinator) recordToken(ctx context.Context, p access.Person, action, detail string) error {
	if err := c.cfg.Store.Record(ctx, lease.Audit{Actor: p.Principal(), Action: action, Reason: detail}); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	c.cfg.Log.Info(action, zap.String("actor", p.Principal()), zap.String("detail", detail))
	return nil
}

// JoinTokens lists the tokens for the person's tenants, newest first; those
// that are spent or expired are kept for a while.
func (c *Coordinator) JoinTokens(ctx context.Context, p access.Person) ([]store.JoinToken, error) {
	if err := p.May(access.Admin); err != nil {
		return nil, err
	}
	all, err := c.cfg.Store.JoinTokens(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(t store.JoinToken) bool {
		return slices.ContainsFunc(t.Tenants, func(tenant string) bool { return !p.Sees(tenant) })
	}), nil
}

// RevokeJoinToken makes a token worthless. The nodes that joined with it stay.
func (c *Coordinator) RevokeJoinToken(ctx context.Context, p access.Person, fingerprint string) error {
	mine, err := c.JoinTokens(ctx, p)
	if err != nil {
		return err
	}
	for _, t := range mine {
		if t.Fingerprint() != fingerprint {
			continue
		}
		if err := c.cfg.Store.DropJoinToken(ctx, t.Hash); err != nil {
			return err
		}
		return c.recordToken(ctx, p, "join-token-revoked", "token "+fingerprint)
	}
	return fmt.Errorf("join token %s: %w", clip(fingerprint), ErrNotFound)
}

func checkToken(p access.Person, tenants []string, uses int, valid time.Duration) error {
	if len(tenants) == 0 {
		return &InputError{Field: "tenants", Problem: "must name at least one tenant"}
	}
	for _, t := range tenants {
		if _, err := scope.New(t, scope.Custom, "x"); err != nil {
			return &InputError{Field: "tenants", Value: clip(t), Problem: "is not a tenant"}
		}
		if !p.Sees(t) {
			return &InputError{Field: "tenants", Value: clip(t), Problem: "is not one of yours"}
		}
	}
	if uses < 1 || uses > maxTokenUses {
		return &InputError{Field: "uses", Value: fmt.Sprint(uses), Problem: fmt.Sprintf("must be 1 to %d", maxTokenUses)}
	}
	if valid < 0 || valid > maxTokenValid {
		return &InputError{Field: "valid_for", Value: valid.String(), Problem: "must be above 0 and at most " + maxTokenValid.String()}
	}
	return nil
}

// NewSecret draws 256 random bits in a form that travels in headers and files.
func NewSecret() string {
	raw := RandomBytes()
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

// RandomBytes draws 256 random bits.
func RandomBytes() (raw [32]byte) {
	rand.Read(raw[:]) // never fails (Go 1.24)
	return raw
}
