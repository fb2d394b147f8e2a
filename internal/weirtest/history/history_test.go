package history_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/history"
	"weir/schemas"
)

func TestCleanRun(t *testing.T) {
	t.Parallel()
	require.Empty(t, history.Check(clean().run, history.Bounds{}))
	require.Empty(t, history.Check(history.Run{}, history.Bounds{}))
}

// planted is a breach, and the one invariant that is to find it.
type planted struct {
	name      string
	invariant string
	plant     func(b *book)
}

// TestPlantedBreaches: each is found, and by its own invariant alone.
func TestPlantedBreaches(t *testing.T) {
	t.Parallel()
	found := map[string]int{}
	for _, p := range slices.Concat(plantedAccepted(), plantedSettled(), plantedSent(), plantedEnded(), plantedEvidence(), plantedWatched(), plantedLeft()) {
		found[p.invariant]++
		t.Run(p.invariant+" "+p.name, func(t *testing.T) {
			t.Parallel()
			b := clean()
			p.plant(b)
			all := history.Check(b.run, history.Bounds{})
			require.NotEmpty(t, all)
			for _, v := range all {
				require.Equal(t, p.invariant, v.Invariant, v.String())
			}
		})
	}
	for _, invariant := range []string{"I1", "I2", "I3", "I4", "I5", "I6", "I7", "I9", "I11"} {
		require.GreaterOrEqual(t, found[invariant], 2, invariant)
	}
}

// TestWhatIsNoBreach: the checks must not cry over what is allowed.
func TestWhatIsNoBreach(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(b *book){
		"a reader that left early": func(b *book) {
			b.run.Watched[0].IDs, b.run.Watched[0].Ended = b.run.Watched[0].IDs[:2], false
		},
		"a reader from the middle": func(b *book) {
			w := &b.run.Watched[0]
			w.After, w.IDs = w.IDs[1], w.IDs[2:]
		},
		"a denial's record of a call that was let pass later": func(b *book) { b.leave(get, get+".denial.0.0") },
		"a doubt about a call that was never heard": func(b *book) {
			b.run.Hits = slices.DeleteFunc(b.run.Hits, func(h history.Hit) bool { return h.Mark == post })
		},
		"an ask that nobody heard of": func(b *book) {
			b.run.Asked = append(b.run.Asked, history.Asked{Tenant: "t", Name: "never", Answer: history.Unheard})
		},
		"half a body under the key": func(b *book) { b.hits(keyed)[0].Sum, b.hits(keyed)[0].Whole = digest("half"), false },
		"what was made from another": func(b *book) {
			b.event(schemas.KindHTTP, "uuid", schemas.Event{Type: schemas.EventAccepted, Action: &schemas.Action{
				ID: "uuid", Tenant: "t", Kind: schemas.KindHTTP, Supersedes: denied, Payload: encode(map[string]string{"url": "http://127.0.0.1:1/" + denied}),
			}})
			b.leave("uuid", "uuid.denial.0.0")
			b.event(schemas.KindHTTP, "uuid", schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeDenied}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := clean()
			plant(b)
			require.Empty(t, history.Check(b.run, history.Bounds{}))
		})
	}
}
