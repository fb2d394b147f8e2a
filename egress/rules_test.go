package egress_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/problem"
	"weir/internal/rules"
	"weir/schemas"
)

type shelf struct{}

func (shelf) Newest(_ context.Context, tenant string) (rules.Snapshot, error) {
	switch tenant {
	case "down":
		return rules.Snapshot{}, fault.ErrUnavailable
	case "odd":
		return rules.Snapshot{}, errors.New("dial 10.0.0.1: odd")
	case "torn":
		return rules.Snapshot{}, fmt.Errorf("%w: version 10.0.0.1", rules.ErrUnreadable)
	case "acme":
		s := rules.Snapshot{Etag: "etag-3-00000000000000aa", Revision: 3, Doc: schemas.RuleSet{GlobalActive: true}}
		for _, id := range []string{"a", "b", "c"} {
			s.Doc.Rules = append(s.Doc.Rules, schemas.Rule{ID: id, Group: "g-" + id, Type: schemas.RuleDelay})
		}
		return s, nil
	default:
		return rules.Snapshot{Etag: "etag-0-00000000000000bb", Doc: schemas.RuleSet{GlobalActive: true}}, nil
	}
}

func shelved(c *config) { c.Rules = shelf{} }

func TestTheListOfTheRules(t *testing.T) {
	t.Parallel()
	h := build(t, shelved)
	for _, tc := range []struct {
		tenant, query string
		status        int
		want          string
	}{
		{"acme", "?limit=1", 200, `{"items":[{"id":"a","group":"g-a","type":"delay","enabled":false,"priority":0,"match":{"url_pattern":"","method":"","include_query":false},"action":{}}],"next":"a","global_active":true,"rules_etag":"etag-3-00000000000000aa"}`},
		{"acme", "?group=none", 200, `{"items":[],"global_active":true,"rules_etag":"etag-3-00000000000000aa"}`},
		{"acme", "?cursor=z", 400, ""},
		{"down", "", 503, ""},
		{"odd", "", 500, ""},
		{"torn", "", 500, ""},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			w := h.ask(method, "/v1/rules"+tc.query, tc.tenant)
			require.Equal(t, tc.status, w.Code, tc)
			require.NotContains(t, w.Body.String(), "10.0.0.1")
			if tc.want != "" {
				require.Equal(t, tc.want, w.Body.String())
				require.Regexp(t, `^"etag-[0-9]+-[0-9a-f]{16}"$`, w.Header().Get("ETag"))
			} else {
				require.Equal(t, problem.MediaType, w.Header().Get("Content-Type"))
				require.Empty(t, w.Header().Get("ETag"))
			}
			if tc.tenant == "torn" && method == http.MethodGet {
				require.Contains(t, decode[schemas.Problem](t, w.Body).Detail, "`weir rules reset`", "what to do")
			}
		}
	}
	require.Equal(t, http.StatusNotFound, build(t).get("/v1/rules").Code, "a node without rules")
}

// asking is a request of the agent API as ingress hands it on.
func asking(ctx context.Context, id, operation string) *http.Request {
	return httptest.NewRequestWithContext(problem.WithAgent(ctx, id, operation), http.MethodPost, schemas.RouteAgentAPI, http.NoBody)
}

