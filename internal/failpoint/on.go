//go:build failpoints && unix

package failpoint

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// armed are the environment's points. What cannot be read ends the program: a test whose
// fault never comes would pass for nothing.
var armed = arm(os.Getenv("WEIR_FAILPOINT")) //nolint:gochecknoglobals // read once, before anything runs

// fuse is one armed point.
type fuse struct {
	point Point
	part  string
	act   string
	left  atomic.Int64 // how often it is still to be reached
}

const (
	kill = "kill"
	lose = "lose"
	stop = "stop"
	hold = "hold" // the goroutine that reaches the point blocks there
)

func arm(specs string) []*fuse {
	var all []*fuse
	for spec := range strings.SplitSeq(specs, ";") {
		if spec = strings.TrimSpace(spec); spec == "" {
			continue
		}
		f, err := parse(spec)
		if err != nil {
			fmt.Fprintln(os.Stderr, "WEIR_FAILPOINT:", err)
			os.Exit(2)
		}
		all = append(all, f)
	}
	return all
}

// parse reads point[@part][#n]=act.
func parse(spec string) (*fuse, error) {
	where, act, ok := strings.Cut(spec, "=")
	if !ok || act != kill && act != lose && act != stop && act != hold {
		return nil, fmt.Errorf("%q does not end in =kill, =lose, =stop or =hold", spec)
	}
	n := int64(1)
	if at := strings.LastIndexByte(where, '#'); at >= 0 {
		var err error
		if n, err = strconv.ParseInt(where[at+1:], 10, 64); err != nil || n < 1 {
			return nil, fmt.Errorf("%q: what follows # is how many times the point is reached, from 1", spec)
		}
		where = where[:at]
	}
	point, part, _ := strings.Cut(where, "@")
	if point == "" {
		return nil, fmt.Errorf("%q names no point", spec)
	}
	f := &fuse{point: Point(point), part: part, act: act}
	f.left.Store(n)
	return f, nil
}

// At acts if the environment has armed this point for this id.
func At(p Point, id string) { Lost(p, id) }

// Lost is At for a point with an answer to drop, and reports whether to drop it.
func Lost(p Point, id string) bool {
	lost := false
	for _, f := range armed {
		if f.point != p || !strings.Contains(id, f.part) || f.left.Add(-1) != 0 {
			continue
		}
		note(p, id, f.act)
		switch f.act {
		case kill:
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // it does not return from that
		case stop:
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		case hold:
			select {} // until the process ends
		case lose:
			lost = true
		}
	}
	return lost
}

// Halfway is r, of so many bytes, that gives them in two halves and reaches the point
// between them.
func Halfway(p Point, id string, r io.Reader, size int) io.Reader {
	if len(armed) == 0 {
		return r
	}
	return io.MultiReader(io.LimitReader(r, int64(size/2)), &between{p, id}, r)
}

// between is an empty reader that a point is reached at.
type between struct {
	point Point
	id    string
}

func (b *between) Read([]byte) (int, error) {
	At(b.point, b.id)
	return 0, io.EOF
}

// note records for the test that the point was reached. The kernel holds the written line, so it
// survives the process.
func note(p Point, id, act string) {
	path := os.Getenv("WEIR_FAILPOINT_LOG")
	if path == "" {
		return
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // the test's own file
	if err != nil {
		return
	}
	_, _ = fmt.Fprintf(file, "%s %s %s\n", p, id, act)
	_ = file.Close()
}
