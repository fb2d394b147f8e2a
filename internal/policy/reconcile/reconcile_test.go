package reconcile_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"weir/internal/policy/reconcile"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

const (
	base    = "https://pay.example/charges"
	found   = "response.status == 200"
	missing = "response.status == 404"
)

var request = reconcile.Request{
	Method: "POST", URL: base, IdempotencyKey: "k 1", ActionID: "a1",
	Headers: []schemas.Header{{Name: "X-Ref", Value: "r"}, {Name: "x-ref", Value: "s"}},
	Body:    []byte(`{"ref": "a/../b?c=d&e#f%2F", "n": 12345678901234567, "big": 123456789012345678901234567890, "f": 1.5, "on": true, "list": [1], "empty": "", "dots": ".."}`),
}

func TestCompile(t *testing.T) {
	t.Parallel()
	type testCase struct {
		spec reconcile.Spec
		err  string
	}
	good := reconcile.Spec{Method: "HEAD", URL: base + "?ref={request.idempotency_key}", Applied: found, NotApplied: missing}
	but := func(change func(*reconcile.Spec)) reconcile.Spec {
		s := good
		change(&s)
		return s
	}
	at := func(url string) reconcile.Spec { return but(func(s *reconcile.Spec) { s.URL = url }) }
	applied := func(text string) reconcile.Spec { return but(func(s *reconcile.Spec) { s.Applied = text }) }
	table.Run(t, map[string]testCase{
		"good":              {spec: good},
		"a method":          {but(func(s *reconcile.Spec) { s.Method = "POST" }), `method: "POST" is not GET or HEAD; a probe must change nothing`},
		"no condition":      {applied(" "), "applied: the condition is missing; write an expression such as response.status == 404"},
		"no second one":     {spec: but(func(s *reconcile.Spec) { s.NotApplied = "" })},
		"no boolean":        {applied("response.status"), "applied: its value is of type int; write a condition that is true or false"},
		"may be a boolean":  {spec: applied("response.body.done")},
		"syntax":            {applied("response.status == "), "applied, character 20: Syntax error: mismatched input '<EOF>'"},
		"a second line":     {applied("true &&\n nonsense"), "applied, character 10: undeclared reference to 'nonsense'"},
		"an unknown member": {applied("request.bodi.x == 1"), "applied, character 13: undeclared reference to 'request.bodi.x' (did you mean 'request.body'?)"},
		"types":             {applied("request.method == 1"), "applied, character 16: found no matching overload for '_==_'"},
		"long":              {applied(strings.Repeat(" ", 5000) + "true"), "applied: an expression is longer than 4096 bytes; shorten it"},
		"relative":          {at("/x"), "url: it is not an absolute URL; begin it with https:// or http://"},
		"another scheme":    {at("file:///x"), "url: it is not an absolute URL; begin it with https:// or http://"},
		"host":              {at("https://{request.body.h}/x"), "url: the scheme, host and port must be written out, followed by a path"},
		"port":              {at("https://h:{request.body.h}/x"), "url: the scheme, host and port must be written out, followed by a path"},
		"no path":           {at("https://h"), "url: the scheme, host and port must be written out, followed by a path"},
		"fragment":          {at(base + "#{request.url}"), "url, character 28: a fragment is never sent; remove it"},
		"unclosed":          {at(base + "/{request.url"), "url, character 29: the placeholder is not closed; write {expression}, without braces in it"},
		"nested":            {at(base + "/{{'a': 1}}"), "url, character 29: the placeholder is not closed; write {expression}, without braces in it"},
		"a lone brace":      {at(base + "/}"), "url, character 29: this brace closes no placeholder; write it as %7D"},
		"of the answer":     {at(base + "/{response.status}"), "url, character 30: undeclared reference to 'response'"},
		"a list":            {at(base + "/{[1]}"), "url, character 29: the value is of type list(int); a URL takes a string, a number or a bool"},
		"all at once":       {reconcile.Spec{Method: "PUT", URL: "x", Applied: "1", NotApplied: "y"}, "not_applied, character 1: undeclared reference to 'y'"},
	}, func(t *testing.T, tt testCase) {
		p, err := reconcile.Compile(tt.spec)
		if tt.err == "" {
			require.NoError(t, err)
			assert.Equal(t, "HEAD", p.Method())
			return
		}
		require.ErrorContains(t, err, tt.err)
		assert.Nil(t, p)
	})
}

