//go:build nightly

package bench_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// process is one of the programs, running.
type process struct {
	URL     string
	Started time.Duration // from its making until it was ready

	collected chan struct{} // what it does not use was given back

	cmd    *exec.Cmd
	stdin  io.Closer
	exited chan struct{}
	err    error
	log    bytes.Buffer // written by the process's own goroutine; read when it has exited
}

var readyLine = regexp.MustCompile(`ready on (http://\S+)`)

// patience bounds how long a program may take to get ready, and to end.
const patience = 2 * time.Minute

// start runs this binary in a role and waits until it is ready.
func start(tb testing.TB, role, name string, args ...string) *process {
	tb.Helper()
	self, err := os.Executable()
	require.NoError(tb, err)
	p := &process{cmd: exec.Command(self, args...), exited: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), roleEnv+"="+role)
	if *profile != "" {
		p.cmd.Env = append(p.cmd.Env, profileEnv+"="+filepath.Join(*profile, name))
	}
	p.cmd.Stderr = &p.log
	p.stdin, err = p.cmd.StdinPipe()
	require.NoError(tb, err)
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(tb, err)
	begun := time.Now()
	require.NoError(tb, p.cmd.Start())
	ready := make(chan string, 1)
	p.collected = make(chan struct{}, 1)
	go p.follow(stdout, ready)
	tb.Cleanup(func() { p.end(tb, syscall.SIGKILL) })
	select {
	case p.URL = <-ready:
		p.Started = time.Since(begun)
	case <-p.exited:
		tb.Fatalf("%s ended before it was ready: %v\n%s", role, p.err, p.log.String())
	case <-time.After(patience):
		tb.Fatalf("%s was not ready in time", role)
	}
	return p
}

func (p *process) follow(stdout io.Reader, ready chan<- string) {
	defer close(p.exited)
	for scan := bufio.NewScanner(stdout); scan.Scan(); {
		if m := readyLine.FindStringSubmatch(scan.Text()); m != nil {
			ready <- m[1]
		} else if scan.Text() == collectedLine {
			p.collected <- struct{}{}
		}
	}
	p.err = p.cmd.Wait()
}

func (p *process) terminate(tb testing.TB) {
	tb.Helper()
	p.end(tb, syscall.SIGTERM)
}

// end has the process end by a signal, and waits until it is gone. It may be called twice.
func (p *process) end(tb testing.TB, by syscall.Signal) {
	tb.Helper()
	select {
	case <-p.exited:
		return
	default:
	}
	_ = p.cmd.Process.Signal(by)
	select {
	case <-p.exited:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.exited
		tb.Errorf("it did not end by %s", by)
	}
	_ = p.stdin.Close()
	if by == syscall.SIGTERM && p.err != nil {
		tb.Errorf("it ended with %v\n%s", p.err, p.log.String())
	}
}

// ticks is the unit of times in /proc, a second's part; Linux has no other for programs.
const ticks = 100

func (p *process) cpu() time.Duration { return cpuOf(p.cmd.Process.Pid) }

func (p *process) resident() float64 { return residentOf(p.cmd.Process.Pid) }

// used is the memory in MiB that is left when it has given back what it does not use.
func (p *process) used(tb testing.TB) float64 {
	tb.Helper()
	require.NoError(tb, p.cmd.Process.Signal(syscall.SIGUSR1))
	select {
	case <-p.collected:
	case <-p.exited:
		tb.Fatalf("it ended: %v\n%s", p.err, p.log.String())
	}
	return p.resident()
}

// cpuOf is the processor's time that a process has used; 0 where the system does not say.
func cpuOf(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The second field is the program's name, in parentheses, and may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / ticks
}

// residentOf is the memory that a process holds, in MiB; 0 where the system does not say.
func residentOf(pid int) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)
	if m == nil {
		return 0
	}
	kib, _ := strconv.ParseFloat(string(m[1]), 64)
	return kib / 1024
}

// machine says what was measured on.
func machine() string {
	name := "an unnamed processor"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if m := regexp.MustCompile(`model name\s*:\s*(.+)`).FindSubmatch(info); m != nil {
			name = string(m[1])
		}
	}
	return fmt.Sprintf("%d × %s, %s/%s, %s", runtime.NumCPU(), name, runtime.GOOS, runtime.GOARCH, runtime.Version())
}
