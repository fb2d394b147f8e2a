package rules_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/egress/rules"
	"weir/internal/fault"
	"weir/internal/ledger"
	snapshots "weir/internal/rules"
	"weir/internal/traffic"
	"weir/internal/weirtest/fixture"
	"weir/schemas"
)

var request = rules.Request{RequestID: "req <1> \u00fc", Operation: schemas.OpRulesCreate}

func rule(id, group string) schemas.Rule {
	ms := int64(1200)
	return schemas.Rule{
		ID: id, Name: "Delay <checkout> & more", Group: group, Type: schemas.RuleDelay, Enabled: true, Priority: 100,
		Match:  schemas.RuleMatch{URLPattern: "https://api.example.com/checkout/*", Method: "POST", ResourceType: "xmlhttprequest", IncludeQuery: true},
		Action: schemas.RuleAction{DelayMS: &ms},
	}
}

func result(e *schemas.AgentError) string {
	res := schemas.RuleResult{Operation: request.Operation, RequestID: request.RequestID, RulesEtag: "etag-7-0123456789abcdef", Error: e}
	if e == nil {
		made := rule("checkout-delay-01", "shop")
		res.Rule = &made
	}
	doc, err := json.Marshal(res)
	if err != nil {
		panic(err)
	}
	return string(doc)
}

func TestRender(t *testing.T) {
	t.Parallel()
	failed := func(code schemas.Code) schemas.Settled {
		return schemas.Settled{Outcome: schemas.OutcomeFailed, Code: code}
	}
	refusal := func(code schemas.Code, detail string) string {
		return result(&schemas.AgentError{Code: code, Message: "the sentence", Detail: detail})
	}
	for name, e := range map[string]struct {
		settled schemas.Settled
		doc     string
	}{
		"succeeded":          {schemas.Settled{Outcome: schemas.OutcomeSucceeded}, result(nil)},
		"succeeded_global":   {schemas.Settled{Outcome: schemas.OutcomeSucceeded}, `{"operation":"global.off","request_id":"r","rules_etag":"etag-8-0123456789abcdef"}`},
		"etag_mismatch":      {failed(schemas.EtagMismatch), refusal(schemas.EtagMismatch, "")},
		"not_found":          {failed(schemas.NotFound), refusal(schemas.NotFound, "")},
		"rule_exists":        {failed(schemas.ValidationError), refusal(schemas.ValidationError, schemas.DetailRuleExists)},
		"denied_by_policy":   {failed(schemas.ValidationError), refusal(schemas.ValidationError, string(schemas.DenyRule))},
		"limit":              {failed(schemas.RuleLimitExceeded), refusal(schemas.RuleLimitExceeded, "")},
		"internal":           {failed(schemas.InternalError), refusal(schemas.InternalError, "")},
		"poison":             {failed(schemas.Poison), ""},
		"nothing_said":       {schemas.Settled{Outcome: schemas.OutcomeFailed}, ""},
		"expired":            {schemas.Settled{Outcome: schemas.OutcomeExpired, Code: schemas.DeadlineExceeded}, ""},
		"expired_in_words":   {schemas.Settled{Outcome: schemas.OutcomeExpired, Code: schemas.DeadlineExceeded}, refusal(schemas.InternalError, string(schemas.DeadlineExceeded))},
		"canceled":           {schemas.Settled{Outcome: schemas.OutcomeCanceled, Code: schemas.Canceled}, ""},
		"outcome_unknown":    {schemas.Settled{Outcome: schemas.OutcomeUnknown, Code: schemas.OutcomeUnknownCode}, ""},
		"denied":             {schemas.Settled{Outcome: schemas.OutcomeDenied, Code: schemas.DenyKilled, Message: "stopped by a person"}, ""},
		"canceled_no_result": {schemas.Settled{Outcome: schemas.OutcomeCanceled}, `{"operation":"","request_id":""}`},
	} {
		status, body, err := rules.Render(request, &e.settled, json.RawMessage(e.doc))
		require.NoError(t, err, name)
		var answer schemas.AgentResponse
		require.NoError(t, json.Unmarshal(body, &answer), name)
		got := fmt.Appendf(nil, "%d %s\n%s\n", status, http.StatusText(status), body)
		fixture.Golden(t, name, got)
		if e.doc != "" && answer.RequestID != request.RequestID {
			require.Equal(t, string(body), string(rules.Result(&e.settled, json.RawMessage(e.doc))), name)
		}
	}
}

