package chat_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

// texts are the texts of n chunks.
func texts(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("%d ", i))
	}
	return list
}

// blockDeltas has the log take the first delta only once release is closed.
func (h *env) blockDeltas() (release chan struct{}) {
	release = make(chan struct{})
	first := true
	h.hook = func(m schemas.Append) error {
		if first && strings.Contains(string(m.Data), `"type":"delta"`) {
			first = false
			<-release
		}
		return nil
	}
	return release
}

// TestABusyLog is left alone for longer than it took for an event: what comes meanwhile is
// written together. Nothing of that is waited for at an answer's end.
func TestABusyLog(t *testing.T) {
	t.Parallel()
	const every = time.Millisecond
	type testCase struct {
		takes       time.Duration
		least, most int // events of 300 chunks
	}
	table.Bubble(t, map[string]testCase{
		"it keeps up":    {0, 300, 301},
		"busy":           {10 * time.Millisecond, 9, 12}, // every 30 ms
		"hardly answers": {time.Second, 2, 2},
	}, func(t *testing.T, tt testCase) {
		h := newEnv(t, modelOf("small", "a"))
		h.hook = func(m schemas.Append) error {
			if strings.Contains(string(m.Data), `"type":"delta"`) {
				time.Sleep(tt.takes)
			}
			return nil
		}
		var spoken time.Time
		h.acts["a"] = []act{{texts: texts(300), every: every, then: func() { spoken = time.Now() }}}
		h.accept(order("small"))
		h.Drain()
		assert.LessOrEqual(t, time.Since(spoken), 2*tt.takes, "the event that is being written, and the last one")
		e := h.end("")
		assert.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
		assert.Equal(t, strings.Join(texts(300), ""), e.given)
		assert.GreaterOrEqual(t, e.deltas, tt.least)
		assert.LessOrEqual(t, e.deltas, tt.most)
	})
}

// TestTheFirstOfAnAnswer is marked, and nothing behind it: readers are shown it once it
// survives a power cut, and so is no other answer.
func TestTheFirstOfAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newEnv(t, modelOf("small", "a", "b"))
		h.acts["a"] = []act{{status: 503}}
		h.acts["b"] = []act{{texts: texts(5), every: time.Millisecond}}
		h.run(order("small"))
		var marks []bool
		require.NoError(t, h.Ingress.Replay(t.Context(), ref, func(ev schemas.Event) error {
			if ev.Type == schemas.EventDelta {
				marks = append(marks, ev.First)
				assert.Equal(t, ev.First, ev.NeedsBarrier())
			}
			return nil
		}))
		require.GreaterOrEqual(t, len(marks), 5)
		assert.True(t, marks[0])
		assert.NotContains(t, marks[1:], true)
	})
}

// TestBackPressure: an upstream is not read further than a log that stands still can be
// behind, and no event grows beyond its bound.
func TestBackPressure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newEnv(t, modelOf("small", "a"))
		release := h.blockDeltas()
		piece := strings.Repeat("z", 100<<10)
		given := 0
		list := []string{"first"}
		for range 30 {
			list = append(list, piece)
		}
		h.acts["a"] = []act{{texts: list, first: func() {
			go func() {
				synctest.Wait()
				given = h.taken()
				close(release)
			}()
		}}}
		e := h.run(order("small"))
		assert.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
		assert.Equal(t, strings.Join(list, ""), e.given)
		assert.Less(t, given, 25, "more was read than may wait")
		assert.Greater(t, given, 5)
		require.NoError(t, h.Ingress.Replay(t.Context(), ref, func(ev schemas.Event) error {
			if ev.Type == schemas.EventDelta {
				assert.LessOrEqual(t, len(ev.Data), schemas.InlineLimit+1024)
			}
			return nil
		}))
	})
}

