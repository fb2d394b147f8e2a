package canary_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"pgregory.net/rapid"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/internal/redact"
	"weir/internal/task"
	"weir/internal/telemetry"
	"weir/internal/weirtest/capture"
	"weir/internal/weirtest/logline"
	"weir/internal/weirtest/table"
	"weir/processors"
	"weir/processors/plans"
	"weir/processors/settle"
	"weir/schemas"
	published "weir/schemas/json"
)

// TestMain has a part of the random cases drawn; `make rounds` has all.
func TestMain(m *testing.M) {
	_ = flag.Set("rapid.checks", strconv.Itoa(table.Rounds(250))) // the flag is known
	os.Exit(m.Run())
}

// TestEncoders: whatever the members of a record and the text of an error say, nothing of it
// is in a line of the log, in a label, in a span, in the evidence of a sensitive action or
// of an attempt, in a dead letter's own words, in an update for observers or in a refusal.
// Identifiers are exempt; see identifiers.
func TestEncoders(t *testing.T) {
	t.Parallel()
	g, e := &planted{}, newEncoders(t)
	rapid.Check(t, func(rt *rapid.T) {
		p := &planter{rt, g}
		e.log(rt, p)
		e.series(p)
		e.span(p)
		e.leave(rt, p)
		e.update(p)
		e.refuse(p)
	})
	leaks, err := scan(g.list(), e.sinks(t))
	require.NoError(t, err)
	require.Empty(t, leaks)
	check := logline.Checker()
	for line := range strings.Lines(e.out["log"].String()) {
		require.NoError(t, check([]byte(strings.TrimSpace(line))))
	}
	require.Contains(t, e.out["spans"].String(), "the-action", "spans came")
}

// TestScrubberFindsWhatTheScanFinds: a secret that a target echoes, in any form of the scan
// that is an encoding of all of it, one inside another and among any text, is removed.
func TestScrubberFindsWhatTheScanFinds(t *testing.T) {
	t.Parallel()
	all := encodings()
	// The others are parts of the secret, its hashes, or compressed, and that is undone before.
	undone := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(form string) bool {
		return slices.Contains([]string{"Go", "over lines", "its beginning", "its end", "md5", "sha1"}, form) || strings.HasPrefix(form, "gzip") || strings.HasPrefix(form, "sha256")
	})
	escapes := []string{"plain", "URL", "HTML", "JSON"}
	rapid.Check(t, func(rt *rapid.T) {
		g := &planted{}
		secret := g.secret(rapid.StringMatching("[a-z]{1,12}").Draw(rt, "class"))
		echo := all[rapid.SampledFrom(undone).Draw(rt, "inner")](secret)
		if outer := rapid.SampledFrom(escapes).Draw(rt, "outer"); strings.IndexByte(echo, 0) < 0 {
			echo = all[outer](echo)
		}
		text := rapid.StringMatching("[ -~]{0,20}").Draw(rt, "before") + " " + echo + " " + rapid.StringMatching("[ -~]{0,20}").Draw(rt, "after")
		found, err := scan(g.list(), []output{{name: "echo", data: []byte(text)}})
		require.NoError(rt, err)
		require.NotEmpty(rt, found, "the secret is there: %q", text)
		scrubbed := redact.Values([]string{secret}).Bytes([]byte(text))
		left, err := scan(g.list(), []output{{name: "echo", data: scrubbed}})
		require.NoError(rt, err)
		require.Empty(rt, left, "%q became %q", text, scrubbed)
	})
}

// TestEveryMemberIsSent: TestNothingLeaks sends each member that the published schemas of
// requests have.
func TestEveryMemberIsSent(t *testing.T) {
	t.Parallel()
	sent, err := os.ReadFile("testdata/requests.txtar")
	require.NoError(t, err)
	chat, err := os.ReadFile("testdata/answers.txtar")
	require.NoError(t, err)
	var walk func(name string, v any)
	walk = func(name string, v any) {
		list, _ := v.([]any)
		m, _ := v.(map[string]any)
		properties, _ := m["properties"].(map[string]any)
		for member := range properties {
			require.Contains(t, string(sent)+string(chat), `"`+member+`":`, "%s: no request has it", name)
		}
		for _, inner := range slices.AppendSeq(list, maps.Values(m)) {
			walk(name, inner)
		}
	}
	files, err := fs.Glob(published.Files, "*.request.json")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 15)
	for _, name := range files {
		raw, err := published.Files.ReadFile(name)
		require.NoError(t, err)
		var schema any
		require.NoError(t, json.Unmarshal(raw, &schema))
		walk(name, schema)
	}
}

// planter fills records with canaries.
type planter struct {
	rt *rapid.T
	g  *planted
}

