package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/config"
	"weir/internal/weirtest/capture"
	"weir/internal/weirtest/poll"
	"weir/schemas"
)

// site is a whole Weir whose configuration lies in a file.
type site struct {
	*App
	file string
	said *capture.Buffer
	late func() // runs between New and Start
	bare bool   // the file need not be there
}

const base = "listen: 127.0.0.1:0\nlog: {durability: process}\n"

// newSite starts a Weir with this policy. Watch has it notice changes by itself.
func newSite(t *testing.T, rules string, watch bool) *site {
	t.Helper()
	s := &site{file: filepath.Join(t.TempDir(), "weir.yaml"), said: &capture.Buffer{}}
	s.write(t, rules)
	return s.start(t, watch)
}

func (s *site) start(t *testing.T, watch bool) *site {
	t.Helper()
	flags := map[string]string{"data": t.TempDir()}
	load := func() (config.Config, error) {
		if _, err := os.Stat(s.file); s.bare && err != nil {
			return config.Parse("", nil, nil, map[string]string{"data": flags["data"], "listen": "127.0.0.1:0", "log.durability": "process"})
		}
		return config.Load(s.file, nil, flags)
	}
	cfg, err := load()
	require.NoError(t, err)
	opts := Options{Config: cfg, Log: io.Discard, Load: load, Notices: s.said}
	if watch {
		opts.File = s.file
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
	status, body, _ := s.ask(t, http.MethodPost, "/v1/policy/reload", "")
	require.Equal(t, http.StatusOK, status, body)
	var done schemas.Reload
	require.NoError(t, json.Unmarshal([]byte(body), &done))
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

func get(url string) string { return fmt.Sprintf(`{"method":"GET","url":%q}`, url) }

// TestReload: what a reload revokes is denied from then on, what it grants passes,
// and a repeat changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	upstream := okUpstream(t)
	s := newSite(t, allowing(upstream), false)
	before := s.policyView(nil, true)
	status, body, _ := s.ask(t, http.MethodPost, "/v1/execute", get(upstream))
	require.Equal(t, http.StatusOK, status, body)

	s.write(t, allowing())
	done := s.reloaded(t)
	assert.True(t, done.Changed)
	assert.Equal(t, before.Version, done.Previous)
	assert.NotEqual(t, done.Previous, done.Version)
	status, body, _ = s.ask(t, http.MethodPost, "/v1/execute", get(upstream))
	assert.Equal(t, http.StatusForbidden, status, body)

	again := s.reloaded(t)
	assert.False(t, again.Changed)
	assert.Equal(t, done.Version, again.Version)

	s.write(t, allowing(upstream))
	s.reloaded(t)
	status, body, _ = s.ask(t, http.MethodPost, "/v1/execute", get(upstream))
	assert.Equal(t, http.StatusOK, status, body)

	_, body, _ = s.ask(t, http.MethodGet, "/metrics", "")
	for _, line := range []string{
		`weir_policy_reloads_total{result="ok"} 3`, `weir_policy_reloads_total{result="failed"} 0`,
		fmt.Sprintf(`weir_policy_info{version=%q} 1`, before.Version),
	} {
		assert.True(t, strings.Contains(body, line), line) //nolint:testifylint // the body is long
	}
	assert.Equal(t, 1, strings.Count(body, "weir_policy_info{"), "one policy is in force")
}

// TestReloadIsAllOrNothing: a configuration with mistakes changes nothing, and
// every mistake is told, with the file's name alone.
func TestReloadIsAllOrNothing(t *testing.T) {
	t.Parallel()
	upstream := okUpstream(t)
	s := newSite(t, allowing(upstream), false)
	before := s.policyView(nil, true)
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
	} {
		s.write(t, tt.policy)
		status, body, _ := s.ask(t, http.MethodPost, "/v1/policy/reload", "")
		require.Equal(t, http.StatusUnprocessableEntity, status, "%s: %s", name, body)
		assert.Contains(t, body, `"code":"VALIDATION_ERROR"`, name)
		for _, word := range tt.told {
			assert.Contains(t, body, word, name)
			assert.Contains(t, s.said.String(), word, name)
		}
		assert.NotContains(t, body, filepath.Dir(s.file), name)
		assert.Equal(t, before, s.policyView(nil, true), name)
	}
	require.NoError(t, os.Remove(s.file))
	status, body, _ := s.ask(t, http.MethodPost, "/v1/policy/reload", "")
	require.Equal(t, http.StatusUnprocessableEntity, status, body)
	assert.NotContains(t, body, filepath.Dir(s.file))
	assert.Equal(t, before, s.policyView(nil, true))
	status, body, _ = s.ask(t, http.MethodPost, "/v1/execute", get(upstream))
	require.Equal(t, http.StatusOK, status, body)
	status, body, _ = s.ask(t, http.MethodPost, "/v1/policy/reload", `{"force":true}`)
	assert.GreaterOrEqual(t, status, http.StatusBadRequest, body)
}

