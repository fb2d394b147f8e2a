//go:build e2e

package canary_test

import (
	"bytes"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	tracing "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	_ "modernc.org/sqlite" // the driver of the index

	"weir/internal/weirtest/capture"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/logline"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/program"
	"weir/schemas"
)

// content are the members of a record's payload that hold content because a protocol or a
// person needs it: of a call its path, its names of parameters and hashes; of a plan's call
// also what the connector's protocol defines, such as 512 characters of the answer; of a
// completion the names of models. Evidence is its tenant's alone. All other members, subjects
// and headers are free of content, and so is every record of a sensitive run.
func content(kind string) []string {
	return map[string][]string{
		schemas.EvidenceConnector: {"effect_ref", "url", "request_fingerprint", "response_snippet", "response_hash", "idempotency_key", "artifact_refs"},
		schemas.EvidenceAttempt:   {"request_fingerprint", "request_digest", "response_hash"},
		schemas.EvidenceDecision:  {"target"},
		schemas.EvidencePush:      {"ref"},
		schemas.EvidenceRuleWrite: {"request_id"},
		schemas.EvidenceChat:      {"model_asked", "model", "model_sent", "gen_ai.request.model", "gen_ai.response.model"},
	}[kind]
}

// beyond returns a record of evidence without its content. A record of a sensitive run stays whole.
func beyond(record []byte) []byte {
	var e struct {
		schemas.Evidence
		Payload map[string]json.RawMessage `json:"payload"`
	}
	if json.Unmarshal(record, &e) != nil || strings.HasPrefix(e.ActionID, sensitiveRun) {
		return append(bytes.TrimSpace(record), '\n')
	}
	for _, name := range content(e.Kind) {
		delete(e.Payload, name)
	}
	e.Payload["gen_ai"] = without(e.Payload["gen_ai"], content(e.Kind))
	if e.Traffic != nil {
		e.Traffic.Target = ""
	}
	return append([]byte(jsonText(e)), '\n')
}

func without(document []byte, members []string) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(document, &m) != nil {
		return json.RawMessage("null")
	}
	for _, name := range members {
		delete(m, name)
	}
	return json.RawMessage(jsonText(m))
}

// evidence returns the owner's records without their content. There must be records of every
// kind, and of the main kinds also from sensitive runs.
func (w *world) evidence() []byte {
	w.t.Helper()
	var all bytes.Buffer
	left := map[string]bool{}
	pages(w, "/v1/evidence?limit=500", func(r json.RawMessage) {
		all.Write(beyond(r))
		e := fixture.Decode[schemas.Evidence](w.t, string(r))
		left[fmt.Sprint(strings.HasPrefix(e.ActionID, sensitiveRun), " ", e.Kind)] = true
	})
	for _, want := range []string{
		"true http.attempt", "true builtin.http_connector", "true policy.decision", "false http.attempt", "false builtin.http_connector", "false policy.decision",
		"false git.push", "false rule.write", "false chat.completion", "false task.status", "false repo.create",
	} {
		assert.Contains(w.t, left, want, "records of evidence: sensitive, and the kind")
	}
	return all.Bytes()
}

// running are the sinks that are read while the program runs.
func (w *world) running() []output {
	w.t.Helper()
	_, metrics := w.admin.send(http.MethodGet, "/metrics", "")
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", w.p.PID()))
	if err != nil { // there is no /proc
		line = []byte(w.at("weir.yaml"))
	}
	return []output{
		{name: "metrics", data: []byte(metrics)},
		{name: "arguments", data: line},
		{name: "children's arguments and environment", data: w.file("children")},
		{name: "evidence", data: w.evidence()},
		{name: "updates for observers", data: w.updates.Bytes()},
		{name: "answers to the admin of another tenant", data: w.stranger.seen.Bytes()},
		{name: "answers without a token", data: w.nobody.seen.Bytes()},
		{name: "answers to the owner", data: w.owner.seen.Bytes(), owner: true},
	}
}

