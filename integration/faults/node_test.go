//go:build e2e || nightly

package faults_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"weir/internal/weirtest/cluster"
	"weir/internal/weirtest/program"
)

// node is one process of Weir, and the next that takes its place.
type node struct {
	name   string
	role   role
	dir    string
	config string
	lines  cluster.Lines

	binary  string // what it runs, and with what added to its environment
	environ []string

	mu      sync.Mutex
	program *program.Program
	paused  bool
	said    strings.Builder // by those before
}

// role is what a node does.
type role struct {
	command     string
	write, read bool // serves what asks for actions, and what reads them
	work        bool
}

func (r role) writes() bool { return r.write }
func (r role) reads() bool  { return r.read }
func (r role) works() bool  { return r.work }

// newNode makes a node that is not started yet.
func (r *env) newNode(ctx context.Context, name string, role role) (*node, error) {
	lines, err := r.cluster.Lines(ctx)
	if err != nil {
		return nil, err
	}
	n := &node{name: name, role: role, dir: filepath.Join(r.dir, name), lines: lines, binary: r.weir, environ: r.environ(name)}
	n.config = n.dir + ".yaml"
	text := fmt.Sprintf("data: %q\nnats: {url: %q}\nlog: {partitions: %d}\ntelemetry: {log_level: warn}\n%s",
		n.dir, lines.URL(), r.layout.Partitions, r.target.Policy())
	return n, os.WriteFile(n.config, []byte(text), 0o600)
}

// start runs the node with faults armed. It may have come to its point before it is ready.
func (n *node) start(environ ...string) error {
	p, err := program.Run(n.binary, program.How{
		Command: n.role.command, Args: []string{"--config", n.config},
		Environ: slices.Concat([]string{"WEIR_FAILPOINT_LOG=" + n.notes()}, n.environ, environ),
	})
	if err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	n.mu.Lock()
	n.program, n.paused = p, false
	n.mu.Unlock()
	return nil
}

// notes is where points that were reached leave a line.
func (n *node) notes() string { return n.dir + ".points" }

// reached reports whether a point was.
func (n *node) reached(point string) bool {
	data, err := os.ReadFile(n.notes())
	return err == nil && strings.Contains(string(data), point)
}

// at is what a point was reached for, the last time.
func (n *node) at(point string) string {
	data, _ := os.ReadFile(n.notes()) // what is not there names nothing
	id := ""
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == point {
			id = fields[1]
		}
	}
	return id
}

// url is where the node serves; empty where it does not.
func (n *node) url() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.program == nil || n.paused {
		return ""
	}
	return n.program.URL
}

func (n *node) kill() {
	if p := n.take(); p != nil {
		p.Kill()
		n.keep(p)
	}
}

// terminate asks the node to end and waits for that.
func (n *node) terminate(ctx context.Context) error {
	p := n.take()
	if p == nil {
		return nil
	}
	defer n.keep(p)
	return p.Terminate(ctx)
}

func (n *node) take() *program.Program {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.program
	n.program = nil
	return p
}

func (n *node) keep(p *program.Program) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.said.WriteString(p.Said())
}

func (n *node) stderr() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.program == nil {
		return n.said.String()
	}
	return n.said.String() + n.program.Said()
}

// pause stops the process where it is, until resume.
func (n *node) pause() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.program == nil {
		return nil
	}
	n.paused = true
	return n.program.Signal(syscall.SIGSTOP)
}

// mark takes a node that has stopped itself for paused.
func (n *node) mark() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.paused = true
}

func (n *node) resume() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.program == nil || !n.paused {
		return nil
	}
	n.paused = false
	return n.program.Signal(syscall.SIGCONT)
}

// ended reports whether the process is gone that should be there.
func (n *node) ended() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.program == nil {
		return true
	}
	select {
	case <-n.program.Exited():
		return true
	default:
		return false
	}
}

// ready blocks until the node says that it is.
func (n *node) ready(ctx context.Context) error {
	return until(ctx, n.name+" to be ready", func() bool {
		status, _ := n.get(ctx, "/readyz")
		return status == http.StatusOK
	})
}

func (n *node) get(ctx context.Context, path string) (status int, body string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return fetch(ctx, http.MethodGet, n.url()+path, "")
}

// gauge is a metric without labels; 0 where it cannot be had.
func (n *node) gauge(ctx context.Context, name string) float64 {
	_, body := n.get(ctx, "/metrics")
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			f, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return f
		}
	}
	return 0
}
