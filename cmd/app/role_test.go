package app

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/cmd/cli"
	"weir/egress"
	"weir/internal/config"
	"weir/schemas"
)

// TestRoleCommands end as mistakes of usage where nothing can come of them, and say what to do.
func TestRoleCommands(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args []string
		says string
	}{
		{[]string{"ingress"}, "name the NATS cluster with --nats"},
		{[]string{"worker"}, "name the NATS cluster with --nats"},
		{[]string{"egress", "--nats", "http://h"}, "nats.url: is not a list of URLs"},
		{[]string{"worker", "--nats", "nats://h", "--kinds", "http"}, "unknown flag: --kinds"},
		{[]string{"worker", "x"}, "takes no arguments"},
		{[]string{"serve", "--creds", "x"}, "nats.creds: is for an external cluster"},
	} {
		code, out, errs := weir(t, []string{"HOME=/nowhere"}, tc.args...)
		assert.Equal(t, cli.ExitUsage, code, tc.args)
		assert.Contains(t, errs, tc.says, tc.args)
		assert.Empty(t, out, tc.args)
	}
}

func TestARoleNeedsALogOfOthers(t *testing.T) {
	t.Parallel()
	cfg, err := config.Parse("test", []byte("listen: 127.0.0.1:0\ndata: x\n"), nil, nil)
	require.NoError(t, err)
	_, err = New(t.Context(), Options{Config: cfg, Role: RoleWorker, Log: io.Discard})
	require.ErrorContains(t, err, "set nats.url", "an embedded log is no log of others")
}

// nowhere is a URL that nothing listens at.
const nowhere = "nats://127.0.0.1:1"

// waitingApp is one whose log is not there.
func waitingApp(t *testing.T, role Role, extra string) (a *App, end func() error) {
	t.Helper()
	cfg, err := config.Parse("test", []byte("listen: 127.0.0.1:0\nnats: {url: '"+nowhere+"'}\n"+extra), nil, nil)
	require.NoError(t, err)
	a, err = New(t.Context(), Options{Config: cfg, Role: role, Log: io.Discard})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan error, 1)
	go func() { started <- a.Start(ctx) }()
	stopped := false
	end = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		require.Error(t, <-started) // that it was canceled, or that its last try failed
		return a.Stop(context.WithoutCancel(t.Context()))
	}
	t.Cleanup(func() { assert.NoError(t, end()) })
	return a, end
}

// TestNodeWithoutItsLog is alive and says why it is not ready; all else may be asked again.
func TestNodeWithoutItsLog(t *testing.T) {
	t.Parallel()
	for _, role := range []Role{RoleAll, RoleEgress} {
		a, end := waitingApp(t, role, "")
		a.asks(t, http.StatusOK, http.MethodGet, "/healthz", "")
		for _, path := range []string{"/readyz", "/health/ready"} {
			body, h := a.asks(t, http.StatusServiceUnavailable, http.MethodGet, path, "")
			require.NotEmpty(t, h.Get("Retry-After"), path)
			require.Contains(t, body, `"reasons":["the log `, path)
			require.Contains(t, body, `"checks":{"log":"failed"}`, path)
			require.Equal(t, role != RoleAll, strings.Contains(body, `"role":"`+string(role)+`"`), body)
		}
		for _, path := range []string{"/ready", "/api/ready"} {
			status, body, h := a.ask(t, http.MethodGet, path, "")
			require.Equal(t, []any{http.StatusServiceUnavailable, "Not ready"}, []any{status, body}, path)
			require.NotEmpty(t, h.Get("Retry-After"), path)
		}
		for path, word := range map[string]string{
			"/v1/execute":                 `"variant":"Request"`,
			schemas.RouteRunSync:          `"outputs":{}`,
			"/v1" + schemas.RouteChat:     `"metadata":{"code":"UNAVAILABLE"`,
			schemas.RouteAgentAPI:         `"ok":false`,
			"/v1/plans":                   `"code":"UNAVAILABLE"`,
			"/v1/actions/some/cancel":     `"retryable":true`,
			"/there/is/nothing/like/this": `"code":"UNAVAILABLE"`,
		} {
			body, h := a.asks(t, http.StatusServiceUnavailable, http.MethodPost, path, `{}`)
			require.Equal(t, "2", h.Get("Retry-After"), path)
			require.Contains(t, body, word, path)
		}
		require.NoError(t, end())
	}
}

// TestRoutesElsewhere: each role answers for every route that there is, and those of
// another say where to go in the words of their surface.
func TestRoutesElsewhere(t *testing.T) {
	t.Parallel()
	whole := tokenNode.node(t) // an open node signs nobody in
	all := map[string]bool{}
	served, ok := whole.http.surfaces.(*gin.Engine)
	require.True(t, ok)
	for _, r := range served.Routes() {
		all[r.Method+" "+r.Path] = true
	}
	engine := gin.New()
	egress.Mount(engine, []egress.Surface{whole.service()})
	a := &App{role: RoleWorker, metrics: whole.metrics}
	a.descriptions().misdirected(engine)
	for _, r := range engine.Routes() {
		require.True(t, all[r.Method+" "+r.Path], "%s %s is no route", r.Method, r.Path)
		delete(all, r.Method+" "+r.Path)
	}
	require.Empty(t, all, "routes that the list of a room lacks")
}
