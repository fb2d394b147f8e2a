package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/config"
	"weir/internal/telemetry"
	"weir/internal/weirtest/capture"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// site is a whole Weir whose configuration lies in a file.
type site struct {
	*App
	file   string
	said   *capture.Buffer
	late   func()         // runs between New and Start
	change func(*Options) // nil: none
}

const base = "listen: 127.0.0.1:0\nlog: {durability: process}\n"

// newSite starts a Weir with this policy, which does not notice changes by itself.
func newSite(t *testing.T, rules string) *site {
	t.Helper()
	s := &site{file: filepath.Join(t.TempDir(), "weir.yaml"), said: &capture.Buffer{}}
	s.write(t, rules)
	return s.start(t, false)
}

func (s *site) start(t *testing.T, watch bool) *site {
	t.Helper()
	flags := map[string]string{"data": t.TempDir()}
	load := func() (config.Config, error) { return config.Load(s.file, nil, flags) }
	cfg, err := load()
	require.NoError(t, err)
	opts := Options{Config: cfg, Log: io.Discard, Load: load, Notices: s.said}
	if watch {
		opts.File = s.file
	}
	if s.change != nil {
		s.change(&opts)
	}
	s.App, err = New(t.Context(), opts)
	require.NoError(t, err)
	if s.late != nil {
		s.late()
	}
	require.NoError(t, s.Start(t.Context()))
	t.Cleanup(func() { assert.NoError(t, s.Stop(context.WithoutCancel(t.Context()))) })
	return s
}

func (s *site) write(t *testing.T, rules string) {
	t.Helper()
	require.NoError(t, os.WriteFile(s.file, []byte(base+rules), 0o600))
}

// reloaded asks for a reload over HTTP.
func (s *site) reloaded(t *testing.T) schemas.Reload {
	t.Helper()
	body, _ := s.asks(t, http.StatusOK, http.MethodPost, "/v1/policy/reload", "")
	done := fixture.Decode[schemas.Reload](t, body)
	return done
}

// allowing is a policy with one entry for an upstream, or with none.
func allowing(urls ...string) string {
	var text strings.Builder
	text.WriteString("policy:\n  allowed_hosts: []\n  allowlist:\n")
	for i, u := range urls {
		fmt.Fprintf(&text, "  - {name: e%d, url_prefix: %q, network: loopback, methods: [GET, POST]}\n", i, u)
	}
	if len(urls) == 0 {
		text.WriteString("  - {name: nobody, url_prefix: \"https://nobody.example/\"}\n")
	}
	return text.String()
}

// TestWarningsHaveTheFormatOfTheLog: lines of text where the log is text, else JSON.
func TestWarningsHaveTheFormatOfTheLog(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{
		telemetry.FormatText: `^weir: warning: "a" is b\n$`,
		telemetry.FormatJSON: `^{"time":"[^"]+","level":"WARN","msg":"warning_raised","text":"\\"a\\" is b"}\n$`,
	} {
		var out strings.Builder
		Options{Notices: &out, Config: config.Config{Telemetry: config.Telemetry{LogFormat: format}}}.notice(`"a" is b`)
		assert.Regexp(t, want, out.String())
	}
}

func get(url string) string { return fmt.Sprintf(`{"method":"GET","url":%q}`, url) }

