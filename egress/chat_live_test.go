package egress_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/ledger"
	"weir/internal/weirtest/table"
)

// listened is a stream of the completion a that is read as it comes.
func (h *env) listened() (st *ledger.State, got chan string) {
	st = h.claim(chatRef("a"))
	w := &flushRecorder{header: http.Header{}, got: make(chan string)}
	go func() {
		defer close(w.got)
		h.talk(w, talk{id: "a"})
	}()
	h.attempt(st)
	synctest.Wait()
	return st, w.got
}

func TestTheBeginningIsHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := build(t)
		begin := time.Now()
		st, got := h.listened()
		require.Equal(t, ":\n\n", <-got)
		require.Equal(t, 10*time.Second, time.Since(begin))
		require.Equal(t, ":\n\n", <-got)
		require.Equal(t, 25*time.Second, time.Since(begin))
		h.settle(st, broken)
		require.Equal(t, fmt.Sprintf("%s\n\nid: %d\ndata: [DONE]\n\n", errorEnd, st.Seq), <-got)
		_, more := <-got
		require.False(t, more)
	})
}

func TestTheFirstChunkComesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := build(t)
		begin := time.Now()
		st, got := h.listened()
		for i := range 5 {
			h.delta(st, fmt.Sprintf(`{"c":%d}`, i))
			require.Equal(t, fmt.Sprintf("id: %d\ndata: {\"c\":%d}\n\n", st.Seq, i), <-got)
			require.Equal(t, time.Duration(i)*3*time.Second/2, time.Since(begin), "whether the stream has rested or not")
			time.Sleep(3 * time.Second / 2)
		}
		h.settle(st, said)
		require.Equal(t, fmt.Sprintf("id: %d\ndata: [DONE]\n\n", st.Seq), <-got)
	})
}

// TestAClientThatGoes is told of once, wherever its answer was; one that has its answer,
// or was sent away, has not gone.
func TestAClientThatGoes(t *testing.T) {
	t.Parallel()
	type testCase struct {
		whole  bool
		before func(h *env, st *ledger.State)
		does   func(h *env, st *ledger.State, leave func())
		left   int64
	}
	table.Bubble(t, map[string]testCase{
		"held":          {left: 1, does: func(_ *env, _ *ledger.State, leave func()) { leave() }},
		"waiting":       {whole: true, left: 1, does: func(_ *env, _ *ledger.State, leave func()) { leave() }},
		"in the middle": {left: 1, before: func(h *env, st *ledger.State) { h.delta(st, `{}`) }, does: func(_ *env, _ *ledger.State, leave func()) { leave() }},
		"resting": {left: 1, before: func(h *env, st *ledger.State) { h.delta(st, `{}`) }, does: func(_ *env, _ *ledger.State, leave func()) {
			time.Sleep(20 * time.Second)
			leave()
		}},
		"at the end":      {does: func(h *env, st *ledger.State, leave func()) { h.settle(st, said); synctest.Wait(); leave() }},
		"refused":         {does: func(h *env, st *ledger.State, leave func()) { h.settle(st, broken); synctest.Wait(); leave() }},
		"answered":        {whole: true, does: func(h *env, st *ledger.State, leave func()) { h.settle(st, said); synctest.Wait(); leave() }},
		"sent away":       {does: func(h *env, _ *ledger.State, leave func()) { h.feed.EndWaits(); synctest.Wait(); leave() }},
		"waits sent away": {whole: true, does: func(h *env, _ *ledger.State, leave func()) { h.feed.EndWaits(); synctest.Wait(); leave() }},
	}, func(t *testing.T, tc testCase) {
		h := build(t)
		st := h.claim(chatRef("a"))
		if tc.before != nil {
			tc.before(h, st)
		}
		ctx, leave := context.WithCancel(context.Background())
		defer leave()
		var left atomic.Int64
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			h.talked(talk{ctx: ctx, id: "a", whole: tc.whole, wait: -1, duplicate: true, left: func() { left.Add(1) }})
		}()
		synctest.Wait()
		tc.does(h, st, leave)
		<-gone
		require.Equal(t, tc.left, left.Load())
	})
}

