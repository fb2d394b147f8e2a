package direct_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/outbound"
	"weir/internal/policy"
	"weir/internal/policy/evaluate"
	"weir/internal/redact"
	"weir/internal/retry"
	"weir/internal/secrets"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/memlog"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/internal/weirtest/upstream"
	"weir/processors/call"
	"weir/processors/call/dial"
	"weir/processors/call/direct"
	"weir/processors/executor"
	"weir/processors/guard"
	"weir/processors/settle"
	"weir/schemas"
)

const secret = "AGWCANARY-SECRET-0123456789abcdef"

// env is an adapter over the real client, with entries of the test's own.
type env struct {
	adapter *direct.Adapter
	guard   *guard.Guard
	known   map[string]string // the secrets
}

func newEnv(t *testing.T, entries ...policy.Entry) *env {
	t.Helper()
	return newEnvUnder(t, nil, entries...)
}

// newEnvUnder is newHouse with traffic rules.
func newEnvUnder(t *testing.T, rules guard.Rules, entries ...policy.Entry) *env {
	t.Helper()
	var p harness.Policy
	p.Enforce(t, entries...)
	client := outbound.New(outbound.Config{})
	t.Cleanup(client.Close)
	h := &env{known: known, guard: guard.New(p.InForce, rules)}
	store := secrets.New(secrets.Config{LookupEnv: func(name string) (string, bool) { v, ok := h.known[name]; return v, ok }})
	h.adapter = direct.New(client, store, redact.New([]string{"X-Internal"}))
	return h
}

// plain is an entry that adds one secret.
func plain(base string) policy.Entry {
	return policy.Entry{
		Name: "up", URLPrefix: base + "/", Methods: []string{"GET", "POST", "HEAD"}, Network: policy.NetworkLoopback, Redirects: 1,
		Headers: map[string]string{"Authorization": "Bearer ${secret:TOKEN}"}, CallerHeaders: []string{"*"}, CallerParams: []string{"*"},
	}
}

func (h *env) pass(t *testing.T, c schemas.HTTPCall) guard.Pass {
	t.Helper()
	p, d := h.guard.Check(c, evaluate.Scope{})
	require.True(t, p.Valid(), "%+v", d)
	return p
}

func (h *env) send(t *testing.T, p guard.Pass) (*call.Reply, error) {
	t.Helper()
	ex, err := h.adapter.Open(t.Context(), p)
	require.NoError(t, err)
	defer ex.Close()
	return ex.Do(t.Context(), p, nil)
}

// ask makes a call that has an answer.
func (h *env) ask(t *testing.T, c schemas.HTTPCall) schemas.Answer {
	t.Helper()
	reply, err := h.send(t, h.pass(t, c))
	require.NoError(t, err)
	return reply.Answer
}

func header(headers []schemas.Header, name string) string {
	for _, h := range headers {
		if strings.EqualFold(h.Name, name) {
			return h.Value
		}
	}
	return ""
}

