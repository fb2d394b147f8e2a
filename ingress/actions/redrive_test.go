package actions_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/ingress/accept"
	"weir/ingress/grant"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

var caller = grant.Caller{Tenant: "t"}

// attempt is a call of a class, and its result.
func attempt(class schemas.Class, keyFor time.Duration, r *schemas.Attempted) []schemas.Event {
	a := schemas.Attempt{Number: 1, Class: class}
	if keyFor != 0 {
		a.KeyExpiresAt = time.Now().Add(keyFor).UTC()
	}
	events := []schemas.Event{{Type: schemas.EventAttempt, Attempt: &a}}
	if r != nil {
		r.Number = 1
		events = append(events, schemas.Event{Type: schemas.EventAttempted, Attempted: r})
	}
	return events
}

func resolved(effect string) schemas.Event {
	return schemas.Event{Type: schemas.EventResolution, Resolution: &schemas.Resolution{Effect: effect, By: "ann"}}
}

// TestRedriveOfAnAction: only one that has ended without success is made anew, and only if no call of
// it can have its effect twice.
func TestRedriveOfAnAction(t *testing.T) {
	t.Parallel()
	answered := func(status int) *schemas.Attempted { return &schemas.Attempted{Sent: true, Status: status} }
	reset := &schemas.Attempted{Code: schemas.UpstreamReset, Sent: true}
	unsent := &schemas.Attempted{Code: schemas.UpstreamConnect}
	probed := func(effect string) []schemas.Event {
		return []schemas.Event{
			{Type: schemas.EventAttempt, Attempt: &schemas.Attempt{Number: 1, Probe: 1, Class: schemas.ClassSafe}},
			{Type: schemas.EventAttempted, Attempted: &schemas.Attempted{Number: 1, Probe: 1, Sent: true, Status: 200, Effect: effect}},
		}
	}
	type testCase struct {
		kind   schemas.Kind
		events []schemas.Event
		code   schemas.Code // empty: it is redriven
		says   string
	}
	ended := func(o schemas.Outcome, events []schemas.Event, more ...schemas.Event) []schemas.Event {
		return append(append(events, settled(o)), more...)
	}
	const once, keyed, safe, idempotent = schemas.ClassOnce, schemas.ClassKeyed, schemas.ClassSafe, schemas.ClassIdempotent
	const failed, unknown = schemas.OutcomeFailed, schemas.OutcomeUnknown
	mocked := &schemas.Attempted{Sent: true, Status: 200, Decision: &schemas.Decision{Allowed: true, Traffic: &schemas.Traffic{Mocked: "m"}}}
	table.Run(t, map[string]testCase{
		"queued":                    {schemas.KindHTTP, nil, schemas.InFlight, "not ended"},
		"running":                   {schemas.KindHTTP, attempt(once, 0, nil), schemas.InFlight, "not ended"},
		"succeeded":                 {schemas.KindHTTP, ended(schemas.OutcomeSucceeded, nil), schemas.Conflict, "succeeded"},
		"failed, nothing sent":      {schemas.KindHTTP, ended(failed, attempt(once, 0, unsent)), "", ""},
		"failed, refused by it":     {schemas.KindHTTP, ended(failed, attempt(once, 0, answered(409))), "", ""},
		"failed after an effect":    {schemas.KindHTTP, ended(failed, attempt(once, 0, answered(201))), schemas.Conflict, "status 201"},
		"failed after a redirect":   {schemas.KindHTTP, ended(failed, attempt(once, 0, answered(303))), schemas.Conflict, "status 303"},
		"failed after a mock":       {schemas.KindHTTP, ended(failed, attempt(once, 0, mocked)), "", ""},
		"failed in doubt":           {schemas.KindHTTP, ended(failed, attempt(once, 0, reset)), schemas.Conflict, "not answered"},
		"failed, safe":              {schemas.KindHTTP, ended(failed, attempt(safe, 0, answered(200))), "", ""},
		"failed, idempotent":        {schemas.KindHTTP, ended(failed, attempt(idempotent, 0, reset)), "", ""},
		"failed, with a key":        {schemas.KindHTTP, ended(failed, attempt(keyed, time.Hour, reset)), "", ""},
		"failed, with an old key":   {schemas.KindHTTP, ended(failed, attempt(keyed, -time.Hour, reset)), schemas.Conflict, "forgotten"},
		"refused, with an old key":  {schemas.KindHTTP, ended(failed, attempt(keyed, -time.Hour, &schemas.Attempted{Code: schemas.UpstreamDNS})), "", ""},
		"denied":                    {schemas.KindHTTP, ended(schemas.OutcomeDenied, nil), "", ""},
		"canceled":                  {schemas.KindHTTP, ended(schemas.OutcomeCanceled, nil), "", ""},
		"expired in doubt":          {schemas.KindHTTP, ended(schemas.OutcomeExpired, attempt(once, 0, nil)), schemas.Conflict, "not answered"},
		"unknown":                   {schemas.KindHTTP, ended(unknown, attempt(once, 0, reset)), schemas.Conflict, "/v1/actions/x/resolve, or weir actions resolve x"},
		"unknown, applied":          {schemas.KindHTTP, ended(unknown, attempt(once, 0, reset), resolved(schemas.EffectApplied)), schemas.Conflict, "took effect, as its resolution says"},
		"unknown, not applied":      {schemas.KindHTTP, ended(unknown, attempt(once, 0, reset), resolved(schemas.EffectNotApplied)), "", ""},
		"unknown, another's effect": {schemas.KindPlan, ended(unknown, append(attempt(once, 0, answered(200)), attempt(once, 0, reset)...), resolved(schemas.EffectNotApplied)), schemas.Conflict, "status 200"},
		"unknown, another's effect by a probe": {
			schemas.KindPlan, ended(unknown, slices.Concat(attempt(once, 0, reset), probed(schemas.EffectApplied), attempt(once, 0, reset)), resolved(schemas.EffectNotApplied)),
			schemas.Conflict, "a probe has shown",
		},
		"failed, without effect by a probe": {schemas.KindHTTP, ended(failed, append(attempt(once, 0, reset), probed(schemas.EffectNotApplied)...)), "", ""},
		"failed, the probe shows nothing":   {schemas.KindHTTP, ended(failed, append(attempt(once, 0, reset), probed("")...)), schemas.Conflict, "not answered"},
		"a plan that failed":                {schemas.KindPlan, ended(failed, attempt(once, 0, answered(500))), "", ""},
		"followed by another":               {schemas.KindHTTP, ended(failed, nil, schemas.Event{Type: schemas.EventSuperseded, Superseded: &schemas.Superseded{By: "y"}}), schemas.Conflict, "begun y"},
		"a run":                             {schemas.KindRun, ended(failed, nil), schemas.Conflict, "repeat the request"},
		"a run, dead-lettered":              {schemas.KindRun, []schemas.Event{{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: failed, Code: schemas.Poison}}}, "", ""},
		"a completion":                      {schemas.KindChat, ended(failed, nil), schemas.Conflict, "repeat the request"},
		"a task":                            {schemas.KindTask, ended(failed, []schemas.Event{started()}), schemas.Conflict, "file a new one"},
		"unknown, with an old key":          {schemas.KindHTTP, ended(unknown, attempt(keyed, -time.Hour, reset), resolved(schemas.EffectNotApplied)), "", ""},
	}, func(t *testing.T, tc testCase) {
		w := setup(t)
		old := w.put(t, "x", tc.kind, tc.events...)
		before := w.load(t, old).N
		out, err := w.redriver().RedriveAction(t.Context(), caller, "x")
		if tc.code != "" {
			require.Equal(t, tc.code, code(t, err), "%v", err)
			require.ErrorContains(t, err, tc.says)
			require.Equal(t, before, w.load(t, old).N, "nothing is changed")
			return
		}
		require.NoError(t, err)
		made := w.load(t, out.Ref)
		require.Equal(t, "x", made.Action.Supersedes)
		require.Equal(t, tc.kind == schemas.KindHTTP, made.Action.Class == schemas.ClassKeyed, "judged by the policy of today")
		require.JSONEq(t, string(w.load(t, old).Action.Payload), string(made.Action.Payload))
	})
}