// TestReload: what a reload revokes is denied from then on, what it grants passes, and a repeat changes nothing. A
// configuration with mistakes changes nothing, and every mistake is told, with the file's name alone.
func TestReload(t *testing.T) {
	t.Parallel()
	upstream := okUpstream(t)
	s := newSite(t, allowing(upstream))
	before := s.policyView(nil, true)
	executes := func(want int) {
		t.Helper()
		status, body, _ := s.ask(t, http.MethodPost, "/v1/execute", get(upstream))
		require.Equal(t, want, status, body)
	}
	executes(http.StatusOK)
	s.write(t, allowing())
	done := s.reloaded(t)
	assert.True(t, done.Changed)
	assert.Equal(t, before.Version, done.Previous)
	assert.NotEqual(t, done.Previous, done.Version)
	executes(http.StatusForbidden)
	again := s.reloaded(t)
	assert.False(t, again.Changed)
	assert.Equal(t, done.Version, again.Version)
	s.write(t, allowing(upstream))
	s.reloaded(t)
	executes(http.StatusOK)
	assert.Empty(t, s.said.String())

	before = s.policyView(nil, true)
	for name, tt := range map[string]struct {
		policy string
		told   []string
	}{
		"mistakes": {
			policy: "policy:\n  allowlist:\n  - {name: a, url_prefix: \"ftp://x.example/\"}\n  - {name: b, url_prefix: \"https://x.example/\", methods: [FETCH]}\n  bad: 1\n",
			told:   []string{"weir.yaml:7: policy.bad"},
		},
		"entries": {
			policy: "policy:\n  allowlist:\n  - {name: a, url_prefix: \"ftp://x.example/\"}\n  - {name: b, url_prefix: \"https://x.example/\", methods: [FETCH]}\n",
			told:   []string{"weir.yaml:5: policy.allowlist[0].url_prefix", "weir.yaml:6: policy.allowlist[1].methods"},
		},
		"no YAML":     {policy: "policy: [\n", told: []string{"weir.yaml:"}},
		"another key": {policy: "limits: {body: 1}\n" + allowing(), told: []string{"limits.body"}},
		"no file":     {},
	} {
		s.write(t, tt.policy)
		if tt.policy == "" {
			require.NoError(t, os.Remove(s.file))
		}
		body, _ := s.asks(t, http.StatusUnprocessableEntity, http.MethodPost, "/v1/policy/reload", "")
		assert.Contains(t, body, `"code":"VALIDATION_ERROR"`, name)
		for _, word := range tt.told {
			assert.Contains(t, body, word, name)
			assert.Contains(t, s.said.String(), word, name)
		}
		assert.NotContains(t, body, filepath.Dir(s.file), name)
		assert.Equal(t, before, s.policyView(nil, true), name)
	}
	executes(http.StatusOK)
	_, body, _ := s.ask(t, http.MethodGet, "/metrics", "")
	for _, line := range []string{
		`weir_policy_reloads_total{result="ok"} 3`, `weir_policy_reloads_total{result="failed"} 5`, fmt.Sprintf(`weir_policy_info{version=%q} 1`, before.Version),
	} {
		assert.True(t, strings.Contains(body, line), line) //nolint:testifylint // the body is long
	}
	assert.Equal(t, 1, strings.Count(body, "weir_policy_info{"), "one policy is in force")

	// The policy alone is taken, and warned of as at a start. Of everything else the operator is told.
	mark := len(s.said.String())
	s.write(t, "workers: {slots: 3}\nredact_headers: [x-mine]\npolicy:\n  timeout: 3s\n  allowlist:\n"+
		"  - {name: new, url_prefix: \"https://a.example/\", methods: [POST], headers: {X-Key: \"${secret:A}\"}, query: {key: \"${secret:B}\"}, body: {key: \"${secret:C}\"}}\n")
	assert.True(t, s.reloaded(t).Changed)
	told := s.said.String()[mark:]
	for _, added := range []string{"header X-Key", "query parameter key", "body member key"} {
		assert.Contains(t, told, `"msg":"warning_raised","text":"entry \"new\": `+added+": secret ")
	}
	for _, key := range []string{"workers.slots", "redact_headers", "policy.timeout"} {
		assert.Contains(t, told, key+": the change takes effect after a restart")
	}
	assert.NotRegexp(t, "allow|listen", told)
	s.refreshes(t)
}

// TestWhatWasWrittenStays: a file that is gone or cut to nothing grants nothing,
// though one that was never there means the defaults, which grant loopback.
func TestWhatWasWrittenStays(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "weir.yaml")
	read := func(text string) config.Config {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		cfg, err := config.Load(file, nil, nil)
		require.NoError(t, err)
		return cfg
	}
	never, err := config.Parse("", nil, nil, nil)
	require.NoError(t, err)
	written := read(allowing())
	require.NoError(t, kept(never, never))
	require.NoError(t, kept(never, read("")))
	require.NoError(t, kept(never, written))
	require.ErrorContains(t, kept(written, never), "weir.yaml: the file is gone")
	for _, text := range []string{"", "\n\n", "# nothing\n", "---\n", "null\n", "~"} {
		require.ErrorContains(t, kept(written, read(text)), "weir.yaml: the file has become empty")
	}
	require.NoError(t, kept(written, read("{}\n")), "that is meant")
}

// refreshes reloads when the file is not what is in force, whoever put that
// there, and tells of one mistake once.
func (s *site) refreshes(t *testing.T) {
	t.Helper()
	const one, slots = "http://127.0.0.1:1/", "workers: {slots: %d}\n"
	s.write(t, allowing(one))
	s.reloaded(t)
	mark, count := len(s.said.String()), func(result string) (n int) {
		_, err := fmt.Sscan(caller{App: s.App}.metric(t, `weir_policy_reloads_total{result="`+result+`"}`), &n)
		require.NoError(t, err)
		return n
	}
	ok, failed := count("ok"), count("failed")
	for _, step := range []struct {
		what       string
		file       string // "": as it is
		ok, failed int
	}{
		{"nothing happened", "", 0, 0},
		{"it is in force already", allowing(one, "http://127.0.0.1:2/"), 1, 0},
		{"another way led to what is in force", allowing(one), 2, 0},
		{"a mistake", "policy: [\n", 2, 1},
		{"the same", "", 2, 1},
		{"put right", allowing(one), 3, 1},
		{"and that once", "", 3, 1},
		{"the same mistake again", "policy: [\n", 3, 2},
		{"no file", "gone", 3, 3},
		{"what waits for a restart is told", fmt.Sprintf(slots, 3) + allowing(one), 4, 3},
		{"each time", fmt.Sprintf(slots, 4) + allowing(one), 5, 3},
		{"an agent, where the policy's version is the same", allowing(one) + agentsAndModels, 6, 3},
		{"an agent that is called in another way", allowing(one) + strings.ReplaceAll(agentsAndModels, "concurrency: 7", "concurrency: 8"), 7, 3},
		{"once", "", 7, 3},
	} {
		switch step.file {
		case "":
		case "gone":
			require.NoError(t, os.Remove(s.file))
		default:
			s.write(t, step.file)
		}
		if step.what == "it is in force already" {
			s.reloaded(t)
		}
		s.refresh(t.Context())
		assert.Equal(t, []int{step.ok, step.failed}, []int{count("ok") - ok, count("failed") - failed}, step.what)
		if step.what == "the same" {
			assert.Equal(t, 1, strings.Count(s.said.String()[mark:], "not reloaded"))
		}
	}
	assert.Contains(t, s.said.String()[mark:], "workers.slots: ")
	b, _ := s.agent("B")
	assert.Equal(t, 8, b.Concurrency)
}