func TestReadsOfTheAgentAPI(t *testing.T) {
	t.Parallel()
	const delayed = `{"id":"b","group":"g-b","type":"delay","enabled":false,"priority":0,"match":{"url_pattern":"","method":"","include_query":false},"action":{}}`
	for _, tc := range []struct {
		tenant, operation, args string
		status                  int
		want                    string
	}{
		{"acme", schemas.OpPing, `{}`, 200, `{"ok":true,"request_id":"r <1>","operation":"ping","data":{"pong":true}}`},
		{"acme", schemas.OpStatus, `{}`, 200, `{"ok":true,"request_id":"r <1>","operation":"status","data":{"global_active":true,"rule_count":3,"rules_etag":"etag-3-00000000000000aa"}}`},
		{"acme", schemas.OpRulesList, `{"group":"g-b"}`, 200, `{"ok":true,"request_id":"r <1>","operation":"rules.list","data":{"rules":[` + delayed + `],"rules_etag":"etag-3-00000000000000aa"}}`},
		{"acme", schemas.OpRulesGet, `{"id":"b"}`, 200, `{"ok":true,"request_id":"r <1>","operation":"rules.get","data":{"rule":` + delayed + `,"rules_etag":"etag-3-00000000000000aa"}}`},
		{"acme", schemas.OpRulesGet, `{"id":"z"}`, 404, `{"ok":false,"request_id":"r <1>","operation":"rules.get","error":{"code":"NOT_FOUND","message":"there is no rule with this id"}}` + "\n"},
		{"down", schemas.OpStatus, `{}`, 503, `{"ok":false,"request_id":"r <1>","operation":"status","error":{"code":"INTERNAL_ERROR","message":"the log did not answer; try again","detail":"UNAVAILABLE"}}` + "\n"},
		{"odd", schemas.OpRulesList, `{}`, 500, `{"ok":false,"request_id":"r <1>","operation":"rules.list","error":{"code":"INTERNAL_ERROR","message":"something went wrong on our side"}}` + "\n"},
		{"torn", schemas.OpPing, `{}`, 200, `{"ok":true,"request_id":"r <1>","operation":"ping","data":{"pong":true}}`},
		{"torn", schemas.OpStatus, `{}`, 500, `{"ok":false,"request_id":"r <1>","operation":"status","error":{"code":"INTERNAL_ERROR","message":"the stored rules cannot be read here, and the tenant's calls are denied: ` +
			"run the version that wrote them, or newer, or have an admin give them up with `weir rules reset`" + `","detail":"RULES_UNREADABLE"}}` + "\n"},
	} {
		h := build(t, shelved)
		w := httptest.NewRecorder()
		req := schemas.AgentRequest{RequestID: "r <1>", Operation: tc.operation, Args: json.RawMessage(tc.args)}
		h.rules.Read(w, asking(t.Context(), req.RequestID, req.Operation), tc.tenant, req)
		require.Equal(t, tc.status, w.Code, tc)
		if tc.want != "" {
			require.Equal(t, tc.want, w.Body.String())
		}
		require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		require.Equal(t, tc.status == 503, w.Header().Get("Retry-After") != "")
	}
	w := httptest.NewRecorder()
	build(t).rules.Read(w, asking(t.Context(), "r", "status"), "acme", schemas.AgentRequest{RequestID: "r", Operation: "status"})
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
}

func ruleRef() schemas.Ref {
	return schemas.Ref{Tenant: "acme", Kind: schemas.KindRule, ID: "rul-1"}
}

func (h *env) respondAgent(ctx context.Context, ref schemas.Ref, rc schemas.Receipt, wait time.Duration) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.server.Reply(w, asking(ctx, "req-1", "global.off"), ref, rc, wait)
	return w
}

func TestWritesAreAnsweredInTheEnvelope(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		settled schemas.Settled
		status  int
		want    string
	}{
		"made": {
			schemas.Settled{Outcome: schemas.OutcomeSucceeded, Result: json.RawMessage(`{"operation":"global.off","request_id":"req-1","rules_etag":"etag-4-x"}`)},
			200, `{"ok":true,"request_id":"req-1","operation":"global.off","data":{"rules_etag":"etag-4-x"}}`,
		},
		"refused": {
			schemas.Settled{Outcome: schemas.OutcomeFailed, Code: schemas.EtagMismatch, Result: json.RawMessage(`{"operation":"global.off","request_id":"req-1","rules_etag":"etag-4-x","error":{"code":"ETAG_MISMATCH","message":"m"}}`)},
			412, `{"ok":false,"request_id":"req-1","operation":"global.off","error":{"code":"ETAG_MISMATCH","message":"m"}}`,
		},
		"expired": {
			schemas.Settled{Outcome: schemas.OutcomeExpired, Code: schemas.DeadlineExceeded}, 504, "",
		},
		"unreadable": {
			schemas.Settled{Outcome: schemas.OutcomeSucceeded, Result: json.RawMessage(`[]`)}, 500, "",
		},
		"lost": {
			schemas.Settled{Outcome: schemas.OutcomeSucceeded, ResultBlob: "lost"}, 410, "",
		},
	} {
		h := build(t)
		st := h.claim(ruleRef())
		h.settle(st, tc.settled)
		w := h.respondAgent(t.Context(), ruleRef(), receipt("rul-1", true), -1)
		require.Equal(t, tc.status, w.Code, name)
		require.Equal(t, "rul-1", w.Header().Get("Weir-Action-Id"))
		if tc.want != "" {
			require.Equal(t, tc.want, w.Body.String())
		}
		answer := decode[schemas.AgentResponse](t, w.Body)
		require.Equal(t, "req-1", answer.RequestID, name)
		require.Equal(t, "global.off", answer.Operation, name)
		require.Equal(t, tc.status == 200, answer.OK, name)
		if tc.want != "" {
			view := decode[schemas.ActionView](t, h.get("/v1/actions/rul-1").Body)
			require.JSONEq(t, tc.want, string(view.Result), "as the status of the action shows it")
		}
	}
}