func TestBodies(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 600)
	deep := strings.Repeat("[", 600) + strings.Repeat("]", 600)
	type testCase struct {
		method  string
		sent    upstream.Behaviour
		body    string
		isJSON  bool
		snippet string
		bytes   bool
	}
	const media = "Content-Type"
	table.Run(t, map[string]testCase{
		"JSON keeps its bytes":     {sent: upstream.Respond(200, ` {"n":1.50,"big":12345678901234567890} `), body: `{"n":1.50,"big":12345678901234567890}`, isJSON: true, snippet: ` {"n":1.50,"big":12345678901234567890} `},
		"text becomes a string":    {sent: upstream.Respond(200, "plain \"words\""), body: `"plain \"words\""`, snippet: `plain "words"`},
		"invalid UTF-8":            {sent: upstream.Respond(200, "a\xffb", upstream.Header(media, "text/plain")), body: `"Yf9i"`, snippet: "ab", bytes: true},
		"UTF-8 of no text type":    {sent: upstream.Respond(200, "ab", upstream.Header(media, "image/png")), body: `"YWI="`, snippet: "ab", bytes: true},
		"a form":                   {sent: upstream.Respond(200, "a=b", upstream.Header(media, "application/x-www-form-urlencoded")), body: `"a=b"`, snippet: "a=b"},
		"XML of a type of its own": {sent: upstream.Respond(200, "<a/>", upstream.Header(media, "image/svg+xml; charset=utf-8")), body: `"\u003ca/\u003e"`, snippet: "<a/>"},
		"nothing":                  {sent: upstream.Respond(200, ""), body: "null"},
		"HEAD":                     {method: "HEAD", sent: upstream.Respond(200, `{"a":1}`), body: "null"},
		"nested too deep to keep":  {sent: upstream.Respond(200, deep), body: `"` + deep + `"`, snippet: deep[:512]},
		"cut on code points":       {sent: upstream.Respond(200, long), body: `"` + long + `"`, snippet: strings.Repeat("é", 512)},
	}, func(t *testing.T, tt testCase) {
		up := upstream.New(t, tt.sent)
		a := newEnv(t, plain(up.URL())).ask(t, schemas.HTTPCall{Method: cmp.Or(tt.method, "GET"), URL: up.URL() + "/x"})
		assert.Equal(t, []any{tt.body, tt.isJSON, tt.snippet, tt.bytes}, []any{string(a.Body), a.JSON, a.Snippet, a.Base64})
		assert.Equal(t, 1, up.Hits())
	})
}

func TestWhatIsSent(t *testing.T) {
	t.Parallel()
	up := upstream.New(t, upstream.OK())
	h := newEnv(t, plain(up.URL()))
	for _, c := range []schemas.HTTPCall{
		{Method: "POST", URL: "/json", Body: []byte(`{"n":1.50}`)},
		{Method: "POST", URL: "/text", Body: []byte(`"a=1&b=\"2\""`), TextBody: true, Headers: []schemas.Header{{Name: "content-TYPE", Value: "text/plain"}}},
		{Method: "POST", URL: "/key", Body: []byte(`1`), IdempotencyKey: "k-1"},
		{Method: "POST", URL: "/bytes", Body: []byte(`"AP8="`), Base64Body: true, ContentType: "application/octet-stream"},
	} {
		c.URL = up.URL() + c.URL
		h.ask(t, c)
	}
	got := up.Ledger()
	require.Len(t, got, 4)
	assert.Equal(t, "\x00\xff", string(got[3].Body))
	assert.Equal(t, "application/octet-stream", header(got[3].Headers, "Content-Type"))
	assert.Equal(t, `{"n":1.50}`, string(got[0].Body))
	assert.Equal(t, "application/json", header(got[0].Headers, "Content-Type"))
	assert.Equal(t, "Bearer "+secret, header(got[0].Headers, "Authorization"))
	assert.Equal(t, `a=1&b="2"`, string(got[1].Body))
	assert.Equal(t, "text/plain", header(got[1].Headers, "Content-Type"))
	assert.Equal(t, "k-1", header(got[2].Headers, "Idempotency-Key"))
}

func TestZeroPassOpensNothing(t *testing.T) {
	t.Parallel()
	up := upstream.New(t, upstream.OK())
	_, err := newEnv(t, plain(up.URL())).adapter.Open(t.Context(), guard.Pass{})
	require.ErrorIs(t, err, call.ErrNoPass)
	assert.Zero(t, up.Accepted())
}

// books are everything that is written: the log, blobs and evidence.
type books struct {
	mu      sync.Mutex
	written []schemas.Append
}

func (b *books) note(m schemas.Append, _ uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.written = append(b.written, m)
	return nil
}

// events are the types of the log's events so far.
func (b *books) events() (types []schemas.EventType) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.written {
		var ev schemas.Event
		if strings.HasPrefix(m.Subject, "weir.log.") && json.Unmarshal(m.Data, &ev) == nil && ev.Type != "" {
			types = append(types, ev.Type)
		}
	}
	return types
}

// spy is a Secrets that notes how far the log was at each question.
type spy struct {
	dial.Secrets
	books *books
	up    *upstream.Server
	asked [][]schemas.EventType
	hits  []int
}

