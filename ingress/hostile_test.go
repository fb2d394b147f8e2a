package ingress_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/table"
	"weir/schemas"
)

func TestBodiesOfUnknownLength(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body   io.Reader
		status int
		code   schemas.Code
	}{
		"too large":  {strings.NewReader(strings.Repeat(" ", 101)), http.StatusRequestEntityTooLarge, schemas.PayloadTooLarge},
		"breaks off": {iotest.ErrReader(io.ErrUnexpectedEOF), http.StatusBadRequest, schemas.InvalidRequest},
		"just fits":  {strings.NewReader(okGet + strings.Repeat(" ", 100-len(okGet))), http.StatusAccepted, ""},
	} {
		w := setup(t, func(c *config) { c.MaxBody = 100 })
		r := post("/v1/execute", "")
		r.Body, r.ContentLength = io.NopCloser(tc.body), -1
		a := w.do(t, r).refused(t, tc.status, tc.code)
		require.Equal(t, tc.code != "", a.Header().Get("Connection") == "close", name)
	}
}

// pipes is a listener of connections in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (pipes) Close() error   { return nil }
func (pipes) Addr() net.Addr { return &net.UnixAddr{} }

// overPipe serves an engine on one connection in memory, and reads the answer to what is sent:
// its status, and whether it closes the connection.
func overPipe(t *testing.T, engine http.Handler, send func(client net.Conn)) (status int, closes bool) {
	t.Helper()
	l := make(pipes)
	srv := &http.Server{Handler: engine}
	go func() { _ = srv.Serve(l) }()
	client, server := net.Pipe()
	l <- server
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		send(client)
	}()
	resp, err := http.ReadResponse(bufio.NewReader(client), nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.NoError(t, client.Close())
	<-sent
	close(l)
	require.NoError(t, srv.Close())
	return resp.StatusCode, resp.Close
}

func TestABodyThatNeverEndsIsTimedOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t, func(c *config) { c.BodyTimeout = 7 * time.Second })
		start := time.Now()
		status, closes := overPipe(t, w.engine, func(client net.Conn) {
			_, _ = io.WriteString(client, "POST /v1/execute HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
		})
		require.Equal(t, http.StatusRequestTimeout, status)
		require.True(t, closes)
		require.Equal(t, 7*time.Second, time.Since(start))
	})
}

// TestTheDeadlineOfTheBodyDoesNotEndTheWait, which is longer than any body may take.
func TestTheDeadlineOfTheBodyDoesNotEndTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := setup(t, func(c *config) { c.Metrics = nil }) // which nobody has to have
		w.responder.instead = func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(time.Hour):
				w.WriteHeader(http.StatusNoContent)
			case <-r.Context().Done():
				w.WriteHeader(http.StatusTeapot)
			}
		}
		status, _ := overPipe(t, w.engine, func(client net.Conn) { _ = post("/v1/execute", okGet).Write(client) })
		require.Equal(t, http.StatusNoContent, status)
	})
}

const echoRun = `{"request_id":"r","task_type":"ECHO","inputs":{}}`

// deferrable are the routes that put an action off, with a body of each.
var deferrable = map[string]string{"/v1/execute": okPost, "/v1/plans": okPlan, schemas.RouteRunSync: echoRun}

