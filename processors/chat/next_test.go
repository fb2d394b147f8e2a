package chat_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/completion"
	"weir/internal/fault"
	"weir/internal/policy"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

func broke(code schemas.Code, status int) act {
	return act{fails: &fault.Call{Code: code, Sent: true, Status: status}}
}

// TestFallback holds every way in which a model can fail against what follows: whether
// another is asked, and what the caller is told where there is none.
func TestFallback(t *testing.T) {
	t.Parallel()
	type want struct {
		falls  bool
		status int
		code   schemas.Code
		times  int // how often the only candidate is asked; default 1
	}
	type row struct {
		act
		want
	}
	rows := map[string]row{}
	for _, status := range []int{300, 304, 400, 401, 403, 404, 408, 499, 429, 500, 503, 529, 599, 600} {
		w := want{status: 502, code: schemas.ModelFailed}
		switch {
		case status == 429, status == 503, status == 529:
			w.falls, w.status = true, status
		case status == 408:
			w.falls, w.status = true, 504
		case status/100 == 5, status >= 401 && status <= 403:
			w.falls = true
		case status/100 == 4:
			w.status = status
		}
		rows[fmt.Sprint("status ", status)] = row{act{status: status}, w}
	}
	for status, w := range map[int]want{
		0: {status: 502, falls: true}, 400: {status: 400}, 401: {status: 502, falls: true}, 404: {status: 404}, 408: {status: 504, falls: true}, 429: {status: 429, falls: true}, 500: {status: 502, falls: true}, 503: {status: 503, falls: true}, 529: {status: 529, falls: true},
	} {
		w.code = schemas.ModelFailed
		rows[fmt.Sprint("an error first ", status)] = row{act{fault: &completion.Fault{Status: status, Message: "words"}}, w}
		w.falls = false
		rows[fmt.Sprint("an error later ", status)] = row{act{texts: []string{"Hel"}, fault: &completion.Fault{Status: status, Message: "words"}}, w}
	}
	for _, code := range append(schemas.UpstreamCodes(), schemas.SecretUnavailable) {
		status, times := 502, 1
		if code == schemas.UpstreamTimeout {
			status = 504
		}
		switch code {
		case schemas.UpstreamConnect, schemas.UpstreamTLS, schemas.UpstreamTimeout, schemas.UpstreamReset, schemas.UpstreamProtocol, schemas.UpstreamTruncated:
			times = 3
		default:
		}
		rows[string(code)+" in vain"] = row{act{open: &fault.Call{Code: code}}, want{true, status, code, times}}
		rows[string(code)+" before the status"] = row{broke(code, 0), want{true, status, code, 1}}
		later := broke(code, 200)
		later.texts = []string{"Hel"}
		w := want{false, status, code, 1}
		if code == schemas.UpstreamTruncated || code == schemas.UpstreamTimeout || code == schemas.UpstreamReset {
			w.code = schemas.Interrupted // the call's evidence has the cause
		}
		rows[string(code)+" in the middle"] = row{later, w}
	}
	rows["denied on its way"] = row{act{open: &fault.Call{Code: schemas.DenyAddress}}, want{true, 403, schemas.DenyAddress, 1}}
	rows["nobody knows"] = row{broke(schemas.Interrupted, 0), want{false, 502, schemas.Interrupted, 4}} // that says nothing of the model
	table.Run(t, rows, func(t *testing.T, r row) {
		synctest.Test(t, func(t *testing.T) {
			h := newEnv(t, modelOf("small", "a"))
			h.acts["a"] = []act{r.act}
			e := h.run(order("small"))
			assert.Equal(t, r.code, e.Code)
			assert.Equal(t, r.want.status, e.result.Error.Status)
			assert.NotEmpty(t, e.result.Error.Message)
			assert.NotEmpty(t, e.Message)
			assert.Len(t, e.attempts, max(r.times, 1))
			outcome := schemas.OutcomeFailed
			if strings.HasPrefix(string(r.code), "DENY_") {
				outcome = schemas.OutcomeDenied
			} else {
				assert.Contains(t, string(e.result.Error.Metadata), `"provider_name":"a"`)
			}
			assert.Equal(t, outcome, e.Outcome)
			assert.Len(t, e.audits, len(e.attempts))
		})
		synctest.Test(t, func(t *testing.T) {
			h := newEnv(t, modelOf("small", "a", "b"))
			h.acts["a"] = []act{r.act}
			e := h.run(order("small"))
			if r.falls {
				assert.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
				assert.Equal(t, []string{"real-b", "b"}, []string{e.result.Sent, e.result.Upstream})
				require.Len(t, e.attempts, 2)
				assert.Equal(t, 1, e.attempts[1].Step)
			} else {
				assert.Equal(t, r.code, e.Code)
				assert.Equal(t, "a", e.result.Upstream)
				assert.Len(t, e.attempts, max(r.times, 1))
			}
		})
	})
}