func (s *spy) Resolve(template string) (secrets.Value, []secrets.Value, error) {
	s.asked, s.hits = append(s.asked, s.books.events()), append(s.hits, s.up.Hits())
	return s.Secrets.Resolve(template)
}

// run performs one action over the real client, and returns what was written.
func run(t *testing.T, e policy.Entry, c schemas.HTTPCall, up *upstream.Server) (*books, *spy, settle.Outcome) {
	t.Helper()
	b := &books{}
	log := memlog.New(harness.Layout(), time.Now, memlog.Hooks{After: b.note})
	l := ledger.New(log, harness.Layout(), time.Now)
	var p harness.Policy
	p.Enforce(t, e)
	client := outbound.New(outbound.Config{})
	t.Cleanup(client.Close)
	s := &spy{books: b, up: up, Secrets: secrets.New(secrets.Config{LookupEnv: func(name string) (string, bool) { v, ok := known[name]; return v, ok }})}
	caller := call.New(l, guard.New(p.InForce, nil), direct.New(client, s, redact.New(nil)), call.Config{
		Worker: "w1", Barrier: harness.NoBarrier,
		Schedule: retry.Schedule{Attempts: 3, Base: time.Millisecond, Cap: time.Millisecond},
	})
	st := harness.Claim(t, l, schemas.Action{Kind: schemas.KindHTTP}, c)
	verdict, err := executor.New(caller, harness.Recorder(log), call.Answers{Blobs: l}).Execute(t.Context(), st, harness.NoStop())
	require.NoError(t, err)
	require.NoError(t, st.Flush(t.Context()))
	return b, s, verdict
}

// TestSecretsAreNeverWritten: they are read after the attempt was written, and no
// record of any kind holds one, in any form, whatever the target answers and
// however the call ends.
func TestSecretsAreNeverWritten(t *testing.T) {
	t.Parallel()
	all := []string{secret, inQuery, inBody, inParts}
	echo := strings.Join(all, " ") + " " + url.QueryEscape(inQuery) + " " + base64.StdEncoding.EncodeToString([]byte(strings.Join(all, ":")))
	type testCase struct {
		method   string
		answers  []upstream.Behaviour
		attempts int
	}
	table.Run(t, map[string]testCase{
		"answered":           {"POST", []upstream.Behaviour{upstream.Respond(200, echo, upstream.Header("X-Echo", secret), upstream.Header("Set-Cookie", inParts))}, 1},
		"a large answer":     {"GET", []upstream.Behaviour{upstream.Respond(200, strings.Repeat("x", 300<<10)+echo)}, 1},
		"bytes":              {"GET", []upstream.Behaviour{upstream.Respond(200, "\xff"+echo, upstream.Header("Content-Type", "image/png"))}, 1},
		"gzip":               {"GET", []upstream.Behaviour{upstream.Gzip(echo)}, 1},
		"failed":             {"GET", []upstream.Behaviour{upstream.Respond(500, echo)}, 3},
		"reset":              {"GET", []upstream.Behaviour{upstream.ResetBeforeResponse()}, 3},
		"nonsense":           {"GET", []upstream.Behaviour{upstream.Raw("HTTP/1.1 200 " + secret + "\r\n" + secret + "\r\n\r\n")}, 3},
		"unknown":            {"POST", []upstream.Behaviour{upstream.ResetBeforeResponse()}, 1},
		"redirected":         {"GET", []upstream.Behaviour{upstream.Redirect(302, "/to?a=1"), upstream.Respond(200, echo)}, 2},
		"redirected with it": {"GET", []upstream.Behaviour{upstream.Redirect(302, "/to?a="+url.QueryEscape(inQuery))}, 2},
	}, func(t *testing.T, c testCase) {
		up := upstream.New(t, c.answers...)
		call := schemas.HTTPCall{Method: c.method, URL: up.URL() + "/x?q=1", AllowlistKey: "up"}
		if c.method == "POST" {
			call.Body = []byte(`{"a":1}`)
		}
		b, s, verdict := run(t, full(up.URL()), call, up)

		require.NotEmpty(t, s.asked)
		for i, events := range s.asked {
			require.NotEmpty(t, events)
			assert.Equal(t, schemas.EventAttempt, events[len(events)-1], "question %d came before the attempt was written: %v", i, events)
		}
		assert.Zero(t, s.hits[0])

		attempts := 0
		var wrote bytes.Buffer
		for _, m := range b.written {
			wrote.WriteString(m.Subject + "\n")
			wrote.Write(m.Data)
			wrote.WriteByte('\n')
			if strings.HasPrefix(m.Subject, "weir.evidence.") {
				attempts++
			}
		}
		assert.GreaterOrEqual(t, attempts, c.attempts, "evidence was left")
		doc, err := ledger.Encode(verdict)
		require.NoError(t, err)
		wrote.Write(doc)
		clean(t, wrote.String(), all)
	})
}

