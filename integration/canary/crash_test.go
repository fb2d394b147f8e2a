//go:build e2e

package canary_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/config"
	"weir/internal/weirtest/capture"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// TestNothingLeaksFromACrash kills the built program in the middle of calls,
// starts it again and has it die of a signal that makes it tell all that it was
// doing. Standard output and error, what the system shows of the process and
// what it has left behind have nothing of the calls.
func TestNothingLeaksFromACrash(t *testing.T) { //nolint:paralleltest // what it leaves for a while, TestNothingLeaks would find
	g := &garden{}
	up, talker := upstream.New(t), newTalker(t, g)
	up.Handle("/hang", upstream.Hang())
	up.Handle(schemas.RouteRunStream, upstream.Hang())
	up.Handle("/ok", upstream.Raw(fullAnswer(g, "crash", http.StatusOK)))
	dir := directory(t)
	text := fmt.Sprintf(`listen: 127.0.0.1:0
data: %[1]q
auth: {mode: tokens}
telemetry: {log_level: debug, otlp: {endpoint: %[3]q}}
policy:
  allowlist:
    - {name: up, url_prefix: "%[2]s/", methods: [GET, POST], network: loopback, headers: {Authorization: "Bearer ${secret:UP}"}, caller_headers: ["*"], caller_params: ["*"]}
agents:
  SUMMARY: {url: "%[2]s", mode: stream, token: "${secret:UP}"}
%[4]s`, filepath.Join(dir, "data"), up.URL(), talker.collector.at, talker.text())
	file := filepath.Join(dir, "weir.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	binary := build(t)
	secret := "WEIR_SECRET_UP=" + g.secret("crash secret")
	var shown []byte

	first := start(t, binary, file, secret)
	me := first.person()
	g.known("admin token", secretOf(me.token))
	post := func(p *person, method, path string, body any) string {
		resp, text := p.send(http.MethodPost, "/v1/execute", p.h.jsonOf(object{"method": method, "url": up.URL() + path, "body": body}), "Prefer", "respond-async")
		require.Equal(t, http.StatusAccepted, resp.StatusCode, text)
		return resp.Header.Get("Weir-Action-Id")
	}
	run := func(p *person, class string) string {
		id := sensitiveRun + tidy(class)
		resp, text := p.send(http.MethodPost, schemas.RouteRunSync, p.h.jsonOf(object{
			"request_id": id, "task_type": "SUMMARY", "user_id": g.plant(class + " user"), "inputs": object{g.plant(class + " key"): g.plant(class)},
		}), "Prefer", "respond-async")
		require.Equal(t, http.StatusAccepted, resp.StatusCode, text)
		return id
	}
	unknown := post(me, http.MethodPost, "/hang?q="+g.plant("killed query"), object{g.plant("killed key"): g.plant("killed body")})
	repeated := post(me, http.MethodGet, "/hang?again="+g.plant("killed path"), nil)
	killed := run(me, "killed run")
	up.WaitHits(3)
	broken, whole := talker.begin(me, "killed stream", true), talker.begin(me, "killed chat", false)
	shown = append(shown, first.arguments()...)
	first.signal(os.Kill)
	require.Error(t, first.wait(), "it was killed")

	second := start(t, binary, file, secret)
	me = second.person()
	me.h.owner = me
	done := post(me, http.MethodPost, "/ok", g.plant("after the crash"))
	for _, id := range []string{unknown, done, killed, broken} {
		me.h.settled(id)
	}
	for _, id := range []string{unknown, killed} {
		_, answer := me.send(http.MethodGet, "/v1/actions/"+id, "")
		require.Contains(t, answer, "OUTCOME_UNKNOWN")
	}
	_, answer := me.send(http.MethodGet, "/v1/actions/"+broken, "")
	require.Contains(t, answer, "INTERRUPTED")
	talker.wait() // the other one is asked for again
	_, _ = me.send(http.MethodPost, "/v1/actions/"+whole+"/cancel", "")
	me.h.settled(whole)
	chats := 0
	pages(me.h, "/v1/evidence?limit=500", func(r json.RawMessage) {
		if strings.Contains(string(r), schemas.EvidenceChat) {
			chats++
			require.Empty(t, checkChat(r), "%s", r)
		}
	})
	require.GreaterOrEqual(t, chats, 3) // of the one that was asked for again, two
	up.WaitHits(5)                      // the GET was done again
	_, _ = me.send(http.MethodPost, "/v1/actions/"+repeated+"/cancel", "")
	post(me, http.MethodPost, "/hang?q="+g.plant("aborted query"), g.plant("aborted body"))
	run(me, "aborted run")
	up.WaitHits(7)
	talker.begin(me, "aborted stream", true)
	talker.begin(me, "aborted chat", false)
	shown = append(shown, second.arguments()...)
	second.signal(syscall.SIGQUIT)
	require.Error(t, second.wait(), "it died of it")
	report := second.err.String()
	log, trace, found := strings.Cut(report, "SIGQUIT")
	require.True(t, found, "a crash report")
	require.Contains(t, trace, "goroutine ")

	for _, class := range []string{"killed query", "killed key", "killed body", "killed path", "after the crash", "aborted body", "crash secret"} {
		require.Contains(t, received(up), g.text(t, class))
	}
	spans, strange := talker.collector.data(t)
	require.Empty(t, strange)
	sinks := append(stored(t, filepath.Join(dir, "data")),
		sink{name: "standard output", data: append(first.out.Bytes(), second.out.Bytes()...)},
		sink{name: "standard error", data: append(first.err.Bytes(), report...)},
		sink{name: "arguments", data: shown},
		sink{name: "spans", data: spans},
		sink{name: "temporary files", data: append(temporary(t), first.temporary()...)},
		sink{name: "names of files", data: fileNames(t, dir)},
		sink{name: "files", data: files(t, dir), owner: true},
	)
	leaks, err := scan(g.list(), skipEmpty(sinks, "stored dead letters", "spans", "index"))
	require.NoError(t, err)
	require.Empty(t, leaks, leakText(leaks))
	require.Empty(t, checkLog([]byte(logged(first.err.String()))))
	require.Empty(t, checkLog([]byte(logged(log))))
}

// skipEmpty leaves out sinks that need not have data: nothing was parked, and who is
// killed need not have sent its spans.
func skipEmpty(sinks []sink, names ...string) (rest []sink) {
	for _, s := range sinks {
		if len(s.data) > 0 || !strings.Contains(strings.Join(names, "\n"), s.name) {
			rest = append(rest, s)
		}
	}
	return rest
}

// logged is standard error without what it says to the operator, in lines that
// begin with the program's name.
func logged(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "weir: ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// build makes the program as it is delivered.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(directory(t), "weir")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "weir/cmd/weir")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}

// child is a running `weir serve`.
type child struct {
	t        *testing.T
	cmd      *exec.Cmd
	cfg      config.Config
	url      string
	tmp      string
	out, err capture.Buffer
	done     chan struct{}
	ended    error
}

var readyOn = regexp.MustCompile(`ready on http://(\S+)`)

func start(t *testing.T, binary, file, environ string) *child {
	t.Helper()
	cfg, err := config.Load(file, nil, nil)
	require.NoError(t, err)
	c := &child{t: t, cfg: cfg, tmp: directory(t), done: make(chan struct{})}
	c.cmd = exec.CommandContext(t.Context(), binary, "serve", "--config", file)
	c.cmd.Env = append(os.Environ(), environ, "TMPDIR="+c.tmp)
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.err
	require.NoError(t, c.cmd.Start())
	go func() { defer close(c.done); c.ended = c.cmd.Wait() }()
	t.Cleanup(func() { _ = c.cmd.Process.Kill(); <-c.done })
	require.Eventually(t, func() bool {
		at := readyOn.FindStringSubmatch(c.out.String())
		if at != nil {
			c.url = at[1]
		}
		return at != nil
	}, patience, tick, "it did not start")
	return c
}

func (c *child) signal(s os.Signal) { assert.NoError(c.t, c.cmd.Process.Signal(s)) }

func (c *child) wait() error {
	c.t.Helper()
	select {
	case <-c.done:
	case <-time.After(patience):
		c.t.Fatal("the program did not end")
	}
	return c.ended
}

// person is its first admin.
func (c *child) person() *person {
	c.t.Helper()
	raw, err := os.ReadFile(c.cfg.AdminTokenFile())
	require.NoError(c.t, err)
	return &person{h: &house{t: c.t, at: "http://" + c.url}, token: strings.TrimSpace(string(raw))}
}

// arguments are what the system shows of the process.
func (c *child) arguments() []byte {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c.cmd.Process.Pid))
	if err != nil { // there is no /proc
		return []byte(strings.Join(c.cmd.Args, "\x00"))
	}
	return line
}

func (c *child) temporary() []byte { return append(fileNames(c.t, c.tmp), files(c.t, c.tmp)...) }
