//go:build linux

package runner_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/client"
	"weir/cmd/cli/runner"
	"weir/internal/weirtest/program"
)

// sandboxed is setup with a sandbox.
func sandboxed(t *testing.T, s *server, command string, read ...string) (runner.Config, *notices) {
	t.Helper()
	bwrap, _ := exec.LookPath("bwrap")
	program.Needs(t, bwrap, "bubblewrap is missing: install it, such as with `apt-get install bubblewrap`")
	box, err := runner.NewSandbox(t.Context(), read)
	if err != nil {
		program.Needs(t, "", err.Error())
	}
	cfg, n := setup(t, s, command)
	cfg.Sandbox, cfg.Keep = box, true
	return cfg, n
}

// TestSandboxHasItsTaskAlone: its directory, the system's programs, and no other process.
func TestSandboxHasItsTaskAlone(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("AGWCANARY"), 0o600))
	shown := filepath.Join(t.TempDir(), "shown")
	require.NoError(t, os.WriteFile(shown, []byte("shown"), 0o600))
	s := newServer(t, 1)
	cfg, n := sandboxed(t, s, fmt.Sprintf(`cat %s; echo "read $?"; cat %s; echo; (echo x >> %s) 2>/dev/null; echo "write $?"
(echo x > /usr/x) 2>/dev/null; echo "usr $?"; pwd; cat "$WEIR_TASK_PROMPT_FILE"; echo kept > made; ls -d /proc/[0-9]* | wc -l
ls /home /root /var /etc/shadow /etc/ssl/private /etc/pki/tls/private 2>/dev/null; echo "hidden $?"; echo "url $WEIR_URL"; exit 7`, secret, shown, shown), shown)
	require.NoError(t, runner.Run(t.Context(), cfg))
	out, err := os.ReadFile(n.last().Output)
	require.NoError(t, err)
	text := string(out)
	require.NotContains(t, text, "AGWCANARY")
	dir := filepath.Join(cfg.Dir, "t-0-1")
	for _, want := range []string{"read 1\n", "shown\n", "write 2\n", "usr 2\n", "hidden 2\nurl", dir + "\nFix it.\n", "url http://127.0.0.1:8092\n"} {
		assert.Contains(t, text, want)
	}
	assert.FileExists(t, filepath.Join(dir, "made"))
	require.Equal(t, 7, *n.last().Exit, text)
}

// TestSandboxReachesWeirAlone, also where that has a path, and its proxy.
func TestSandboxReachesWeirAlone(t *testing.T) {
	t.Parallel()
	curl, _ := exec.LookPath("curl")
	program.Needs(t, curl, "curl is missing: install it, such as with `apt-get install curl`")
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, token, _ := (&http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}).BasicAuth()
		fmt.Fprintf(w, "proxy %s %s", r.RequestURI, token)
	}))
	defer proxy.Close()
	s := newServer(t, 1)
	cfg, n := sandboxed(t, s, `curl -sS -H "Authorization: Bearer $WEIR_TOKEN" "$OPENAI_BASE_URL/models?a=b;c"; echo
curl -sS http://elsewhere.example/x; echo
curl -sS --noproxy '*' `+s.URL+`; echo "direct $?"`)
	base, err := client.New(s.URL+"/base", "")
	require.NoError(t, err)
	cfg.Client, cfg.Proxy = base, proxy.Listener.Addr().String()
	require.NoError(t, runner.Run(t.Context(), cfg))
	out, err := os.ReadFile(n.last().Output)
	require.NoError(t, err)
	assert.Contains(t, string(out), "weir "+s.Listener.Addr().String()+" /base/v1/models?a=b;c Bearer token-0\n")
	assert.Contains(t, string(out), "proxy http://elsewhere.example/x token-0\n")
	assert.Contains(t, string(out), "direct 7\n", "there is no other network")
}

// TestSandboxIsAskedToEnd, and ended with all its processes if it does not.
func TestSandboxIsAskedToEnd(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]string{
		"obeys": `trap 'echo bye; exit 4' TERM; mkfifo hold; read x < hold & wait`,
		"deaf":  `trap "" TERM; mkfifo hold; setsid sh -c 'trap "" TERM; read x < hold' & read x < hold`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, 1)
			cfg, n := sandboxed(t, s, command)
			cfg.Grace = time.Hour
			if name == "deaf" {
				cfg.Grace = 50 * time.Millisecond
			}
			began := filepath.Join(cfg.Dir, "t-0-1", "hold")
			n.on = func(x runner.Notice) {
				if x.What == runner.Started {
					go func() {
						for range s.kept {
							if _, err := os.Stat(began); err == nil {
								s.end("token-0", canceled)
								return
							}
						}
					}()
				}
			}
			require.NoError(t, runner.Run(t.Context(), cfg))
			require.Equal(t, runner.Lost, n.last().What)
			if name == "obeys" {
				require.Equal(t, 4, *n.last().Exit)
				require.Equal(t, []string{"bye"}, n.last().Tail)
			}
			requireNobodyIn(t, filepath.Join(cfg.Dir, "t-0-1"))
		})
	}
}

// TestSandboxThatCannotBe is refused at once, with the reason.
func TestSandboxThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	_, err := runner.NewSandbox(t.Context(), nil)
	require.ErrorContains(t, err, "there is no bwrap in PATH; install it with `apt-get install bubblewrap`")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bwrap"), []byte("#!/bin/sh\necho 'no permissions to create a namespace' >&2; exit 1\n"), 0o700))
	_, err = runner.NewSandbox(t.Context(), nil)
	require.ErrorContains(t, err, "bubblewrap cannot make a sandbox here: no permissions to create a namespace")
	require.ErrorContains(t, err, "permit namespaces of users")
}