// clean asserts that no form of any secret, and no long piece of one, is there.
func clean(t *testing.T, text string, all []string) {
	t.Helper()
	folded := strings.ToUpper(text)
	for _, s := range all {
		quoted, err := json.Marshal(s)
		require.NoError(t, err)
		for _, form := range []string{s, s[10:], s[:14], url.QueryEscape(s), url.PathEscape(s), strings.Trim(string(quoted), `"`), hex.EncodeToString([]byte(s))} {
			assert.NotContains(t, folded, strings.ToUpper(form))
		}
		for offset := range 3 {
			encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", offset) + s))
			assert.NotContains(t, text, encoded[4:20])
		}
	}
}

// outside fails a test that leaves the process or reads a secret.
type outside struct{ t *testing.T }

func (o outside) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	assert.Fail(o.t, "a name was resolved")
	return nil, errors.New("resolved")
}

func (o outside) dial(context.Context, string, string) (net.Conn, error) {
	assert.Fail(o.t, "something was dialled")
	return nil, errors.New("dialled")
}

func (o outside) Resolve(string) (secrets.Value, []secrets.Value, error) {
	assert.Fail(o.t, "a secret was read")
	return secrets.Value{}, nil, errors.New("read")
}

// mocked opens and does a call that a rule answers.
func mocked(t *testing.T, method string, rules ...schemas.Rule) (*call.Reply, error) {
	t.Helper()
	e := plain("https://up.example")
	e.Network = ""
	var p harness.Policy
	p.Enforce(t, e)
	var book rulebook.Book
	book.Put(t, rules...)
	pass, d := guard.New(p.InForce, &book).Check(schemas.HTTPCall{Method: method, URL: "https://up.example/x"}, evaluate.Scope{})
	require.True(t, pass.Mocked(), "%+v", d)
	o := outside{t}
	client := outbound.New(outbound.Config{Resolver: o, Dial: o.dial})
	t.Cleanup(client.Close)
	ex, err := direct.New(client, o, redact.New([]string{"X-Internal"})).Open(t.Context(), pass)
	require.NoError(t, err)
	defer ex.Close()
	return ex.Do(t.Context(), pass, nil)
}

// TestMock: a rule's answer is kept as the target's would be, and for it nothing
// leaves the process.
func TestMock(t *testing.T) {
	t.Parallel()
	const all = "*"
	text := func(status int, body string) schemas.Rule {
		return rulebook.MockText("m", all, status, "text/html", body)
	}
	bytesMock := text(200, "AP8=")
	bytesMock.Action.BodyMode = "base64"
	type testCase struct {
		method  string
		rule    schemas.Rule
		status  int
		body    string
		isJSON  bool
		snippet string
		hashed  bool
	}
	table.Run(t, map[string]testCase{
		"JSON keeps its bytes": {rule: rulebook.Mock("m", all, 201, `{"n":1.50}`), status: 201, body: `{"n":1.50}`, isJSON: true, snippet: `{"n":1.50}`, hashed: true},
		"text":                 {rule: text(503, "<b>"), status: 503, body: `"\u003cb\u003e"`, snippet: "<b>", hashed: true},
		"bytes":                {rule: bytesMock, status: 200, body: `"AP8="`, snippet: "\x00", hashed: true},
		"nothing":              {rule: rulebook.Mock("m", all, 0, ""), status: 200, body: "null"},
		"HEAD":                 {method: "HEAD", rule: rulebook.Mock("m", all, 200, `{"a":1}`), status: 200, body: "null"},
	}, func(t *testing.T, tt testCase) {
		reply, err := mocked(t, cmp.Or(tt.method, "POST"), tt.rule)
		require.NoError(t, err)
		a := reply.Answer
		assert.Equal(t, []any{tt.status, tt.body, tt.isJSON, tt.snippet}, []any{a.Status, string(a.Body), a.JSON, a.Snippet})
		assert.Equal(t, tt.hashed, a.Hash != "")
	})
}

