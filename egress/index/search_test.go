package index_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"weir/egress/index"
	"weir/internal/ledger"
	"weir/internal/weirtest/memlog"
	"weir/schemas"
)

// payloadOf is a payload of a kind with a call. Everything in it that lists must not show has the
// word secret.
func payloadOf(kind schemas.Kind, method, at string) string {
	call := fmt.Sprintf(`{"method":%q,"url":"%s?key=secret#secret","headers":[{"name":"x","value":"secret"}],"body":"secret"}`, method, at)
	switch kind {
	case schemas.KindHTTP:
		return call
	case schemas.KindRun:
		return `{"task_type":"HTTP_EXECUTE","call":` + call + `}`
	case schemas.KindPlan:
		return fmt.Sprintf(`{"state:env.snapshot":{"url":"secret"},"artifact:proposed.plan":{"decisions":[{"effect_ref":"secret","target_state":{"method":%q,"url":"%s?secret","params":{"a":"secret"}}},{"target_state":{}}]}}`, strings.ToLower(method), at)
	case schemas.KindChat:
		return `{"model":"openai/gpt-5","body":{"model":"secret"}}`
	case schemas.KindPush:
		return `{"repo":"shop","ref":"refs/heads/totals","holder":"secret","task_id":"task-1"}`
	default:
		return `{"description":"secret"}`
	}
}

// claimCall accepts an action with a call. Some are sensitive, and some have a payload that is kept
// apart.
func (s *shop) claimCall(kind schemas.Kind, id string, which int) *ledger.State {
	s.t.Helper()
	at := []string{"https://Api.example.com:8443/v1/orders", "https://u:secret@api.example.com", "http://h.example/a%20b/100%25_x"}[which%3]
	payload := payloadOf(kind, []string{"GET", "POST"}[which%2], at)
	if which%7 == 0 {
		payload = payload[:len(payload)-1] + `,"padding":"` + strings.Repeat("secret", schemas.InlineLimit/6) + `"}`
	}
	a := schemas.Action{
		ID: id, Tenant: "acme", Kind: kind,
		Principal: "tok-1", Caller: []string{"shop", "Robot.2"}[which%2], Sensitive: kind == schemas.KindChat || kind == schemas.KindRun && which%4 == 0, Payload: []byte(payload),
	}
	if kind == schemas.KindRun {
		a.TaskType = "HTTP_EXECUTE"
	}
	return s.accept(a)
}

// statusOf is the last answer of the target.
func statusOf(st *ledger.State) (status int) {
	for _, t := range st.Attempts {
		if t.Result != nil {
			status = cmp.Or(t.Result.Status, status)
		}
	}
	return status
}

// agentOf is the task type of a run, or the last holder of a task.
func agentOf(st *ledger.State) string {
	name := st.Action.TaskType
	for _, ev := range st.Events {
		if ev.Task != nil && ev.Task.What == schemas.TaskClaimed {
			name = ev.Task.Agent
		}
	}
	return name
}

