//go:build e2e

package integration_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"weir/internal/weirtest/llm"
	"weir/schemas"
)

// place is an object of a protocol's requests: where its unknown members are ignored, or
// where they are refused.
type place struct {
	path, body string
	at         []string // the members that lead to the object; of a list the first item
	status     int      // of the answer, with an unknown member and without
	refused    int      // or the status of the refusal of one
}

// TestUnknownMembers adds members that no protocol knows, at every object that a protocol
// opens and at those that it closes. Where they are ignored nothing but the request itself
// has them; they never reach the log of the node.
func TestUnknownMembers(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"ok":true}`) }))
	t.Cleanup(up.Close)
	provider := llm.New(t, llm.Config{Key: providerKey})
	w := serveChat(t, t.TempDir(), chatConfig(t, provider, "policy: {allowlist: [{name: up, url_prefix: \""+up.URL+"/\", network: loopback, methods: [GET, POST]}]}\n"), "--durability", "process")
	w.makeRepo(t, "shop")
	plan := `{"state:env.snapshot":{"snapshot_id":"s","data":{}},"artifact:proposed.plan":{"plan_id":"p","decisions":[
		{"effect_ref":"a","target_state":{"url":"` + up.URL + `/a","allowlist_key":"up","headers":{},"params":{}}}]}}`
	run := `{"request_id":"run-$N","task_type":"ECHO","inputs":{"steps":1,"interval_ms":0},"budgets":{"max_time_ms":300000,"max_tokens":100000}}`
	rules := `{"type":"AGENT_API_REQUEST","request":{"request_id":"r","operation":"rules.list","args":{"group":"g"}}}`
	call := `{"method":"GET","url":"` + up.URL + `/a","allowlist_key":"up"}`
	proposed, request := "artifact:proposed.plan", "request"
	places := map[string]place{
		"a plan":             {"/v1/plans", plan, []string{proposed}, 200, 0},
		"a decision":         {"/v1/plans", plan, []string{proposed, "decisions"}, 200, 0},
		"a target_state":     {"/v1/plans", plan, []string{proposed, "decisions", "target_state"}, 200, 0},
		"a snapshot":         {"/v1/plans", plan, []string{"state:env.snapshot"}, 200, 0},
		"a body of plans":    {"/v1/plans", plan, nil, 200, 422},
		"a run":              {schemas.RouteRunSync, run, nil, 200, 0},
		"a run's budgets":    {schemas.RouteRunStream, run, []string{"budgets"}, 200, 0},
		"a rules envelope":   {schemas.RouteAgentAPI, rules, nil, 200, 0},
		"a rules request":    {schemas.RouteAgentAPI, rules, []string{request}, 200, 0},
		"a rules operation":  {schemas.RouteAgentAPI, rules, []string{request, "args"}, 200, 0},
		"a call":             {"/v1/execute", call, nil, 200, 400},
		"a primitive":        {"/v1/execute", `{"type":"Http","args":` + call + `}`, nil, 200, 400},
		"a primitive's args": {"/v1/execute", `{"type":"Http","args":` + call + `}`, []string{"args"}, 200, 400},
		"a completion":       {"/chat/completions", chatBody("sim/plain", false, ""), nil, 200, 400},
		"a complete":         {schemas.RouteAgentComplete, `{"description":"d"}`, nil, 200, 0},
		"a fail":             {schemas.RouteAgentFail, `{"description":"d","reason":null}`, nil, 200, 0},
		"an inquiry":         {schemas.RouteAgentInquiry, `{"inquiry":"d"}`, nil, 0, 400},
		"a task":             {schemas.RouteTasks, `{"description":"d","repo":"shop"}`, nil, 201, 422},
	}
	for name, p := range places {
		if p.refused == 0 {
			status, text := p.send(t, w, p.body)
			require.Equal(t, p.status, status, "%s: %s", name, text)
		}
		p.check(t, w, map[string]any{"x": canaryWord})
	}
	names := slices.Sorted(maps.Keys(places))
	rapid.Check(t, func(r *rapid.T) {
		places[rapid.SampledFrom(names).Draw(r, "place")].check(t, w, map[string]any{
			"x_" + rapid.StringMatching(`[a-zA-Z0-9_.:/ -]{0,20}`).Draw(r, "name"): unknownValue(3).Draw(r, "value"),
		})
	})
	require.NotContains(t, w.Said(), canaryWord)
}

// canaryWord is in every unknown member.
const canaryWord = "UNKNOWN-MEMBER"

// serial tells the requests of this suite from each other.
var serial atomic.Int64

// send posts a body, as the holder of a new task where agents of tasks do.
func (p place) send(t *testing.T, w *weir, body string) (int, string) {
	t.Helper()
	body = strings.ReplaceAll(body, "$N", strconv.FormatInt(serial.Add(1), 10))
	header := []string{}
	if strings.HasPrefix(p.path, "/agent/") {
		header = append(header, "Authorization", "Bearer "+w.makeTask(t, "").Token)
	}
	resp, text := w.request(t, http.MethodPost, p.path, body, header...)
	return resp.StatusCode, text
}

// check posts the body with one more member.
func (p place) check(t *testing.T, w *weir, member map[string]any) {
	t.Helper()
	var doc map[string]any
	require.NoError(t, json.Unmarshal([]byte(p.body), &doc))
	object := doc
	for _, step := range p.at {
		next := object[step]
		if list, ok := next.([]any); ok {
			next = list[0]
		}
		var ok bool
		object, ok = next.(map[string]any)
		require.True(t, ok, step)
	}
	maps.Copy(object, member)
	body, err := json.Marshal(doc)
	require.NoError(t, err)
	status, text := p.send(t, w, string(body))
	if p.refused != 0 {
		require.Equal(t, p.refused, status, "%s: %s", body, text)
		require.Regexp(t, "not known here|no upstream of this model passes", text, string(body))
		return
	}
	require.Equal(t, p.status, status, "%s: %s", body, text)
	require.NotContains(t, text, canaryWord)
}

// unknownValue draws a JSON value that is nested up to so many levels, with the canary in it.
func unknownValue(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Custom(func(r *rapid.T) any { return canaryWord + rapid.String().Draw(r, "text") }),
		rapid.Custom(func(r *rapid.T) any { return rapid.Int64Range(-1<<53, 1<<53).Draw(r, "number") }),
		rapid.SampledFrom([]any{nil, true, false, canaryWord}),
	)
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(
		leaf,
		rapid.Custom(func(r *rapid.T) any { return rapid.SliceOfN(unknownValue(depth-1), 0, 3).Draw(r, "list") }),
		rapid.Custom(func(r *rapid.T) any {
			return rapid.MapOfN(rapid.StringMatching(`[a-z]{1,8}`), unknownValue(depth-1), 0, 3).Draw(r, "object")
		}),
	)
}