// TestHeadersOfAMock are read, changed and hidden as a target's.
func TestHeadersOfAMock(t *testing.T) {
	t.Parallel()
	rule := rulebook.Mock("m", "*", 503, "{}")
	rule.Action.Headers = map[string]string{"Retry-After": "7", "X-Internal": "1", "X-Both": "a", "location": "/next"}
	reply, err := mocked(t, "GET", rule, rulebook.Answers("h", "*",
		schemas.HeaderChange{Op: schemas.HeaderAppend, Name: "X-Both", Value: "b"},
		schemas.HeaderChange{Op: schemas.HeaderSet, Name: "X-New", Value: "n"},
		schemas.HeaderChange{Op: schemas.HeaderRemove, Name: "location"},
	))
	require.NoError(t, err)
	assert.Equal(t, []schemas.Header{
		{Name: "content-type", Value: "application/json"},
		{Name: "retry-after", Value: "7"},
		{Name: "x-both", Value: "a, b"},
		{Name: "x-internal", Value: "REDACTED"},
		{Name: "x-new", Value: "n"},
	}, reply.Answer.Headers)
	assert.Equal(t, 7*time.Second, reply.Answer.RetryAfter)
	assert.Equal(t, "/next", reply.Location, "what Weir goes by is what came")
}

// TestNoWayOutOfAMock: an exchange that was opened for one sort of pass goes on by
// no other.
func TestNoWayOutOfAMock(t *testing.T) {
	t.Parallel()
	up := upstream.New(t)
	c := schemas.HTTPCall{Method: "GET", URL: up.URL() + "/x"}
	var book rulebook.Book
	h := newEnvUnder(t, &book, plain(up.URL()))
	sent := h.pass(t, c)
	book.Put(t, rulebook.Mock("m", "*", 200, ""))
	mock := h.pass(t, c)
	for _, passes := range [][2]guard.Pass{{sent, mock}, {mock, sent}} {
		ex, err := h.adapter.Open(t.Context(), passes[0])
		require.NoError(t, err)
		_, err = ex.Do(t.Context(), passes[1], nil)
		failed := harness.As[*fault.Call](t, err)
		assert.Equal(t, schemas.DenyAddress, failed.Code)
		assert.False(t, failed.Sent)
		ex.Close()
	}
	up.WaitIdle()
	assert.Zero(t, up.Hits())
}

// TestWhichConnection: a call that may be repeated goes by a connection that carried others, and one
// that may not by one that carried none. The name of a redirect's target is looked up anew.
func TestWhichConnection(t *testing.T) {
	t.Parallel()
	up := upstream.New(t)
	h := newEnv(t, plain(up.URL()))
	get := schemas.HTTPCall{Method: "GET", URL: up.URL() + "/x"}
	h.ask(t, get)
	h.ask(t, get)
	h.ask(t, schemas.HTTPCall{Method: "POST", URL: up.URL() + "/x"})
	next, d := h.guard.Redirect(h.pass(t, get), up.URL()+"/to", 302, 1)
	require.True(t, next.Valid(), "%+v", d)
	_, err := h.send(t, next)
	require.NoError(t, err)
	h.ask(t, get)
	var by []int
	for _, got := range up.Ledger() {
		by = append(by, got.Conn)
	}
	assert.Equal(t, []int{1, 1, 2, 3, 1}, by)
}