// TestCalled: each list names the call of an action, and nothing of it that is secret, in the list
// and in the file.
func TestCalled(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.claimCall(schemas.KindHTTP, "a-http", 1)
	s.claimCall(schemas.KindPlan, "b-plan", 2)
	s.claimCall(schemas.KindRun, "c-run", 3)
	s.claimCall(schemas.KindRun, "d-hidden", 4)
	s.claimCall(schemas.KindHTTP, "e-apart", 7)
	s.claimCall(schemas.KindPlan, "f-apart", 14)
	chat := s.claimCall(schemas.KindChat, "g-chat", 0)
	s.attempt(chat, "model:openai")
	s.append(chat, schemas.Event{Type: schemas.EventAttempted, Attempted: &schemas.Attempted{Number: 1, Status: 503}})
	s.append(chat, schemas.Event{Type: schemas.EventSettled, Attempted: &schemas.Attempted{Number: 1, Status: 200}, Settled: &schemas.Settled{
		Outcome: schemas.OutcomeSucceeded, Result: []byte(`{"completion":{"content":"secret"},"model":"openai/gpt-5-mini","usage":{"prompt_tokens":12,"completion_tokens":34,"cost_nanousd":1500000},"first_ms":41.5}`),
	}})
	push := s.claimCall(schemas.KindPush, "h-push", 1)
	s.page("acme", "") // the attempt is of a later batch
	s.attempt(push, "git")
	want := map[string]schemas.ActionEntry{
		"a-http":   {Called: schemas.Called{Method: "POST", Host: "api.example.com", Path: "/"}, Caller: "Robot.2"},
		"b-plan":   {Called: schemas.Called{Method: "GET", Host: "h.example", Path: "/a%20b/100%25_x", Calls: 2}, Caller: "shop"},
		"c-run":    {Called: schemas.Called{Method: "POST", Host: "api.example.com:8443", Path: "/v1/orders"}, Caller: "Robot.2", Agent: "HTTP_EXECUTE"},
		"d-hidden": {Caller: "shop", Agent: "HTTP_EXECUTE"},
		"e-apart":  {Called: schemas.Called{Method: "POST", Host: "api.example.com", Path: "/"}, Caller: "Robot.2"},
		"f-apart":  {Called: schemas.Called{Method: "GET", Host: "h.example", Path: "/a%20b/100%25_x", Calls: 2}, Caller: "shop"},
		"g-chat": {
			Caller: "shop", HTTPStatus: 200,
			ModelUse: schemas.ModelUse{Model: "openai/gpt-5-mini", TokensIn: 12, TokensOut: 34, CostUSD: 0.0015, TTFTMS: 41.5},
		},
		"h-push": {Called: schemas.Called{Method: "POST", Host: "git.example", Path: "/r.git shop refs/heads/totals"}, Caller: "Robot.2"},
	}
	page := s.page("acme", "")
	require.Len(t, page.Items, len(want))
	for _, it := range page.Items {
		w := want[it.ID]
		require.Equal(t, []any{w.Called, w.Caller, w.Agent, w.HTTPStatus, w.ModelUse}, []any{it.Called, it.Caller, it.Agent, it.HTTPStatus, it.ModelUse}, it.ID)
	}
	s.x.Close()
	files, err := filepath.Glob(s.path + "*")
	require.NoError(t, err)
	for _, name := range files {
		raw, err := os.ReadFile(name)
		require.NoError(t, err)
		require.False(t, bytes.Contains(raw, []byte("secret")), name)
		require.True(t, bytes.Contains(raw, []byte("api.example.com")), "the calls are there")
	}
}

