package rpc_test

import (
	"crypto/x509"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/forgeyard/concurrency/authority/store"
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
	"github.com/forgeyard/concurrency/shared/identity"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

const free = "acme/environment:free-1"

func TestARevokedNodeIsRefusedEverywhereAndItsLeasesDrain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a, other := b.join("node-a", "acme"), b.join("node-b", "acme")
	b.pass(ttl+lockDelay+2*time.Second, a, other) // the pause at the start
	a.hold(free)
	a.beat()
	b.clock.Advance(time.Second)
	got, err := b.as("admin").RevokeNode(t.Context(), &pb.RevokeNodeRequest{Node: "node-a", Reason: "stolen"})
	require.NoError(t, err)
	require.EqualValues(t, 1, got.GetLeases())
	require.Equal(t, ttl-time.Second+lockDelay, got.GetSilentIn().AsDuration())
	<-a.nudged
	require.Equal(t, "node-revoked", a.fetch().GetReason(), "it looks at once, and stops")
	require.NoError(t, b.coordinator.Sweep(t.Context()))
	<-a.tunnel.Done() // whether or not it did

	a.dial(b, []string{"acme"})
	answer := a.ask(&pb.UpFrame{Body: &pb.UpFrame_Register{Register: a.registerFrame()}}).GetRegistered()
	require.Equal(t, "rejected", answer.GetCode())
	require.Equal(t, "node-revoked", answer.GetReason())
	require.Contains(t, answer.GetDetail(), "node node-a was revoked by person:admin on")
	require.Contains(t, answer.GetDetail(), ": stolen")
	_, err = a.renew("node-a")
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	require.ErrorContains(t, err, "node-revoked: node node-a was revoked by person:admin")

	x, err := b.as("admin").ExplainScope(t.Context(), &pb.ExplainScopeRequest{Scope: free})
	require.NoError(t, err)
	require.Equal(t, "draining", x.GetState())
	require.Equal(t, "revoked", x.GetDrainReason())
	b.pass(16*time.Second, other)
	require.Equal(t, "busy", other.acquire(free).GetCode(), "its process may still trust its lease")
	b.pass(time.Second, other)
	require.Equal(t, "acquired", other.acquire(free).GetCode())

	again, err := b.as("admin").RevokeNode(t.Context(), &pb.RevokeNodeRequest{Node: "node-a", Reason: "stolen"})
	require.NoError(t, err, "a repeat changes nothing")
	require.Zero(t, again.GetLeases())
	_, err = b.as("admin").RestoreNode(t.Context(), &pb.RestoreNodeRequest{Node: "node-a", Reason: "found"})
	require.NoError(t, err)
	back := b.join("node-a", "acme")
	require.Equal(t, "renewed", back.beat().GetCode())
	lines, err := b.store.Audit(t.Context(), scope.Scope{}, 20)
	require.NoError(t, err)
	var told []string
	for _, l := range lines {
		if l.Node == "node-a" {
			told = append(told, l.Action+" by "+l.Actor)
		}
	}
	require.Equal(t, []string{"node-admitted by person:admin", "session-revoked by person:admin", "node-revoked by person:admin"}, told)
}

// Another replica has not heard of the decision: the session's row tells it.
func TestAnotherReplicaRefusesARevokedNodeAndClosesItsConnection(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.join("node-a", "acme")
	held := a.hold(free)
	require.NoError(t, b.store.ChangeNode(t.Context(), store.NodeChange{Name: "node-a", From: store.NodeAdmitted, To: store.NodeRevoked, By: "person:sre", Reason: "stolen"}))
	b.endSession(a.session)
	got := a.beat()
	require.Equal(t, "rejected", got.GetCode())
	require.Equal(t, "node-revoked", got.GetReason())
	require.Contains(t, got.GetDetail(), "by person:sre")
	require.Equal(t, "node-revoked", a.fetch().GetReason())
	require.Contains(t, a.fetch().GetDetail(), ": stolen")
	require.Equal(t, "rejected", a.claim(held).GetCode())
	require.NoError(t, b.coordinator.Sweep(t.Context()))
	<-a.tunnel.Done()
}

