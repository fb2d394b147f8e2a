//go:build e2e

package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// operation is a request of the agent API, as it is sent.
func operation(tb testing.TB, requestID, name string, args map[string]any) string {
	tb.Helper()
	raw, err := json.Marshal(map[string]any{"request_id": requestID, "operation": name, "args": args})
	require.NoError(tb, err)
	return string(raw)
}

// ruleData is what any operation answers.
type ruleData struct {
	Etag   string         `json:"rules_etag"`
	Rules  []schemas.Rule `json:"rules"`
	Active bool           `json:"global_active"`
}

// operate carries out an operation that must go well.
func (w *weir) operate(tb testing.TB, name string, args map[string]any) ruleData {
	tb.Helper()
	resp, body := w.request(tb, http.MethodPost, "/v1/agent-api", operation(tb, "of the test", name, args))
	require.Equal(tb, http.StatusOK, resp.StatusCode, body)
	return decode[ruleData](tb, string(decode[schemas.AgentResponse](tb, body).Data))
}

// addRule puts a rule in.
func (w *weir) addRule(tb testing.TB, rule map[string]any) {
	tb.Helper()
	w.operate(tb, schemas.OpRulesCreate, map[string]any{"rule": rule, "if_match": w.operate(tb, schemas.OpStatus, nil).Etag})
}

func ruleOf(kind, id, pattern string, action map[string]any) map[string]any {
	return map[string]any{"id": id, "type": kind, "match": map[string]any{"url_pattern": pattern}, "action": action}
}

const writers = 100

// TestOfAHundredWritersOneWins: all with the etag that all have read.
func TestOfAHundredWritersOneWins(t *testing.T) {
	t.Parallel()
	w := serve(t, t.TempDir(), "--durability", "process")
	for round := range 3 {
		before := w.operate(t, schemas.OpRulesList, nil)
		var won, lost atomic.Int64
		var group sync.WaitGroup
		start := make(chan struct{})
		for i := range writers {
			body := operation(t, fmt.Sprintf("%d-%d", round, i), schemas.OpRulesCreate, map[string]any{
				"if_match": before.Etag, "rule": ruleOf(schemas.RuleMock, fmt.Sprintf("r-%d-%d", round, i), "https://api.example.com/*", map[string]any{"status": 200}),
			})
			group.Go(func() {
				<-start
				resp, text, err := w.try(t.Context(), http.MethodPost, "/v1/agent-api", body)
				if err != nil {
					t.Errorf("no answer: %v", err)
					return
				}
				switch resp.StatusCode {
				case http.StatusOK:
					won.Add(1)
				case http.StatusPreconditionFailed:
					assert.Contains(t, text, string(schemas.EtagMismatch))
					lost.Add(1)
				default:
					t.Errorf("status %d: %s", resp.StatusCode, text)
				}
			})
		}
		close(start)
		group.Wait()
		assert.Equal(t, int64(1), won.Load())
		assert.Equal(t, int64(writers-1), lost.Load())
		after := w.operate(t, schemas.OpRulesList, nil)
		assert.Len(t, after.Rules, len(before.Rules)+1)
		assert.NotEqual(t, before.Etag, after.Etag)
	}
}

// TestWritersAllGetThrough: each reads again when it has lost. What was
// acknowledged is there, once, and nothing else.
func TestWritersAllGetThrough(t *testing.T) {
	t.Parallel()
	w := serve(t, t.TempDir(), "--durability", "process")
	var group sync.WaitGroup
	const many = 30
	for i := range many {
		group.Go(func() {
			id := fmt.Sprintf("r-%d", i)
			assert.True(t, created(t, func() *weir { return w }, id), id)
		})
	}
	group.Wait()
	assert.Len(t, w.operate(t, schemas.OpRulesList, nil).Rules, many)
}

