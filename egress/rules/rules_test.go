package rules_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/egress/rules"
	"weir/internal/fault"
	snapshots "weir/internal/rules"
	"weir/internal/weirtest/fixture"
	"weir/schemas"
)

var asked = rules.Asked{RequestID: "req <1> \u00fc", Operation: schemas.OpRulesCreate}

func rule(id, group string) schemas.Rule {
	ms := int64(1200)
	return schemas.Rule{
		ID: id, Name: "Delay <checkout> & more", Group: group, Type: schemas.RuleDelay, Enabled: true, Priority: 100,
		Match:  schemas.RuleMatch{URLPattern: "https://api.example.com/checkout/*", Method: "POST", ResourceType: "xmlhttprequest", IncludeQuery: true},
		Action: schemas.RuleAction{DelayMS: &ms},
	}
}

func result(e *schemas.AgentError) string {
	res := schemas.RuleResult{Operation: asked.Operation, RequestID: asked.RequestID, RulesEtag: "etag-7-0123456789abcdef", Error: e}
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
		status, body, err := rules.Render(asked, &e.settled, json.RawMessage(e.doc))
		require.NoError(t, err, name)
		var answer schemas.AgentResponse
		require.NoError(t, json.Unmarshal(body, &answer), name)
		require.NotEmpty(t, answer.RequestID, name)
		require.NotEmpty(t, answer.Operation, name)
		require.Equal(t, status == http.StatusOK, answer.OK, name)
		require.Equal(t, answer.OK, answer.Error == nil, name)
		require.Equal(t, answer.OK, answer.Data != nil, name)
		got := fmt.Appendf(nil, "%d %s\n%s\n", status, http.StatusText(status), body)
		fixture.Golden(t, name, got)
		if e.doc != "" && answer.RequestID != asked.RequestID {
			require.Equal(t, string(body), string(rules.Result(&e.settled, json.RawMessage(e.doc))), name)
		}
	}
}

func TestADocumentThatIsNoneIsAnError(t *testing.T) {
	t.Parallel()
	end := &schemas.Settled{Outcome: schemas.OutcomeSucceeded}
	_, _, err := rules.Render(asked, end, json.RawMessage(`[]`))
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

func TestRead(t *testing.T) {
	t.Parallel()
	read := func(s snapshots.Snapshot, operation, args string) (string, error) {
		data, err := rules.Read(schemas.AgentRequest{Operation: operation, Args: json.RawMessage(args)}, func() (snapshots.Snapshot, error) { return s, nil })
		return string(data), err
	}
	text := func(data string, err error) string {
		require.NoError(t, err)
		return data
	}
	require.Equal(t, `{"pong":true}`, text(read(snapshot(0), schemas.OpPing, "")))
	require.JSONEq(t, `{"global_active":true,"rule_count":3,"rules_etag":"etag-7-0123456789abcdef"}`, text(read(snapshot(3), schemas.OpStatus, `{}`)))
	require.JSONEq(t, `{"rules":[],"rules_etag":"etag-7-0123456789abcdef"}`, text(read(snapshot(0), schemas.OpRulesList, "")))
	for args, want := range map[string][]string{
		`{}`: {"r0", "r1", "r2", "r3"}, `{"group":null}`: {"r0", "r1", "r2", "r3"}, `{"group":""}`: {"r0", "r1", "r2", "r3"},
		`{"group":"even"}`: {"r0", "r2"}, `{"group":"EVEN"}`: {}, `{"group":"none"}`: {},
	} {
		var list struct {
			Rules []schemas.Rule `json:"rules"`
		}
		require.NoError(t, json.Unmarshal([]byte(text(read(snapshot(4), schemas.OpRulesList, args))), &list))
		ids := []string{}
		for _, r := range list.Rules {
			ids = append(ids, r.ID)
		}
		require.Equal(t, want, ids, args)
	}
	got := text(read(snapshot(3), schemas.OpRulesGet, `{"id":"r1"}`))
	require.Contains(t, got, `{"rule":{"id":"r1","name":"Delay <checkout> & more","group":"odd",`)
	require.Contains(t, got, `"rules_etag":"etag-7-0123456789abcdef"`)
	_, err := read(snapshot(3), schemas.OpRulesGet, `{"id":"r9"}`)
	require.Equal(t, schemas.NotFound, code(t, err))
	for _, op := range append(schemas.AgentWrites(), "", "rules.delete") {
		_, err := read(snapshot(3), op, `{}`)
		require.Error(t, err, op)
	}
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