func TestADocumentThatIsNoneIsAnError(t *testing.T) {
	t.Parallel()
	end := &schemas.Settled{Outcome: schemas.OutcomeSucceeded}
	_, _, err := rules.Render(request, end, json.RawMessage(`[]`))
	require.Error(t, err)
	require.Nil(t, rules.Result(end, json.RawMessage(`[]`)))
}

// snapshot is a set of n rules, every second one in the group "even".
func snapshot(n int) snapshots.Snapshot {
	s := snapshots.Snapshot{Etag: "etag-7-0123456789abcdef", Doc: schemas.RuleSet{GlobalActive: true}}
	for i := range n {
		group := "odd"
		if i%2 == 0 {
			group = "even"
		}
		s.Doc.Rules = append(s.Doc.Rules, rule("r"+strconv.Itoa(i), group))
	}
	return s
}

func code(t *testing.T, err error) schemas.Code {
	t.Helper()
	public, ok := errors.AsType[*fault.Error](err)
	require.True(t, ok, "%v", err)
	return public.Code
}

func TestPages(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]struct {
		ids  []string
		next string
	}{
		"":                             {[]string{"r0", "r1", "r2", "r3", "r4"}, ""},
		"limit=5":                      {[]string{"r0", "r1", "r2", "r3", "r4"}, ""},
		"limit=2":                      {[]string{"r0", "r1"}, "r1"},
		"limit=2&cursor=r1":            {[]string{"r2", "r3"}, "r3"},
		"limit=2&cursor=r3":            {[]string{"r4"}, ""},
		"cursor=r4":                    {[]string{}, ""},
		"group=even&limit=2":           {[]string{"r0", "r2"}, "r2"},
		"group=even&limit=2&cursor=r2": {[]string{"r4"}, ""},
		"group=none":                   {[]string{}, ""},
	} {
		q, err := url.ParseQuery(query)
		require.NoError(t, err)
		page, err := rules.Page(q, snapshot(5))
		require.NoError(t, err, query)
		ids := []string{}
		for _, r := range page.Items {
			ids = append(ids, r.ID)
		}
		require.Equal(t, want.ids, ids, query)
		require.Equal(t, want.next, page.Next, query)
		require.True(t, page.GlobalActive)
		require.Equal(t, "etag-7-0123456789abcdef", page.RulesEtag)
	}
	page, err := rules.Page(url.Values{}, snapshot(101))
	require.NoError(t, err)
	require.Len(t, page.Items, 100)
	require.Equal(t, "r99", page.Next)
	for _, query := range []string{"limit=0", "limit=1001", "limit=a", "limit=1&limit=1", "cursor=", "cursor=r9", "cursor=r1&cursor=r1", "group=a&group=a"} {
		q, err := url.ParseQuery(query)
		require.NoError(t, err)
		_, err = rules.Page(q, snapshot(5))
		require.Equal(t, schemas.InvalidRequest, code(t, err), query)
	}
}

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// blobs are documents by their names.
type blobs map[string]string

func (b blobs) Blob(_ context.Context, _ json.RawMessage, name string) (json.RawMessage, error) {
	if name == "down" {
		return nil, fault.ErrUnavailable
	}
	doc, ok := b[name]
	if !ok {
		return nil, fault.ErrNotFound
	}
	return json.RawMessage(doc), nil
}

func jsonAnswer(status int, body string, headers ...schemas.Header) *schemas.Answer {
	return &schemas.Answer{Status: status, Headers: headers, Body: json.RawMessage(body), JSON: true, Hash: "h"}
}

