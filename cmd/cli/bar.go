package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// bar shows a person how far something has come. On anything but a terminal it shows
// nothing.
type bar struct {
	out         io.Writer
	what        string
	total, done int
	drawn       time.Time
	shows       bool
}

// The width of a bar, and how often it is drawn at most.
const (
	barWidth = 30
	barEvery = 100 * time.Millisecond
)

func newBar(out io.Writer, what string, total int) *bar {
	return &bar{out: out, what: what, total: total, shows: total > 0 && Terminal(out)}
}

// add counts more of it as done.
func (b *bar) add(n int) {
	b.done += n
	if b.shows && (time.Since(b.drawn) >= barEvery || b.done == b.total) {
		b.drawn = time.Now()
		fmt.Fprint(Unescaped(b.out), "\r"+barText(b.what, b.done, b.total)+"\x1b[K")
	}
}

// end leaves the line to others.
func (b *bar) end() {
	if b.shows && !b.drawn.IsZero() {
		fmt.Fprintln(b.out)
	}
}

func barText(what string, done, total int) string {
	full := min(barWidth*done/max(total, 1), barWidth)
	return fmt.Sprintf("%s [%s%s] %d/%d", what, strings.Repeat("#", full), strings.Repeat(".", barWidth-full), done, total)
}

// running says what is under way, to a person for how long it has been, until end is called.
// Say says it anew, and must not be called after end; it is nil where no person looks.
func running(out io.Writer, what string) (say func(what string), end func()) {
	if !Terminal(out) {
		fmt.Fprintln(out, what)
		return nil, func() {}
	}
	return clocked(out, what)
}

// clocked is running on a terminal.
func clocked(out io.Writer, what string) (say func(what string), end func()) {
	anew, over, told := make(chan string), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(told)
		begun, tick := time.Now(), time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			fmt.Fprintf(Unescaped(out), "\r%s, %s\x1b[K", oneLine(what), time.Since(begun).Round(time.Second))
			select {
			case what = <-anew:
			case <-tick.C:
			case <-over:
				fmt.Fprintln(out)
				return
			}
		}
	}()
	say = func(what string) { anew <- what }
	return say, func() {
		close(over)
		<-told
	}
}