func TestAReceiptOfAWrite(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.claim(ruleRef())
	w := h.respondAgent(t.Context(), ruleRef(), receipt("rul-1", false), 0)
	require.Equal(t, http.StatusAccepted, w.Code)
	require.Equal(t, "/v1/actions/rul-1", w.Header().Get("Location"))
	require.JSONEq(t, `{"ok":true,"request_id":"req-1","operation":"global.off","data":{"id":"rul-1","status":"accepted","duplicate":false,"durability":"disk"}}`, w.Body.String())
}

// called puts a call that was answered on the log, and ends its action if it is to.
func (h *env) called(ref schemas.Ref, a schemas.Action, end bool) {
	h.t.Helper()
	a.ID, a.Tenant, a.Kind = ref.ID, ref.Tenant, ref.Kind
	st := h.accept(a)
	h.append(st, schemas.Event{Type: schemas.EventAttempt, Attempt: &schemas.Attempt{Number: 1, Method: "GET", URL: "http://h/a"}})
	h.append(st, schemas.Event{Type: schemas.EventAttempted, Attempted: &schemas.Attempted{
		Number: 1, Sent: true, Status: 200, Answer: &schemas.Answer{Status: 200, Body: json.RawMessage(`{"n":1}`), JSON: true},
	}})
	if end {
		h.settle(st, schemas.Settled{Outcome: schemas.OutcomeSucceeded, Attempts: 1})
	}
}

func TestRecordings(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.called(httpRef("done"), schemas.Action{Principal: "me"}, true)
	h.called(httpRef("running"), schemas.Action{}, false)
	h.called(schemas.Ref{Tenant: "acme", Kind: schemas.KindRun, ID: "mine"}, schemas.Action{Principal: "me", Sensitive: true, TaskType: schemas.TaskHTTPExecute}, true)
	h.called(schemas.Ref{Tenant: "acme", Kind: schemas.KindRun, ID: "everybodys"}, schemas.Action{Sensitive: true, TaskType: schemas.TaskHTTPExecute}, true)
	h.called(schemas.Ref{Tenant: "other", Kind: schemas.KindHTTP, ID: "foreign"}, schemas.Action{}, true)
	for _, tc := range []struct {
		id, principal string
		status        int
		code          schemas.Code
	}{
		{"done", "you", 200, ""},
		{"mine", "me", 200, ""},
		{"mine", "you", 403, schemas.Forbidden},
		{"everybodys", "", 200, ""}, // in open mode
		{"everybodys", "you", 403, schemas.Forbidden},
		{"running", "me", 409, schemas.InFlight},
		{"foreign", "me", 404, schemas.NotFound},
		{"a b/../c", "me", 404, schemas.NotFound},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/rules/record", http.NoBody)
		h.rules.Record(w, r, "acme", tc.principal, schemas.RecordRequest{ActionID: tc.id})
		require.Equal(t, tc.status, w.Code, tc)
		if tc.status != http.StatusOK {
			require.Equal(t, tc.code, decode[schemas.Problem](t, w.Body).Code, tc)
			require.Equal(t, tc.code == schemas.InFlight, w.Header().Get("Retry-After") != "")
			continue
		}
		out := decode[schemas.Recording](t, w.Body)
		require.Len(t, out.Rules, 1)
		require.Equal(t, "http://h/a", out.Rules[0].Match.URLPattern)
		require.NotNil(t, out.Skipped)
	}
	require.Positive(t, h.barrier.Load(), "nothing is shown that might not survive")
}
