package rules_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress/rules"
	"weir/ingress/strict"
	"weir/internal/problem"
	"weir/internal/traffic"
	"weir/schemas"
)

func code(t *testing.T, err error) schemas.Code {
	t.Helper()
	require.Error(t, err)
	return problem.Of(err).Code
}

func TestBothFormsOfARequest(t *testing.T) {
	t.Parallel()
	want := schemas.AgentRequest{RequestID: "r 1 \u00fc\u2603", Operation: "rules.list", AuthToken: "t", Args: json.RawMessage(`{"group":"g"}`)}
	const bare = `{"request_id":"r 1 ü☃","operation":"rules.list","auth_token":"t","args":{"group":"g"},"more":{"a":1}}`
	for _, body := range []string{
		bare, `{"type":"AGENT_API_REQUEST","request":` + bare + `}`, `{"request":` + bare + `,"namespace":"x"}`,
	} {
		got, err := rules.Read([]byte(body))
		require.NoError(t, err, body)
		require.Equal(t, want, got, body)
	}
	for _, body := range []string{`{"type":null,"request":{"request_id":"r","operation":"ping"}}`, `{"type":null,"request_id":"r","operation":"ping"}`} {
		got, err := rules.Read([]byte(body))
		require.NoError(t, err, body)
		require.Equal(t, "r", got.RequestID, body)
	}
	for _, args := range []string{"", `,"args":null`, `,"args":{}`} {
		got, err := rules.Read([]byte(`{"request_id":"r","operation":"ping","auth_token":null` + args + `}`))
		require.NoError(t, err, args)
		require.Equal(t, schemas.AgentRequest{RequestID: "r", Operation: "ping", Args: json.RawMessage(`{}`)}, got)
	}
}

func request(operation, args string) schemas.AgentRequest {
	return schemas.AgentRequest{RequestID: "r", Operation: operation, Args: json.RawMessage(args)}
}