// textAnswer is an answer as it is kept that came as raw bytes.
func textAnswer(raw string, headers ...schemas.Header) *schemas.Answer {
	sum := sha256.Sum256([]byte(raw))
	body, err := json.Marshal(strings.ToValidUTF8(raw, "\uFFFD"))
	if err != nil {
		panic(err)
	}
	return &schemas.Answer{Status: 200, Headers: headers, Body: body, Hash: hex.EncodeToString(sum[:])}
}

// try is the first attempt of a step, with what came of it.
func try(step int, method, url string, res schemas.Attempted) ledger.Attempt {
	res.Step, res.Number = step, 1
	return ledger.Attempt{Attempt: schemas.Attempt{Step: step, Number: 1, Method: method, URL: url}, Result: &res}
}

func answered(step int, method, url string, a *schemas.Answer) ledger.Attempt {
	return try(step, method, url, schemas.Attempted{Sent: true, Status: a.Status, Answer: a})
}

func hop(t ledger.Attempt, n int) ledger.Attempt {
	t.Hop, t.Result.Hop = n, n
	return t
}

func state(kind schemas.Kind, tries ...ledger.Attempt) *ledger.State {
	return &ledger.State{
		Ref: schemas.Ref{Tenant: "acme", Kind: kind, ID: "act-1"}, Action: schemas.Action{Kind: kind}, Attempts: tries,
		Settled: &schemas.Settled{Outcome: schemas.OutcomeSucceeded},
	}
}

func record(t *testing.T, st *ledger.State, req schemas.RecordRequest) schemas.Recording {
	t.Helper()
	out, err := rules.Record(t.Context(), st, blobs{"b": `{"status":201,"body":{"from":"the blob"},"json":true}`, "odd": `[]`}, req, now)
	require.NoError(t, err)
	require.NotNil(t, out.Rules)
	require.NotNil(t, out.Skipped)
	for _, r := range out.Rules {
		raw, err := ledger.Encode(r)
		require.NoError(t, err)
		again, err := traffic.Read(raw, now)
		require.NoError(t, err, "what is recorded can be created")
		require.Equal(t, r, again)
	}
	return out
}

func TestRecordACall(t *testing.T) {
	t.Parallel()
	st := state(
		schemas.KindHTTP,
		try(0, "POST", "https://API.example.com/orders?a=1#part", schemas.Attempted{Sent: true, Status: 503, Answer: jsonAnswer(503, `{}`)}),
		answered(0, "POST", "https://API.example.com/orders?a=1#part", jsonAnswer(201, `{"n":1.50,"big":9007199254740993}`,
			schemas.Header{Name: "connection", Value: "close"},
			schemas.Header{Name: "content-encoding", Value: "gzip"},
			schemas.Header{Name: "content-length", Value: "5"},
			schemas.Header{Name: "content-type", Value: "application/problem+json"},
			schemas.Header{Name: "date", Value: "Sat, 21 Nov 2026 12:00:00 GMT"},
			schemas.Header{Name: "etag", Value: `"x"`},
			schemas.Header{Name: "location", Value: "/orders/1"},
			schemas.Header{Name: "set-cookie", Value: "REDACTED"},
			schemas.Header{Name: "transfer-encoding", Value: "chunked"},
			schemas.Header{Name: "vary", Value: "accept"},
			schemas.Header{Name: "vary", Value: "origin"},
			schemas.Header{Name: "x-binary", Value: "<binary>"},
			schemas.Header{Name: "x-secret", Value: "REDACTED"},
		)),
	)
	st.Attempts[1].Number, st.Attempts[1].Result.Number = 2, 2
	expires := now.Add(time.Hour)
	out := record(t, st, schemas.RecordRequest{ActionID: "act-1", Group: "rehearsal", Scope: &schemas.RuleScope{RequestID: "again-1"}, ExpiresAt: expires})
	sum := sha256.Sum256([]byte("act-1"))
	require.Equal(t, []schemas.Rule{{
		ID: "rec-" + hex.EncodeToString(sum[:])[:8] + "-0", Name: "step 0 of act-1", Group: "rehearsal", Type: schemas.RuleMock, Enabled: true,
		Match: schemas.RuleMatch{URLPattern: "https://API.example.com/orders?a=1", Method: "POST", IncludeQuery: true},
		Action: schemas.RuleAction{
			Status: 201, BodyMode: "json", Body: json.RawMessage(`{"n":1.50,"big":9007199254740993}`),
			Headers: map[string]string{"content-type": "application/problem+json", "etag": `"x"`, "location": "/orders/1", "vary": "accept, origin"},
		},
		Scope: &schemas.RuleScope{RequestID: "again-1"}, ExpiresAt: expires,
	}}, out.Rules)
	require.Empty(t, out.Skipped)
}