// TestFileIsWatched: a change takes effect in whichever way it was made, and is not missed while the node starts. The
// file is a link through a folder's link, which Kubernetes exchanges.
func TestFileIsWatched(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	urls := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("http://127.0.0.1:%d/", i+1))
		}
		return all
	}
	put := func(file string, n int) {
		t.Helper()
		require.NoError(t, os.WriteFile(file, []byte(base+allowing(urls(n)...)), 0o600))
	}
	version := func(name string, n int) {
		t.Helper()
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		put(filepath.Join(dir, name, "weir.yaml"), n)
		require.NoError(t, os.Symlink(name, filepath.Join(dir, "..data_tmp")))
		require.NoError(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	version("..1", 1)
	s := &site{file: filepath.Join(dir, "weir.yaml"), said: &capture.Buffer{}}
	require.NoError(t, os.Symlink(filepath.Join("..data", "weir.yaml"), s.file))
	s.late = func() { version("..2", 2) }
	s.start(t, true)
	assert.Len(t, s.policyView(nil, true).Entries, 2, "changed while it started")
	inForce := func(n int, what string) {
		t.Helper()
		poll.Until(t, func() bool { return len(s.policyView(nil, true).Entries) == n }, what)
	}
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "..1")))
	version("..3", 3)
	inForce(3, "the folder's link exchanged")
	put(filepath.Join(dir, "..3", "weir.yaml"), 1)
	inForce(1, "written in the folder that it leads to")
	s.write(t, "policy: [\n")
	poll.Until(t, func() bool { return strings.Contains(s.said.String(), "not reloaded") })
	assert.Len(t, s.policyView(nil, true).Entries, 1, "a mistake changes nothing")
	put(s.file+".new", 2)
	require.NoError(t, os.Rename(s.file+".new", s.file))
	inForce(2, "another file put in its place")
	require.NoError(t, os.Remove(s.file))
	put(s.file, 4)
	inForce(4, "removed and made again")
	put(s.file, 5)
	inForce(5, "written in place")
}

// TestOwnAddresses are needed where more than this machine reaches the node.
func TestOwnAddresses(t *testing.T) {
	t.Parallel()
	own, err := ownAddrs()
	require.NoError(t, err)
	require.Contains(t, own, netip.MustParseAddr("127.0.0.1"))
	cfg, err := config.Parse("test", []byte("listen: 0.0.0.0:0\ndata: x\n"), nil, nil)
	require.NoError(t, err)
	a := &App{cfg: cfg}
	require.NoError(t, a.listen(t.Context()))
	defer func() { require.NoError(t, a.teardown.unwind(t.Context())) }()
	assert.Regexp(t, `^0\.0\.0\.0:`, a.http.addr(), "an address of IPv4 opens no other")
	_, err = a.compile(a.cfg)
	require.NoError(t, err, "a node that listens everywhere starts")
}

// TestWhenFilesAreRead: when two looks have found the same, a JSON file that the configuration names included.
func TestWhenFilesAreRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := &App{opts: Options{File: filepath.Join(dir, "weir.yaml")}}
	schema := filepath.Join(dir, "order.json")
	grow := func(file string) func() {
		return func() {
			f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			require.NoError(t, err)
			_, err = f.WriteString("x")
			require.NoError(t, errors.Join(err, f.Close()))
		}
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		var reads []time.Duration
		began := time.Now()
		go a.followFiles(ctx, a.files(), func() { reads = append(reads, time.Since(began)/lookEvery) })
		for _, do := range []func(){ // each halfway between two looks
			grow(a.opts.File), grow(a.opts.File), nil, nil, nil, // read at the third look
			grow(filepath.Join(dir, "weir.log")), nil, nil,
			func() {
				a.reload.mu.Lock()
				defer a.reload.mu.Unlock()
				a.reload.files = []string{schema}
			}, nil, nil, // the tenth
			grow(schema), nil, nil, // the thirteenth
			func() { require.NoError(t, os.Remove(a.opts.File)) }, nil, // the sixteenth
		} {
			time.Sleep(lookEvery / 2)
			if do != nil {
				do()
			}
			time.Sleep(lookEvery / 2)
			synctest.Wait()
		}
		end()
		synctest.Wait()
		assert.Equal(t, []time.Duration{3, 10, 13, 16}, reads)
	})
}
