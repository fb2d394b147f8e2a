package call_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/internal/weirtest/harness"
	"weir/internal/weirtest/rulebook"
	"weir/internal/weirtest/table"
	"weir/processors/call"
	"weir/schemas"
)

// probed is an entry's contract whose probe shows an effect by 200, and none by 404.
func probed() policy.Contract {
	return policy.Contract{Reconcile: &policy.Reconcile{
		Method: "GET", URL: "http://up.example/look?id={request.action_id}", Applied: "response.status == 200", NotApplied: "response.status == 404", Within: 8 * time.Second,
	}}
}

// reconciledTo is a call whose probe showed that it was applied.
func reconciledTo(r call.Result) bool { return r.Answered && r.Reconciled && r.Last.Probe > 0 }

// calls counts what was sent beside the probes.
func (b *env) calls() (calls, probes int) {
	for _, url := range b.target.urls {
		if strings.Contains(url, "/look?") {
			probes++
		} else {
			calls++
		}
	}
	return calls, probes
}

// TestProbe: what becomes of a POST whose answer was lost.
func TestProbe(t *testing.T) {
	t.Parallel()
	const all = 8 * time.Second
	lost := []end{reset}
	then := func(more ...end) []end { return append(slices.Clone(lost), more...) }
	none := func(n int) []end { return slices.Repeat(status(404), n) }
	type testCase struct {
		envConfig
		act           func(b *env)
		want          func(call.Result) bool
		calls, probes int
		took          time.Duration
	}
	const until = 8 // probes in all the time, with the last one at its end
	table.Bubble(t, map[string]testCase{
		"it was applied":                      {envConfig{script: then(end{status: 200})}, nil, reconciledTo, 1, 1, 0},
		"it shows later":                      {envConfig{script: then(append(none(3), end{status: 200})...)}, nil, reconciledTo, 1, 4, 1400 * time.Millisecond},
		"it shows at the end":                 {envConfig{script: then(append(none(until-1), end{status: 200})...)}, nil, reconciledTo, 1, until, all},
		"it was not applied":                  {envConfig{script: then(append(none(until), end{status: 201})...)}, nil, answers(201), 2, until, all},
		"the probe never tells":               {envConfig{script: then(end{status: 204})}, nil, unknown, 1, until, all},
		"the probe is never answered":         {envConfig{script: then(refused)}, nil, unknown, 1, 0, all + 600*time.Millisecond},
		"the probe is answered at last":       {envConfig{script: then(append(slices.Repeat([]end{refused}, until+1), none(1)[0], end{status: 201})...)}, nil, answers(201), 2, 1, all + 600*time.Millisecond},
		"the target asks for time":            {envConfig{script: then(end{status: 503, wish: 3 * time.Second}, end{status: 200})}, nil, reconciledTo, 1, 2, 3 * time.Second},
		"lost as often as there are attempts": {envConfig{script: slices.Concat(lost, none(until), lost, none(until), lost, none(until))}, nil, gaveUp, 3, 3 * until, 3 * all},
		"nothing left":                        {envConfig{script: []end{unsent, {status: 200}}}, nil, answered, 2, 0, 200 * time.Millisecond},
		"a PUT has no need":                   {envConfig{method: "PUT", script: []end{reset, {status: 200}}}, nil, answered, 2, 0, 200 * time.Millisecond},
		"a redirect shows nothing":            {envConfig{redirects: 1, script: then(end{status: 302, location: "/y"}, end{status: 200})}, nil, reconciledTo, 2, 1, 0},
		"the deadline comes first":            {envConfig{deadline: 5 * time.Second, script: then(none(1)...)}, nil, unknown, 1, 5, 3 * time.Second},
		"it is stopped":                       {envConfig{script: then(none(1)...)}, func(b *env) { time.AfterFunc(time.Second, b.stop.Pull) }, unknown, 1, 3, time.Second},
		"it is stopped before the probe":      {envConfig{script: []end{{sendErr: reset.sendErr}}}, func(b *env) { b.target.script[0].during = b.stop.Pull }, unknown, 1, 0, 0},
		"the entry loses its probe":           {envConfig{script: then(none(1)...)}, func(b *env) { time.AfterFunc(time.Second, func() { b.enforce(b.t, unkeyed()) }) }, unknown, 1, 3, 1400 * time.Millisecond},
		"the entry is gone":                   {envConfig{script: then(none(1)...)}, func(b *env) { time.AfterFunc(time.Second, func() { b.enforce(b.t) }) }, unknown, 1, 3, 1400 * time.Millisecond},
		"another entry permits the call": {envConfig{script: then(none(1)...)}, func(b *env) {
			b.task.Call.AllowlistKey = ""
			b.target.script[0].during = func() { b.enforce(b.t, another()) }
		}, unknown, 1, 0, 0},
		"a rule answers the probe":             {envConfig{script: then(none(1)...)}, puts(0, rulebook.Mock("m", "http://up.example/look*", 200, "")), unknown, 1, 0, 0},
		"a rule sends the probe elsewhere":     {envConfig{script: then(none(1)...)}, puts(0, rulebook.Redirect("r", "http://up.example/look*", "http://up.example/z")), unknown, 1, 0, 0},
		"a rule changes the call meanwhile":    {envConfig{script: then(none(1)...)}, puts(time.Second, rulebook.SetHeader("h", "http://up.example/x", "X-A", "1")), unknown, 1, 3, 1400 * time.Millisecond},
		"a rule delays the probe":              {envConfig{script: then(end{status: 200})}, puts(0, rulebook.Delay("d", "http://up.example/look*", 400)), reconciledTo, 1, 1, 400 * time.Millisecond},
		"the key has expired, and not applied": {envConfig{key: "k", declared: true, deadline: 3 * time.Hour, script: slices.Concat([]end{{sendErr: slow.sendErr, during: func() { time.Sleep(time.Hour) }}}, none(until), status(201))}, func(b *env) { b.task.Timeout = 2 * time.Hour }, answers(201), 2, until, time.Hour + all},
	}, func(t *testing.T, tt testCase) {
		if tt.method == "" {
			tt.method = "POST"
		}
		tt.contract = probed()
		b := newEnv(t, tt.envConfig)
		if tt.act != nil {
			tt.act(b)
		}
		r := b.run()
		assert.True(t, tt.want(r), "result: %+v, last: %+v", r, r.Last)
		calls, probes := b.calls()
		assert.Equal(t, []int{tt.calls, tt.probes}, []int{calls, probes})
		assert.Equal(t, tt.took, b.elapsed())
		checkLog(t, b)
		assert.Len(t, b.left, len(b.task.State.Attempts), "each attempt and each probe has its record")
		for _, left := range b.left {
			assert.Equal(t, left.Decision.Allowed, !left.Result.Code.Denied(), "a refused probe is a denial")
		}
		for _, try := range r.Tries {
			assert.Zero(t, try.Probe)
		}

		st := harness.Load(t, b.ledger, b.task.State.Ref) // another worker reads the same from the log
		sent := b.target.sent
		b.task.State = st
		again, err := b.caller.Run(t.Context(), b.task)
		require.NoError(t, err)
		assert.True(t, tt.want(again), "from the log: %+v", again)
		assert.Equal(t, sent, b.target.sent)
	})
}

