//go:build e2e

package integration_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/llm"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/program"
)

// TestExamples runs what is in examples/ as its README says: examples.txtar is the story.
func TestExamples(t *testing.T) {
	t.Parallel()
	python, _ := exec.LookPath("python3")
	program.Needs(t, python, "TestExamples needs python3: install it with your package manager")
	program.Needs(t, filepath.Join("clients", "node_modules", "typescript"), needsNPM)
	examples, err := filepath.Abs("../examples")
	require.NoError(t, err)
	modules, err := filepath.Abs("clients/node_modules")
	require.NoError(t, err)
	consumer := filepath.Join(t.TempDir(), "consumer")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", consumer, "../examples/evidence-consumer/go").CombinedOutput()
	require.NoError(t, err, string(out))

	params := storyParams(t, func(upstream string) llm.Config {
		look := llm.Act{Tools: []llm.Tool{{ID: "look-1", Name: "http_get", Arguments: []string{`{"url":"` + upstream + `/text"}`}}}}
		say := llm.Act{Texts: []string{"It says: plain words."}}
		again := llm.Act{Tools: []llm.Tool{{ID: "look-2", Name: "http_get", Arguments: []string{`{"url":"http://forbidden.example/"}`}}}}
		return llm.Config{Key: storyKey, Script: []llm.Act{look, say, again, say}}
	})
	params.Files = []string{filepath.Join("examples", "examples.txtar")}
	setup := params.Setup
	params.Setup = func(env *testscript.Env) error {
		for from, to := range map[string]string{"typescript-agent": "agent", "evidence-consumer/typescript": "consumer"} {
			dir := filepath.Join(env.WorkDir, to)
			if err := os.CopyFS(dir, os.DirFS(filepath.Join(examples, from))); err != nil {
				return err
			}
			if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
				return err
			}
		}
		env.Setenv("EXAMPLES", examples)
		env.Setenv("CONSUMER", consumer)
		return setup(env)
	}
	testscript.Run(t, params)
}

// cmdUnreliable puts a proxy before Weir, and points $WEIR_URL at it. It closes the connection
// instead of the first answer to each call with an Idempotency-Key, and after each event of a stream.
func cmdUnreliable(ts *testscript.TestScript, _ bool, _ []string) {
	target, err := url.Parse(started(ts).URL)
	ts.Check(err)
	var lost sync.Map
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		ErrorLog:      nil,
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(r *http.Response) error {
			if key := r.Request.Header.Get("Idempotency-Key"); key != "" {
				if _, seen := lost.LoadOrStore(key, true); !seen {
					panic(http.ErrAbortHandler)
				}
			}
			if strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
				first, err := firstEvent(r.Body)
				_ = r.Body.Close()
				r.Body = io.NopCloser(bytes.NewReader(first))
				return err
			}
			return nil
		},
	}
	server := httptest.NewServer(proxy)
	ts.Defer(server.Close)
	ts.Setenv("WEIR_URL", server.URL)
}

// firstEvent reads a stream of events up to the end of its first one.
func firstEvent(body io.Reader) ([]byte, error) {
	var read bytes.Buffer
	lines, data := bufio.NewReader(body), false
	for {
		line, err := lines.ReadString('\n')
		read.WriteString(line)
		data = data || strings.HasPrefix(line, "data:")
		switch {
		case err == io.EOF, err == nil && data && strings.TrimSpace(line) == "":
			return read.Bytes(), nil
		case err != nil:
			return nil, err
		}
	}
}

// cmdStart starts a server that prints its URL in its first line, and ends it with the story.
func cmdStart(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: start VAR PROGRAM ARG…")
	}
	cmd := exec.CommandContext(contextOf(ts), args[1], args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	ts.Check(err)
	ts.Setenv(args[0], regexp.MustCompile(`http://\S+`).FindString(line))
}

// cmdUntil waits up to a minute until a file matches a pattern.
func cmdUntil(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: until FILE PATTERN")
	}
	pattern, err := regexp.Compile(args[1])
	ts.Check(err)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); ts.Check(poll.Rest(contextOf(ts), 20*time.Millisecond)) {
		if data, err := os.ReadFile(ts.MkAbs(args[0])); err == nil && pattern.Match(data) {
			return
		}
	}
	ts.Fatalf("%s never matched %s", args[0], args[1])
}