// created puts a rule in, whatever becomes of the connection and of others'
// writes: a lost answer is asked for again with the same bytes, a lost race is run
// again with another id, and where nobody can tell any more who won the rules are
// read. It is told whether the write was acknowledged.
func created(t *testing.T, at func() *weir, id string) (acknowledged bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	ask := func(body string) (status int, text string) {
		for ctx.Err() == nil {
			resp, text, err := at().try(ctx, http.MethodPost, "/v1/agent-api", body)
			if err == nil && resp.StatusCode != http.StatusServiceUnavailable && resp.StatusCode != http.StatusGatewayTimeout {
				return resp.StatusCode, text
			}
			pause(ctx, 20*time.Millisecond)
		}
		return 0, "no answer in time"
	}
	unknown := false
	for try := 0; ctx.Err() == nil; try++ {
		_, text := ask(operation(t, "read", schemas.OpRulesList, nil))
		var read schemas.AgentResponse
		var data ruleData
		if !assert.NoError(t, json.Unmarshal([]byte(text), &read), text) || !assert.NoError(t, json.Unmarshal(read.Data, &data), text) {
			return false
		}
		if slices.ContainsFunc(data.Rules, func(r schemas.Rule) bool { return r.ID == id }) {
			assert.True(t, unknown, "%s is there, and each answer was that it is not", id)
			return false
		}
		status, text := ask(operation(t, fmt.Sprintf("%s/%d", id, try), schemas.OpRulesCreate, map[string]any{
			"if_match": data.Etag, "rule": ruleOf(schemas.RuleMock, id, "https://api.example.com/"+id, map[string]any{"status": 200}),
		}))
		switch status {
		case http.StatusOK:
			return true
		case http.StatusPreconditionFailed:
		case http.StatusFailedDependency: // a crash, and more writes by others than are kept
			assert.Contains(t, text, string(schemas.OutcomeUnknownCode))
			unknown = true
		default:
			t.Errorf("%s: status %d: %s", id, status, text)
			return false
		}
	}
	t.Errorf("%s: no end", id)
	return false
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// TestRuleWritesOutliveKill kills the program again and again while writers
// write. Every write that was acknowledged is in, and a write that was said to
// have lost is not: its writer would find the rule there, without having been told
// that its fate is unknown.
func TestRuleWritesOutliveKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var current atomic.Pointer[weir]
	current.Store(serve(t, dir, "--durability", "process"))
	const each, at = 8, 8
	var done atomic.Int64
	var acknowledged sync.Map
	var group sync.WaitGroup
	for i := range at {
		group.Go(func() {
			for j := range each {
				id := fmt.Sprintf("r-%d-%d", i, j)
				if created(t, current.Load, id) {
					acknowledged.Store(id, true)
				}
				done.Add(1)
			}
		})
	}
	for kill := range int64(8) {
		poll.Until(t, func() bool { return done.Load() >= 4+6*kill })
		current.Load().Kill()
		current.Store(serve(t, dir, "--durability", "process"))
	}
	group.Wait()
	w := current.Load()
	ids := map[string]int{}
	for _, r := range w.operate(t, schemas.OpRulesList, nil).Rules {
		ids[r.ID]++
	}
	made := map[string]int{}
	after := ""
	for {
		resp, body := w.request(t, http.MethodGet, "/v1/evidence?limit=1000&kind="+schemas.EvidenceRuleWrite+after, "", "Accept", "application/json")
		require.Equal(t, http.StatusOK, resp.StatusCode, body)
		page := decode[schemas.Page[schemas.Evidence]](t, body)
		for _, e := range page.Items {
			if audit := decode[schemas.RuleAudit](t, string(e.Payload)); audit.Result == "ok" {
				made[audit.RuleID]++
			}
		}
		if page.Next == "" {
			break
		}
		after = "&cursor=" + page.Next
	}
	for i := range at {
		for j := range each {
			id := fmt.Sprintf("r-%d-%d", i, j)
			assert.Equal(t, 1, ids[id], "%s among the rules", id)
			if _, ok := acknowledged.Load(id); ok {
				assert.Equal(t, 1, made[id], "%s in the evidence", id)
			} else {
				assert.LessOrEqual(t, made[id], 1, "%s in the evidence", id)
			}
		}
	}
	assert.Len(t, ids, at*each)
}

// TestOffLetsGoOfWhatWaits: a call that a rule holds back goes as soon as the rules
// are off.
func TestOffLetsGoOfWhatWaits(t *testing.T) {
	t.Parallel()
	for name, ms := range map[string]int{"for seconds": 30_000, "for a minute": 60_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := newLedgerServer(t)
			upstream.open()
			w := serve(t, t.TempDir(), "--durability", "process")
			w.addRule(t, ruleOf(schemas.RuleDelay, "slow", upstream.URL+"/*", map[string]any{"delay_ms": ms}))
			began := time.Now()
			resp, body := w.request(t, http.MethodPost, "/v1/execute", fmt.Sprintf(`{"method":"GET","url":"%s/x"}`, upstream.URL), "Prefer", "respond-async")
			require.Equal(t, http.StatusAccepted, resp.StatusCode, body)
			id := resp.Header.Get("Weir-Action-Id")
			poll.Until(t, func() bool {
				_, body := w.request(t, http.MethodGet, "/v1/actions/"+id+"/events", "", "Accept", "application/json")
				for _, e := range decode[schemas.Page[schemas.EventView]](t, body).Items {
					if e.Type == schemas.EventWaiting {
						return true
					}
				}
				return false
			})
			etag := w.operate(t, schemas.OpStatus, nil).Etag
			off := time.Now()
			w.operate(t, schemas.OpGlobalOff, map[string]any{"if_match": etag})
			answered := time.Now()
			<-upstream.arrived
			t.Logf("the call came %v after the switch was asked for, %v after it was answered, %v after it was made", time.Since(off), time.Since(answered), time.Since(began))
			assert.Less(t, time.Since(began), time.Duration(ms)*time.Millisecond, "it has waited to the end")
			assert.Equal(t, 1, upstream.count(http.MethodGet, "/x"))
		})
	}
}