// TestWhatWasWrittenStays: a file that is gone or cut to nothing grants nothing,
// though one that was never there means the defaults, which grant loopback.
func TestWhatWasWrittenStays(t *testing.T) {
	t.Parallel()
	upstream := okUpstream(t)
	s := &site{file: filepath.Join(t.TempDir(), "weir.yaml"), said: &capture.Buffer{}, bare: true}
	s.start(t, false)
	assert.False(t, s.reloaded(t).Changed, "there is no file still")
	status, body, _ := s.ask(t, http.MethodPost, "/v1/execute", get(upstream))
	require.Equal(t, http.StatusOK, status, body)
	require.NoError(t, os.WriteFile(s.file, nil, 0o600))
	assert.False(t, s.reloaded(t).Changed, "there is nothing in it")
	s.write(t, allowing())
	require.True(t, s.reloaded(t).Changed)

	before := s.policyView(nil, true)
	refused := func(told string) {
		t.Helper()
		status, body, _ := s.ask(t, http.MethodPost, "/v1/policy/reload", "")
		require.Equal(t, http.StatusUnprocessableEntity, status, body)
		assert.Contains(t, body, told)
		assert.NotContains(t, body, filepath.Dir(s.file))
		assert.Equal(t, before, s.policyView(nil, true))
		status, body, _ = s.ask(t, http.MethodPost, "/v1/execute", get(upstream))
		assert.Equal(t, http.StatusForbidden, status, body)
	}
	require.NoError(t, os.Rename(s.file, s.file+".away"))
	refused("weir.yaml: the file is gone")
	for _, text := range []string{"", "\n\n", "# nothing\n", "---\n", "null\n", "~"} {
		require.NoError(t, os.WriteFile(s.file, []byte(text), 0o600))
		refused("weir.yaml: the file has become empty")
	}
	require.NoError(t, os.WriteFile(s.file, []byte("{}\n"), 0o600))
	assert.True(t, s.reloaded(t).Changed, "that is meant")
	assert.NotEmpty(t, s.policyView(nil, true).AllowedHosts)
}

// TestReloadWarns as a start does.
func TestReloadWarns(t *testing.T) {
	t.Parallel()
	s := newSite(t, allowing(), false)
	assert.Empty(t, s.said.String())
	s.write(t, "policy:\n  allowlist:\n  - {name: new, url_prefix: \"https://a.example/\", headers: {X-Key: \"${secret:NOWHERE}\"}}\n")
	s.reloaded(t)
	assert.Contains(t, s.said.String(), `entry "new": header X-Key: `)
}