func TestRedriveOfAnActionThatIsNotThere(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(t, "x", schemas.KindHTTP, settled(schemas.OutcomeFailed))
	for _, id := range []string{"", "none", "a b"} {
		require.Equal(t, schemas.NotFound, code(t, errOf(w.redriver().RedriveAction(t.Context(), caller, id))))
	}
	require.Equal(t, schemas.NotFound, code(t, errOf(w.redriver().RedriveAction(t.Context(), grant.Caller{Tenant: "u"}, "x"))), "of another tenant")
}

// TestRedrivesAtOnceMakeOneAction, by id and as a dead letter; a token with other rights is refused.
func TestRedrivesAtOnceMakeOneAction(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(t, "x", schemas.KindHTTP, started(), settled(schemas.OutcomeFailed))
	parked := w.park(t, letter("x"))
	r := w.redriver()
	results := make([]accept.Accepted, 20)
	var redrives sync.WaitGroup
	for i := range results {
		redrives.Go(func() {
			var err error
			if i%2 == 0 {
				results[i], err = r.RedriveAction(t.Context(), caller, "x")
			} else {
				results[i], err = r.Redrive(t.Context(), caller, parked)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	redrives.Wait()
	first := 0
	for _, out := range results {
		require.Equal(t, results[0].Ref, out.Ref)
		if !out.Receipt.Duplicate {
			first++
		}
	}
	require.Equal(t, 1, first)
	_, err := r.RedriveAction(t.Context(), grant.Caller{Tenant: "t", Entries: []string{"e"}}, "x")
	require.Equal(t, schemas.Conflict, code(t, err))
	require.ErrorContains(t, err, results[0].ID)

	w.write(t, results[0].Ref, settled(schemas.OutcomeFailed))
	again, err := r.RedriveAction(t.Context(), caller, results[0].ID)
	require.NoError(t, err)
	require.NotEqual(t, results[0].ID, again.ID, "a redrive that failed is redriven under its own id")
}
