package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/forgeyard/concurrency/e2e/cluster"
	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
)

// What the deployers want: in the first act, and in the second.
const (
	prod    = "acme/environment:prod"
	billing = "acme/environment:billing"
)

// report is one line of a deployer: that it owns the scope, or what a request
// of its became of.
type report struct {
	Epoch  uint64 `json:"epoch,omitempty"`
	Lease  string `json:"lease,omitempty"`
	Status int    `json:"status,omitempty"`
	Code   string `json:"code,omitempty"` // of a refusal by the sidecar
	Detail string `json:"detail,omitempty"`
	Error  string `json:"error,omitempty"`
}

// deploy is the deployer's process: it takes the scope, then does what it is
// told line by line ("PUT /plans/prod plan 1"), through its sidecar's proxy.
// It knows nothing of epochs or pauses.
func deploy(ctx context.Context, name, socket, scope string, in io.Reader, out io.Writer) error {
	lines := json.NewEncoder(out)
	hold, err := cluster.NewLocal(socket).Acquire(ctx, &pb.HoldRequest{
		Scope: scope, Holder: &pb.Holder{Kind: "deployment", Id: name}, Wait: durationpb.New(time.Minute),
	})
	if err != nil {
		return lines.Encode(report{Error: err.Error()})
	}
	if err := lines.Encode(report{Epoch: hold.GetEpoch(), Lease: hold.GetLease()}); err != nil {
		return err
	}
	base := hold.GetBaseUrls()["plans"]
	orders := bufio.NewScanner(in)
	for orders.Scan() {
		if err := lines.Encode(request(ctx, base, orders.Text())); err != nil {
			return err
		}
	}
	return orders.Err()
}

func request(ctx context.Context, base, order string) report {
	method, rest, _ := strings.Cut(order, " ")
	path, body, _ := strings.Cut(rest, " ")
	req, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
	if err != nil {
		return report{Error: err.Error()}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return report{Error: err.Error()}
	}
	defer resp.Body.Close()
	r := report{Status: resp.StatusCode, Code: resp.Header.Get("Forgeyard-Refusal")}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.Error = err.Error()
	}
	var problem struct {
		Detail string `json:"detail"`
	}
	if r.Detail = strings.TrimSpace(string(text)); json.Unmarshal(text, &problem) == nil && problem.Detail != "" {
		r.Detail = problem.Detail
	}
	return r
}

// deployer is the story's end of a deployer's process.
type deployer struct {
	*cluster.Process
	orders  io.WriteCloser
	reports *json.Decoder
}

// order hands the next request over; it does not wait.
func (d *deployer) order(text string) error {
	if _, err := fmt.Fprintln(d.orders, text); err != nil {
		return fmt.Errorf("order %s: %w", d.Name, err)
	}
	return nil
}

// report waits for the deployer's next line.
func (d *deployer) report() (report, error) {
	var r report
	if err := d.reports.Decode(&r); err != nil {
		return r, fmt.Errorf("hear from %s: %w:\n%s", d.Name, err, d.Tail())
	}
	if r.Error != "" {
		return r, fmt.Errorf("%s: %s", d.Name, r.Error)
	}
	return r, nil
}

func (d *deployer) do(text string) (report, error) {
	if err := d.order(text); err != nil {
		return report{}, err
	}
	return d.report()
}