// TestRefresh reloads when the file is not what is in force, whoever put that
// there, and tells of one mistake once.
func TestRefresh(t *testing.T) {
	t.Parallel()
	s := newSite(t, allowing("http://127.0.0.1:1/"), false)
	reloads := func(ok, failed int, what string) {
		t.Helper()
		s.refresh(t.Context())
		_, body, _ := s.ask(t, http.MethodGet, "/metrics", "")
		for result, n := range map[string]int{"ok": ok, "failed": failed} {
			assert.True(t, strings.Contains(body, fmt.Sprintf("weir_policy_reloads_total{result=%q} %d\n", result, n)), "%s: %s", what, result) //nolint:testifylint // the body is long
		}
	}
	reloads(0, 0, "nothing happened")
	s.write(t, allowing("http://127.0.0.1:1/", "http://127.0.0.1:2/"))
	s.reloaded(t)
	reloads(1, 0, "it is in force already")
	s.write(t, allowing("http://127.0.0.1:1/"))
	reloads(2, 0, "another way led to what is in force")
	assert.Len(t, s.policyView(nil, true).Entries, 1)

	s.write(t, "policy: [\n")
	reloads(2, 1, "a mistake")
	reloads(2, 1, "the same")
	assert.Equal(t, 1, strings.Count(s.said.String(), "not reloaded"))
	s.write(t, allowing("http://127.0.0.1:1/"))
	reloads(3, 1, "put right")
	reloads(3, 1, "and that once")
	s.write(t, "policy: [\n")
	reloads(3, 2, "the same mistake again")
	require.NoError(t, os.Remove(s.file))
	reloads(3, 3, "another")

	s.write(t, "workers: {slots: 3}\n"+allowing("http://127.0.0.1:1/"))
	reloads(4, 3, "what waits for a restart is told")
	assert.Contains(t, s.said.String(), "workers.slots: ")
	s.write(t, "workers: {slots: 4}\n"+allowing("http://127.0.0.1:1/"))
	reloads(5, 3, "each time")
}

// TestReloadAppliesThePolicyAlone: of everything else the operator is told.
func TestReloadAppliesThePolicyAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t, allowing(), false)
	s.write(t, "workers: {slots: 3}\nredact_headers: [x-mine]\n"+allowing("http://127.0.0.1:1/")+"  timeout: 3s\n")
	assert.True(t, s.reloaded(t).Changed)
	for _, key := range []string{"workers.slots", "redact_headers", "policy.timeout"} {
		assert.Contains(t, s.said.String(), key+": the change takes effect after a restart")
	}
	assert.NotContains(t, s.said.String(), "allow")
	assert.NotContains(t, s.said.String(), "listen")
}

// TestReloadRevokesWhatIsUnderWay: the upstream itself has the policy exchanged
// while it answers, and hears no more of the call.
func TestReloadRevokesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(w http.ResponseWriter){
		"between attempts": func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) },
		"in a redirect": func(w http.ResponseWriter) {
			w.Header().Set("Location", "/next")
			w.WriteHeader(http.StatusFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s *site
			var hits atomic.Int32
			upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if hits.Add(1) == 1 {
					s.write(t, allowing())
					s.reloaded(t)
				}
				answer(w)
			}))
			t.Cleanup(upstream.Close)
			s = newSite(t, strings.ReplaceAll(allowing(upstream.URL), "network:", "redirects: 2, network:"), false)
			_, body, h := s.ask(t, http.MethodPost, "/v1/execute", get(upstream.URL))
			assert.Contains(t, body, `"code":"DENY_`)
			assert.Equal(t, int32(1), hits.Load())
			_, body, _ = s.ask(t, http.MethodGet, "/v1/evidence?kind=policy.decision&action_id="+h.Get("Weir-Action-Id"), "", "Accept", "application/json")
			assert.Contains(t, body, s.policyView(nil, true).Version, "the record names the policy that denied")
		})
	}
}

// eventually waits until the policy in force has this many entries.
func (s *site) eventually(t *testing.T, entries int, what string) {
	t.Helper()
	poll.Until(t, func() bool { return len(s.policyView(nil, true).Entries) == entries }, what)
}

