package ingress_test

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress"
	"weir/internal/fault"
	"weir/schemas"
)

// A cancel that the log does not take is tried again for as long as the completion lives,
// and its worker hears of it before anything else.
func TestAClientThatLeavesWhileTheLogIsAway(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		meanwhile func(t *testing.T, w *world, id string, drain chan struct{})
		takes     time.Duration // at most
		outcome   schemas.Outcome
		logged    bool
	}{
		"it comes back": {
			meanwhile: func(_ *testing.T, w *world, _ string, _ chan struct{}) { w.plant(nil, nil) },
			takes:     time.Minute, outcome: schemas.OutcomeCanceled,
		},
		"the completion ends": {
			meanwhile: func(t *testing.T, w *world, id string, _ chan struct{}) {
				t.Helper()
				w.plant(nil, nil)
				w.settle(t, id, schemas.OutcomeSucceeded)
			},
			takes: time.Minute, outcome: schemas.OutcomeSucceeded,
		},
		"it stays away":  {meanwhile: func(*testing.T, *world, string, chan struct{}) {}, takes: 4 * time.Minute, logged: true},
		"the node stops": {meanwhile: func(_ *testing.T, _ *world, _ string, drain chan struct{}) { close(drain) }, takes: time.Minute, logged: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var logs bytes.Buffer
				var stopped []schemas.Ref
				drain := make(chan struct{})
				w := setup(t, desk(func(c *ingress.ChatConfig) { c.Draining = drain }), func(c *ingress.Config) {
					c.Logger = slog.New(slog.NewJSONHandler(&logs, nil))
					c.Stop = func(ref schemas.Ref) { stopped = append(stopped, ref) }
				})
				id := w.do(t, post("/chat/completions", okChat, schemas.HeaderOnDisconnect, "cancel")).Header().Get("Weir-Action-Id")
				w.plant(fault.ErrUnavailable, nil)
				begin, over := time.Now(), make(chan struct{})
				left := w.responder.last(t).left
				go func() {
					defer close(over)
					left()
				}()
				time.Sleep(20 * time.Second)
				synctest.Wait()
				require.Equal(t, []schemas.Ref{w.responder.last(t).ref}, stopped, "at once")
				tc.meanwhile(t, w, id, drain)
				<-over
				require.LessOrEqual(t, time.Since(begin), tc.takes)
				st, err := w.ledger.Find(t.Context(), "default", id)
				require.NoError(t, err)
				if tc.outcome != "" {
					require.Equal(t, tc.outcome, st.Settled.Outcome)
				}
				if !tc.logged {
					require.Empty(t, logs.String())
					return
				}
				require.Contains(t, logs.String(), `"msg":"completion not canceled","action_id":"`+id+`","tenant":"default","code":"UNAVAILABLE"`)
			})
		})
	}
}
