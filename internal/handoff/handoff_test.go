package handoff_test

import (
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"weir/internal/handoff"
	"weir/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ref(id string) schemas.Ref {
	return schemas.Ref{Tenant: "t", Kind: schemas.KindPush, ID: id}
}

func body(text string) handoff.Hand { return handoff.Hand{Body: strings.NewReader(text)} }

func read(t *testing.T, h handoff.Hand) string {
	t.Helper()
	text, err := io.ReadAll(h.Body)
	require.NoError(t, err)
	return string(text)
}

func TestAHandIsTakenOnce(t *testing.T) {
	t.Parallel()
	h := handoff.New()
	require.False(t, h.Here(ref("a")))
	_, done, ok := h.Take(ref("a"))
	require.False(t, ok)
	done()

	withdraw := h.Offer(ref("a"), body("pack"))
	require.True(t, h.Here(ref("a")))
	other := ref("a")
	other.Tenant = "u"
	require.False(t, h.Here(other), "another tenant's")
	_, _, ok = h.Take(other)
	require.False(t, ok)

	hand, done, ok := h.Take(ref("a"))
	require.True(t, ok)
	require.Equal(t, "pack", read(t, hand))
	hand.Progress([]byte("nobody wants to know")) // and that is no harm
	require.True(t, h.Here(ref("a")), "taken is here too")
	_, again, ok := h.Take(ref("a"))
	require.False(t, ok)
	again() // of a hand that was not had does nothing
	require.True(t, h.Here(ref("a")))
	done()
	done()
	require.False(t, h.Here(ref("a")))
	_, _, ok = h.Take(ref("a"))
	require.False(t, ok)
	withdraw()
	withdraw()
}

func TestWhatIsWithdrawnIsNotTaken(t *testing.T) {
	t.Parallel()
	h := handoff.New()
	withdraw := h.Offer(ref("a"), body("one"))
	withdraw()
	require.False(t, h.Here(ref("a")))
	_, _, ok := h.Take(ref("a"))
	require.False(t, ok)

	second := h.Offer(ref("a"), body("two"))
	withdraw() // of the first leaves the second alone
	hand, done, ok := h.Take(ref("a"))
	require.True(t, ok)
	require.Equal(t, "two", read(t, hand))
	done()
	second()
}

// TestOneHandAnAction: what is offered beside it is nobody's, and withdrawing that
// waits for nothing.
func TestOneHandAnAction(t *testing.T) {
	t.Parallel()
	h := handoff.New()
	first := h.Offer(ref("a"), body("one"))
	beside := h.Offer(ref("a"), body("two"))
	hand, done, ok := h.Take(ref("a"))
	require.True(t, ok)
	beside()
	require.True(t, h.Here(ref("a")))
	require.Equal(t, "one", read(t, hand))
	done()
	first()
}

// TestWithdrawWaits until the worker has let go, however often it is called.
func TestWithdrawWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := handoff.New()
		withdraw := h.Offer(ref("a"), body(""))
		_, done, ok := h.Take(ref("a"))
		require.True(t, ok)
		var ended atomic.Int32
		for range 2 {
			go func() {
				withdraw()
				ended.Add(1)
			}()
		}
		synctest.Wait()
		require.Zero(t, ended.Load())
		done()
		synctest.Wait()
		require.EqualValues(t, 2, ended.Load())
	})
}

// TestNoProgressBehindDone: the request may have ended, and its writer be gone. Done
// waits for a call that is under way.
func TestNoProgressBehindDone(t *testing.T) {
	t.Parallel()
	h := handoff.New()
	begun, block := make(chan struct{}), make(chan struct{})
	var got []string // unguarded: what comes behind withdraw would be a race
	withdraw := h.Offer(ref("a"), handoff.Hand{Body: strings.NewReader(""), Progress: func(p []byte) {
		close(begun)
		<-block
		got = append(got, string(p))
	}})
	hand, done, ok := h.Take(ref("a"))
	require.True(t, ok)
	var all sync.WaitGroup
	all.Go(func() { hand.Progress([]byte("1")) })
	<-begun
	all.Go(done)
	all.Go(func() { close(block) })
	withdraw()
	require.Equal(t, []string{"1"}, got)
	hand.Progress([]byte("2"))
	require.Equal(t, []string{"1"}, got)
	all.Wait()
}

// TestManyAtOnce: of takers that race one has each hand, and no request ends before
// its own is let go.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	h := handoff.New()
	var all sync.WaitGroup
	var taken atomic.Int32
	for i := range 50 {
		r := ref(strings.Repeat("x", i+1))
		offered := make(chan struct{})
		all.Go(func() {
			var busy atomic.Bool
			withdraw := h.Offer(r, handoff.Hand{Body: strings.NewReader(""), Progress: func([]byte) { busy.Store(true) }})
			close(offered)
			withdraw()
			was := busy.Load()
			withdraw()
			if busy.Load() != was {
				t.Error("progress behind the end")
			}
		})
		for range 4 {
			all.Go(func() {
				<-offered
				hand, done, ok := h.Take(r)
				if !ok {
					return
				}
				taken.Add(1)
				hand.Progress(nil)
				done()
			})
		}
	}
	all.Wait()
	require.LessOrEqual(t, taken.Load(), int32(50))
	for i := range 50 {
		require.False(t, h.Here(ref(strings.Repeat("x", i+1))))
	}
}