// passing is a model whose upstreams pass members.
func passing(m schemas.Model, names ...string) schemas.Model {
	for i := range m.Upstreams {
		m.Upstreams[i].Pass = names
	}
	return m
}

// TestPolicyDenies one upstream, or all of them: each denial leaves evidence, and another is asked.
func TestPolicyDenies(t *testing.T) {
	t.Parallel()
	table.Bubble(t, map[string][]string{"the first": {"a"}, "all": {"a", "b"}}, func(t *testing.T, names []string) {
		m := modelOf("small", "a", "b")
		h := newEnv(t, m)
		var entries []policy.Entry
		for _, u := range m.Upstreams {
			method := map[bool]string{true: "PUT", false: "POST"}[slices.Contains(names, u.Name)]
			entries = append(entries, policy.Entry{Name: schemas.ModelEntry(u.Name), URLPrefix: u.URL, Methods: []string{method}, Agent: true})
		}
		h.policy.Enforce(t, entries...)
		e := h.run(order("small"))
		denials := 0
		for _, ev := range e.left {
			if ev.Kind == schemas.EvidenceDecision {
				denials++
			}
		}
		assert.Equal(t, []int{len(names), 2 - len(names)}, []int{denials, len(h.asked())})
		assert.Equal(t, len(names) > 1, e.Outcome == schemas.OutcomeDenied && e.Code == schemas.DenyMethod && e.result.Error.Status == 403)
	})
}

// TestCandidates: what was asked for is asked in its order, at one place under several
// names too, and no more often than there are steps.
func TestCandidates(t *testing.T) {
	t.Parallel()
	many := make([]string, 20)
	for i := range many {
		many[i] = fmt.Sprint("u", i)
	}
	pattern := modelOf("vendor/*", "v")
	pattern.Upstreams[0].Model = "*"
	type testCase struct {
		order  schemas.ChatOrder
		change func(a *schemas.Action)
		models []schemas.Model
		want   []string // upstream and model
	}
	table.Bubble(t, map[string]testCase{
		"further models": {
			order: schemas.ChatOrder{Model: "small", Models: []string{"large", "unknown", "small"}}, models: []schemas.Model{modelOf("small", "a", "b"), modelOf("large", "c")},
			want: []string{"a real-a", "b real-b", "c real-c"},
		},
		"those of the token alone": {
			order: schemas.ChatOrder{Model: "small", Models: []string{"large"}}, models: []schemas.Model{modelOf("small", "a"), modelOf("large", "c")},
			change: func(a *schemas.Action) { a.Models = []string{"large"} }, want: []string{"c real-c"},
		},
		"the entries of the token alone": {
			order: schemas.ChatOrder{Model: "small"}, models: []schemas.Model{modelOf("small", "a", "b")},
			change: func(a *schemas.Action) { a.Entries = []string{"other", "model:b"} }, want: []string{"b real-b"},
		},
		"those that pass what it says": {
			order:  schemas.ChatOrder{Model: "small", Models: []string{"large"}, Further: []string{"plugins", "preset"}},
			models: []schemas.Model{modelOf("small", "a", "b"), passing(modelOf("large", "c"), "preset", "plugins", "x"), passing(modelOf("other", "d"), "*")},
			want:   []string{"c real-c"},
		},
		"one place, two names": {
			order: schemas.ChatOrder{Model: "vendor/x", Models: []string{"vendor/y"}}, models: []schemas.Model{pattern}, want: []string{"v x", "v y"},
		},
		"many": {order: schemas.ChatOrder{Model: "m"}, models: []schemas.Model{modelOf("m", many...)}, want: func() (list []string) {
			for i := range 16 {
				list = append(list, fmt.Sprintf("u%d real-u%d", i, i))
			}
			return list
		}()},
	}, func(t *testing.T, tt testCase) {
		h := newEnv(t, tt.models...)
		for _, m := range tt.models {
			for _, u := range m.Upstreams {
				h.acts[u.Name] = []act{{status: 503}}
			}
		}
		o := order(tt.order.Model)
		o.Models, o.Further = tt.order.Models, tt.order.Further
		e := h.run(o, tt.change)
		assert.Equal(t, schemas.ModelFailed, e.Code)
		got := make([]string, len(h.calls))
		for i, c := range h.calls {
			sent := strings.TrimPrefix(c.body, `{"model":"`)
			sent, _, _ = strings.Cut(sent, `"`)
			got[i] = c.upstream + " " + sent
		}
		assert.Equal(t, tt.want, got)
		for i, a := range e.audits {
			assert.Equal(t, tt.want[i], a.Upstream+" "+a.Sent)
		}
		assert.Nil(t, e.result.Usage, "a refusal costs nothing")
	})
}