// TestARecordedCallIsAnsweredAgain by the rules that were made of it.
func TestARecordedCallIsAnsweredAgain(t *testing.T) {
	t.Parallel()
	st := state(
		schemas.KindPlan,
		answered(0, "GET", "http://localhost:9000", jsonAnswer(200, `{"step":0}`)),
		answered(1, "GET", "http://localhost:9000/a?q=1&r=%2A", jsonAnswer(404, `{"step":1}`)),
		answered(2, "GET", "http://localhost:9000/a", textAnswer("<p>2</p>", schemas.Header{Name: "content-type", Value: "text/html"})),
		answered(3, "DELETE", "http://[::1]:9000/a", &schemas.Answer{Status: 204, Body: json.RawMessage(`null`)}),
		answered(4, "GET", "http://localhost:9000/raw", textAnswer("plain")),
		answered(5, "GET", "http://localhost:9000/string", jsonAnswer(200, `"12"`)),
	)
	out := record(t, st, schemas.RecordRequest{})
	require.Empty(t, out.Skipped)
	set, err := traffic.Compile(schemas.RuleSet{V: schemas.RuleSetVersion, Tenant: "acme", GlobalActive: true, Rules: out.Rules}, "etag-1-x")
	require.NoError(t, err)
	for i, want := range []traffic.Answer{
		{Status: 200, Headers: []schemas.Header{{Name: "content-type", Value: "application/json"}}, Body: []byte(`{"step":0}`)},
		{Status: 404, Headers: []schemas.Header{{Name: "content-type", Value: "application/json"}}, Body: []byte(`{"step":1}`)},
		{Status: 200, Headers: []schemas.Header{{Name: "content-type", Value: "text/html"}}, Body: []byte("<p>2</p>")},
		{Status: 204},
		{Status: 200, Body: []byte("plain")},
		{Status: 200, Headers: []schemas.Header{{Name: "content-type", Value: "application/json"}}, Body: []byte(`"12"`)},
	} {
		e := set.Shape(traffic.Call{Method: st.Attempts[i].Method, URL: st.Attempts[i].URL, Facts: traffic.Facts{Kind: schemas.KindPlan}}, now)
		require.Equal(t, out.Rules[i].ID, e.Mock)
		require.Equal(t, want.Status, e.Answer.Status)
		require.Equal(t, want.Headers, e.Answer.Headers)
		require.Equal(t, string(want.Body), string(e.Answer.Body))
	}
}

// TestRedirectsAreRecordedAtTheirBeginning, whatever they were led to.
func TestRedirectsAreRecordedAtTheirBeginning(t *testing.T) {
	t.Parallel()
	moved := answered(0, "GET", "http://h/a", jsonAnswer(302, `null`, schemas.Header{Name: "location", Value: "/b"}))
	end := hop(answered(0, "GET", "http://h/b", jsonAnswer(200, `{"end":true}`)), 1)
	out := record(t, state(schemas.KindHTTP, moved, end), schemas.RecordRequest{})
	require.Len(t, out.Rules, 1)
	require.Equal(t, "http://h/a", out.Rules[0].Match.URLPattern)
	require.Equal(t, 200, out.Rules[0].Action.Status)
	require.Equal(t, schemas.DefaultGroup, out.Rules[0].Group)
}