// TestAHardCap: a stream is cut where it exceeds what its budget bears, and what had come
// is charged.
func TestAHardCap(t *testing.T) {
	t.Parallel()
	type testCase struct {
		said  int64 // the caller's own word
		limit int64
		cut   bool
		least int64
	}
	table.Bubble(t, map[string]testCase{
		"what is left":           {limit: 150, cut: true, least: 150 - 100},
		"enough":                 {limit: 100_000},
		"the caller's own word":  {said: 100, limit: 100_000, cut: true, least: 200},
		"twice that is no error": {said: 400, limit: 100_000},
	}, func(t *testing.T, tt testCase) {
		h := newEnv(t, modelOf("small", "a", "b"))
		h.budgets = []schemas.Budget{{Name: "all", Tokens: tt.limit}}
		h.acts["a"] = []act{{texts: manyTexts(500), every: time.Millisecond}}
		o := order("small")
		o.Prompt, o.Output = 100, tt.said
		e := h.run(o)
		if !tt.cut {
			assert.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
			return
		}
		assert.Equal(t, []any{schemas.OutcomeFailed, schemas.BudgetExhausted, 402}, []any{e.Outcome, e.Code, e.result.Error.Status})
		assert.JSONEq(t, `{"limit_source":"all","limit_what":"tokens"}`, string(e.result.Error.Metadata))
		assert.Equal(t, []string{"a"}, h.asked(), "no other is asked behind it")
		assert.True(t, e.result.Usage.Estimated)
		assert.GreaterOrEqual(t, e.result.Usage.Completion, tt.least)
		assert.LessOrEqual(t, e.result.Usage.Completion, tt.least+2)
		assert.InDelta(t, float64(e.result.Usage.Total), h.account("all").Tokens.Used, 0)
		assert.Equal(t, "all", e.audits[0].LimitSource)
	})
}

// TestAHardCapOfAWhole: an answer that nobody reads as it comes is cut as well where its
// upstream streams it all the same.
func TestAHardCapOfAWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newEnv(t, modelOf("small", "a"))
		h.budgets = []schemas.Budget{{Name: "all", Tokens: 100_000}}
		h.acts["a"] = []act{{texts: manyTexts(2000), counts: true}}
		e := h.run(whole())
		assert.Equal(t, schemas.BudgetExhausted, e.Code)
		assert.Nil(t, e.result.Completion)
		assert.Equal(t, int64(1000), e.result.Usage.Completion, "all that was held")
		assert.InDelta(t, float64(e.result.Usage.Total), h.account("all").Tokens.Used, 0)
	})
}

func manyTexts(n int) []string { return slices.Repeat([]string{"tok "}, n) }

// TestACancel cuts the stream off, and what has come stands.
func TestACancel(t *testing.T) {
	t.Parallel()
	type testCase struct {
		act   act
		given string
		byLog bool
	}
	table.Bubble(t, map[string]testCase{
		"in the middle":         {act{texts: []string{"Hel", "lo"}, hang: true}, "Hello", false},
		"before the first":      {act{hang: true}, "", false},
		"while it still speaks": {act{texts: texts(10_000), every: time.Millisecond}, "", false},
		"by the log alone":      {act{texts: texts(10_000), every: time.Millisecond}, "", true}, // from another node: the next event that is written hears of it
	}, func(t *testing.T, tt testCase) {
		h := newEnv(t, modelOf("small", "a", "b"))
		h.budgets = []schemas.Budget{{Name: "all", Tokens: 1_000_000}}
		stop := h.cancel
		if tt.byLog {
			stop = func() { h.Cancel(ref) }
		}
		tt.act.first = func() { time.AfterFunc(500*time.Millisecond, stop) }
		h.acts["a"] = []act{tt.act}
		e := h.run(order("small"))
		assert.Less(t, e.deltas, 600)
		assert.Equal(t, []any{schemas.OutcomeCanceled, schemas.Canceled, schemas.ChatCanceled}, []any{e.Outcome, e.Code, e.result.Error.Status})
		assert.Equal(t, []string{"a"}, h.asked())
		if tt.given != "" {
			assert.Equal(t, tt.given, e.given)
		}
		assert.True(t, e.result.Usage.Estimated)
		assert.Equal(t, int64(100), e.result.Usage.Prompt)
		assert.Equal(t, e.given != "", e.result.Usage.Completion > 0)
		v := h.account("all")
		assert.InDelta(t, float64(e.result.Usage.Total), v.Tokens.Used, 0)
		assert.Zero(t, v.Open)
	})
}