// TestSearch: a text is found in all that lists show of a call, alone and with other filters.
func TestSearch(t *testing.T) {
	t.Parallel()
	s := open(t)
	for i, status := range []int{200, 404, 503} {
		st := s.claimCall(schemas.KindHTTP, fmt.Sprintf("call-%d", i), i+1)
		s.attempt(st, "shop")
		s.append(st, schemas.Event{Type: schemas.EventAttempted, Attempted: &schemas.Attempted{Number: 1, Status: status}})
		s.settle(st, schemas.OutcomeSucceeded, "")
	}
	s.claimCall(schemas.KindRun, "run-1", 5)
	s.claimCall(schemas.KindChat, "chat-1", 1)
	task := s.claimCall(schemas.KindTask, "task-1", 2)
	s.page("acme", "")
	s.append(task, schemas.Event{Type: schemas.EventSignal, Task: &schemas.TaskEvent{What: schemas.TaskClaimed, Holder: "tok-9"}})
	s.append(task, schemas.Event{Type: schemas.EventSignal, Task: &schemas.TaskEvent{What: schemas.TaskClaimed, Holder: "tok-9", Agent: "coder-9"}})
	other := s.accept(schemas.Action{
		ID: "theirs", Tenant: "other", Kind: schemas.KindHTTP, Caller: "shop",
		Payload: []byte(payloadOf(schemas.KindHTTP, "GET", "https://api.example.com:8443/v1/orders")),
	})
	s.settle(other, schemas.OutcomeSucceeded, "")
	for query, want := range map[string][]string{
		"q=ORDERS":                         {"call-2"},
		"q=get api.example.com:8443/v1":    {},
		"q=post api.example.com/":          {"call-0"},
		"q=100%2525_x":                     {"run-1", "call-1"},
		"q=100%25_x":                       {},
		"q=100____x":                       {},
		"q=!":                              {},
		"q=HTTP_EX":                        {"run-1"},
		"q=gpt-5":                          {"chat-1"},
		"q=robot":                          {"chat-1", "run-1", "call-2", "call-0"},
		"q=CALL-":                          {"call-2", "call-1", "call-0"},
		"q=all-":                           {},
		"q=secret":                         {},
		"q=tok-":                           {},
		"q=example&http_status=404":        {"call-1"},
		"q=example&until=1h":               {},
		"q=example&since=1h&method=GET":    {"call-1"},
		"host=API.example.com":             {"call-0"},
		"host=example.com":                 {},
		"host=api.example.com:8443":        {"call-2"},
		"host=h.example&caller=shop":       {"call-1"},
		"method=POST":                      {"run-1", "call-2", "call-0"},
		"method=GET,POST&kind=http":        {"call-2", "call-1", "call-0"},
		"http_status=200":                  {"call-0"},
		"http_status=4xx,503":              {"call-2", "call-1"},
		"http_status=1xx":                  {},
		"caller=shop":                      {"task-1", "call-1"},
		"caller=tok-1":                     {},
		"agent=coder-9":                    {"task-1"},
		"agent=tok-9":                      {},
		"agent=HTTP_EXECUTE&status=open":   {"run-1"},
		"status=succeeded&http_status=5xx": {"call-2"},
	} {
		require.Equal(t, want, s.ids(query), query)
		count := s.page("acme", query+"&count=true").Count
		require.EqualValues(t, len(want), count.Total, query)
	}
	for _, query := range []string{
		"method=FETCH", "method=get", "method=", "http_status=99", "http_status=6xx", "http_status=x04", "http_status=404,", "http_status=4x", "http_status=4444", "host=", "caller=a/b",
		"q=" + strings.Repeat("a", 257), "q=%ff", "q=a&q=b", "search=a",
	} {
		_, err := ask(t, s.x.List, "acme", query, time.Now())
		require.Error(t, err, query)
	}
}

// TestAgentOfATask: counts by agent follow a task from one holder to the next.
func TestAgentOfATask(t *testing.T) {
	t.Parallel()
	s := open(t)
	hourAgo := func() time.Time { return time.Now().Add(-time.Hour) } // table figure has the count, and not the rows
	s.log = memlog.New(layout, hourAgo, memlog.Hooks{})
	s.led = ledger.New(s.log, layout, hourAgo)
	s.restart()
	task := s.claimCall(schemas.KindTask, "task-1", 1)
	for _, agent := range []string{"coder-1", "coder-2"} {
		s.page("acme", "")
		s.append(task, schemas.Event{Type: schemas.EventSignal, Task: &schemas.TaskEvent{What: schemas.TaskClaimed, Agent: agent}})
	}
	s.page("acme", "")
	s.settle(task, schemas.OutcomeSucceeded, "")
	require.EqualValues(t, 0, s.page("acme", "count=true&agent=coder-1").Count.Total)
	require.Equal(t, map[string]uint64{"succeeded": 1}, s.page("acme", "count=true&agent=coder-2").Count.By)
	require.Equal(t, []string{"task-1"}, s.ids("agent=coder-2"))
}

// TestLongPath: the path of a list has an end, and so has each part of a call that stands beside its payload.
func TestLongPath(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.accept(schemas.Action{
		ID: "a", Tenant: "acme", Kind: schemas.KindHTTP,
		Payload: []byte(payloadOf(schemas.KindHTTP, "GET", "https://h.example/"+strings.Repeat("%C3%A9", 500))),
	})
	path := s.page("acme", "").Items[0].Path
	require.Equal(t, "/"+strings.Repeat("%C3%A9", 85)+"%", path)
	s.accept(schemas.Action{
		ID: "b", Tenant: "acme", Kind: schemas.KindHTTP,
		Called: schemas.Called{Method: "GET", Host: strings.Repeat("h", 5000), Path: "/"}, Payload: []byte(`{}`),
	})
	require.Len(t, s.page("acme", "").Items[0].Host, 512)
}

