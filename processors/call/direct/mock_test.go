package direct_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/outbound"
	"weir/internal/redact"
	"weir/internal/secrets"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/internal/weirtest/upstream"
	"weir/processors/call"
	"weir/processors/call/direct"
	"weir/processors/guard"
	"weir/schemas"
)

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
func mocked(t *testing.T, method string, rules ...schemas.Rule) (call.Reply, error) {
	t.Helper()
	e := plain("https://up.example")
	e.Network = ""
	var p harness.Policy
	p.Enforce(t, e)
	var book rulebook.Book
	book.Put(t, rules...)
	pass, d := guard.New(p.InForce, &book).Check(schemas.HTTPCall{Method: method, URL: "https://up.example/x"}, guard.Scope{})
	require.True(t, pass.Mocked(), "%+v", d)
	o := outside{t}
	client := outbound.New(outbound.Config{Resolver: o, Dial: o.dial})
	t.Cleanup(client.Close)
	ex, err := direct.New(client, o, redact.New([]string{"X-Internal"})).Open(t.Context(), pass)
	require.NoError(t, err)
	require.NoError(t, ex.Renew(pass))
	defer ex.Close()
	<-ex.Begun() // it never will, and nobody waits for it
	return ex.Do(t.Context())
}

// TestMock: a rule's answer is kept as the target's would be, and for it nothing
// leaves the process.
func TestMock(t *testing.T) {
	t.Parallel()
	const all = "*"
	text := func(status int, body string) schemas.Rule {
		return rulebook.MockText("m", all, status, "text/html", body)
	}
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
		"JSON as text":         {rule: text(200, `{"a":1}`), status: 200, body: `{"a":1}`, isJSON: true, snippet: `{"a":1}`, hashed: true},
		"nothing":              {rule: rulebook.Mock("m", all, 0, ""), status: 200, body: "null"},
		"HEAD":                 {method: "HEAD", rule: rulebook.Mock("m", all, 200, `{"a":1}`), status: 200, body: "null"},
		"204":                  {rule: rulebook.Mock("m", all, 204, ""), status: 204, body: "null"},
	}, func(t *testing.T, tt testCase) {
		method := tt.method
		if method == "" {
			method = "POST"
		}
		reply, err := mocked(t, method, tt.rule)
		require.NoError(t, err)
		a := reply.Answer
		assert.Equal(t, tt.status, a.Status)
		assert.Equal(t, tt.body, string(a.Body))
		assert.Equal(t, tt.isJSON, a.JSON)
		assert.Equal(t, tt.snippet, a.Snippet)
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

// TestResponseChanges are made before headers are hidden, and change nothing else.
func TestResponseChanges(t *testing.T) {
	t.Parallel()
	up := upstream.New(t, upstream.Respond(200, "{}", schemas.Header{Name: "X-Upstream", Value: "u"}, schemas.Header{Name: "X-Gone", Value: "g"}))
	var book rulebook.Book
	book.Put(t, rulebook.Answers("h", "*",
		schemas.HeaderChange{Op: schemas.HeaderSet, Name: "x-internal", Value: "mine"},
		schemas.HeaderChange{Op: schemas.HeaderAppend, Name: "x-upstream", Value: "v"},
		schemas.HeaderChange{Op: schemas.HeaderRemove, Name: "x-gone"},
	), rulebook.SetHeader("i", "*", "X-Asked", "yes"))
	answer := newHouseUnder(t, &book, plain(up.URL())).ask(t, schemas.HTTPCall{Method: "GET", URL: up.URL() + "/x"})
	assert.Equal(t, "REDACTED", header(answer.Headers, "x-internal"))
	assert.Equal(t, "u, v", header(answer.Headers, "x-upstream"))
	assert.Empty(t, header(answer.Headers, "x-gone"))
	require.Equal(t, 1, up.Hits())
	assert.Equal(t, []string{"yes"}, up.Ledger()[0].Values("X-Asked"))
	assert.Equal(t, []string{"Bearer " + secret}, up.Ledger()[0].Values("Authorization"))
}

// TestNoWayOutOfAMock: an exchange that was opened for one sort of pass goes on by
// no other.
func TestNoWayOutOfAMock(t *testing.T) {
	t.Parallel()
	up := upstream.New(t)
	c := schemas.HTTPCall{Method: "GET", URL: up.URL() + "/x"}
	var book rulebook.Book
	h := newHouseUnder(t, &book, plain(up.URL()))
	sent := h.pass(t, c)
	book.Put(t, rulebook.Mock("m", "*", 200, ""))
	mock := h.pass(t, c)
	for _, passes := range [][2]guard.Pass{{sent, mock}, {mock, sent}} {
		ex, err := h.adapter.Open(t.Context(), passes[0])
		require.NoError(t, err)
		err = ex.Renew(passes[1])
		failed := harness.As[*fault.Call](t, err)
		assert.Equal(t, schemas.DenyAddress, failed.Code)
		assert.False(t, failed.Sent)
		ex.Close()
	}
	up.WaitIdle()
	assert.Zero(t, up.Hits())
}