// TestAReloadBetween: what was asked already is not asked again, and what has moved is
// asked at its new place.
func TestAReloadBetween(t *testing.T) {
	t.Parallel()
	type testCase struct {
		further []string // members of the request that upstreams would have to pass
		act     func(h *env)
		asked   []string
		outcome schemas.Outcome
		code    schemas.Code
		left    int // records
	}
	reload := func(list ...schemas.Model) func(h *env) {
		return func(h *env) { h.acts["a"] = []act{{status: 503, first: func() { h.configure(list...) }}} }
	}
	table.Bubble(t, map[string]testCase{
		"others come in": {act: reload(modelOf("small", "c", "a")), asked: []string{"a", "c"}, outcome: schemas.OutcomeSucceeded, left: 2},
		"all go":         {act: reload(), asked: []string{"a"}, outcome: schemas.OutcomeFailed, code: schemas.ModelFailed, left: 1},
		"none passes what it says any more": {
			further: []string{"plugins"}, outcome: schemas.OutcomeFailed, code: schemas.ValidationError,
		},
		"it moves while policy is asked": {act: func(h *env) {
			moved := modelOf("small", "a", "b")
			moved.Upstreams[0].URL = "http://moved.example"
			set := h.set
			h.configure(moved)
			fresh := h.set
			h.set = set // the models in force are older than the policy for one reading
			n := 0
			h.reading = func() {
				if n++; n == 2 {
					h.set = fresh
				}
			}
		}, asked: []string{"a"}, outcome: schemas.OutcomeSucceeded, left: 1},
	}, func(t *testing.T, tt testCase) {
		h := newEnv(t, modelOf("small", "a", "b"))
		if tt.act != nil {
			tt.act(h)
		}
		o := order("small")
		o.Further = tt.further
		e := h.run(o)
		assert.Equal(t, []any{tt.outcome, tt.code}, []any{e.Outcome, e.Code})
		assert.Equal(t, tt.asked, h.asked())
		assert.Len(t, e.left, tt.left, "nothing was denied")
		if tt.code == schemas.ValidationError {
			assert.Equal(t, 400, e.result.Error.Status)
		} else {
			assert.Equal(t, tt.asked[len(tt.asked)-1], e.result.Upstream)
		}
	})
}

// TestWhatAProviderSays of a failure is the caller's to look for, with its wish; what it says of
// Weir's own credential is not shown, and the log of actions has Weir's own words alone.
func TestWhatAProviderSays(t *testing.T) {
	t.Parallel()
	const own = "the model's provider does not accept the gateway's own credential or account"
	key := func(status int) act {
		return act{status: status, fault: &completion.Fault{Status: status, Message: "key sk-1 of org-2", Code: "sk-1", Type: "org-2"}}
	}
	type testCase struct {
		act
		status  int
		message string
		meta    string // behind the provider's name
	}
	table.Bubble(t, map[string]testCase{
		"a server's wish": {act{status: 503, after: 9 * time.Second, fault: &completion.Fault{Status: 503, Message: "busy"}}, 503, "busy", `"provider_status":503`},
		"a wish":          {act{status: 429, after: 7 * time.Second, fault: &completion.Fault{Status: 429, Message: "slow down"}}, 429, "slow down", `"provider_status":429`},
		"a reason": {
			act{status: 400, fault: &completion.Fault{Status: 400, Message: "too long", Code: "context_length_exceeded", Param: "messages"}},
			400, "too long",
			`"provider_status":400,"provider_code":"context_length_exceeded","provider_param":"messages"`,
		},
		"the key":    {key(401), 502, own, `"provider_status":401`},
		"the money":  {key(402), 502, own, `"provider_status":402`},
		"the rights": {key(403), 502, own, `"provider_status":403`},
	}, func(t *testing.T, tt testCase) {
		h := newEnv(t, modelOf("small", "a"))
		h.acts["a"] = []act{tt.act}
		e := h.run(whole())
		assert.Equal(t, []any{tt.status, tt.message, tt.after.Milliseconds()}, []any{e.result.Error.Status, e.result.Error.Message, e.result.Error.RetryAfterMS})
		assert.JSONEq(t, `{"provider_name":"a",`+tt.meta+`}`, string(e.result.Error.Metadata))
		assert.NotContains(t, e.Message, tt.fault.Message)
	})
}
