// Package program runs the built Weir from a test, and kills it.
package program

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startTimeout bounds how long a process may take to get ready. Its disk may be slow.
const startTimeout = 60 * time.Second

var (
	readyLine = regexp.MustCompile(`ready on (http://\S+)`)
	natsLine  = regexp.MustCompile(`nats on (nats://\S+)`)
	proxyLine = regexp.MustCompile(`proxy on (http://\S+)`)
)

// The programs that tests run from outside.
const (
	Weir       = "weir"
	Failpoints = "weir-failpoints" // Weir, built with -tags failpoints
	NATS       = "nats-server"     // the server of the module
)

// Path is where a program lies: beside the weir that WEIR_BIN names, as `make e2e` sets it, or
// else in .tmp/e2e of the module, where it is built first. It is called from TestMain, before
// there are processes: it sets WEIR_BIN, so that what a test starts finds the same programs.
// Where there is no program, and none can be built, it says why and ends the process.
func Path(name string) string {
	if weir := os.Getenv("WEIR_BIN"); weir != "" {
		path, err := filepath.Abs(filepath.Join(filepath.Dir(weir), name))
		if err == nil {
			_, err = os.Stat(path) //nolint:gosec // the path is the operator's
		}
		if err != nil {
			abort(fmt.Errorf("WEIR_BIN is %s, and %s is not beside it; run `make programs`: %w", weir, name, err))
		}
		return path
	}
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output() //nolint:noctx // it ends
	if err != nil {
		abort(fmt.Errorf("where is the module: %w", err))
	}
	dir := filepath.Join(strings.TrimSpace(string(root)), ".tmp", "e2e")
	for _, name := range []string{Weir, Failpoints, NATS} {
		if err := Build(dir, name); err != nil {
			abort(err)
		}
	}
	if err := os.Setenv("WEIR_BIN", filepath.Join(dir, Weir)); err != nil {
		abort(err)
	}
	return filepath.Join(dir, name)
}

// abort ends the process: no test of it can run.
func abort(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// Build makes a program in a folder, with more arguments for `go build`.
func Build(dir, name string, args ...string) error {
	args = append([]string{"build", "-o", filepath.Join(dir, name)}, args...)
	switch name {
	case Failpoints:
		args = append(args, "-tags", "failpoints", "weir/cmd/weir")
	case NATS:
		args = append(args, "github.com/nats-io/nats-server/v2")
	default:
		args = append(args, "weir/cmd/weir")
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil { //nolint:noctx // it ends
		return fmt.Errorf("building %s: %w: %s", name, err, out)
	}
	return nil
}

// Needs skips a test whose tool is not there, and fails it in CI. A tool is a path that
// `make e2e` makes; to get it is said by how.
func Needs(tb testing.TB, path, how string) {
	tb.Helper()
	if _, err := os.Stat(path); err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		tb.Fatal(how)
	}
	tb.Skip(how)
}

// Program is a running `weir serve`.
type Program struct {
	// URL is where it serves; NATS is where its embedded server listens, and Proxy where its
	// forward proxy does, if they do.
	URL, NATS, Proxy string

	cmd    *exec.Cmd
	exited chan struct{}
	err    error

	mu       sync.Mutex
	log, out strings.Builder
}

// Start runs `weir serve` on a data directory, on a free port, and returns when it is
// ready. A start that ended is an *Ended.
func Start(binary, data string, args ...string) (*Program, error) {
	return Run(binary, How{Args: append([]string{"--data", data}, args...)})
}

// How says how the program is run.
type How struct {
	// Command is the one that serves; default serve.
	Command string
	// Args come behind --listen on a free port, and Environ is added to the environment.
	Args, Environ []string
	// Dir is where it runs; default the program's folder.
	Dir string
	As  *syscall.SysProcAttr
}

// prepare is a program that was not started.
func prepare(binary string, how How, args ...string) *Program {
	p := &Program{exited: make(chan struct{}), cmd: exec.Command(binary, args...)} //nolint:noctx // a test ends it
	p.cmd.SysProcAttr = how.As
	p.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "WEIR_BIN=") }), how.Environ...)
	p.cmd.Dir = cmp.Or(how.Dir, filepath.Dir(binary))
	p.cmd.Stderr = p
	return p
}

