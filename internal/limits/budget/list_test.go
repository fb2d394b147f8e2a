package budget

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/bucket"
	"weir/schemas"
)

func TestList(t *testing.T) {
	t.Parallel()
	in := []schemas.Budget{
		{Name: "team", Requests: 10, Nanos: 2_500_000_000, Window: time.Hour},
		{Name: "each", Per: []string{schemas.PerToken, schemas.PerModel}, Tokens: 1_000},
		{Name: "gone", Requests: 10},
	}
	b := open(in...)
	list := func(tenant string) []schemas.BudgetView {
		all, err := b.List(t.Context(), tenant)
		require.NoError(t, err)
		return all
	}
	require.Equal(t, []schemas.BudgetView{}, list("t"))
	task := order("a")
	task.Task, task.TaskBudget = "job.1", &schemas.TaskBudget{Tokens: 500, USD: 0.5}
	b.reserve(t, task)
	b.end(t, task, used(20, 10, 1_250_000_000))
	b.reserve(t, order("b"))
	other := order("c")
	other.Tenant = "t.x"
	b.reserve(t, other)
	for i := range 9 {
		b.set(owner{tenant: "many", budget: "each", token: strconv.Itoa(i), model: "m"}.key(), []byte(`{"v":1,"used":{}}`))
	}
	b.set("not.a.key", []byte("{}"))
	b.set(owner{tenant: "t", budget: "each", token: "only"}.key(), []byte(`{"v":1,"used":{}}`)) // as it was before per: model

	b.cfg.Budgets = func() []schemas.Budget { return in[:2] }
	count := func(limit, used, held float64) *schemas.BudgetCount {
		return &schemas.BudgetCount{Limit: limit, Used: used, Held: held}
	}
	require.Equal(t, []schemas.BudgetView{
		{Budget: "each", Token: "k1", Model: "openai/m", Tokens: count(1_000, 30, 100), Open: 1},
		{Budget: "task", Task: "job.1", Tokens: count(500, 30, 0), USD: count(0.5, 1.25, 0)},
		{Budget: "team", Requests: count(10, 1, 1), USD: count(2.5, 1.25, cost/1e9), Open: 1, Resets: begun.Add(30 * time.Minute)},
	}, list("t"))
	require.Len(t, list("many"), 9)
	require.Len(t, list("t.x"), 2)
	b.pass(30 * time.Minute)
	again := list("t")[2]
	require.Equal(t, schemas.BudgetView{Budget: "team", Requests: count(10, 0, 0), USD: count(2.5, 0, 0), Resets: begun.Add(90 * time.Minute)}, again)
}

// TestTidy: only what means nothing any more is forgotten.
func TestTidy(t *testing.T) {
	t.Parallel()
	b := open(
		schemas.Budget{Name: "hour", Requests: 10, Window: time.Hour},
		schemas.Budget{Name: "ever", Requests: 10},
		schemas.Budget{Name: "tasks", Per: []string{schemas.PerTask}, Requests: 10},
	)
	o := order("a")
	o.Task, o.TaskBudget = "job", &schemas.TaskBudget{Requests: 5}
	b.reserve(t, o)
	b.end(t, o, used(1, 1, 1))
	left := func(want ...string) {
		t.Helper()
		require.NoError(t, b.Tidy(t.Context()))
		var got []string
		for _, r := range b.shelf.Records {
			got = append(got, mustPlace(t, r.Subject).budget)
		}
		require.ElementsMatch(t, want, got)
	}
	left("hour", "ever", "tasks", "task")
	b.pass(30*time.Minute + windowKept - 1)
	left("hour", "ever", "tasks", "task")
	b.pass(1)
	left("ever", "tasks", "task")
	b.pass(taskKept)
	left("ever")
	o.Action, o.Until = "b", b.Now().Add(time.Minute)
	b.reserve(t, o) // what was forgotten begins anew
	require.Equal(t, sum{}, b.account(t, "t.hour.").Used)
	require.Equal(t, sum{1, 2, 1}, b.account(t, "t.ever.").Used)
}