// another permits the same call as "up", with the same probe.
func another() policy.Entry {
	e := unkeyed()
	e.Name, e.Contract = "another", probed()
	return e
}

// TestProbeDefers: a long wait for the next probe takes no slot, and the next worker goes on with it.
func TestProbeDefers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		contract := probed()
		contract.Reconcile.Within = 80 * time.Second
		b := newEnv(t, envConfig{method: "POST", contract: contract, script: append([]end{reset}, status(404)...)})
		var r call.Result
		for deferred := 0; ; deferred++ {
			b.task.State = harness.Load(t, b.ledger, b.task.State.Ref)
			if r = b.run(); b.again.IsZero() {
				assert.Positive(t, deferred)
				break
			}
			wait := time.Until(b.again)
			assert.Greater(t, wait, 3*time.Second)
			assert.LessOrEqual(t, wait, 10*time.Second, "an eighth of the time")
			time.Sleep(wait)
			if b.elapsed() >= 80*time.Second {
				b.target.script = append(slices.Repeat(status(404), b.target.opened+1), end{status: 201})
			}
		}
		assert.True(t, answers(201)(r), "%+v", r)
		calls, probes := b.calls()
		assert.Equal(t, 2, calls)
		assert.Less(t, probes, 20)
		assert.Equal(t, 80*time.Second, b.elapsed())
	})
}

