package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/forgeyard/concurrency/proto/forgeyard/concurrency/v1"
)

// The formats of -o.
const (
	tableFormat = "table"
	jsonFormat  = "json"
	yamlFormat  = "yaml"
)

func checkFormat(f string) error {
	switch f {
	case tableFormat, jsonFormat, yamlFormat:
		return nil
	}
	return fmt.Errorf("output %q: must be table, json or yaml", f)
}

// print shows a response: as it is, or as the table that rows makes.
func (a *app) print(m proto.Message, rows func(*grid)) error {
	if a.output == tableFormat {
		g := &grid{}
		rows(g)
		return g.write(a)
	}
	text, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if a.output == jsonFormat {
		return a.printJSON(text)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	enc := yaml.NewEncoder(a.Out)
	defer enc.Close()
	return enc.Encode(tree)
}

// printJSON lays the text out anew: protojson varies its spaces from build to
// build on purpose.
func (a *app) printJSON(text []byte) error {
	var packed, out bytes.Buffer
	if err := json.Compact(&packed, text); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if err := json.Indent(&out, packed.Bytes(), "", "  "); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	_, err := fmt.Fprintln(a.Out, out.String())
	return err
}

// grid is lines of cells; columns are aligned.
type grid struct{ lines []string }

func (g *grid) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		if texts[i] = fmt.Sprint(c); texts[i] == "" {
			texts[i] = "-"
		}
	}
	g.lines = append(g.lines, strings.Join(texts, "\t"))
}

// line is a line that is not part of the columns.
func (g *grid) line(format string, args ...any) {
	g.lines = append(g.lines, fmt.Sprintf(format, args...))
}

func (g *grid) write(a *app) error {
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	for _, l := range g.lines {
		fmt.Fprintln(w, l)
	}
	return w.Flush()
}

func holderText(h *pb.Holder) string {
	if h == nil {
		return ""
	}
	return h.GetKind() + " " + h.GetId()
}

func span(d *durationpb.Duration) string {
	if d == nil {
		return ""
	}
	return d.AsDuration().Round(100 * time.Millisecond).String()
}

func when(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Local().Format(time.DateTime)
}

func yes(b bool, is, isNot string) string {
	if b {
		return is
	}
	return isNot
}

// number shows what was not there as nothing.
func number(n int32) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(int(n))
}
