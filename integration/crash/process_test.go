//go:build e2e

package crash_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"weir/internal/weirtest/poll"
)

// node is one data directory and the process that serves it: whenever that dies it is
// started anew, with the faults that are armed then.
type node struct {
	dir, config, durability string
	arm                     func() string // WEIR_FAILPOINT for the next process

	mu       sync.Mutex
	process  *process
	url      string        // empty while there is no process that is ready
	changed  chan struct{} // closed when url or stopping changes
	kills    int
	lastKill time.Time
	stopping bool
	failure  error
	log      bytes.Buffer
	done     chan struct{}
}

type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	err    error
}

var errStopped = errors.New("the node has stopped")

var readyLine = regexp.MustCompile(`ready on (http://\S+)`)

func newNode(dir, config, durability string, arm func() string) *node {
	return &node{dir: dir, config: config, durability: durability, arm: arm, changed: make(chan struct{}), done: make(chan struct{})}
}

// notes is the file in which points that were reached leave a line.
func (n *node) notes() string { return n.dir + ".points" }

// keep runs one process after the other until stop, which ends it.
func (n *node) keep() {
	defer close(n.done)
	for {
		p, err := n.start()
		if err == nil {
			<-p.exited
			err = p.err
		}
		n.mu.Lock()
		n.url = ""
		switch state, ok := errors.AsType[*exec.ExitError](err); {
		case errors.Is(err, errStopped):
		case n.stopping:
			n.failure = err // of an end that was asked for
		case ok && killed(state):
			n.kills++
			n.lastKill = time.Now()
		default:
			n.failure, n.stopping = fmt.Errorf("weir ended by itself: %w", err), true
		}
		n.announce()
		over := n.stopping
		n.mu.Unlock()
		if over {
			return
		}
	}
}

func killed(state *exec.ExitError) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// announce has everybody look again who waits; mu is held.
func (n *node) announce() {
	close(n.changed)
	n.changed = make(chan struct{})
}

func (n *node) start() (*process, error) {
	p := &process{exited: make(chan struct{})}
	p.cmd = exec.Command(binary, "serve", "--listen", "127.0.0.1:0", "--data", n.dir, "--config", n.config, "--durability", n.durability)
	p.cmd.Env = append(os.Environ(), "WEIR_FAILPOINT="+n.arm(), "WEIR_FAILPOINT_LOG="+n.notes())
	p.cmd.Stderr = n
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	if n.stopping {
		n.mu.Unlock()
		return nil, errStopped
	}
	err = p.cmd.Start()
	n.process = p
	n.mu.Unlock()
	if err != nil {
		return nil, err
	}
	go func() {
		defer close(p.exited)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			if m := readyLine.FindStringSubmatch(scan.Text()); m != nil {
				n.mu.Lock()
				n.url = m[1]
				n.announce()
				n.mu.Unlock()
			}
		}
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

// Write takes the processes' stderr.
func (n *node) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.log.Write(p)
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
func (n *node) base(ctx context.Context) (string, error) {
	var url string
	err := n.await(ctx, func() bool { url = n.url; return url != "" })
	return url, err
}

// now is base without the wait: "" while no process is ready.
func (n *node) now() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.url
}

// kill ends the process as the kernel does when memory is short.
func (n *node) kill(ctx context.Context) error {
	if _, err := n.base(ctx); err != nil {
		return err
	}
	n.mu.Lock()
	before := n.kills
	err := n.process.cmd.Process.Signal(syscall.SIGKILL)
	n.mu.Unlock()
	if err != nil {
		return err
	}
	return n.await(ctx, func() bool { return n.kills > before })
}

// stop asks the process to end and waits for that. The error is of an end that is no
// clean one.
func (n *node) stop(ctx context.Context) error {
	n.mu.Lock()
	if !n.stopping {
		n.stopping = true
		if n.process != nil {
			_ = n.process.cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	n.mu.Unlock()
	select {
	case <-n.done:
	case <-ctx.Done():
		n.mu.Lock()
		if n.process != nil {
			_ = n.process.cmd.Process.Kill()
		}
		n.mu.Unlock()
		<-n.done
		return errors.New("weir did not end after SIGTERM")
	}
	return n.failure
}

// reached counts how often a point was reached for a name.
func (n *node) reached(name string) int {
	data, err := os.ReadFile(n.notes())
	if err != nil {
		return 0
	}
	count := 0
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, name) {
			count++
		}
	}
	return count
}

// do sends one request.
func do(ctx context.Context, method, url, body string, header ...string) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp, data, err
}

// pause keeps a client from asking in a hot loop.
func pause(ctx context.Context) error { return poll.Rest(ctx, 50*time.Millisecond) }
