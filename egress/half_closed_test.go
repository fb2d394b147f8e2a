package egress_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/wire"
	"weir/schemas"
)

// halfClosed asks as a client does that sends nothing more and reads on, and returns all
// that comes. The server runs answer as a node does.
func halfClosed(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wire.Begin(r.Context())
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server look for what follows
		answer(w, r)
		if wire.Finish(r.Context()) {
			panic(http.ErrAbortHandler)
		}
	}))
	srv.Listener = wire.Wrap(srv.Listener, wire.Config{})
	srv.Config.ConnContext = wire.Context
	srv.Start()
	t.Cleanup(srv.Close)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
	require.NoError(t, err)
	half, ok := conn.(*net.TCPConn)
	require.True(t, ok)
	require.NoError(t, half.CloseWrite())
	got, err := io.ReadAll(conn)
	require.NoError(t, err)
	return string(got)
}

// TestAClientThatHasOnlyStoppedToSend is to the server one that has gone. It gets no
// status, and above all no 200 that says nothing.
func TestAClientThatHasOnlyStoppedToSend(t *testing.T) {
	t.Parallel()
	h := build(t, tasked)
	task := h.task("t-1", "d")
	h.claimed(task, 0)
	h.asked(task, 1, "a")
	respond := func(kind schemas.Kind) func(w http.ResponseWriter, r *http.Request) {
		ref := schemas.Ref{Tenant: "acme", Kind: kind, ID: string(kind)}
		h.claim(ref)
		return func(w http.ResponseWriter, r *http.Request) {
			h.room.Respond(w, r, ref, receipt(ref.ID, false), -1)
		}
	}
	talking := func(id string, streams bool, deltas ...string) func(w http.ResponseWriter, r *http.Request) {
		st := h.claim(chatRef(id))
		for _, d := range deltas {
			h.delta(st, d)
		}
		return func(w http.ResponseWriter, r *http.Request) {
			h.room.Chat(w, r, chatRef(id), receipt(id, false), streams, schemas.ChatPlace{}, -1, nil)
		}
	}
	run := schemas.Ref{Tenant: "acme", Kind: schemas.KindRun, ID: "streamed"}
	h.claim(run)
	down := func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		h.room.Chat(w, r, chatRef("held"), receipt("held", true), true, schemas.ChatPlace{}, -1, nil)
	}
	for name, answer := range map[string]http.HandlerFunc{
		"execute": respond(schemas.KindHTTP), "plan": respond(schemas.KindPlan), "run": respond(schemas.KindRun),
		"rule": respond(schemas.KindRule), "repo": respond(schemas.KindRepo), "push": respond(schemas.KindPush),
		"completion": talking("whole", false), "held back": talking("held", true), "gone before": down,
		"inquiry": func(w http.ResponseWriter, r *http.Request) {
			h.room.Inquiry(w, r, taskOf("t-1"), 0, 1, func() {})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, halfClosed(t, answer))
		})
	}
	for name, answer := range map[string]http.HandlerFunc{
		"completion": talking("begun", true, `{"c":1}`),
		"run":        func(w http.ResponseWriter, r *http.Request) { h.room.Stream(w, r, run, "LIT", 0) },
	} {
		t.Run(name+" that is streamed", func(t *testing.T) {
			t.Parallel()
			got := halfClosed(t, answer)
			require.False(t, strings.HasSuffix(got, "\r\n0\r\n\r\n"), "what there is of it does not pass for the whole: %s", got)
		})
	}
	t.Run("what needs no wait", func(t *testing.T) {
		t.Parallel()
		st := h.claim(chatRef("over"))
		h.settle(st, said)
		got := halfClosed(t, func(w http.ResponseWriter, r *http.Request) {
			h.room.Chat(w, r.WithContext(context.WithoutCancel(r.Context())), chatRef("over"), receipt("over", true), false, schemas.ChatPlace{}, -1, nil)
		})
		require.True(t, strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n"))
		require.Contains(t, got, fmt.Sprintf("Content-Length: %d\r\n", len(answer)))
		require.True(t, strings.HasSuffix(got, answer))
	})
}