// TestProbeOfADeadWorker: a probe without a result is repeated, and an attempt without one is
// looked up.
func TestProbeOfADeadWorker(t *testing.T) {
	t.Parallel()
	attempt := func(a schemas.Attempt) schemas.Event {
		return schemas.Event{Type: schemas.EventAttempt, Attempt: &a}
	}
	table.Bubble(t, map[string]func(first schemas.Attempt) []schemas.Event{
		"an attempt without a result": func(first schemas.Attempt) []schemas.Event { return []schemas.Event{attempt(first)} },
		"a probe without a result": func(first schemas.Attempt) []schemas.Event {
			return []schemas.Event{
				attempt(first),
				{Type: schemas.EventAttempted, Attempted: &schemas.Attempted{Number: 1, Code: schemas.UpstreamReset, Sent: true}},
				attempt(schemas.Attempt{Number: 1, Probe: 1, Class: schemas.ClassSafe, Decision: first.Decision}),
			}
		},
	}, func(t *testing.T, events func(first schemas.Attempt) []schemas.Event) {
		b := newEnv(t, envConfig{method: "POST", contract: probed(), script: []end{reset}})
		b.run()
		first := b.task.State.Attempts[0].Attempt
		b.anew(t)
		b.target.urls, b.target.script = nil, status(200)
		for _, ev := range events(first) {
			harness.Append(t, b.ledger, b.task.State, ev)
		}
		b.task.State = harness.Load(t, b.ledger, b.task.State.Ref)
		require.NoError(t, b.caller.Abandon(t.Context(), b.task.State))
		require.Nil(t, b.task.State.Open())
		r := b.run()
		assert.True(t, reconciledTo(r), "%+v", r)
		calls, probes := b.calls()
		assert.Equal(t, []int{0, 1}, []int{calls, probes})
	})
}

// coded are the headers of a JSON body with a coding.
func coded(coding string) []schemas.Header {
	return []schemas.Header{{Name: "Content-Encoding", Value: coding}, {Name: "Content-Type", Value: "application/json"}}
}

// zipped is a body as it is stored.
func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	require.NoError(t, errors.Join(err, w.Close()))
	return append(base64.StdEncoding.AppendEncode([]byte{'"'}, b.Bytes()), '"')
}

// TestNoProbeWithoutAValue: a call whose values do not fit into the probe's URL stays unknown.
func TestNoProbeWithoutAValue(t *testing.T) {
	t.Parallel()
	contract := probed()
	contract.Reconcile.URL = "http://up.example/look?id={request.body.ref}"
	const unreadable, missing = "only JSON of at most 256 KiB can", "has no value that can be placed"
	json := []schemas.Header{{Name: "Content-Type", Value: "application/vnd.x+json; charset=utf-8"}}
	for name, tt := range map[string]struct {
		call schemas.HTTPCall
		why  string
	}{
		"a value":           {schemas.HTTPCall{Body: []byte(`{"ref":"r1"}`)}, ""},
		"dots":              {schemas.HTTPCall{Body: []byte(`{"ref":".."}`)}, missing},
		"none":              {schemas.HTTPCall{Body: []byte(`{}`)}, missing},
		"a string":          {schemas.HTTPCall{Body: []byte(`"text"`)}, missing},
		"JSON as text":      {schemas.HTTPCall{TextBody: true, Body: []byte(`"{\"ref\":\"r1\"}"`), Headers: json}, ""},
		"by the other type": {schemas.HTTPCall{Base64Body: true, Body: []byte(`"eyJyZWYiOiJyMSJ9"`), ContentType: "application/json"}, ""},
		"gzip":              {schemas.HTTPCall{Base64Body: true, Body: zipped(t, `{"ref":"r1"}`), Headers: coded("GZIP")}, ""},
		"too large":         {schemas.HTTPCall{Base64Body: true, Body: zipped(t, `{"ref":"r1"`+strings.Repeat(" ", schemas.InlineLimit)+"}"), Headers: coded("gzip")}, unreadable},
		"another coding":    {schemas.HTTPCall{Base64Body: true, Body: zipped(t, `{"ref":"r1"}`), Headers: coded("br")}, unreadable},
		"no gzip":           {schemas.HTTPCall{TextBody: true, Body: []byte(`"{\"ref\":\"r1\"}"`), Headers: coded("gzip")}, unreadable},
		"text":              {schemas.HTTPCall{TextBody: true, Body: []byte(`"{\"ref\":\"r1\"}"`), ContentType: "text/plain"}, unreadable},
		"a member twice":    {schemas.HTTPCall{TextBody: true, Body: []byte(`"{\"ref\":\"r1\",\"ref\":\"r2\"}"`), Headers: json}, unreadable},
		"no JSON":           {schemas.HTTPCall{TextBody: true, Body: []byte(`"ref=r1"`), Headers: json}, unreadable},
		"no body":           {schemas.HTTPCall{}, unreadable},
	} {
		b := newEnv(t, envConfig{kind: schemas.KindPassthrough, method: "POST", contract: contract, script: []end{reset, {status: 200}}})
		c := &b.task.Call
		c.Body, c.TextBody, c.Base64Body, c.Headers, c.ContentType = tt.call.Body, tt.call.TextBody, tt.call.Base64Body, tt.call.Headers, tt.call.ContentType
		r := b.run()
		assert.Equal(t, tt.why != "", r.Unknown, name)
		assert.Contains(t, r.Unprobed, tt.why, name)
		_, sent := b.calls()
		assert.Equal(t, tt.why == "", sent == 1, name)
	}
}
