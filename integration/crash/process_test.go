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
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/program"
)

// node is one data directory and the process that serves it. One that died is replaced when the
// node's address is asked for, with the faults that are armed then.
type node struct {
	dir, config, durability string
	arm                     func(n *node) string // WEIR_FAILPOINT for the next process

	mu       sync.Mutex
	process  *program.Program // nil before the first and after the last
	kills    int
	lastKill time.Time
	failure  error // why there is no other process
	log      strings.Builder
}

var errStopped = errors.New("the node has stopped")

// serve makes a node with a configuration, which stops with the test.
func serve(t *testing.T, durability, config string, arm func(n *node) string) *node {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	n := &node{dir: dir, config: dir + ".yaml", durability: durability, arm: arm}
	require.NoError(t, os.WriteFile(n.config, []byte(config), 0o600))
	t.Cleanup(func() { assert.NoError(t, n.stop(context.Background())) })
	return n
}

// get reads a document, unless the program dies meanwhile.
func (n *node) get(t *testing.T, path string, into any) {
	t.Helper()
	base, err := n.base()
	require.NoError(t, err)
	if _, text, err := program.Ask(t.Context(), http.MethodGet, base+path, "", "Accept", "application/json"); err == nil {
		require.NoError(t, json.Unmarshal([]byte(text), into), text)
	}
}

// notes is the file in which points that were reached leave a line.
func (n *node) notes() string { return n.dir + ".points" }

// base is the address of a process that is ready.
func (n *node) base() (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for began := time.Now(); n.failure == nil; {
		if time.Since(began) > patience {
			return "", errors.New("no process has become ready")
		}
		if n.process == nil {
			n.start()
			continue
		}
		select {
		case <-n.process.Exited():
			code, err := n.process.Wait(context.Background())
			n.died(code, n.process.Said(), err)
		default:
			return n.process.URL, nil
		}
	}
	return "", n.failure
}

// url is base for clients, which ask again; empty: there is none.
func (n *node) url() string {
	url, _ := n.base()
	return url
}

func (n *node) start() {
	p, err := program.Run(binary, program.How{
		Args:    []string{"--data", n.dir, "--config", n.config, "--durability", n.durability},
		Environ: []string{"WEIR_FAILPOINT=" + n.arm(n), "WEIR_FAILPOINT_LOG=" + n.notes()},
	})
	if ended, ok := errors.AsType[*program.Ended](err); ok {
		n.died(ended.Code, ended.Said, err)
		return
	}
	n.process, n.failure = p, err
}

// died notes the end of a process: killed, or by itself.
func (n *node) died(code int, said string, err error) {
	const killed = -1 // the exit code of a process that a signal has ended
	n.process = nil
	n.log.WriteString(said)
	n.kills++
	n.lastKill = time.Now()
	if code != killed {
		n.failure = fmt.Errorf("weir ended by itself: %w", err)
	}
}

// deaths is how often the node was killed, and when last.
func (n *node) deaths() (kills int, last time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.kills, n.lastKill
}

// kill ends the process as the kernel does when memory is short.
func (n *node) kill() error {
	_, err := n.base()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process != nil { // or it has just died
		n.process.Kill()
	}
	return err
}

// stop asks the process to end and waits for that. The error is of an end that is no clean one.
func (n *node) stop(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case errors.Is(n.failure, errStopped):
		return nil
	case n.process == nil:
		return n.failure
	}
	err := n.process.Terminate(ctx)
	n.process.Kill() // where it has not ended
	n.log.WriteString(n.process.Said())
	n.process, n.failure = nil, errStopped
	return err
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