// TestACancelThatComesLate does not tear an answer that is whole.
func TestACancelThatComesLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newEnv(t, modelOf("small", "a"))
		release := h.blockDeltas()
		h.acts["a"] = []act{{texts: []string{"Hel"}, then: func() {
			synctest.Wait()
			go func() {
				time.Sleep(time.Second) // the stream has ended by then, and waits for the log
				h.Cancel(ref)
				close(release)
			}()
		}}}
		e := h.run(order("small"))
		assert.Equal(t, schemas.OutcomeSucceeded, e.Outcome)
		assert.Equal(t, "Hel", e.given)
	})
}

// TestTheDeadline is the end of a stream, with what has come.
func TestTheDeadline(t *testing.T) {
	t.Parallel()
	type testCase struct {
		texts []string
		over  bool // before anybody was asked
	}
	table.Bubble(t, map[string]testCase{
		"before the first": {}, "in the middle": {texts: []string{"Hel"}}, "before anybody is asked": {over: true},
	}, func(t *testing.T, tt testCase) {
		h := newEnv(t, modelOf("small", "a", "b"))
		h.acts["a"] = []act{{texts: tt.texts, hang: true}}
		e := h.run(order("small"), func(a *schemas.Action) {
			if tt.over {
				a.Deadline = time.Now()
			}
		})
		assert.Equal(t, []any{schemas.OutcomeExpired, schemas.DeadlineExceeded, 504}, []any{e.Outcome, e.Code, e.result.Error.Status})
		assert.Equal(t, strings.Join(tt.texts, ""), e.given)
		if tt.over {
			assert.Empty(t, h.asked())
			assert.Nil(t, e.result.Usage)
			return
		}
		assert.Equal(t, []string{"a"}, h.asked())
		assert.Equal(t, schemas.UpstreamTimeout, e.attempts[0].Result.Code)
	})
}

// TestADrain lets a stream go on; one that is cut off all the same ends there, and is
// not asked for again.
func TestADrain(t *testing.T) {
	t.Parallel()
	type testCase struct {
		act     act
		outcome schemas.Outcome
		given   string
		asked   int
	}
	table.Bubble(t, map[string]testCase{
		"it ends by itself":    {act{texts: []string{"Hel", "lo"}, every: time.Second}, schemas.OutcomeSucceeded, "Hello", 1},
		"cut off":              {act{texts: []string{"Hel"}, hang: true}, schemas.OutcomeFailed, "Hel", 1},
		"cut off before first": {act{hang: true}, schemas.OutcomeSucceeded, "Hello", 2},
	}, func(t *testing.T, tt testCase) {
		h := newEnv(t, modelOf("small", "a"))
		tt.act.first = func() {
			draining, stop := h.draining, h.Stop
			go func() {
				time.Sleep(100 * time.Millisecond)
				close(draining)
				time.Sleep(10 * time.Second)
				stop()
			}()
		}
		h.acts["a"] = []act{tt.act, {texts: []string{"Hello"}}}
		e := h.run(order("small"))
		assert.Equal(t, tt.outcome, e.Outcome)
		assert.Equal(t, tt.given, e.given)
		assert.Len(t, h.asked(), tt.asked)
		if tt.outcome == schemas.OutcomeFailed {
			assert.Equal(t, schemas.Interrupted, e.Code)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		h := newEnv(t, modelOf("small", "a"))
		h.acts["a"] = []act{{open: &fault.Call{Code: schemas.UpstreamConnect}}, {}}
		close(h.draining)
		h.accept(order("small"))
		h.Advance(3 * time.Second)
		assert.Empty(t, h.asked(), "a worker that drains begins nothing")
		h.Replace()
		h.Advance(time.Minute)
		assert.Equal(t, schemas.OutcomeSucceeded, h.end("").Outcome)
	})
}

// TestALogThatIsAway for a while is waited for; one that stays away, or that refuses,
// ends the stream where it is.
func TestALogThatIsAway(t *testing.T) {
	t.Parallel()
	refused := errors.New("no such stream")
	type testCase struct {
		fails  error
		during time.Duration
		code   schemas.Code
		given  string
	}
	table.Bubble(t, map[string]testCase{
		"for a while":        {fault.ErrUnavailable, 5 * time.Second, "", "Hello"},
		"too long":           {fault.ErrUnavailable, 20 * time.Minute, schemas.Interrupted, "Hel"},
		"refuses":            {refused, time.Second, schemas.Interrupted, "Hel"},
		"it is too large":    {fault.ErrTooLarge, time.Second, schemas.UpstreamTooLarge, "Hel"},
		"somebody was first": {fault.ErrFenced, time.Minute, schemas.Interrupted, "Hel"},
	}, func(t *testing.T, tt testCase) {
		h := newEnv(t, modelOf("small", "a"))
		var from time.Time
		h.hook = func(m schemas.Append) error {
			delta := strings.Contains(string(m.Data), `"type":"delta"`)
			if delta && strings.Contains(string(m.Data), `"lo"`) && from.IsZero() {
				from = time.Now()
			}
			if !from.IsZero() && time.Since(from) < tt.during && (delta || errors.Is(tt.fails, fault.ErrUnavailable)) {
				return tt.fails
			}
			return nil
		}
		h.acts["a"] = []act{{texts: []string{"Hel", "lo"}, every: time.Millisecond}}
		e := h.run(order("small"))
		assert.Equal(t, tt.code, e.Code)
		assert.Equal(t, tt.given, e.given)
		assert.Len(t, h.asked(), 1)
	})
}

// TestNothingAfterALostDelta: what the log took is a beginning of the answer, without a gap.
func TestNothingAfterALostDelta(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newEnv(t, modelOf("small", "a"))
		refused := false
		h.hook = func(m schemas.Append) error {
			if refused || !strings.Contains(string(m.Data), `"lo"`) {
				return nil
			}
			refused = true
			time.Sleep(10 * time.Millisecond) // so that more gathers
			return errors.New("no such stream")
		}
		h.acts["a"] = []act{{texts: append([]string{"Hel", "lo"}, texts(20)...), every: time.Millisecond}}
		e := h.run(order("small"))
		assert.Equal(t, []any{schemas.Interrupted, "Hel"}, []any{e.Code, e.given})
	})
}