// A decision between the first look of a registration and its commit finds no
// session to end: the second look does.
func TestANodeRevokedWhileItRegistersHasNoSessionAfterwards(t *testing.T) {
	t.Parallel()
	b := setup(t)
	admin := b.as("admin")
	s := b.connect("node-a", "acme")
	b.seen = func(node string) {
		b.seen = nil
		if _, err := admin.RevokeNode(t.Context(), &pb.RevokeNodeRequest{Node: node, Reason: "stolen"}); err != nil {
			t.Errorf("revoke: %v", err)
		}
	}
	answer := s.ask(&pb.UpFrame{Body: &pb.UpFrame_Register{Register: s.registerFrame()}}).GetRegistered()
	require.Equal(t, "node-revoked", answer.GetReason())
	open, err := b.store.Sessions(t.Context())
	require.NoError(t, err)
	require.Empty(t, open)
}

// A decision stands when the node comes for the first time meanwhile.
func TestRegistrationsAndRevocationsAtOnceLeaveNoSession(t *testing.T) {
	t.Parallel()
	b := setup(t)
	admin := b.as("admin")
	const nodes = 24
	var both sync.WaitGroup
	for i := range nodes {
		s := b.connect(fmt.Sprintf("node-%d", i), "acme")
		both.Go(func() {
			s.send(&pb.UpFrame{Body: &pb.UpFrame_Register{Register: s.registerFrame()}})
			_, _ = s.stream.Recv() // it may be cut
		})
		both.Go(func() {
			if _, err := admin.RevokeNode(t.Context(), &pb.RevokeNodeRequest{Node: s.name, Reason: "stolen"}); err != nil {
				t.Errorf("revoke %s: %v", s.name, err)
			}
		})
	}
	both.Wait()
	open, err := b.store.Sessions(t.Context())
	require.NoError(t, err)
	require.Empty(t, open)
	refused, err := b.store.Refused(t.Context())
	require.NoError(t, err)
	require.Len(t, refused, nodes)
}

func TestARemovedNodeComesBackWithANewCertificateOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.sidecar("node-a")
	a.age = 30 * time.Minute // certificates tell seconds apart
	a.dial(b, []string{"acme"})
	require.Equal(t, "registered", a.register().GetCode())
	admin := b.as("admin")
	_, err := admin.RemoveNode(t.Context(), &pb.RemoveNodeRequest{Node: "node-a", Reason: "scrapped"})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.ErrorContains(t, err, `node "node-a": is alive: stop its sidecar, or revoke it first`)
	_, err = admin.RevokeNode(t.Context(), &pb.RevokeNodeRequest{Node: "node-a", Reason: "scrapped"})
	require.NoError(t, err)
	_, err = admin.RemoveNode(t.Context(), &pb.RemoveNodeRequest{Node: "node-a", Reason: "scrapped"})
	require.NoError(t, err)
	refused := func() {
		t.Helper()
		a.dial(b, []string{"acme"})
		require.Equal(t, "node-revoked", a.ask(&pb.UpFrame{Body: &pb.UpFrame_Register{Register: a.registerFrame()}}).GetRegistered().GetReason())
	}
	refused()

	made, err := admin.CreateJoinToken(t.Context(), &pb.CreateJoinTokenRequest{Tenants: []string{"acme"}})
	require.NoError(t, err)
	key, csr, err := identity.NewNodeKey("node-a")
	require.NoError(t, err)
	chain, err := b.enrol(made.GetToken(), "node-a", csr)
	require.NoError(t, err)
	refused() // the former one stays refused
	s := b.sidecar("node-a")
	s.present(b, chain, key)
	require.Equal(t, "registered", s.register().GetCode())
	_, err = admin.RevokeNode(t.Context(), &pb.RevokeNodeRequest{Node: "node-a", Reason: "again"})
	require.NoError(t, err)
	_, err = admin.RestoreNode(t.Context(), &pb.RestoreNodeRequest{Node: "node-a", Reason: "no"})
	require.NoError(t, err)
	refused() // restoring does not bring back what a removal took
}

