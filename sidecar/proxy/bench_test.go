package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkProxy compares calls through the proxy with calls that go straight
// to the provider, which takes 2 ms for each.
func BenchmarkProxy(b *testing.B) {
	for _, clients := range []int{1, 16, 64} {
		for _, kind := range []string{"direct", "read", "mutation"} {
			b.Run(fmt.Sprintf("%s/%d", kind, clients), func(b *testing.B) { calls(b, kind, clients) })
		}
	}
}

func calls(b *testing.B, kind string, clients int) {
	up := record(b, func(http.ResponseWriter, *http.Request) { <-time.After(2 * time.Millisecond) })
	ended := make(chan struct{})
	b.Cleanup(func() { close(ended) })
	go func() { // the recorder keeps a bounded number
		for {
			select {
			case <-up.got:
			case <-ended:
				return
			}
		}
	}()
	o := options{routes: everywhere()}
	method := "PUT"
	if kind == "read" {
		o, method = options{}, "GET"
	}
	url := setup(b, up.addr, o).url("/x")
	if kind == "direct" {
		url = "http://" + up.addr + "/x"
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	b.Cleanup(client.CloseIdleConnections)
	jobs := make(chan struct{}, clients)
	var wg sync.WaitGroup
	b.ResetTimer()
	for range clients {
		wg.Go(func() {
			for range jobs {
				req, err := http.NewRequest(method, url, strings.NewReader("plan"))
				require.NoError(b, err)
				resp, err := client.Do(req)
				require.NoError(b, err)
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				require.Equal(b, 200, resp.StatusCode)
			}
		})
	}
	for range b.N {
		jobs <- struct{}{}
	}
	close(jobs)
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}
