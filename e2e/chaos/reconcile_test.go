package chaos_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
)

// person is somebody on call who settles blocked scopes over the REST API of
// whichever authority answers.
type person struct {
	world    *world
	client   *http.Client
	token    string
	reopened atomic.Int64
	resolved atomic.Int64
	turn     atomic.Int64
}

func (w *world) person() (*person, error) {
	a := w.replicas[0].Authority
	pem, err := os.ReadFile(a.CA)
	if err != nil {
		return nil, err
	}
	token, err := os.ReadFile(a.AdminTokenFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &person{world: w, token: string(token), client: &http.Client{
		Timeout:   3 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, MaxIdleConnsPerHost: 2},
	}}, nil
}

// work settles what is blocked, again and again, until ctx is done.
func (p *person) work(ctx context.Context) {
	for ctx.Err() == nil {
		blocked := &pb.ListBlockedResponse{}
		if p.call(ctx, http.MethodGet, "blocked", nil, blocked) == nil {
			for _, s := range blocked.GetScopes() {
				p.settle(ctx, s.GetScope())
			}
		}
		pause(ctx, 400*time.Millisecond)
	}
}

// settle claims a scope, says of each effect what the provider knows, and
// reopens it. Whatever fails is tried again in the next round.
func (p *person) settle(ctx context.Context, scope string) {
	claimed := &pb.ReconcileScopeResponse{}
	err := p.call(ctx, http.MethodPost, "reconcile", &pb.ReconcileScopeRequest{CommandId: newID(), Scope: scope, Reason: "on call"}, claimed)
	if err != nil {
		return
	}
	finding := &pb.ResolveScopeRequest{CommandId: newID(), Scope: scope, Reopen: true, Seen: "compared with the provider's log"}
	for _, e := range claimed.GetEvidence().GetEffects() {
		if s := e.GetEffect().GetState(); s == "started" || s == "planned" || s == "unknown" {
			finding.Resolutions = append(finding.Resolutions, &pb.Resolution{Effect: e.GetEffect().GetId(), Outcome: "failed", Seen: "the provider holds no such plan"})
		}
	}
	if p.call(ctx, http.MethodPost, "resolve", finding, &pb.ResolveScopeResponse{}) == nil {
		p.reopened.Add(1)
		p.resolved.Add(int64(len(finding.Resolutions)))
	}
}

func newID() string { return ulid.MustNew(ulid.Now(), rand.Reader).String() }

// call asks the authorities in turn.
func (p *person) call(ctx context.Context, method, path string, in, out proto.Message) error {
	var body io.Reader
	if in != nil {
		text, err := protojson.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	a := p.world.replicas[int(p.turn.Add(1))%len(p.world.replicas)]
	req, err := http.NewRequestWithContext(ctx, method, "https://"+a.People+"/v1/concurrency/"+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+p.token)
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", path, resp.Status, text)
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, out)
}