// TestResolved: the index holds what a person found of an unknown outcome, in whichever batch it is
// read, and lists and counts by it.
func TestResolved(t *testing.T) {
	t.Parallel()
	s := open(t)
	unknown := func(id string) *ledger.State {
		st := s.claimCall(schemas.KindHTTP, id, 1)
		s.append(st, schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeUnknown, Code: schemas.OutcomeUnknownCode}})
		return st
	}
	resolve := func(st *ledger.State, effect string) {
		s.append(st, schemas.Event{Type: schemas.EventResolution, Resolution: &schemas.Resolution{Effect: effect}})
	}
	unknown("a-open")
	later := unknown("b-later")
	resolve(unknown("c-applied"), schemas.EffectApplied)
	s.append(s.claimCall(schemas.KindHTTP, "d-done", 1), schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeSucceeded}})
	s.page("acme", "") // the next resolution is of a later batch
	resolve(later, schemas.EffectNotApplied)
	for query, want := range map[string]string{
		"resolved=true":                         "c-applied=applied b-later=not_applied",
		"resolved=false":                        "d-done= a-open=",
		"resolved=false&status=outcome_unknown": "a-open=",
		"status=outcome_unknown":                "c-applied=applied b-later=not_applied a-open=",
	} {
		page := s.page("acme", query+"&count=true")
		var got []string
		for _, it := range page.Items {
			got = append(got, it.ID+"="+it.Resolution)
		}
		require.Equal(t, want, strings.Join(got, " "), query)
		require.EqualValues(t, len(got), page.Count.Total, query)
	}
	require.EqualValues(t, 4, s.stats("acme", "").Total.Settled, "a resolution is no second end")
}

// used reads the use of models of tenant acme.
func (s *shop) used(tb require.TestingT, query string, now time.Time) schemas.Usage {
	out, err := ask(tb, s.x.Usage, "acme", query, now)
	require.NoError(tb, err)
	require.Zero(tb, out.Behind)
	return out
}

// complete accepts a completion, and settles it if it used something.
func (s *shop) complete(tb require.TestingT, at time.Time, id, tenant, task, model string, used *schemas.ChatUsage) {
	st, _, err := s.led.Claim(context.Background(), schemas.Action{
		ID: id, Tenant: tenant, Kind: schemas.KindChat, IDSource: schemas.IDGenerated, Fingerprint: "f", AcceptedAt: at, Task: task,
		Payload: fmt.Appendf(nil, `{"model":"asked","task_id":%q}`, task),
	})
	require.NoError(tb, err)
	if used == nil {
		return
	}
	doc, err := ledger.Encode(schemas.ChatResult{Model: model, Usage: used})
	require.NoError(tb, err)
	require.NoError(tb, s.led.Append(context.Background(), st, schemas.Event{Type: schemas.EventSettled, Time: at, Settled: &schemas.Settled{Outcome: schemas.OutcomeFailed, Result: doc}}))
}