// after are the sinks of a program that has ended.
func (w *world) after() []output {
	w.t.Helper()
	var out, log strings.Builder
	for _, p := range append(w.past, w.p) {
		out.WriteString(p.Printed())
		log.WriteString(p.Said())
	}
	require.NoError(w.t, os.WriteFile(w.at("tmp/"+beacon), []byte(beacon), 0o600)) // the program leaves none
	names, contents := files(w.t, w.at("data"))
	tmpNames, tmpContents := files(w.t, w.at("tmp"))
	_, index := files(w.t, w.at("data/index"))
	return append(w.stored(),
		output{name: "standard error", data: []byte(log.String()), owner: true},
		output{name: "standard error beside words for the operator", data: []byte(forOperator.ReplaceAllString(log.String(), ""))},
		output{name: "standard output", data: []byte(out.String())},
		output{name: "spans", data: w.spans.got.Bytes()},
		output{name: "temporary files", data: append(tmpNames, tmpContents...)},
		output{name: "names of files", data: names},
		output{name: "index", data: w.uncalled(rows(w.t, w.at("data/index/actions.db")))},
		output{name: "file of the index", data: index, shown: called()},
		output{name: "files", data: contents, owner: true},
	)
}

// called are the classes of canaries that lists may show, and the index holds: hosts and paths of
// calls, and names of models and tokens. Those of sensitive runs are not among them.
func called() []string {
	return []string{
		"path to a forged one", "path to a closed port", "path to a private address", "path without a secret", "name to resolve",
		"denied scheme", "denied host", "denied method", "denied path", "plan path", "rule wildcard", "run host", "run path", "model's name",
	}
}

// uncalled is the index without the canaries that lists may show. Each class of them is there.
func (w *world) uncalled(index []byte) []byte {
	for _, class := range called() {
		found := false
		for _, c := range w.g.list() {
			if c.class == class && !c.secret {
				text := regexp.MustCompile("(?i)" + regexp.QuoteMeta(c.text))
				found = found || text.Match(index)
				index = text.ReplaceAll(index, nil)
			}
		}
		assert.True(w.t, found, "the index has no %s", class)
	}
	return index
}

// rows are the definitions and the rows of a database.
func rows(t *testing.T, file string) []byte {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	require.NoError(t, err)
	defer db.Close()
	var all bytes.Buffer
	query := func(q string) {
		found, err := db.QueryContext(t.Context(), q)
		require.NoError(t, err)
		defer found.Close()
		columns, err := found.Columns()
		require.NoError(t, err)
		values, into := make([]sql.RawBytes, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		for found.Next() {
			require.NoError(t, found.Scan(into...))
			for _, v := range values {
				all.Write(v)
				all.WriteByte('\n')
			}
		}
		require.NoError(t, found.Err())
	}
	query("SELECT * FROM sqlite_master")
	for _, table := range []string{"place", "action", "figure"} {
		query("SELECT * FROM " + table)
	}
	return all.Bytes()
}

// files are the names and the contents of all files below a folder, without the one that
// holds the first admin's token by design.
func files(tb require.TestingT, dir string) (names, contents []byte) {
	require.NoError(tb, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		names = append(append(names, path...), '\n')
		if err == nil && d.Type().IsRegular() && d.Name() != "admin.token" {
			var raw []byte
			raw, err = os.ReadFile(path)
			contents = append(append(contents, raw...), '\n')
		}
		if os.IsNotExist(err) { // a temporary file of git's
			return nil
		}
		return err
	}))
	return names, contents
}

// stored returns the streams on the disk: names, subjects, headers, and every
// document that is not the owner's own content.
func (w *world) stored() []output {
	w.t.Helper()
	parts := map[string]*bytes.Buffer{}
	to := func(name string) *bytes.Buffer {
		if parts[name] == nil {
			parts[name] = &bytes.Buffer{}
		}
		return parts[name]
	}
	w.open(func(js jetstream.JetStream) {
		ctx := w.t.Context()
		streams := js.ListStreams(ctx)
		for info := range streams.Info() {
			name := info.Config.Name
			fmt.Fprintln(to("names of streams and consumers"), jsonText(info))
			s, err := js.Stream(ctx, name)
			require.NoError(w.t, err)
			consumers := s.ListConsumers(ctx)
			for c := range consumers.Info() {
				fmt.Fprintln(to("names of streams and consumers"), jsonText(c))
			}
			require.NoError(w.t, consumers.Err())
			for seq := info.State.FirstSeq; seq != 0 && seq <= info.State.LastSeq; seq++ {
				m, err := s.GetMsg(ctx, seq)
				if err != nil {
					require.ErrorIs(w.t, err, jetstream.ErrMsgNotFound)
					continue
				}
				kind := "subjects"
				if strings.HasPrefix(name, "KV_") || strings.HasPrefix(name, "OBJ_") {
					kind = "keys"
				}
				fmt.Fprintln(to(kind), m.Subject)
				_ = http.Header(m.Header).Write(to("headers of messages")) // to memory: cannot fail
				switch name {
				case schemas.EvidenceStream:
					to("stored evidence").Write(beyond(m.Data))
				case "KV_" + schemas.BudgetBucket:
					to("stored accounts of budgets").Write(append(m.Data, '\n'))
				case "KV_" + schemas.KeyBucket:
					w.sealKey(m.Data)
				default: // the owner's content
					to("stored documents").Write(append(m.Data, '\n'))
				}
			}
		}
		require.NoError(w.t, streams.Err())
	})
	var sinks []output
	for name, b := range parts {
		sinks = append(sinks, output{name: name, data: b.Bytes(), owner: name == "stored documents"})
	}
	require.Len(w.t, sinks, 7)
	return sinks
}