func TestARevokedNodeCannotEnrolAround(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.join("node-a", "acme")
	admin := b.as("admin")
	made, err := admin.CreateJoinToken(t.Context(), &pb.CreateJoinTokenRequest{Tenants: []string{"acme"}})
	require.NoError(t, err)
	_, err = admin.RevokeNode(t.Context(), &pb.RevokeNodeRequest{Node: "node-a", Reason: "stolen"})
	require.NoError(t, err)
	_, csr, err := identity.NewNodeKey("node-a")
	require.NoError(t, err)
	_, err = b.enrol(made.GetToken(), "node-a", csr)
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	require.ErrorContains(t, err, "node-revoked")
	_, err = b.enrol(made.GetToken(), "node-c", csr)
	require.NoError(t, err, "the token was not spent")
}

func TestI10_DecisionsAboutNodesAreForAdminsWithinTheirTenants(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.join("node-a", "acme")
	b.join("node-ab", "acme", "umbrella")
	for _, who := range []string{"sre", "reader"} {
		_, err := b.as(who).RevokeNode(t.Context(), &pb.RevokeNodeRequest{Node: "node-a", Reason: "x"})
		require.Equal(t, codes.PermissionDenied, status.Code(err), who)
		_, err = b.as(who).ListJoinTokens(t.Context(), &pb.ListJoinTokensRequest{})
		require.Equal(t, codes.PermissionDenied, status.Code(err), who)
	}
	_, err := b.as("").RevokeNode(t.Context(), &pb.RevokeNodeRequest{Node: "node-a", Reason: "x"})
	require.Equal(t, codes.Unauthenticated, status.Code(err))
	keeper := b.as("acme-admin")
	_, foreign := keeper.RevokeNode(t.Context(), &pb.RevokeNodeRequest{Node: "node-ab", Reason: "x"})
	_, missing := keeper.RevokeNode(t.Context(), &pb.RevokeNodeRequest{Node: "node-zz", Reason: "x"})
	require.Equal(t, codes.NotFound, status.Code(foreign))
	require.Equal(t, strings.ReplaceAll(missing.Error(), "node-zz", "node-ab"), foreign.Error(), "alike")
	for _, r := range []*pb.RevokeNodeRequest{{Node: "node-a"}, {Node: "node-a", Reason: "  "}, {Node: "Not_A_Name", Reason: "x"}} {
		_, err := keeper.RevokeNode(t.Context(), r)
		require.Equal(t, codes.InvalidArgument, status.Code(err), "%v", r)
	}
	_, err = keeper.RevokeNode(t.Context(), &pb.RevokeNodeRequest{Node: "node-a", Reason: "x"})
	require.NoError(t, err)
	_, err = b.as("admin").RevokeNode(t.Context(), &pb.RevokeNodeRequest{Node: "node-zz", Reason: "never let it in"})
	require.NoError(t, err, "one that never came")
}

func TestNodesAreListedWithTheirStateAndCertificate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.join("node-a", "acme")
	b.join("node-b", "umbrella")
	_, err := b.as("admin").RevokeNode(t.Context(), &pb.RevokeNodeRequest{Node: "node-a", Reason: "stolen"})
	require.NoError(t, err)
	list, err := b.as("admin").ListNodes(t.Context(), &pb.ListNodesRequest{})
	require.NoError(t, err)
	require.Len(t, list.GetNodes(), 2)
	gone, there := list.GetNodes()[0], list.GetNodes()[1]
	require.Equal(t, "revoked", gone.GetState())
	require.Equal(t, "stolen", gone.GetReason())
	require.Equal(t, "person:admin", gone.GetChangedBy())
	require.False(t, gone.GetAlive())
	require.Empty(t, gone.GetSession())
	require.Equal(t, "admitted", there.GetState())
	require.True(t, there.GetAlive())
	require.Equal(t, b.ca.KeyID(), there.GetCertificateIssuer())
	require.True(t, there.GetCertificateExpiresAt().AsTime().After(b.clock.Now()))
	list, err = b.as("reader").ListNodes(t.Context(), &pb.ListNodesRequest{})
	require.NoError(t, err)
	require.Len(t, list.GetNodes(), 1, "within the tenants of who asks")
}