// TestUsage: the index adds up the use of the completions that have ended, whatever else is on
// the log, by the day, the task and the model, and again after a new start.
func TestUsage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		began := time.Date(2026, 11, 20, 21, 0, 0, 0, time.UTC)
		now, mu := began, sync.Mutex{}
		s := &shop{t: t, path: t.TempDir() + "/index.db"}
		s.log = memlog.New(layout, func() time.Time { mu.Lock(); defer mu.Unlock(); return now }, memlog.Hooks{})
		s.led = ledger.New(s.log, layout, nil)
		s.x = index.New(s.log, always{}, index.Config{Layout: layout, Path: s.path, Wait: time.Minute})
		defer func() { s.x.Close() }()
		total := schemas.UsageSum{}
		groups := map[string]map[string]schemas.UsageSum{"day": {}, "task": {}, "model": {}}
		add := func(by, name string, u schemas.ChatUsage) {
			sum := groups[by][name]
			sum.Completions, sum.TokensIn, sum.TokensOut, sum.CostUSD = sum.Completions+1, sum.TokensIn+u.Prompt, sum.TokensOut+u.Completion, sum.CostUSD+float64(u.Nanos)/1e9
			groups[by][name] = sum
		}
		for i := range rapid.IntRange(1, 12).Draw(rt, "n") {
			mu.Lock()
			now = now.Add(time.Duration(rapid.IntRange(1, 1000).Draw(rt, "minutes")) * time.Minute)
			at := now
			mu.Unlock()
			task := rapid.SampledFrom([]string{"", "t1", "t2"}).Draw(rt, "task")
			model := rapid.SampledFrom([]string{"a/1", "b"}).Draw(rt, "model")
			tenant := rapid.SampledFrom([]string{"acme", "acme", "umbrella"}).Draw(rt, "tenant")
			var used *schemas.ChatUsage
			if rapid.Bool().Draw(rt, "ended") {
				used = &schemas.ChatUsage{Prompt: rapid.Int64Range(0, 1e6).Draw(rt, "in"), Completion: rapid.Int64Range(0, 1e6).Draw(rt, "out"), Nanos: 1_000_000 * rapid.Int64Range(0, 1e6).Draw(rt, "nanos")}
			}
			s.complete(rt, at, fmt.Sprintf("chat-%d", i), tenant, task, model, used)
			if rapid.Bool().Draw(rt, "read") {
				s.used(rt, "", now)
			}
			if used == nil || tenant != "acme" {
				continue
			}
			total.Completions, total.TokensIn, total.TokensOut, total.CostUSD = total.Completions+1, total.TokensIn+used.Prompt, total.TokensOut+used.Completion, total.CostUSD+float64(used.Nanos)/1e9
			add("day", at.Format(time.DateOnly), *used)
			add("task", task, *used)
			add("model", model, *used)
		}
		now = now.Add(time.Minute)
		for range 2 {
			for by, want := range groups {
				got := s.used(rt, "since=90d&by="+by, now)
				require.InDelta(rt, total.CostUSD, got.Total.CostUSD, 1e-6)
				got.Total.CostUSD = total.CostUSD
				require.Equal(rt, total, got.Total)
				require.Len(rt, got.Groups, len(want), by)
				for _, g := range got.Groups {
					require.InDelta(rt, want[g.Name].CostUSD, g.CostUSD, 1e-6)
					g.CostUSD = want[g.Name].CostUSD
					require.Equal(rt, want[g.Name], g.UsageSum, "%s %s", by, g.Name)
				}
			}
			one := s.used(rt, "by=model&task=t1", now).Total
			require.InDelta(rt, groups["task"]["t1"].CostUSD, one.CostUSD, 1e-6)
			require.Equal(rt, groups["task"]["t1"].Completions, one.Completions)
			require.Zero(rt, s.used(rt, "since=2026-11-01T00:00:00Z&until=2026-11-20T21:00:00Z", now).Total)
			s.x.Close()
			s.x = index.New(s.log, always{}, index.Config{Layout: layout, Path: s.path, Wait: time.Minute})
		}
	})
}

// TestUsageIsOrdered: days by their order, others by their cost, and the rest is counted.
func TestUsageIsOrdered(t *testing.T) {
	t.Parallel()
	s := open(t)
	now := time.Now()
	for i := range 103 {
		s.complete(t, now, fmt.Sprintf("c%d", i), "acme", fmt.Sprintf("t%03d", i), "m", &schemas.ChatUsage{Nanos: int64(i) * 1e9})
	}
	got := s.used(t, "by=task", now.Add(time.Minute))
	require.Equal(t, []any{100, 3, "t102", 102.0}, []any{len(got.Groups), got.More, got.Groups[0].Name, got.Groups[0].CostUSD})
	require.InDelta(t, 102*103/2, got.Total.CostUSD, 1e-6, "the total has all of them")
}

func TestUsageRefuses(t *testing.T) {
	t.Parallel()
	s, now := open(t), time.Now()
	for query, says := range map[string]string{
		"by=entry": "by can be day, task or model", "since=94d": "at most 93 days", "since=1h&until=2h": "before until", "step=1m": "no parameter of that name", "since=yesterday": "the parameter since must be a", "by=day&by=task": "by",
	} {
		_, err := ask(t, s.x.Usage, "acme", query, now)
		require.ErrorContains(t, err, says, query)
	}
	for _, query := range []string{"since=93d", "since=200d&task=t1", "task=t1"} {
		_, err := ask(t, s.x.Usage, "acme", query, now)
		require.NoError(t, err, query)
	}
}