// TestURL places values as text.
func TestURL(t *testing.T) {
	t.Parallel()
	table.Run(t, map[string]struct{ template, want string }{
		"plain":          {base, base},
		"parameter":      {base + "?k={request.idempotency_key}&m={request.method}", base + "?k=k%201&m=POST"},
		"segment":        {base + "/{request.body.ref}/x", base + "/a%2F..%2Fb%3Fc%3Dd%26e%23f%252F/x"},
		"integer":        {base + "/{request.body.n}", base + "/12345678901234567"},
		"large integer":  {base + "/{request.body.big}", base + "/123456789012345678901234567890"},
		"number":         {base + "/{request.body.f}", base + "/1.5"},
		"bool":           {base + "/{request.body.on}", base + "/true"},
		"headers":        {base + "/{request.headers['x-ref']}", base + "/r%2C%20s"},
		"expression":     {base + "/{request.action_id + '-' + string(size(request.body.list))}", base + "/a1-1"},
		"no such member": {base + "/{request.body.none}", ""},
		"a list":         {base + "/{request.body.list}", ""},
		"empty":          {base + "/{request.body.empty}", ""},
		"dots":           {base + "/{request.body.dots}", ""},
	}, func(t *testing.T, tt struct{ template, want string }) {
		p, err := reconcile.Compile(reconcile.Spec{URL: tt.template, Applied: found, NotApplied: missing})
		require.NoError(t, err)
		assert.Equal(t, "GET", p.Method())
		got, err := p.URL(request)
		assert.Equal(t, tt.want, got)
		assert.Equal(t, tt.want == "", err != nil)
	})
}

// TestURLKeepsItsShape whatever the value of a placeholder is.
func TestURLKeepsItsShape(t *testing.T) {
	t.Parallel()
	p, err := reconcile.Compile(reconcile.Spec{URL: base + "/{request.action_id}/x?q={request.idempotency_key}&r=1", Applied: found, NotApplied: missing})
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		r := reconcile.Request{ActionID: rapid.String().Draw(t, "segment"), IdempotencyKey: rapid.String().Draw(t, "parameter")}
		raw, err := p.URL(r)
		if err != nil {
			if strings.Trim(r.ActionID, ".") != "" && strings.Trim(r.IdempotencyKey, ".") != "" && len(r.ActionID)+len(r.IdempotencyKey) < 1024 {
				t.Fatalf("no URL for %q", r)
			}
			return
		}
		u, err := url.Parse(raw)
		if err != nil || u.Host != "pay.example" || u.Fragment != "" || u.User != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		segments := strings.Split(u.EscapedPath(), "/")
		if len(segments) != 4 || segments[3] != "x" || u.Path != "/charges/"+r.ActionID+"/x" {
			t.Fatalf("path %q", u.EscapedPath())
		}
		if q := u.Query(); len(q) != 2 || q.Get("q") != r.IdempotencyKey || q.Get("r") != "1" {
			t.Fatalf("query %q", u.RawQuery)
		}
	})
}

func TestEffect(t *testing.T) {
	t.Parallel()
	const none, applied, notApplied = "", schemas.EffectApplied, schemas.EffectNotApplied
	type testCase struct {
		applied, notApplied string
		status              int
		body                string
		want                string
	}
	listed := "response.body.data.exists(c, c.ref == request.action_id)"
	table.Run(t, map[string]testCase{
		"applied":                    {found, missing, 200, `{}`, applied},
		"not applied":                {found, missing, 404, `{}`, notApplied},
		"only one condition":         {found, "", 404, `{}`, none},
		"neither":                    {found, missing, 500, `{}`, none},
		"both":                       {found, "true", 200, `{}`, none},
		"listed":                     {listed, "!" + listed, 200, `{"data": [{"ref": "x"}, {"ref": "a1"}]}`, applied},
		"not listed":                 {listed, "!" + listed, 200, `{"data": []}`, notApplied},
		"one condition has an error": {"response.body.paid == true", missing, 404, ``, notApplied},
		"both have an error":         {listed, "!" + listed, 200, `{}`, none},
		"a member that is a bool":    {"response.body.paid", "!response.body.paid", 200, `{"paid": false}`, notApplied},
		"a member that is no bool":   {"response.body.paid", missing, 200, `{"paid": "true"}`, none},
		"an integer of the request":  {"response.body.n == request.body.n", missing, 200, `{"n": 12345678901234567}`, applied},
		"another integer":            {"response.body.n == request.body.n", missing, 200, `{"n": 12345678901234568}`, none},
		"text":                       {"response.body.contains('done')", missing, 200, `"it is done"`, applied},
		"header":                     {"response.headers['x-state'] == 'paid'", missing, 200, ``, applied},
		"too costly":                 {"response.body.all(a, response.body.all(b, response.body.all(c, a + b + c >= 0)))", missing, 200, "[" + strings.Repeat("1,", 999) + "1]", none},
	}, func(t *testing.T, tt testCase) {
		p, err := reconcile.Compile(reconcile.Spec{URL: base, Applied: tt.applied, NotApplied: tt.notApplied})
		require.NoError(t, err)
		start := time.Now()
		answer := schemas.Answer{Status: tt.status, Body: []byte(tt.body), Headers: []schemas.Header{{Name: "x-state", Value: "paid"}}}
		assert.Equal(t, tt.want, p.Effect(request, answer))
		assert.Less(t, time.Since(start), 10*time.Second, "an evaluation is bounded")
	})
}