func TestWhatIsSkipped(t *testing.T) {
	t.Parallel()
	huge := `"` + strings.Repeat("x", schemas.MaxMockBody) + `"`
	for name, tc := range map[string]struct {
		try    ledger.Attempt
		reason string
	}{
		"a failure":      {try(0, "GET", "http://h/", schemas.Attempted{Code: schemas.UpstreamReset, Sent: true}), "no answer came"},
		"half an answer": {try(0, "GET", "http://h/", schemas.Attempted{Code: schemas.UpstreamTruncated, Sent: true, Answer: jsonAnswer(200, `{}`)}), "no answer came"},
		"an older log":   {answered(0, "", "", jsonAnswer(200, `{}`)), "does not say where"},
		"a lost blob":    {try(0, "GET", "http://h/", schemas.Attempted{Sent: true, AnswerBlob: "lost"}), "not kept any more"},
		"too large":      {answered(0, "GET", "http://h/", jsonAnswer(200, huge)), "larger than"},
		"no text":        {answered(0, "GET", "http://h/", textAnswer("\x89PNG\xff")), "no text"},
		"no form":        {answered(0, "GET", "http://h/", &schemas.Answer{Status: 200, Body: json.RawMessage(`{}`)}), "not kept in a form"},
		"no status":      {answered(0, "GET", "http://h/", jsonAnswer(101, `{}`)), "at /action/status"},
		"an odd URL":     {answered(0, "GET", "ftp://h/", jsonAnswer(200, `{}`)), "at /match/url_pattern"},
		"a wildcard":     {answered(0, "GET", "http://h/files/*", jsonAnswer(200, `{}`)), "has a *"},
	} {
		out := record(t, state(schemas.KindHTTP, tc.try), schemas.RecordRequest{})
		require.Empty(t, out.Rules, name)
		require.Len(t, out.Skipped, 1, name)
		require.Contains(t, out.Skipped[0].Reason, tc.reason, name)
	}
	replaced := "a text with a \uFFFD of its own"
	require.Len(t, record(t, state(schemas.KindHTTP, answered(0, "GET", "http://h/", textAnswer(replaced))), schemas.RecordRequest{}).Rules, 1)

	out := record(t, state(
		schemas.KindPlan,
		answered(3, "GET", "http://h/", jsonAnswer(200, `{"first":true}`)),
		answered(7, "GET", "http://h/#x", jsonAnswer(200, `{"second":true}`)),
		answered(8, "POST", "http://h/", jsonAnswer(200, `{}`)),
	), schemas.RecordRequest{})
	require.Len(t, out.Rules, 2)
	require.Contains(t, string(out.Rules[0].Action.Body), "first")
	require.Len(t, out.Skipped, 1)
	require.Equal(t, 7, out.Skipped[0].Step)
	require.Contains(t, out.Skipped[0].Reason, "step 3")
	require.Equal(t, out.Rules[0].ID, out.Skipped[0].Rule, "the rule that answers it all the same")

	require.Empty(t, record(t, state(schemas.KindRule), schemas.RecordRequest{}).Skipped)
}

func TestAnswersThatLieAside(t *testing.T) {
	t.Parallel()
	aside := func(name string) *ledger.State {
		return state(schemas.KindHTTP, try(0, "GET", "http://h/", schemas.Attempted{Sent: true, AnswerBlob: name}))
	}
	out := record(t, aside("b"), schemas.RecordRequest{})
	require.JSONEq(t, `{"from":"the blob"}`, string(out.Rules[0].Action.Body))
	_, err := rules.Record(t.Context(), aside("down"), blobs{}, schemas.RecordRequest{}, now)
	require.ErrorIs(t, err, fault.ErrUnavailable)
	_, err = rules.Record(t.Context(), aside("odd"), blobs{"odd": `[]`}, schemas.RecordRequest{}, now)
	require.Error(t, err)
}

