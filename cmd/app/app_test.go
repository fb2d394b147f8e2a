package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/config"
	"weir/schemas"
)

// newApp starts a whole Weir on a directory of its own. Extra lines are added to
// its configuration.
// newApp is a running node. Unless the text has a policy, its callers may call this machine.
func newApp(t *testing.T, extra string) *App {
	t.Helper()
	if !strings.Contains(extra, "policy:") {
		extra += "policy: {allowed_hosts: [localhost, 127.0.0.1]}\n"
	}
	text := fmt.Sprintf("listen: 127.0.0.1:0\ndata: %q\n%s", t.TempDir(), extra)
	cfg, err := config.Parse("test", []byte(text), nil, nil)
	require.NoError(t, err)
	a, err := New(t.Context(), Options{Config: cfg, Log: io.Discard})
	require.NoError(t, err)
	require.NoError(t, a.Start(t.Context()))
	t.Cleanup(func() { assert.NoError(t, a.Stop(context.WithoutCancel(t.Context()))) })
	return a
}

func (a *App) ask(t *testing.T, method, path, body string, header ...string) (status int, text string, h http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, a.URL()+path, strings.NewReader(body))
	require.NoError(t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(data), resp.Header
}

func okUpstream(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"ok":true}`) }))
	t.Cleanup(s.Close)
	return s.URL
}

// TestUndecodableMessageIsParked puts garbage on the log among good work: it is
// parked, its action reads as failed, and the others flow.
func TestUndecodableMessageIsParked(t *testing.T) {
	t.Parallel()
	a, upstream := newApp(t, "log: {durability: process}\n"), okUpstream(t)
	ref := schemas.Ref{Tenant: "default", Kind: schemas.KindHTTP, ID: "garbage"}
	_, err := a.broker.Append(t.Context(), schemas.Append{Subject: a.layout().Subject(ref, schemas.TailAccepted), Data: []byte("{not an event")})
	require.NoError(t, err)

	status, body, _ := a.ask(t, http.MethodPost, "/v1/execute", fmt.Sprintf(`{"method":"GET","url":%q}`, upstream))
	require.Equal(t, http.StatusOK, status, body)

	status, body, _ = a.ask(t, http.MethodGet, "/v1/actions/garbage/events?live=long-poll&after=1", "", "Accept", "application/json")
	require.Equal(t, http.StatusOK, status, body)
	assert.Contains(t, body, `"code":"POISON"`)
	status, body, _ = a.ask(t, http.MethodGet, "/v1/actions/garbage", "")
	require.Equal(t, http.StatusOK, status, body)
	assert.Contains(t, body, `"status":"failed"`)
	_, body, _ = a.ask(t, http.MethodGet, "/v1/dead-letters", "")
	assert.Contains(t, body, `"action_id":"garbage"`)
	assert.Contains(t, body, `"code":"POISON"`)
}

// TestRedrive does a parked action again: a new action of the same payload, which
// names the old one; asked twice, it is the same new action.
func TestRedrive(t *testing.T) {
	t.Parallel()
	a, upstream := newApp(t, "log: {durability: process}\n"), okUpstream(t)
	park := func(id string) string {
		letter, err := json.Marshal(schemas.DeadLetter{Time: time.Now().UTC(), Tenant: "default", Kind: schemas.KindHTTP, ActionID: id, Code: schemas.Poison})
		require.NoError(t, err)
		seq, err := a.broker.Append(t.Context(), schemas.Append{Subject: schemas.DeadSubject(schemas.DeadLetter{Tenant: "default", Kind: schemas.KindHTTP, ActionID: id}), Data: letter})
		require.NoError(t, err)
		return fmt.Sprintf(`{"sequence":%d}`, seq)
	}
	status, body, _ := a.ask(t, http.MethodPost, "/v1/execute", fmt.Sprintf(`{"type":"Http","request_id":"old","args":{"method":"GET","url":%q}}`, upstream))
	require.Equal(t, http.StatusOK, status, body)
	redrive, ids := park("old"), map[string]bool{}
	for range 2 {
		status, body, h := a.ask(t, http.MethodPost, "/v1/dead-letters/redrive", redrive)
		require.Equal(t, http.StatusAccepted, status, body)
		ids[h.Get("Weir-Action-Id")] = true
	}
	require.Len(t, ids, 1)
	for id := range ids {
		_, body, _ := a.ask(t, http.MethodGet, "/v1/actions/"+id, "")
		assert.Contains(t, body, `"supersedes":"old"`)
	}
	status, body, _ = a.ask(t, http.MethodPost, "/v1/dead-letters/redrive", park("nobody"))
	assert.GreaterOrEqual(t, status, http.StatusNotFound, body)
	status, body, _ = a.ask(t, http.MethodPost, "/v1/dead-letters/redrive", `{"sequence":999}`)
	assert.Equal(t, http.StatusNotFound, status, body)
	// Of a denied call there is no body that could be sent again.
	status, body, _ = a.ask(t, http.MethodPost, "/v1/execute", `{"type":"Http","request_id":"denied","args":{"method":"GET","url":"https://denied.example/"}}`)
	require.Equal(t, http.StatusForbidden, status, body)
	status, body, _ = a.ask(t, http.MethodPost, "/v1/dead-letters/redrive", park("denied"))
	assert.Equal(t, http.StatusConflict, status, body)
	assert.Contains(t, body, "the call was denied")
}

// TestMetricsStartAtZero: a reason that never occurred has a series all the same.
func TestMetricsStartAtZero(t *testing.T) {
	t.Parallel()
	a := newApp(t, "log: {durability: process}\n")
	_, body, _ := a.ask(t, http.MethodGet, "/metrics", "")
	for _, code := range append(schemas.DenyCodes(), schemas.UpstreamCodes()...) {
		assert.True(t, strings.Contains(body, fmt.Sprintf("%q", code)), "%s has no series", code) //nolint:testifylint // the body is long
	}
	status, _, _ := a.ask(t, http.MethodPost, "/v1/execute", `{"method":"GET","url":"http://example.com/"}`)
	assert.Equal(t, http.StatusForbidden, status)
	_, body, _ = a.ask(t, http.MethodGet, "/metrics", "")
	assert.True(t, strings.Contains(body, `weir_policy_denials_total{code="DENY_HOST"} 1`), "the denial was not counted") //nolint:testifylint // the body is long
}

// TestStopTwice: a second Stop does nothing.
func TestStopTwice(t *testing.T) {
	t.Parallel()
	a := newApp(t, "log: {durability: process}\n")
	require.NoError(t, a.Stop(t.Context()))
	require.NoError(t, a.Stop(t.Context()))
}
