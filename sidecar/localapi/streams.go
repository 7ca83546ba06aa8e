package localapi

import (
	"io"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
)

// lines writes events as newline-delimited JSON, each at once.
func lines[M proto.Message](w http.ResponseWriter) func(M) error {
	started := false
	return func(e M) error {
		if !started {
			started = true
			w.Header().Set("Content-Type", "application/x-ndjson")
		}
		text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(e)
		if err != nil {
			return err
		}
		if _, err := w.Write(append(text, '\n')); err != nil {
			return err
		}
		return http.NewResponseController(w).Flush()
	}
}

// watchJSON is Watch for curl.
func (v *service) watchJSON(w http.ResponseWriter, r *http.Request) {
	endJSON(w, v.watch(r.Context(), r.URL.Query().Get("hold_key"), lines[*pb.HoldEvent](w)))
}

// holdJSON is Hold for curl: the hold lives as long as the request.
func (v *service) holdJSON(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		endJSON(w, &inputError{"body", "", err.Error()})
		return
	}
	var req pb.HoldRequest
	if err := protojson.Unmarshal(text, &req); err != nil {
		endJSON(w, &inputError{"body", "", err.Error()})
		return
	}
	endJSON(w, v.hold(r.Context(), &req, lines[*pb.HoldEvent](w)))
}

// blockedJSON is WatchBlocked for curl.
func (v *service) blockedJSON(w http.ResponseWriter, r *http.Request) {
	endJSON(w, v.watchBlocked(r.Context(), r.URL.Query()["kinds"], lines[*pb.WatchBlockedResponse](w)))
}

// endJSON writes an error that came before the first event.
func endJSON(w http.ResponseWriter, err error) {
	if err == nil || w.Header().Get("Content-Type") != "" {
		return
	}
	st := status.Convert(toStatus(err))
	text, marshalErr := protojson.Marshal(st.Proto())
	if marshalErr != nil {
		text = []byte("{}")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(runtime.HTTPStatusFromCode(st.Code()))
	_, _ = w.Write(append(text, '\n')) // a caller that is gone reads nothing
}