func TestOrders(t *testing.T) {
	t.Parallel()
	order := func(o schemas.RuleOrder) schemas.RuleOrder {
		o.RequestID, o.Caller, o.IfMatch = "r", "id-1", "etag-1-x"
		return o
	}
	for _, tc := range []struct {
		operation, args string
		want            schemas.RuleOrder
	}{
		{
			schemas.OpRulesCreate, `{"group":"g","create_group_if_missing":true,"rule":{"id":"a","n":1.50},"if_match":"etag-1-x","id":7,"patch":[]}`,
			order(schemas.RuleOrder{Group: "g", CreateGroup: true, Rule: json.RawMessage(`{"id":"a","n":1.50}`)}),
		},
		{schemas.OpRulesCreate, `{"rule":"x","if_match":"etag-1-x"}`, order(schemas.RuleOrder{Rule: json.RawMessage(`"x"`)})},
		{schemas.OpRulesCreate, `{"group":null,"create_group_if_missing":null,"rule":[],"if_match":"etag-1-x"}`, order(schemas.RuleOrder{Rule: json.RawMessage(`[]`)})},
		{schemas.OpRulesPatch, `{"id":"a b","patch":{},"if_match":"etag-1-x","rule":1}`, order(schemas.RuleOrder{ID: "a b", Patch: json.RawMessage(`{}`)})},
		{schemas.OpRulesEnable, `{"id":"a","if_match":"etag-1-x","more":true}`, order(schemas.RuleOrder{ID: "a"})},
		{schemas.OpRulesDisable, `{"id":"a","if_match":"etag-1-x"}`, order(schemas.RuleOrder{ID: "a"})},
		{schemas.OpGlobalOn, `{"if_match":"etag-1-x","id":[]}`, order(schemas.RuleOrder{})},
		{schemas.OpGlobalOff, `{"if_match":"etag-1-x"}`, order(schemas.RuleOrder{})},
	} {
		got, err := rules.Order(request(tc.operation, tc.args), "id-1")
		require.NoError(t, err, tc.args)
		tc.want.Operation = tc.operation
		require.Equal(t, tc.want, got, tc.args)
	}
	for _, tag := range []string{`W/\"1\"`, `\"1\", \"2\"`, "etag-1-x, etag-2-y", " "} {
		got, err := rules.Order(request(schemas.OpGlobalOff, `{"if_match":"`+tag+`"}`), "open")
		require.NoError(t, err, "what an etag is, is not for the door to say")
		require.Equal(t, strings.ReplaceAll(tag, `\`, ""), strings.ReplaceAll(got.IfMatch, `\`, ""))
	}
}

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const delay = `{"id":"d","type":"delay","enabled":false,"match":{"url_pattern":"http://h/*"},"action":{"delay_ms":5}}`

func TestReadPreview(t *testing.T) {
	t.Parallel()
	req, rule, err := rules.ReadPreview([]byte(`{"method":"POST","url":"http://h/a","headers":{"a":"b"},"body":{"n":1.50},"allowlist_key":"k","scope":{"action_kind":"run","agent":"A","task_id":"t","request_id":"r"},"rule":`+delay+`}`), now)
	require.NoError(t, err)
	require.Equal(t, schemas.ExplainRequest{Method: "POST", URL: "http://h/a", Headers: map[string]string{"a": "b"}, Body: json.RawMessage(`{"n":1.50}`), AllowlistKey: "k"}, req.ExplainRequest)
	require.Equal(t, "d", rule.ID)
	require.True(t, rule.Enabled, "as if it were enabled")
	require.Equal(t, traffic.Facts{Kind: schemas.KindRun, TaskType: "A", Principal: "A", ActionID: "r"}, rules.Facts(req.Scope, "me"))
	require.Equal(t, traffic.Facts{Kind: schemas.KindHTTP, Principal: "me"}, rules.Facts(nil, "me"))
	require.Equal(t, traffic.Facts{Kind: schemas.KindHTTP, Principal: "A"}, rules.Facts(&schemas.RuleScope{Agent: "A"}, "me"))
	for scope, want := range map[schemas.RuleScope]traffic.Facts{
		{TaskID: "t"}: {Kind: schemas.KindPush, TaskID: "t", Principal: "me"},
		{TaskID: "t", ActionKind: schemas.KindPush}: {Kind: schemas.KindPush, TaskID: "t", Principal: "me"},
		{TaskID: "t", ActionKind: schemas.KindTask}: {Kind: schemas.KindTask, TaskID: "t", Principal: "me"},
		{TaskID: "t", ActionKind: schemas.KindHTTP}: {Kind: schemas.KindHTTP, Principal: "me"},
		{TaskID: "t", ActionKind: schemas.KindRepo}: {Kind: schemas.KindRepo, Principal: "me"},
		{Agent: "A", ActionKind: schemas.KindPush}:  {Kind: schemas.KindPush, Principal: "A"},
	} {
		require.Equal(t, want, rules.Facts(&scope, "me"), "a task's calls are its own")
	}

	_, rule, err = rules.ReadPreview([]byte(`{"url":"http://h/","scope":null,"rule":null}`), now)
	require.NoError(t, err)
	require.Nil(t, rule)
	for body, want := range map[string]string{
		`{}`:                        "at /url: ",
		`{"url":7}`:                 "at /url: ",
		`{"url":"http://h/","a":1}`: "at /a: ",
		`{"url":"http://h/","scope":{"action_kind":"x"}}`: "at /scope/action_kind: ",
		`{"url":"http://h/","scope":{"kind":"run"}}`:      "at /scope/kind: ",
		`{"url":"http://h/","rule":[]}`:                   "at /rule: ",
		`{"url":"http://h/","rule":{"id":"d"}}`:           "at /rule/",
	} {
		_, _, err := rules.ReadPreview([]byte(body), now)
		require.Equal(t, schemas.ValidationError, code(t, err), body)
		require.Contains(t, err.Error(), want, body)
	}
}

func TestReadRecord(t *testing.T) {
	t.Parallel()
	req, err := rules.ReadRecord([]byte(`{"action_id":"a","group":"g","scope":{"request_id":"r"},"expires_at":"2026-11-21T13:00:00Z"}`), now)
	require.NoError(t, err)
	require.Equal(t, schemas.RecordRequest{ActionID: "a", Group: "g", Scope: &schemas.RuleScope{RequestID: "r"}, ExpiresAt: now.Add(time.Hour)}, req)
	req, err = rules.ReadRecord([]byte(`{"action_id":"a","group":null,"scope":null,"expires_at":null}`), now)
	require.NoError(t, err)
	require.Equal(t, schemas.RecordRequest{ActionID: "a"}, req)
	for body, want := range map[string]string{
		`{}`:                                    "at /action_id: ",
		`{"action_id":7}`:                       "at /action_id: ",
		`{"action_id":"a","group":"a b"}`:       "at /group: ",
		`{"action_id":"a","expires_at":"soon"}`: "at /expires_at: ",
		`{"action_id":"a","expires_at":7}`:      "at /expires_at: ",
		`{"action_id":"a","expires_at":"2026-11-21T11:00:00Z"}`:     "at /expires_at: ",
		`{"action_id":"a","scope":{"action_kind":"x"}}`:             "at /scope/action_kind: ",
		`{"action_id":"a","scope":{"request_id":"no such\nthing"}}`: "at /scope/request_id: ",
		`{"action_id":"a","more":1}`:                                "at /more: ",
	} {
		_, err := rules.ReadRecord([]byte(body), now)
		require.Equal(t, schemas.ValidationError, code(t, err), body)
		require.Contains(t, err.Error(), want, body)
	}
}

// FuzzRead: whatever the body, the answer can repeat what was read of it, an order
// that is made can be stored, and no error tells what the body held.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		`{"request_id":"r","operation":"rules.create","args":{"rule":{},"if_match":"e"}}`,
		`{"type":"AGENT_API_REQUEST","request":{"request_id":"r","operation":"global.off","args":{"if_match":"e"}}}`,
		`{"request":{"request_id":"\u0000","operation":"x"}}`, `{"request":7}`, `[]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if strict.Check(body, strict.Limits{}) != nil {
			return
		}
		req, err := rules.Read(body)
		require.LessOrEqual(t, len(req.RequestID), 256)
		require.LessOrEqual(t, len(req.Operation), 256)
		if err != nil {
			require.Equal(t, schemas.InvalidRequest, code(t, err))
			return
		}
		require.NotEmpty(t, req.RequestID)
		require.NotEmpty(t, req.Operation)
		if rules.Reads(req.Operation) || rules.Known(req.Operation) != nil {
			return
		}
		order, err := rules.Order(req, "open")
		if err != nil {
			require.Equal(t, schemas.InvalidRequest, code(t, err))
			return
		}
		require.NotEmpty(t, order.IfMatch)
		doc, err := json.Marshal(order)
		require.NoError(t, err)
		_, err = strict.Fingerprint(doc)
		require.NoError(t, err)
	})
}
