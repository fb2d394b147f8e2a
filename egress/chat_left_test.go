package egress_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"weir/internal/ledger"
)

// crowd is the readers of one completion on one node, each with a way to leave.
type crowd struct {
	*house
	st    *ledger.State
	left  atomic.Int64 // how often it was told that nobody is there any more
	leave map[string]func()
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
	for name, steps := range map[string][]step{
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
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := &crowd{house: build(t), leave: map[string]func(){}}
				defer c.feed.Close()
				c.st = c.claim(chatRef("a"))
				c.delta(c.st, `{"c":1}`)
				for i, s := range steps {
					if s.how != "" {
						c.join(s.name, s.how)
					} else {
						c.leave[s.name]()
					}
					require.Equal(t, s.left, c.left.Load(), i)
				}
			})
		})
	}
}

// TestAllLeaveAtOnce: of those that do, one was the last.
func TestAllLeaveAtOnce(t *testing.T) {
	t.Parallel()
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			c := &crowd{house: build(t), leave: map[string]func(){}}
			defer c.feed.Close()
			c.st = c.claim(chatRef("a"))
			c.delta(c.st, `{"c":1}`)
			for i := range 8 {
				c.join(strconv.Itoa(i), []string{"stream!", "whole!"}[i%2])
			}
			for _, leave := range c.leave {
				go leave()
			}
			synctest.Wait()
			require.EqualValues(t, 1, c.left.Load())
		})
	}
}

// TestAGlanceKeepsNobody: a page that is read just then is no reader that stays.
func TestAGlanceKeepsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{house: build(t), leave: map[string]func(){}}
		defer c.feed.Close()
		c.st = c.claim(chatRef("a"))
		c.delta(c.st, `{"c":1}`)
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
			c := &crowd{house: build(t), leave: map[string]func(){}}
			defer c.feed.Close()
			c.st = c.claim(chatRef("a"))
			c.delta(c.st, `{"c":1}`)
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