func TestJoinTokensAreListedAndRevokedByFingerprint(t *testing.T) {
	t.Parallel()
	b := setup(t)
	admin := b.as("admin")
	made, err := admin.CreateJoinToken(t.Context(), &pb.CreateJoinTokenRequest{Tenants: []string{"acme"}, Uses: 3, ValidFor: durationpb.New(time.Hour)})
	require.NoError(t, err)
	_, err = admin.CreateJoinToken(t.Context(), &pb.CreateJoinTokenRequest{Tenants: []string{"umbrella"}})
	require.NoError(t, err)
	_, csr, err := identity.NewNodeKey("node-a")
	require.NoError(t, err)
	_, err = b.enrol(made.GetToken(), "node-a", csr)
	require.NoError(t, err)

	list, err := b.as("acme-admin").ListJoinTokens(t.Context(), &pb.ListJoinTokensRequest{})
	require.NoError(t, err)
	require.Len(t, list.GetTokens(), 1)
	got := list.GetTokens()[0]
	require.Equal(t, made.GetFingerprint(), got.GetFingerprint())
	require.EqualValues(t, 3, got.GetUses())
	require.EqualValues(t, 2, got.GetUsesLeft())
	require.Equal(t, "person:admin", got.GetMadeBy())
	require.NotContains(t, list.String(), made.GetToken())

	_, err = b.as("acme-admin").RevokeJoinToken(t.Context(), &pb.RevokeJoinTokenRequest{Fingerprint: "0000000000000000"})
	require.Equal(t, codes.NotFound, status.Code(err))
	_, err = b.as("acme-admin").RevokeJoinToken(t.Context(), &pb.RevokeJoinTokenRequest{Fingerprint: got.GetFingerprint()})
	require.NoError(t, err)
	_, err = b.enrol(made.GetToken(), "node-b", csr)
	require.Equal(t, codes.PermissionDenied, status.Code(err))

	_, err = b.as("acme-admin").ListAudit(t.Context(), &pb.ListAuditRequest{})
	require.Equal(t, codes.PermissionDenied, status.Code(err), "other tenants' nodes are in it")
	told, err := admin.ListAudit(t.Context(), &pb.ListAuditRequest{Limit: 20})
	require.NoError(t, err)
	lines := told.GetEntries()
	require.Equal(t, "join-token-revoked", lines[0].Action)
	require.Equal(t, "node-enrolled", lines[1].Action)
	require.Equal(t, "token:"+made.GetFingerprint(), lines[1].Actor)
	require.Equal(t, "node-a", lines[1].Node)
	require.Equal(t, "for acme", lines[1].Reason)
	require.Equal(t, "join-token-made", lines[3].Action)
	for _, l := range lines {
		require.NotContains(t, l.Reason+l.Actor, made.GetToken())
	}
}

// enrol asks as a node without a certificate does.
func (b *bench) enrol(token, name string, csr []byte) ([][]byte, error) {
	got, err := pb.NewEnrollmentServiceClient(b.dialPeople("")).Enroll(b.t.Context(), &pb.EnrollRequest{Token: token, Node: name, CsrDer: csr})
	if err != nil {
		return nil, err
	}
	_, err = x509.ParseCertificate(got.GetCertificateChainDer()[0])
	return got.GetCertificateChainDer(), err
}

// endSession does what a revocation on another replica does to the session.
func (b *bench) endSession(id string) {
	b.t.Helper()
	require.NoError(b.t, b.store.Transact(b.t.Context(), store.Batch{Sessions: []string{id}}, func(l store.Loaded) (store.Changes, error) {
		s := l.Sessions[id]
		s.End, s.EndedAt = lease.SessionRevoked, l.Now
		return store.Changes{Sessions: []lease.Session{s}}, nil
	}))
}