// sealKey adds the key of sensitive evidence to the secrets, as it would be written; its
// bytes lie in their own bucket.
func (w *world) sealKey(key []byte) {
	require.Len(w.t, key, 32)
	w.g.known("key of the evidence", hex.EncodeToString(key))
	w.g.known("key of the evidence", strings.Trim(strings.ReplaceAll(fmt.Sprintf("%d", key), " ", ","), "[]"))
}

// open has a NATS server serve the data of a program that has ended.
func (w *world) open(look func(jetstream.JetStream)) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), natsBinary, "-js", "-sd", w.at("data"), "-a", "127.0.0.1", "-p", "-1", "--ports_file_dir", w.dir)
	require.NoError(w.t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var ports struct {
		NATS []string `json:"nats"`
	}
	poll.Until(w.t, func() bool {
		raw, err := os.ReadFile(w.at(fmt.Sprintf("%s_%d.ports", filepath.Base(natsBinary), cmd.Process.Pid)))
		return err == nil && json.Unmarshal(raw, &ports) == nil && len(ports.NATS) > 0
	}, "the NATS server")
	nc, err := nats.Connect(ports.NATS[0], nats.Timeout(patience))
	require.NoError(w.t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(w.t, err)
	look(js)
}

// forOperator are lines that begin with the program's name, and warnings: they may repeat the configuration.
var forOperator = regexp.MustCompile(`(?m)^(weir: |\{"time":"[^"]+","level":"WARN","msg":"warning_raised",).*\n`)

// checkLog returns the lines of the log that have a key or a value outside its closed sets.
// A crash report ends it.
func checkLog(p *program.Program) (bad []error) {
	log, _, _ := strings.Cut(forOperator.ReplaceAllString(p.Said(), ""), "SIGQUIT")
	check := logline.Checker()
	for line := range strings.Lines(log) {
		if err := check([]byte(strings.TrimSuffix(line, "\n"))); err != nil {
			bad = append(bad, err)
		}
	}
	return bad
}

// collector receives spans. It keeps them without names of models, and its answers are canaries.
type collector struct {
	url   string
	got   capture.Buffer
	keyed atomic.Bool // its credential came
}

func collect(t *testing.T, g *planted) *collector {
	t.Helper()
	c := &collector{}
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.take(r, g.secret("collector"))
		w.Header().Set("X-Collector", g.plant("collector's header"))
		switch asked.Add(1) % 4 {
		case 1:
			http.Error(w, g.plant("why spans are refused"), http.StatusBadRequest)
		case 2:
			raw, _ := proto.Marshal(&tracing.ExportTraceServiceResponse{PartialSuccess: &tracing.ExportTracePartialSuccess{RejectedSpans: 1, ErrorMessage: g.plant("why a span is refused")}})
			w.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = w.Write(raw)
		default:
			w.Header().Set("Content-Type", "application/x-protobuf")
		}
	}))
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

func (c *collector) take(r *http.Request, key string) {
	data, err := io.ReadAll(r.Body)
	var req tracing.ExportTraceServiceRequest
	if err != nil || proto.Unmarshal(data, &req) != nil {
		return // the program was killed
	}
	if r.Header.Get("X-Collector-Key") == key {
		c.keyed.Store(true)
		r.Header.Del("X-Collector-Key")
	}
	for _, rs := range req.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				for _, d := range schemas.AllDialects() {
					if operation := d.Operation(); strings.HasPrefix(s.GetName(), operation+" ") {
						s.Name = operation
					}
				}
				s.Attributes = slices.DeleteFunc(s.GetAttributes(), func(a *common.KeyValue) bool { return strings.HasSuffix(a.GetKey(), ".model") })
			}
		}
	}
	var b bytes.Buffer
	_ = r.Header.Write(&b) // to memory: cannot fail
	fmt.Fprintf(&c.got, "%s %s\n%s%s\n", r.Method, r.URL, b.String(), protojson.Format(&req))
}