// stuck is a client that takes nothing any more.
type stuck struct {
	*httptest.ResponseRecorder
	after int
}

func (f *stuck) Write(p []byte) (int, error) {
	if f.after--; f.after < 0 {
		return 0, errDown
	}
	return f.ResponseRecorder.Write(p)
}

func TestAClientThatTakesNothingHasGone(t *testing.T) {
	t.Parallel()
	for after := range 3 {
		synctest.Test(t, func(t *testing.T) {
			h := build(t)
			st := h.claim(chatRef("a"))
			left := make(chan struct{})
			w := &stuck{httptest.NewRecorder(), after}
			go h.talk(w, talk{id: "a", left: func() { close(left) }})
			for range 4 {
				synctest.Wait()
				h.delta(st, `{}`)
			}
			<-left
		})
	}
}

// TestACompletionOutlastsADrain: who listens to it is sent away at the end of that, and
// told so.
func TestACompletionOutlastsADrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := build(t)
		type heard struct {
			st *ledger.State
			w  *flushRecorder
		}
		all := map[string]heard{}
		for _, id := range []string{"a", "b", "c"} {
			l := heard{h.claim(chatRef(id)), &flushRecorder{header: http.Header{}, got: make(chan string, 10)}}
			h.delta(l.st, `{"c":1}`)
			all[id] = l
			go func() {
				defer close(l.w.got)
				h.talk(l.w, talk{id: id, duplicate: true})
			}()
			<-l.w.got
		}
		h.feed.EndStreams()
		synctest.Wait()
		h.delta(all["a"].st, `{"c":2}`)
		require.Contains(t, <-all["a"].w.got, `{"c":2}`)
		h.settle(all["a"].st, said)
		require.Contains(t, <-all["a"].w.got, `data: [DONE]`)
		h.deaf.Store(true) // what the feed misses is looked for
		h.settle(all["b"].st, said)
		h.feed.EndWaits()
		require.Contains(t, <-all["b"].w.got, fmt.Sprintf("id: %d\ndata: [DONE]\n\n", all["b"].st.Seq))
		last := <-all["c"].w.got
		require.Contains(t, last, `"code":"UNAVAILABLE","status":503`)
		require.Contains(t, last, `"code":"UNAVAILABLE"`)
		require.NotContains(t, last, "id: ", "it resumes behind what it has read")
		require.True(t, strings.HasSuffix(last, "\n\ndata: [DONE]\n\n"))
		for _, l := range all {
			_, more := <-l.w.got
			require.False(t, more)
		}
		w := h.talked(talk{id: "c", duplicate: true, after: all["c"].st.Seq})
		require.Equal(t, http.StatusServiceUnavailable, w.Code, "nothing has come yet")
	})
}

// crowd is the readers of one completion on one node, each with a way to leave.
type crowd struct {
	*env
	st    *ledger.State
	left  atomic.Int64 // how often it was told that nobody is there any more
	leave map[string]func()
}

func gather(t *testing.T) *crowd {
	t.Helper()
	c := &crowd{env: build(t), leave: map[string]func(){}}
	c.st = c.claim(chatRef("a"))
	c.delta(c.st, `{"c":1}`)
	return c
}

// join has somebody read: as a stream, as the whole, or as events; "!" asks to be told.
func (c *crowd) join(name, how string) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	c.leave[name] = func() { cancel(); <-over }
	k := talk{ctx: ctx, id: "a", duplicate: true, wait: -1}
	switch how {
	case "stream!", "whole!":
		k.left = func() { c.left.Add(1) }
	}
	k.whole = how == "whole" || how == "whole!"
	go func() {
		defer close(over)
		target, ok := map[string]string{"events": "", "poll": "?live=long-poll", "page": "?"}[how]
		if !ok {
			c.talked(k)
			return
		}
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/actions/a/events"+target, http.NoBody)
		r.Header.Set("Authorization", "Bearer acme")
		if how != "events" {
			r.Header.Set("Accept", "application/json")
			r.Header.Set("Last-Event-ID", strconv.FormatUint(c.st.Seq, 10))
		}
		c.engine.ServeHTTP(httptest.NewRecorder(), r)
	}()
	synctest.Wait()
}

