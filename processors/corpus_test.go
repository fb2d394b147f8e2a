package processors_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/internal/weirtest/harness"
	"weir/schemas"
)

// crashRow is what a row of the outbound corpus says about a worker that dies.
type crashRow struct {
	ID     string `json:"id"`
	Policy struct {
		Entries []struct {
			Name        string   `json:"name"`
			URLPrefix   string   `json:"url_prefix"`
			Methods     []string `json:"methods"`
			Idempotency *struct {
				Seconds int  `json:"ttl_s"`
				Derive  bool `json:"derive"`
			} `json:"upstream_idempotency"`
		} `json:"entries"`
	} `json:"policy"`
	Request struct {
		Method string          `json:"method"`
		URL    string          `json:"url"`
		Key    string          `json:"allowlist_key"`
		Body   json.RawMessage `json:"body"`
		Name   string          `json:"idempotency_key"`
	} `json:"request"`
	Expected string `json:"expected"`
	Code     string `json:"code"`
	Sent     [2]int `json:"sent"`
	Why      string `json:"why"`
	Assert   struct {
		CrashAt string `json:"crash_at"`
	} `json:"assert"`
}

// TestCrashRows runs the rows of the outbound corpus in which the worker dies at a named
// point, which none of the other suites of the corpus has. The next worker repeats the call if
// that is safe, and otherwise ends the action with an unknown outcome.
func TestCrashRows(t *testing.T) {
	t.Parallel()
	rows := 0
	for _, file := range []string{"outbound.jsonl", "outbound_own.jsonl"} {
		data, err := os.ReadFile("../integration/corpus/testdata/" + file)
		require.NoError(t, err)
		for line := range bytes.Lines(data) {
			var r crashRow
			if !bytes.Contains(line, []byte(`"crash_at"`)) {
				continue
			}
			require.NoError(t, json.Unmarshal(line, &r))
			rows++
			t.Run(r.ID, func(t *testing.T) {
				t.Parallel()
				r.run(t)
			})
		}
	}
	assert.Positive(t, rows)
}

func (r *crashRow) run(t *testing.T) {
	t.Helper()
	h := newEnv()
	for _, e := range r.Policy.Entries {
		entry := policy.Entry{Name: e.Name, URLPrefix: e.URLPrefix, Methods: e.Methods}
		if e.Idempotency != nil {
			entry.UpstreamIdempotency = &policy.Idempotency{TTL: time.Duration(e.Idempotency.Seconds) * time.Second, Derive: e.Idempotency.Derive}
		}
		h.entries = append(h.entries, entry)
	}
	rec := h.accept(t, schemas.HTTPCall{
		Method: r.Request.Method, URL: r.Request.URL, AllowlistKey: r.Request.Key, Body: r.Request.Body, IdempotencyKey: r.Request.Name,
	})
	r.arm(t, h)
	require.Error(t, h.worker(t, "first").Handle(t.Context(), rec, true))
	require.True(t, h.Dead(), "the worker did not reach the point")
	h.refuse, h.stored = nil, nil
	h.Heal()
	require.NoError(t, h.worker(t, "second").Handle(t.Context(), rec, false))
	require.NoError(t, h.worker(t, "third").Handle(t.Context(), rec, false), "a settled action is left alone")

	st := h.state(t)
	require.NotNil(t, st.Settled)
	code, terminals := string(st.Settled.Code), 0
	if st.Settled.Outcome == schemas.OutcomeSucceeded {
		code = "OK"
	}
	for _, e := range st.Events {
		if e.Type == schemas.EventSettled {
			terminals++
		}
	}
	assert.Equal(t, r.Expected == "allow", code == "OK", r.Why)
	assert.Equal(t, r.Code, code, r.Why)
	assert.True(t, r.Sent[0] <= h.sent && h.sent <= r.Sent[1], "sent %d, may be %v; %s", h.sent, r.Sent, r.Why)
	assert.Equal(t, 1, terminals, "terminal events")
}

// arm has the worker die at the row's point: before or after the log stores an event, or
// while the request is on its way.
func (r *crashRow) arm(t *testing.T, h *env) {
	t.Helper()
	at := func(event schemas.EventType) func(schemas.Append) error {
		return func(m schemas.Append) error {
			var ev schemas.Event
			if json.Unmarshal(m.Data, &ev) == nil && ev.Type == event {
				h.Kill()
				return harness.ErrDead
			}
			return nil
		}
	}
	onTheWire := func(requests int) func() {
		return func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.sent += requests
			h.Kill()
		}
	}
	switch r.Assert.CrashAt {
	case "before_intent":
		h.refuse = at(schemas.EventAttempt)
	case "after_intent":
		h.stored = at(schemas.EventAttempt)
	case "after_first_byte":
		h.during = onTheWire(0)
	case "after_last_byte":
		h.during = onTheWire(1)
	case "after_response": // what came back is in the end
		h.refuse = at(schemas.EventSettled)
	case "after_terminal_before_ack":
		h.stored = at(schemas.EventSettled)
	default:
		t.Fatalf("crash point %q is not known", r.Assert.CrashAt)
	}
}
