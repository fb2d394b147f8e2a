//go:build e2e

package crash_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/program"
)

// node is one data directory and the process that serves it: whenever that dies it is
// started anew, with the faults that are armed then.
type node struct {
	dir, config, durability string
	arm                     func() string // WEIR_FAILPOINT for the next process

	mu       sync.Mutex
	process  *program.Program // nil while there is none that is ready
	changed  chan struct{}    // closed when process or stopping changes
	kills    int
	lastKill time.Time
	stopping bool
	failure  error
	log      strings.Builder
	done     chan struct{}
}

var errStopped = errors.New("the node has stopped")

func newNode(dir, config, durability string, arm func() string) *node {
	return &node{dir: dir, config: config, durability: durability, arm: arm, changed: make(chan struct{}), done: make(chan struct{})}
}

// serve starts a node with a configuration until the test ends, whose processes have the faults of arm.
func serve(t *testing.T, config string, arm func(n *node) string) *node {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.WriteFile(dir+".yaml", []byte(config), 0o600))
	n := newNode(dir, dir+".yaml", "process", nil)
	n.arm = func() string { return arm(n) }
	go n.keep()
	t.Cleanup(func() { require.NoError(t, n.stop(context.Background())) })
	return n
}

// get reads a document, unless the program dies meanwhile.
func (n *node) get(t *testing.T, path string, into any) {
	t.Helper()
	base, err := n.base(t.Context())
	require.NoError(t, err)
	if _, text, err := program.Ask(t.Context(), http.MethodGet, base+path, "", "Accept", "application/json"); err == nil {
		require.NoError(t, json.Unmarshal([]byte(text), into), text)
	}
}

// notes is the file in which points that were reached leave a line.
func (n *node) notes() string { return n.dir + ".points" }

// keep runs one process after the other until stop, which ends it.
func (n *node) keep() {
	defer close(n.done)
	for ended := false; !ended; {
		ended = n.ended(n.life())
	}
}

// killed is the exit code of a process that a signal has ended.
const killed = -1

// life is that of one process. It returns the exit code, and what the process said.
func (n *node) life() (code int, said string, err error) {
	p, err := program.Run(binary, program.How{
		Args:    []string{"--data", n.dir, "--config", n.config, "--durability", n.durability},
		Environ: []string{"WEIR_FAILPOINT=" + n.arm(), "WEIR_FAILPOINT_LOG=" + n.notes()},
	})
	if ended, ok := errors.AsType[*program.Ended](err); ok {
		return ended.Code, ended.Said, err
	}
	if err != nil {
		return 1, "", err
	}
	n.mu.Lock()
	n.process = p
	if n.stopping {
		_ = p.Signal(syscall.SIGTERM)
	}
	n.announce()
	n.mu.Unlock()
	code, err = p.Wait(context.Background())
	return code, p.Said(), err
}

// ended notes what became of a process, and reports whether there will be no other.
func (n *node) ended(code int, said string, err error) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.process = nil
	n.log.WriteString(said)
	switch {
	case n.stopping:
		n.failure = err // of an end that was asked for
	case code == killed:
		n.kills++
		n.lastKill = time.Now()
	default:
		n.failure, n.stopping = fmt.Errorf("weir ended by itself: %w", err), true
	}
	n.announce()
	return n.stopping
}

// announce notifies all waiters; mu is held.
func (n *node) announce() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// await waits until what is true, which is asked with mu held.
func (n *node) await(ctx context.Context, what func() bool) error {
	for {
		n.mu.Lock()
		yes, stopping, changed := what(), n.stopping, n.changed
		n.mu.Unlock()
		switch {
		case yes:
			return nil
		case stopping:
			return errors.Join(errStopped, n.failure)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// base is the address of the process that is ready, waited for.
func (n *node) base(ctx context.Context) (url string, err error) {
	err = n.await(ctx, func() bool {
		if n.process != nil {
			url = n.process.URL
		}
		return n.process != nil
	})
	return url, err
}

// now is base without the wait: "" while no process is ready.
func (n *node) now() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return ""
	}
	return n.process.URL
}

// kill ends the process as the kernel does when memory is short.
func (n *node) kill(ctx context.Context) error {
	before := 0
	err := n.await(ctx, func() bool {
		if n.process == nil {
			return false
		}
		before = n.kills
		_ = n.process.Signal(syscall.SIGKILL) // one that has just died is counted all the same
		return true
	})
	if err != nil {
		return err
	}
	return n.await(ctx, func() bool { return n.kills > before })
}

// stop asks the process to end and waits for that. The error is of an end that is no
// clean one.
func (n *node) stop(ctx context.Context) error {
	n.signal(syscall.SIGTERM)
	select {
	case <-n.done:
		return n.failure
	case <-ctx.Done():
		n.signal(syscall.SIGKILL)
		<-n.done
		return errors.New("weir did not end after SIGTERM")
	}
}

// signal has no other process come, and sends the one that there is a signal.
func (n *node) signal(sig os.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopping = true
	if n.process != nil {
		_ = n.process.Signal(sig)
	}
}

// reached counts how often a point was reached for a name.
func (n *node) reached(name string) (count int) {
	data, _ := os.ReadFile(n.notes()) // where there is none, none was reached
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, name) {
			count++
		}
	}
	return count
}

// pause keeps a client from asking in a hot loop.
func pause(ctx context.Context) error { return poll.Rest(ctx, 50*time.Millisecond) }
