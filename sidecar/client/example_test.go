package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/forgeyard/concurrency/shared/effect"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
	"github.com/forgeyard/concurrency/sidecar/client"
	"github.com/forgeyard/concurrency/sidecar/ownership"
	"github.com/forgeyard/concurrency/sidecar/sidecartest"
)

// example stands in for the test that an example has not got.
type example struct{ cleanups []func() }

func (e *example) Cleanup(f func())          { e.cleanups = append(e.cleanups, f) }
func (e *example) Errorf(f string, a ...any) { log.Printf(f, a...) }
func (e *example) Fail()                     {}
func (e *example) FailNow()                  { panic("example failed") }
func (e *example) Failed() bool              { return false }
func (e *example) Helper()                   {}
func (e *example) Logf(string, ...any)       {}
func (e *example) Name() string              { return "example" }

// close runs the cleanups, the last first.
func (e *example) close() {
	for i := len(e.cleanups) - 1; i >= 0; i-- {
		e.cleanups[i]()
	}
}

// A deployer takes its environment, sends one fenced write, and lets go.
func Example() {
	e := &example{}
	defer e.close()
	tracker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Println("tracker got a", r.Method) }))
	defer tracker.Close()
	sidecar := sidecartest.Start(e, sidecartest.Options{BaseURLs: func(k ownership.Key) map[string]string {
		return map[string]string{"tracker": tracker.URL + "/h/" + k.Secret() + "/tracker/"}
	}})

	c, err := client.Dial(sidecar.Socket) // usually /run/forgeyard-sidecar/local.sock
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	prod, err := scope.Parse("acme/environment:prod")
	if err != nil {
		log.Fatal(err)
	}
	hold, err := c.Acquire(context.Background(), prod, client.Wait(10*time.Minute), client.As(lease.HolderDeployment, "web-42"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("owned with epoch", hold.Token())

	http, err := hold.HTTPClient("tracker")
	if err != nil {
		log.Fatal(err)
	}
	resp, err := http.Post("https://tracker.example/deployments", "application/json", strings.NewReader(`{"plan":2}`))
	if err != nil {
		log.Fatal(err)
	}
	resp.Body.Close()

	unknown, err := hold.Release(context.Background())
	fmt.Println("released; effects of unknown outcome:", unknown, err)
	// Output:
	// owned with epoch 1
	// tracker got a POST
	// released; effects of unknown outcome: 0 <nil>
}

// The context of a hold ends with its loss, and says who took it.
func ExampleHold_Context() {
	e := &example{}
	defer e.close()
	sidecar := sidecartest.Start(e, sidecartest.Options{})
	c, err := client.Dial(sidecar.Socket)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	prod, err := scope.Parse("acme/environment:prod")
	if err != nil {
		log.Fatal(err)
	}
	hold, err := c.Acquire(context.Background(), prod)
	if err != nil {
		log.Fatal(err)
	}
	sidecar.Authority.Take(prod, lease.ForceReleased, "maria", "web-42 hangs", false)

	<-hold.Context().Done() // pass this context to all work under the hold
	var lost *client.LostError
	if errors.As(context.Cause(hold.Context()), &lost) {
		fmt.Println(lost)
	}
	// Output: acme/environment:prod with epoch 1 was lost: revoked (released by maria: web-42 hangs)
}

// Who has the scope is in the error.
func ExampleBusyError() {
	e := &example{}
	defer e.close()
	sidecar := sidecartest.Start(e, sidecartest.Options{})
	c, err := client.Dial(sidecar.Socket)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	prod, err := scope.Parse("acme/environment:prod")
	if err != nil {
		log.Fatal(err)
	}
	sidecar.Authority.Other(prod)

	_, err = c.Acquire(context.Background(), prod)
	var busy *client.BusyError
	if errors.As(err, &busy) {
		fmt.Println(busy)
		fmt.Println("ask", busy.Holder.Node)
	}
	// Output:
	// acme/environment:prod is held by deployment web-42 on node node-b with epoch 1 since 15:04:05 UTC; its node is alive
	// ask node-b
}

// A controller that knows its provider reconciles what others left behind: it
// hears of blocked environments, takes one, looks at the provider for every
// effect whose outcome nobody knows, and reopens it.
func ExampleClient_WatchBlocked() {
	e := &example{}
	defer e.close()
	sidecar := sidecartest.Start(e, sidecartest.Options{})
	prod, err := scope.Parse("acme/environment:prod")
	if err != nil {
		log.Fatal(err)
	}
	sidecar.Authority.Block(prod, "its holder's node went silent", lease.Evidence{Node: "node-b", Effect: effect.Effect{
		ID: "01JF8Z6M0000000000000EFF01", Scope: prod, Operation: "PUT /plans/prod", State: effect.Unknown,
	}})
	plans := map[string]string{"/plans/prod": "plan 7"} // what the provider has

	c, err := client.Dial(sidecar.Socket)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	reconcile := func(ctx context.Context, s scope.Scope) error {
		hold, err := c.Acquire(ctx, s, client.ToReconcile())
		if err != nil {
			return err // somebody else has it, or it was reopened meanwhile
		}
		left, err := c.Evidence(ctx, s) // under the lease: nobody adds to it any more
		if err != nil {
			return err
		}
		for _, l := range left.Effects {
			found := lease.Resolution{Effect: l.Effect.ID, Outcome: effect.Failed, Seen: "the provider has no plan"}
			if plan, ok := plans["/plans/prod"]; ok {
				found.Outcome, found.Seen = effect.Succeeded, "the provider has "+plan
			}
			fmt.Println(l.Effect.Operation, found.Outcome)
			if err := hold.Resolve(ctx, found); err != nil {
				return err
			}
		}
		if err := hold.Reopen(ctx, "every plan of the scope was compared"); err != nil {
			return err
		}
		_, err = hold.Release(ctx)
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	err = c.WatchBlocked(ctx, []scope.Kind{scope.Environment}, func(blocked []lease.Record) error {
		for _, r := range blocked {
			if err := reconcile(ctx, r.Scope); err != nil {
				return err
			}
			fmt.Println(r.Scope, "is open again")
		}
		stop() // a controller would go on
		return nil
	})
	fmt.Println(err)
	// Output:
	// PUT /plans/prod succeeded
	// acme/environment:prod is open again
	// context canceled
}