// Launch runs another program with just these arguments, and does not wait until it is ready. Said
// is all of its output.
func Launch(binary string, how How) (*Program, error) {
	p := prepare(binary, how, how.Args...)
	p.cmd.Stdout = p
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.exited)
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

// Run runs a command that serves and returns when it is ready. A start that ended is an
// *Ended.
func Run(binary string, how How) (*Program, error) {
	p := prepare(binary, how, append([]string{cmp.Or(how.Command, "serve"), "--listen", "127.0.0.1:0"}, how.Args...)...)
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	ready := make(chan string, 1)
	go func() {
		defer close(p.exited)
		for scan := bufio.NewScanner(stdout); scan.Scan(); {
			p.print(scan.Text())
			if m := natsLine.FindStringSubmatch(scan.Text()); m != nil {
				p.NATS = m[1]
			}
			if m := proxyLine.FindStringSubmatch(scan.Text()); m != nil {
				p.Proxy = m[1]
			}
			if m := readyLine.FindStringSubmatch(scan.Text()); m != nil && len(ready) == 0 {
				ready <- m[1]
			}
		}
		p.err = p.cmd.Wait()
	}()
	select {
	case p.URL = <-ready:
		return p, nil
	case <-p.exited:
		return nil, &Ended{Code: p.cmd.ProcessState.ExitCode(), Said: p.Said()}
	case <-time.After(startTimeout):
		p.Kill()
		return nil, fmt.Errorf("weir was not ready in time\n%s", p.Said())
	}
}

// Ended is a program that ended before it was ready.
type Ended struct { //nolint:errname // it is one by its place
	Code int
	// Said is what it wrote on its standard error.
	Said string
}

func (e *Ended) Error() string {
	return fmt.Sprintf("weir ended with %d before it was ready\n%s", e.Code, e.Said)
}

// Write takes the process's standard error.
func (p *Program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

// Said is what the process has written on its standard error.
func (p *Program) Said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func (p *Program) print(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out.WriteString(line + "\n")
}

// Printed is what the process has written on its standard output.
func (p *Program) Printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// PID is the process's.
func (p *Program) PID() int { return p.cmd.Process.Pid }

// Exited is closed when the process has ended.
func (p *Program) Exited() <-chan struct{} { return p.exited }

// Signal sends the process one, as SIGSTOP and SIGCONT.
func (p *Program) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Kill ends the process at once, as a crash would, and waits for it.
func (p *Program) Kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.exited
}

// Terminate asks the process to end and waits for it; the error is its exit.
func (p *Program) Terminate(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	_, err := p.Wait(ctx)
	return err
}

// Wait returns the exit code once the process has ended by itself.
func (p *Program) Wait(ctx context.Context) (code int, err error) {
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode(), p.err
	case <-ctx.Done():
		return 0, errors.Join(context.Cause(ctx), fmt.Errorf("process %d has not ended", p.PID()))
	}
}

// Config writes a configuration file whose one entry, "up", lets every method through to
// an upstream on this machine, and returns its path. More is appended as it is.
func Config(dir, upstream, more string) (string, error) {
	path := filepath.Join(dir, "weir.yaml")
	text := fmt.Sprintf(`%spolicy:
  timeout: 10s
  allowlist:
    - name: up
      url_prefix: %s/
      methods: [GET, HEAD, POST, PUT, PATCH, DELETE]
      network: loopback
`, more, upstream)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// Ask sends one request, of JSON where it has a body, and reads the answer. The header is names
// and values in turn.
func Ask(ctx context.Context, method, url, body string, header ...string) (*http.Response, string, error) {
	return askBy(ctx, http.DefaultClient, method, url, body, header...) //nolint:forbidigo // a client of Weir, from outside
}

func askBy(ctx context.Context, client *http.Client, method, url, body string, header ...string) (*http.Response, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp, string(data), err
}