// TestABrokenStream whose provider had told what it used is charged that, whether its
// reader asked to be told or not, and for what came behind it by an estimate.
func TestABrokenStream(t *testing.T) {
	t.Parallel()
	const told = `{"id":"c","object":"chat.completion.chunk","created":1,"model":"real","choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":300,"total_tokens":1300}}`
	truncated := broke(schemas.UpstreamTruncated, 200)
	canceled := act{hang: true}
	for name, tt := range map[string]struct {
		act   act
		raw   []string
		total int64
		late  bool // text came behind the usage
	}{
		"cut":              {truncated, []string{chunk("Hel"), told}, 1300, false},
		"cut, later":       {truncated, []string{chunk("Hel"), told, chunk("lo, world")}, 1303, true},
		"before the first": {truncated, []string{told}, 1300, false},
		"canceled":         {canceled, []string{chunk("Hel"), told}, 1300, false},
	} {
		for _, asked := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", asked), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					h := newEnv(t, modelOf("small", "a"))
					h.budgets = []schemas.Budget{{Name: "all", Tokens: 1_000_000}}
					a := tt.act
					a.raw = tt.raw
					if a.hang {
						a.then = func() { time.AfterFunc(time.Second, h.cancel) }
					}
					h.acts["a"] = []act{a}
					o := order("small")
					o.Usage = asked
					e := h.run(o)
					assert.NotEqual(t, schemas.OutcomeSucceeded, e.Outcome)
					assert.Equal(t, []any{tt.total, tt.late}, []any{e.result.Usage.Total, e.result.Usage.Estimated})
					assert.Equal(t, e.result.Usage.Total, e.audits[0].Usage.Total)
					assert.InDelta(t, float64(tt.total), h.account("all").Tokens.Used, 0)
					if !asked && e.deltas > 0 {
						assert.NotContains(t, string(e.result.Completion), "usage", "it is not told who has not asked")
					}
				})
			})
		}
	}
}