// TestAnAgentIsRecordedInTheWordsOfTheContract: of its answer only what it says is
// kept, and the next run has another id.
func TestAnAgentIsRecordedInTheWordsOfTheContract(t *testing.T) {
	t.Parallel()
	agent := func(status int, doc string) schemas.Recording {
		st := state(schemas.KindRun, answered(0, "POST", "http://agent:9000/agents/run/stream", jsonAnswer(status, doc)))
		st.Action.TaskType = "LIT_RETRIEVAL"
		return record(t, st, schemas.RecordRequest{})
	}
	out := agent(200, `{"outputs":{"n":1.50},"warnings":["w"],"usage":{"duration_ms":7}}`)
	require.Contains(t, string(out.Rules[0].Action.Body), "1.50")
	require.JSONEq(t, `{"status":"ok","outputs":{"n":1.50},"usage":{"duration_ms":7},"warnings":["w"]}`, string(out.Rules[0].Action.Body))
	require.Equal(t, "json", out.Rules[0].Action.BodyMode)
	out = agent(500, `{"error":{"code":"OWN","message":"m"}}`)
	require.JSONEq(t, `{"status":"error","outputs":{},"error":{"code":"OWN","message":"m"}}`, string(out.Rules[0].Action.Body))
	require.Equal(t, 500, out.Rules[0].Action.Status)
	require.Contains(t, agent(200, `[]`).Skipped[0].Reason, "not kept in a form")

	st := state(schemas.KindRun, answered(0, "GET", "http://h/", jsonAnswer(200, `{"outputs":1}`)))
	st.Action.TaskType = schemas.TaskHTTPExecute
	require.Equal(t, `{"outputs":1}`, string(record(t, st, schemas.RecordRequest{}).Rules[0].Action.Body))
}

func TestManyHeaders(t *testing.T) {
	t.Parallel()
	var all []schemas.Header
	for i := range 40 {
		all = append(all, schemas.Header{Name: fmt.Sprintf("a-%02d", i), Value: "v"})
	}
	all = append(all, schemas.Header{Name: "content-type", Value: "application/json"}, schemas.Header{Name: "Z", Value: "v"})
	got := record(t, state(schemas.KindHTTP, answered(0, "GET", "http://h/", jsonAnswer(200, `{}`, all...))), schemas.RecordRequest{}).Rules[0].Action.Headers
	require.Len(t, got, schemas.MaxRuleHeaders)
	require.Contains(t, got, "content-type")
	require.Contains(t, got, "a-30")
	require.NotContains(t, got, "a-31")
	require.NotContains(t, got, "z")
}

// TestRecordARun: a rule for a call to an agent answers wherever the agent is, and
// does not say where that was, though an older log does.
func TestRecordARun(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"as it is kept": "/agents/run/stream", "by an older version": "http://10.0.0.7:9000/base/agents/run/stream"} {
		run := answered(0, "POST", url, jsonAnswer(200, `{"request_id":"r","status":"ok"}`))
		run.Decision.Entry = schemas.AgentEntry("billing")
		scope := &schemas.RuleScope{RequestID: "again"}
		out := record(t, state(schemas.KindRun, run), schemas.RecordRequest{Scope: &schemas.RuleScope{Agent: "another"}})
		require.Contains(t, out.Skipped[0].Reason, "names another", name)
		out = record(t, state(schemas.KindRun, run), schemas.RecordRequest{Scope: scope})
		require.Empty(t, out.Skipped, name)
		require.Len(t, out.Rules, 1, name)
		r := out.Rules[0]
		require.Equal(t, schemas.RuleMatch{URLPattern: "*://*:*/*agents/run/stream", Method: "POST"}, r.Match, name)
		require.Equal(t, &schemas.RuleScope{RequestID: "again", Agent: "billing"}, r.Scope, name)
		require.Empty(t, scope.Agent, "the request is not changed")
		set, err := traffic.Compile(schemas.RuleSet{GlobalActive: true, Rules: out.Rules}, "e")
		require.NoError(t, err)
		for _, at := range []string{"http://10.0.0.7:9000/base/agents/run/stream", "https://agent.example/agents/run/stream"} {
			call := traffic.Call{Method: "POST", URL: at, Facts: traffic.Facts{Kind: schemas.KindRun, TaskType: "billing", ActionID: "again"}}
			require.Equal(t, r.ID, set.Shape(call, now).Mock, at)
			call.Facts.TaskType = "other"
			require.Empty(t, set.Shape(call, now).Mock, at)
		}
	}
}