// TestFileIsWatched: a change takes effect in whichever way it was made.
func TestFileIsWatched(t *testing.T) {
	t.Parallel()
	s := newSite(t, allowing("http://127.0.0.1:1/"), true)
	s.write(t, allowing("http://127.0.0.1:1/", "http://127.0.0.1:2/"))
	s.eventually(t, 2, "written in place")

	s.write(t, "policy: [\n")
	poll.Until(t, func() bool { return strings.Contains(s.said.String(), "not reloaded") })
	assert.Len(t, s.policyView(nil, true).Entries, 2, "a mistake changes nothing")

	other := s.file + ".new"
	require.NoError(t, os.WriteFile(other, []byte(base+allowing("http://127.0.0.1:1/", "http://127.0.0.1:2/", "http://127.0.0.1:3/")), 0o600))
	require.NoError(t, os.Rename(other, s.file))
	s.eventually(t, 3, "another file put in its place")

	require.NoError(t, os.Remove(s.file))
	s.write(t, allowing("http://127.0.0.1:1/"))
	s.eventually(t, 1, "removed and made again")
}

// TestChangeWhileItStarts is not missed.
func TestChangeWhileItStarts(t *testing.T) {
	t.Parallel()
	s := &site{file: filepath.Join(t.TempDir(), "weir.yaml"), said: &capture.Buffer{}}
	s.write(t, allowing("http://127.0.0.1:1/"))
	s.late = func() { s.write(t, allowing("http://127.0.0.1:1/", "http://127.0.0.1:2/")) }
	s.start(t, true)
	assert.Len(t, s.policyView(nil, true).Entries, 2)
}

// TestLinkIsWatched: Kubernetes exchanges the link to the folder that the file's
// link goes through.
func TestLinkIsWatched(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	version := func(name string, urls ...string) {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, "weir.yaml"), []byte(base+allowing(urls...)), 0o600))
		require.NoError(t, os.Symlink(name, filepath.Join(dir, "..data_tmp")))
		require.NoError(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	version("..1", "http://127.0.0.1:1/")
	s := &site{file: filepath.Join(dir, "weir.yaml"), said: &capture.Buffer{}}
	require.NoError(t, os.Symlink(filepath.Join("..data", "weir.yaml"), s.file))
	s.start(t, true)
	version("..2", "http://127.0.0.1:1/", "http://127.0.0.1:2/")
	s.eventually(t, 2, "the first exchange")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "..1")))
	version("..3", "http://127.0.0.1:1/", "http://127.0.0.1:2/", "http://127.0.0.1:3/")
	s.eventually(t, 3, "the second")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "..3", "weir.yaml"), []byte(base+allowing("http://127.0.0.1:1/")), 0o600))
	s.eventually(t, 1, "written in the folder that it leads to")
}

// TestOwnAddresses are needed where more than this machine reaches the node.
func TestOwnAddresses(t *testing.T) {
	t.Parallel()
	assert.True(t, config.Loopback("127.0.0.1:8092"))
	assert.True(t, config.Loopback("[::1]:8092"))
	assert.False(t, config.Loopback("0.0.0.0:8092"))
	assert.False(t, config.Loopback("[::]:8092"))
	own, err := ownAddrs()
	require.NoError(t, err)
	require.Contains(t, own, netip.MustParseAddr("127.0.0.1"))

	cfg, err := config.Parse("test", []byte(fmt.Sprintf("listen: 0.0.0.0:0\ndata: %q\nlog: {durability: process}\n", t.TempDir())), nil, nil)
	require.NoError(t, err)
	a, err := New(t.Context(), Options{Config: cfg, Log: io.Discard})
	require.NoError(t, err, "a node that listens everywhere starts")
	require.NoError(t, a.Stop(context.WithoutCancel(t.Context())))
}