// TestLaterBeginning: an action that is put off is stored with its beginning and not waited for.
func TestLaterBeginning(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)
	type testCase struct {
		path, body string
		header     []string
		want       time.Time
		wait       time.Duration
	}
	table.Run(t, map[string]testCase{
		"executor":        {"/v1/execute", okPost, []string{"Weir-Delay", "30s"}, now.Add(30 * time.Second), 0},
		"plan":            {"/v1/plans", okPlan, []string{"Weir-Delay", "1m30s"}, now.Add(90 * time.Second), 0},
		"run":             {schemas.RouteRunSync, echoRun, []string{"Weir-Delay", "1s"}, now.Add(time.Second), 0},
		"an instant":      {"/v1/execute", okPost, []string{"Weir-Not-Before", "2026-01-31T10:01:00+01:00"}, now.Add(time.Minute), 0},
		"who would wait":  {"/v1/execute", okPost, []string{"Weir-Delay", "30s", "Prefer", "wait=40"}, now.Add(30 * time.Second), 40 * time.Second},
		"one denied":      {"/v1/execute", denied, []string{"Weir-Delay", "30s", "Prefer", "respond-async"}, now.Add(30 * time.Second), 0},
		"no delay":        {"/v1/execute", okPost, []string{"Weir-Delay", "0s"}, time.Time{}, -1},
		"a past instant":  {"/v1/execute", okPost, []string{"Weir-Not-Before", "2020-01-01T00:00:00Z"}, time.Time{}, -1},
		"nothing of that": {"/v1/execute", okPost, nil, time.Time{}, -1},
	}, func(t *testing.T, tc testCase) {
		w := setup(t, func(c *config) { c.Accept.Now = func() time.Time { return now } })
		w.do(t, post(tc.path, tc.body, tc.header...))
		c := w.responder.last(t)
		require.Equal(t, tc.wait, c.wait, "how long the answer is held back")
		a := w.action(t, c.ref.Tenant, c.ref.ID)
		require.True(t, tc.want.Equal(a.NotBefore), "%s", a.NotBefore)
	})
}

// TestTheSameRequestInOtherTerms joins its action, whatever its delay then is.
func TestTheSameRequestInOtherTerms(t *testing.T) {
	t.Parallel()
	for header, values := range map[string][2]string{"Weir-Delay": {"30s", "45s"}, schemas.HeaderPriority: {"high", "normal"}} {
		w := setup(t)
		ask := func(value string) answer {
			return w.do(t, post("/v1/execute", okPost, "Idempotency-Key", "k", "Prefer", "respond-async", header, value))
		}
		first := ask(values[0])
		again := ask(values[1]).refused(t, http.StatusConflict, schemas.InFlight)
		require.Equal(t, first.Header().Get("Weir-Action-Id"), again.Header().Get("Weir-Action-Id"), header)
		require.EqualValues(t, 1, w.records(t))
	}
}

// TestBadTerms are refused on every route, name the header and leave nothing.
func TestBadTerms(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const delay, instant, priority = "Weir-Delay", "Weir-Not-Before", schemas.HeaderPriority
	for name, tc := range map[string]struct {
		header string
		values []string
	}{
		"an order":          {"Weir-Ordering-Key", []string{"k"}},
		"no duration":       {delay, []string{"soon"}},
		"negative":          {delay, []string{"-1s"}},
		"two delays":        {delay, []string{"1s", "1s"}},
		"over its time":     {delay, []string{"145h"}},
		"no instant":        {instant, []string{"tomorrow"}},
		"no zone":           {instant, []string{"2026-01-31T09:00:00"}},
		"an instant there":  {instant, []string{time.Now().Add(145 * time.Hour).Format(time.RFC3339)}},
		"no priority":       {priority, []string{""}},
		"upper case":        {priority, []string{"HIGH"}},
		"low":               {priority, []string{"low"}},
		"a list of them":    {priority, []string{"high,normal"}},
		"two priorities":    {priority, []string{"high", "high"}},
		"both of beginning": {delay, nil},
	} {
		for path, body := range deferrable {
			r := post(path, body)
			r.Header[tc.header] = tc.values
			if tc.values == nil {
				r.Header.Set(delay, "1s")
				r.Header.Set(instant, "2026-01-31T09:00:00Z")
			}
			status := http.StatusBadRequest
			if path == schemas.RouteRunSync { // the run contract has one of its own
				status = http.StatusUnprocessableEntity
			}
			a := w.do(t, r).refused(t, status, schemas.InvalidRequest)
			require.Regexp(t, tc.header+"|would end after .* log.history", a.Body.String(), name)
			require.Zero(t, w.records(t), name)
		}
	}
	for header, value := range map[string]string{delay: "1s", priority: "high"} { // what is done again begins at once
		a := w.do(t, post("/v1/dead-letters/redrive", `{"sequence":1}`, header, value))
		require.Contains(t, a.refused(t, http.StatusBadRequest, schemas.InvalidRequest).Body.String(), header)
	}
}