// TestTheLastReaderIsTheOneThatLeaves: whoever goes while others read changes nothing for
// them, whatever it has asked for.
func TestTheLastReaderIsTheOneThatLeaves(t *testing.T) {
	t.Parallel()
	type step struct {
		name, how string // without how it leaves
		left      int64
	}
	table.Bubble(t, map[string][]step{
		"came back":               {{"old", "stream!", 0}, {"new", "stream!", 0}, {"old", "", 0}, {"new", "", 1}},
		"came back for the whole": {{"old", "whole!", 0}, {"new", "whole!", 0}, {"old", "", 0}, {"new", "", 1}},
		"the new one leaves":      {{"old", "stream!", 0}, {"new", "whole!", 0}, {"new", "", 0}, {"old", "", 1}},
		"never asked":             {{"a", "stream!", 0}, {"b", "stream", 0}, {"a", "", 0}, {"b", "", 0}},
		"never asked, whole":      {{"a", "whole!", 0}, {"b", "whole", 0}, {"a", "", 0}, {"b", "", 0}},
		"left before":             {{"a", "stream!", 0}, {"b", "stream", 0}, {"b", "", 0}, {"a", "", 1}},
		"events":                  {{"a", "stream!", 0}, {"b", "events", 0}, {"a", "", 0}, {"b", "", 0}},
		"polled":                  {{"a", "whole!", 0}, {"b", "poll", 0}, {"a", "", 0}, {"b", "", 0}},
		"events before":           {{"b", "events", 0}, {"a", "stream!", 0}, {"b", "", 0}, {"a", "", 1}},
		"many":                    {{"a", "stream!", 0}, {"b", "whole!", 0}, {"c", "events", 0}, {"a", "", 0}, {"c", "", 0}, {"d", "stream!", 0}, {"b", "", 0}, {"d", "", 1}},
		"comes after":             {{"a", "stream!", 0}, {"a", "", 1}, {"b", "stream", 1}, {"b", "", 1}},
	}, func(t *testing.T, steps []step) {
		c := gather(t)
		for i, s := range steps {
			if s.how != "" {
				c.join(s.name, s.how)
			} else {
				c.leave[s.name]()
			}
			require.Equal(t, s.left, c.left.Load(), i)
		}
	})
}

// TestAGlanceKeepsNobody: a page that is read just then is no reader that stays.
func TestAGlanceKeepsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := gather(t)
		c.join("a", "stream!")
		read := make(chan struct{})
		var reads atomic.Int64
		c.failing(func() error {
			if reads.Add(1) > 1 { // the first finds the action
				<-read
			}
			return nil
		})
		c.join("b", "page")
		require.EqualValues(t, 2, reads.Load())
		c.leave["a"]()
		require.EqualValues(t, 1, c.left.Load())
		close(read)
		c.leave["b"]()
		require.EqualValues(t, 1, c.left.Load())
	})
}

// TestWhoGoesWhileTheLogIsRead is a reader, too, and may be the last.
func TestWhoGoesWhileTheLogIsRead(t *testing.T) {
	t.Parallel()
	for _, other := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := gather(t)
			if other {
				c.join("b", "events")
			}
			read := make(chan struct{})
			c.failing(func() error { <-read; return errDown })
			c.join("a", "stream!")
			go func() { synctest.Wait(); close(read) }()
			c.leave["a"]()
			require.Equal(t, !other, c.left.Load() == 1)
			if other {
				c.leave["b"]()
			}
		})
	}
}
