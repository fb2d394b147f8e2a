package stream_test

import (
	"context"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/egress/stream"
)

// BenchmarkFanOut gives one event to many viewers of one action.
func BenchmarkFanOut(b *testing.B) {
	for _, viewers := range []int{1, 100, 10_000} {
		b.Run(strconv.Itoa(viewers), func(b *testing.B) {
			n := newNode(b, stream.Config{})
			a := n.claim("a")
			readers := make([]*stream.Reader, viewers)
			for i := range readers {
				readers[i] = n.follow(a.st.Seq)
			}
			step := func() {
				a.progress(`{"token":"lorem"}`)
				for _, r := range readers {
					items, err := r.Next(context.Background(), nil)
					if err != nil || len(items) == 0 {
						b.Fatal(err)
					}
					_, _ = io.Discard.Write(items[0].Frame())
				}
			}
			step() // the first event after a resume is read from the log
			b.ReportAllocs()
			for b.Loop() {
				step()
			}
		})
	}
}

// TestFanOutAllocatesOnlyThePerViewerBuffer pins what a viewer adds: the event
// is decoded and rendered once, whoever watches.
//
//nolint:paralleltest // other tests' allocations would be counted
func TestFanOutAllocatesOnlyThePerViewerBuffer(t *testing.T) {
	n := newNode(t, stream.Config{})
	a := n.claim("a")
	const viewers = 200
	readers := make([]*stream.Reader, viewers)
	for i := range readers {
		readers[i] = n.follow(a.st.Seq)
	}
	step := func() {
		a.progress(`1`)
		for _, r := range readers {
			items, err := r.Next(context.Background(), nil)
			if err != nil || len(items) != 1 || !strings.HasPrefix(string(items[0].Frame()[:4]), "id: ") {
				t.Fatal("no event")
			}
		}
	}
	step()
	perViewer := testing.AllocsPerRun(20, step) / viewers
	require.Less(t, perViewer, 1.5)
}