func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := bucket.New()

		store := func() {
			s.Set(func(s *bucket.Bucket) {
				s.Store(owner{tenant: "t", budget: "b"}.key(), []byte(`{"v":1,"ends":1,"used":{}}`))
			})
		}
		var log bytes.Buffer
		b := NewLimiter(s, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		store()
		ctx, cancel := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() { b.Run(ctx) })
		synctest.Wait()
		require.Empty(t, s.Records)
		store()
		time.Sleep(tidyEvery)
		synctest.Wait()
		require.Empty(t, s.Records)
		require.Empty(t, log.String())
		s.Set(func(s *bucket.Bucket) { s.Down = errors.New("gone") })
		time.Sleep(tidyEvery)
		synctest.Wait()
		require.Contains(t, log.String(), "budget_cleanup_failed")
		require.NotContains(t, log.String(), "gone")
		cancel()
		ended.Wait()
	})
}

// TestLook: a window that is full is told, by what was seen of it, and nothing else.
func TestLook(t *testing.T) {
	t.Parallel()
	b := open(schemas.Budget{Name: "w", Requests: 2, Window: time.Hour}, schemas.Budget{Name: "ever", Tokens: 250})
	look := func(action string) ([]schemas.ChatLimit, error) { return b.Look(t.Context(), order(action)) }
	limits, err := look("a")
	require.NoError(t, err)
	require.Equal(t, []schemas.ChatLimit{
		{Source: "w", What: schemas.BudgetRequests, Limit: 2, Remaining: 1, ResetMS: 1_800_000},
		{Source: "ever", What: schemas.BudgetTokens, Limit: 250, Remaining: 150},
	}, limits, "the request itself counts")
	require.Equal(t, 2, b.shelf.Gets)
	b.reserve(t, order("a"))
	gets := b.shelf.Gets
	limits, err = look("b")
	require.NoError(t, err)
	require.Equal(t, []int64{0, 50}, remaining(limits))
	limits, err = look("a")
	require.NoError(t, err)
	require.Equal(t, []int64{1, 150}, remaining(limits), "it is held already, and counts once")
	require.Equal(t, gets, b.shelf.Gets)

	there := b.another()
	require.NoError(t, there.Settle(t.Context(), order("a"), used(5, 5, 5)))
	small := order("z")
	small.Prompt, small.Output = 1, 1
	there.reserve(t, small)
	_, err = look("b")
	require.NoError(t, err, "it has not been heard of here")
	b.pass(lookAgain) // what lets in is not looked at again
	_, err = look("b")
	require.NoError(t, err)
	require.Error(t, b.refused(t, order("b")))
	for range 3 {
		_, err = look("b")
		var r *Refusal
		require.ErrorAs(t, err, &r)
		require.Equal(t, "w", r.Source)
		require.False(t, r.Spent)
		require.Equal(t, heldAgain, r.After)
		require.Len(t, r.Limits, 1)
	}
	_, err = look("z")
	require.NoError(t, err, "it is held already")
	_, err = look("a")
	require.NoError(t, err, "it was charged already")

	// Another node frees what is held: that is seen as soon as the look is old.
	require.NoError(t, there.Settle(t.Context(), small, nil))
	_, err = look("b")
	require.Error(t, err)
	b.pass(lookAgain)
	_, err = look("b")
	require.NoError(t, err)
	b.pass(30 * time.Minute)
	limits, err = look("b")
	require.NoError(t, err)
	require.EqualValues(t, 1, limits[0].Remaining)
}

func remaining(limits []schemas.ChatLimit) (all []int64) {
	for _, l := range limits {
		all = append(all, l.Remaining)
	}
	return all
}

// TestLookAtWhatIsHeld: an account without a window is full for as long as others hold it,
// and spent when they have used it. What goes on of an answer that may be cut off is no more
// than every account bears.
func TestLookAtWhatIsHeld(t *testing.T) {
	t.Parallel()
	b := open(schemas.Budget{Name: "ever", Tokens: 120}, schemas.Budget{Name: "more", Tokens: 1_000})
	o := order("a")
	o.Elastic, o.Output = true, 500
	limits, err := b.Look(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, []int64{0, 880}, remaining(limits))
	b.reserve(t, order("z"))
	limits, err = b.Look(t.Context(), order("b"))
	var r *Refusal
	require.ErrorAs(t, err, &r)
	require.Equal(t, []any{"ever", true, false, heldAgain}, []any{r.Source, r.Held, r.Spent, r.After})
	require.Equal(t, []int64{20, 900}, remaining(limits), "it does not go on")
	b.end(t, order("z"), used(40, 60, 0))
	limits, err = b.Look(t.Context(), order("b"))
	require.NoError(t, err, "what is spent is for a worker to refuse")
	require.Equal(t, []int64{20, 900}, remaining(limits))
}