// identifiers are members whose values Weir or its operator chooses, or that the contract
// declares to be identifiers: they may be logged. They are no canaries.
func identifiers() map[string]string {
	return map[string]string{
		"ID": "the-action", "Tenant": "acme", "Kind": "http", "ActionID": "the-action", "Entry": "up", "Worker": "w-1", "Version": "v1", "PolicyVersion": "v1", "Principal": "token-1",
		"Outcome": "failed", "Effect": "applied", "Mode": "warn", "Status": "Running", "What": "pushed", "Method": "POST", "Class": "once", "Upstream": "up", "Asked": "any/fine", "Model": "any/*", "Sent": "fine",
		"Subject": "weir.log.0.accepted.acme.http.the-action", "Base": "0b", "Head": "0c", "Push": "push-1", "Reason": "TaskIssues", "TaskID": "the-action",
	}
}

// fill sets every string, list and document below v: identifiers to theirs, all else to a
// canary of its own.
func (p *planter) fill(name string, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if id, ok := identifiers()[name]; ok {
			v.SetString(id)
			return
		}
		v.SetString(p.text(name))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		p.fill(name, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && v.Type() != reflect.TypeFor[time.Time]() {
				p.fill(f.Name, v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(fmt.Appendf(nil, `{"model":"fine",%q:[%q,1.50],"choices":[{"finish_reason":%q}]}`, p.text(name+" key"), p.text(name), p.text(name+" word")))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		p.fill(name, v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		p.fill(name+" key", key)
		p.fill(name+" value", value)
		v.SetMapIndex(key, value)
	case reflect.Interface:
		v.Set(reflect.ValueOf(p.text(name)))
	case reflect.Int, reflect.Int64, reflect.Uint64:
		if name != "Duration" {
			v.Set(reflect.ValueOf(rapid.IntRange(0, 600).Draw(p.rt, name)).Convert(v.Type()))
		}
	default:
	}
}

// filled is a record of canaries.
func filled[T any](p *planter) (record T) {
	p.fill("", reflect.ValueOf(&record).Elem())
	return record
}

// text is a canary, plain or among what encoders have to escape.
func (p *planter) text(class string) string {
	around := rapid.SampledFrom([]string{"%s", "%s", "\"%s\\", "http://%s.example/?q=<&>", "{\"a\":\"%s\"}", "%s\n", "/%s", "v %s é"}).Draw(p.rt, "around")
	return fmt.Sprintf(around, p.g.once(class))
}

// fails returns an error whose causes hold canaries, as those of a resolver, a dialer or a
// decoder do, wrapped as Weir wraps them.
func (p *planter) fails() error {
	text := p.text
	err := rapid.SampledFrom([]error{
		errors.New(text("error")),
		&net.DNSError{Err: text("dns error"), Name: text("dns name"), Server: text("dns server")},
		&net.OpError{Op: "dial", Net: "tcp", Err: errors.New(text("dial error"))},
		&url.Error{Op: "Get", URL: text("url"), Err: io.ErrUnexpectedEOF},
		&json.UnmarshalTypeError{Value: text("json value"), Field: text("json field"), Type: reflect.TypeFor[int]()},
		fault.ErrUnavailable, context.DeadlineExceeded, fault.ErrFenced, fault.ErrNotFound, fault.ErrGone, fault.ErrConflict, fault.ErrFull, fault.ErrTooLarge,
	}).Draw(p.rt, "error")
	for range rapid.IntRange(0, 3).Draw(p.rt, "depth") {
		code := rapid.SampledFrom(slices.Concat(schemas.SettleCodes(), schemas.IngressCodes())).Draw(p.rt, "code")
		err = rapid.SampledFrom([]error{
			fmt.Errorf("%s: %w", text("wrapped"), err),
			&fault.Call{Code: code, Cause: err}, &fault.RetryAfter{Cause: err},
			&fault.Error{Code: code, Message: "a sentence", Cause: err},
			&fault.Terminal{Code: schemas.Poison, Reason: "a reason", Cause: err},
			&problem.Error{Problem: schemas.Problem{Code: code}, Cause: err},
		}).Draw(p.rt, "wrapper")
	}
	return err
}

// encoders write everything that a call leaves behind.
type encoders struct {
	metrics  *telemetry.Metrics
	traces   *telemetry.Traces
	recorder *settle.Recorder
	letters  processors.DeadLetters
	loggers  []*slog.Logger
	out      map[string]*capture.Buffer
}

func newEncoders(t *testing.T) *encoders {
	t.Helper()
	e := &encoders{metrics: telemetry.NewMetrics(), out: map[string]*capture.Buffer{}}
	for _, name := range []string{"log", "log as text", "spans", "evidence", "dead letters", "updates", "refusals"} {
		e.out[name] = &capture.Buffer{}
	}
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(e.out["spans"], r.Body) // what was lost is missed below
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(collector.Close)
	e.loggers = []*slog.Logger{e.metrics.NewLogger(e.out["log"], "debug", telemetry.FormatJSON), e.metrics.NewLogger(e.out["log as text"], "debug", telemetry.FormatText)}
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithHTTPClient(collector.Client()), otlptracehttp.WithEndpointURL(collector.URL+"/v1/traces"))
	require.NoError(t, err)
	e.traces, err = e.metrics.NewTraces(t.Context(), telemetry.TracesConfig{
		Exporter: exporter, Idle: collector.CloseClientConnections, Logger: e.loggers[0],
	})
	require.NoError(t, err)
	e.recorder = settle.NewRecorder(publisher{to: e.out["evidence"]}, e.metrics, settle.NewSeal([]byte("0123456789abcdef")))
	e.letters = processors.DeadLetters{Sender: publisher{to: e.out["dead letters"]}, Metrics: e.metrics, Log: e.loggers[0]}
	return e
}

func (e *encoders) sinks(t *testing.T) []output {
	t.Helper()
	require.NoError(t, e.traces.Close(context.WithoutCancel(t.Context())))
	scraped := httptest.NewRecorder()
	e.metrics.Handler().ServeHTTP(scraped, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	sinks := []output{{name: "metrics", data: scraped.Body.Bytes()}}
	for name, b := range e.out {
		sinks = append(sinks, output{name: name, data: b.Bytes()})
	}
	return sinks
}

// publisher keeps subjects and documents; of a dead letter without the message itself.
type publisher struct {
	settle.Log
	to io.Writer
}

func (p publisher) Send(_ context.Context, subject, _ string, data []byte) (func() error, error) {
	var doc map[string]json.RawMessage
	err := json.Unmarshal(data, &doc)
	delete(doc, "data")
	fmt.Fprintf(p.to, "%s %s\n", subject, doc)
	return func() error { return nil }, err
}

// log logs an error and a canary under every key that the log has, and under others.
func (e *encoders) log(rt *rapid.T, p *planter) {
	args := []any{"err_kind", p.fails(), p.text("key"), 1, "error", p.fails(), "action", filled[schemas.Action](p)}
	for _, key := range []string{
		"component", "code", "kind", "outcome", "status", "durability", "surface", "stream", "subject", "method", "route", "addr", "entry", "action_id", "request_id", "tenant", "worker", "task_type",
		"attempt", "count", "duration_ms", "url", "body", "header",
	} {
		args = append(args, key, p.text(key)+" <b>") // no id has a space
	}
	for _, l := range e.loggers {
		l.With(args[:2]...).Debug("call failed", args...)
		l.Log(rt.Context(), slog.LevelInfo, p.text("message")) //nolint:sloglint // a message that is content
		l.WithGroup(p.text("group")).Error("in a group", args...)
	}
}

// series calls every method that records with canaries in the place of each text.
func (e *encoders) series(p *planter) {
	v := reflect.ValueOf(e.metrics)
	for i := range v.NumMethod() {
		name, m := v.Type().Method(i).Name, v.Method(i)
		// These set names of the configuration, and functions.
		if strings.HasPrefix(name, "Set") || slices.Contains([]string{"NewTraces", "NewLogger", "Handler", "TenantBytes", "QueueLag", "PolicyInForce", "Shadowed", "SchemaViolated", "DestinationsLeft"}, name) {
			continue
		}
		args := make([]reflect.Value, m.Type().NumIn())
		for at := range args {
			args[at] = reflect.New(m.Type().In(at)).Elem()
			if args[at].Kind() == reflect.Struct {
				for _, f := range args[at].Fields() { // names of models too
					p.fill("a member", f)
				}
				continue
			}
			p.fill("an argument", args[at])
		}
		m.Call(args)
	}
}

func (e *encoders) span(p *planter) {
	e.traces.Request("POST", "/v1/execute", p.text("traceparent")).End(500, "the-action")
	inline := func(_ context.Context, doc json.RawMessage, _ string) (json.RawMessage, error) { return doc, nil }
	for _, kind := range []schemas.Kind{schemas.KindHTTP, schemas.KindChat} {
		try, event := filled[schemas.Attempt](p), filled[schemas.Event](p)
		r := event.Attempted
		r.Step, r.Number, r.Hop, r.Probe = try.Step, try.Number, try.Hop, try.Probe
		event.Attempt = &try
		action, end := filled[schemas.Action](p), filled[schemas.Settled](p)
		action.Kind = kind
		result, err := json.Marshal(filled[schemas.ChatResult](p))
		require.NoError(p.rt, err)
		end.Result = result
		e.traces.Ended(context.Background(), action, &end, []schemas.Event{event}, inline)
	}
}

// leave leaves evidence of every sort of a sensitive action, that of an attempt of another,
// and a dead letter.
func (e *encoders) leave(rt *rapid.T, p *planter) {
	st := &ledger.State{Ref: schemas.Ref{Tenant: "acme", Kind: schemas.KindHTTP, ID: "the-action"}, Action: filled[schemas.Action](p)}
	try := ledger.Attempt{Attempt: filled[schemas.Attempt](p), Result: new(filled[schemas.Attempted](p))}
	try.Result.Code, try.Result.Schema.Code = schemas.UpstreamReset, schemas.ResponseNotJSON
	try.Decision, try.Result.Decision = schemas.Decision{Entry: "up", Version: "v1"}, nil
	st.Action.Sensitive = true
	attempt, err := settle.Attempt(st, try, p.text("method"), p.text("target"))
	require.NoError(rt, err)
	denial, err := settle.Denial(st, 1, p.text("method"), p.text("target"), schemas.Decision{Code: schemas.DenyHost, Reason: p.text("reason"), Entry: "up"}, 1)
	require.NoError(rt, err)
	records := []schemas.Evidence{attempt, denial}
	for kind, payload := range map[string]json.RawMessage{
		schemas.EvidenceConnector: plans.CallRecord(p.text("effect"), filled[plans.View](p), 200, p.text("hash"), p.text("snippet"), p.text("entry")),
		"closing":                 plans.ClosingRecord(filled[schemas.PlanResult](p)),
		schemas.EvidenceChat:      fmt.Appendf(nil, `{"model_asked":"any/fine","finish_reasons":[%q],"usage":{"note":%q},"gen_ai":{%q:1}}`, p.text("finish"), p.text("usage"), p.text("attribute")),
		"any":                     filled[json.RawMessage](p),
	} {
		record := schemas.Evidence{ID: kind, Tenant: "acme", ActionID: "the-action", Kind: kind, Entry: "up", Payload: payload, Shadow: &schemas.Shadow{Reason: p.text("shadow")}}
		if kind == "closing" {
			record.Kind = schemas.EvidenceConnector
		}
		records = append(records, record)
	}
	for i := range records {
		records[i].Code = ""
	}
	require.NoError(rt, e.recorder.Store(rt.Context(), st, records...))

	st.Action.Sensitive = false // the digests and the target are the tenant's, and no canaries here
	try.Digest, try.Result.Answer.Hash = "digest", "hash"
	attempt, err = settle.Attempt(st, try, "POST", "POST http://up.example/?")
	require.NoError(rt, err)
	require.NoError(rt, e.recorder.Store(rt.Context(), st, attempt))
	why := &fault.Terminal{Code: schemas.Poison, Reason: "a reason", Cause: p.fails()}
	require.NoError(rt, e.letters.Store(rt.Context(), filled[schemas.Record](p), nil, why))
}

// update encodes what observers receive of every event of a task.
func (e *encoders) update(p *planter) {
	for _, kind := range []schemas.EventType{schemas.EventAccepted, schemas.EventCancel, schemas.EventSettled, schemas.EventSignal, schemas.EventStatus} {
		ev := filled[schemas.Event](p)
		ev.Type, ev.Task.Code, ev.Settled.Code = kind, schemas.Canceled, schemas.Canceled
		if rapid.Bool().Draw(p.rt, "no report") {
			ev.Task.Report = nil
		}
		if u, ok := task.Update("the-action", ev); ok {
			raw, _ := json.Marshal(u) //nolint:errchkjson // strings and numbers
			fmt.Fprintf(e.out["updates"], "%s %s\n", schemas.StatusSubject(schemas.Ref{Tenant: "acme", Kind: schemas.KindTask, ID: "the-action"}), raw)
		}
	}
}

// refuse answers with an error in each of the protocols.
func (e *encoders) refuse(p *planter) {
	err := p.fails()
	for _, write := range []func(http.ResponseWriter, *http.Request, error){
		problem.Write, problem.WriteAgent, problem.WriteGit,
		func(w http.ResponseWriter, r *http.Request, err error) {
			problem.WriteChat(w, r, schemas.DialectChat, err)
		},
		func(w http.ResponseWriter, r *http.Request, err error) {
			problem.WriteChat(w, r, schemas.DialectMessages, err)
		},
		func(w http.ResponseWriter, _ *http.Request, err error) { problem.WriteRun(w, "run-1", err) },
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/", strings.NewReader(p.text("body")))
		r.Header.Set("User-Agent", rapid.SampledFrom([]string{"git/2.50", p.text("user agent")}).Draw(p.rt, "user agent"))
		write(w, r, err)
		_ = w.Header().Write(e.out["refusals"]) // to memory: cannot fail
		_, _ = e.out["refusals"].Write(w.Body.Bytes())
	}
}
