package egress_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/egress/runs"
	"weir/internal/githttp"
	"weir/internal/weirtest/table"
	"weir/internal/wire"
	"weir/schemas"
)

// respond answers as ingress would have it.
func (h *env) respond(ctx context.Context, ref schemas.Ref, rc schemas.Receipt, wait time.Duration) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.server.Reply(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/execute", http.NoBody), ref, rc, wait)
	return w
}

func receipt(id string, duplicate bool) schemas.Receipt {
	return schemas.Receipt{ID: id, Status: "accepted", Duplicate: duplicate, Durability: schemas.DurabilityDisk}
}

func TestRespondInTheDialectOfTheKind(t *testing.T) {
	t.Parallel()
	h := build(t)
	plan := `{"artifact:execution.report":{"report_id":null},"state:act.result":{"status":"succeeded"}}`
	for _, tc := range []struct {
		ref  schemas.Ref
		doc  string
		want string
	}{
		{httpRef("x"), `{"answer":{"status":200,"headers":[],"body":1.0}}`, `{"status":200,"headers":[],"body":1.0}`},
		{planRef("p"), plan, plan},
	} {
		release := h.server.Expect(tc.ref)
		st := h.claim(tc.ref)
		before := h.reads.Load()
		got := make(chan *httptest.ResponseRecorder, 1)
		go func() { got <- h.respond(context.Background(), tc.ref, receipt(tc.ref.ID, false), -1) }()
		h.settle(st, schemas.Settled{Outcome: schemas.OutcomeSucceeded, Result: json.RawMessage(tc.doc), Attempts: 1})
		first := <-got
		release()
		require.Equal(t, http.StatusOK, first.Code)
		require.Equal(t, "application/json", first.Header().Get("Content-Type"))
		require.Equal(t, tc.ref.ID, first.Header().Get("Weir-Action-Id"))
		require.Equal(t, tc.want, first.Body.String())
		require.Equal(t, before, h.reads.Load(), "an answer that was waited for needs no read")

		replay := h.respond(t.Context(), tc.ref, receipt(tc.ref.ID, true), -1)
		require.Equal(t, first.Body.Bytes(), replay.Body.Bytes(), "a replay is byte for byte the same")
		require.Equal(t, first.Code, replay.Code)
	}
}

// writer hears of the first byte of an answer.
type writer struct {
	*httptest.ResponseRecorder
	wrote func()
}

func (w writer) Write(p []byte) (int, error) {
	w.wrote()
	return w.ResponseRecorder.Write(p)
}

// TestMemoryIsReservedForALargeResult, in the name of its tenant, until it is written; the wait for it ends with the client.
func TestMemoryIsReservedForALargeResult(t *testing.T) {
	t.Parallel()
	var held, reserved atomic.Int64
	full := make(chan struct{})
	h := build(t, func(cfg *config) {
		cfg.Reserve = func(ctx context.Context, tenant string, blobs ...string) (func(), error) {
			if tenant == "full" {
				close(full)
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
			if blobs = slices.DeleteFunc(blobs, func(name string) bool { return name == "" }); len(blobs) == 0 {
				return func() {}, nil
			}
			assert.Equal(t, "acme", tenant)
			assert.Len(t, blobs, 1)
			reserved.Add(1)
			held.Add(1)
			return func() { held.Add(-1) }, nil
		}
	})
	_, blob, err := h.ledger.PutBlob(t.Context(), "acme", json.RawMessage(`{"status":200,"headers":[],"body":"`+strings.Repeat("x", schemas.InlineLimit)+`"}`))
	require.NoError(t, err)
	for _, ref := range []schemas.Ref{httpRef("big"), {Tenant: "full", Kind: schemas.KindHTTP, ID: "big"}} {
		h.settle(h.claim(ref), schemas.Settled{Outcome: schemas.OutcomeSucceeded, Result: json.RawMessage("{}"), AnswerBlob: blob, Attempts: 1})
	}
	h.settle(h.claim(httpRef("small")), schemas.Settled{Outcome: schemas.OutcomeSucceeded, Result: json.RawMessage("{}"), Attempts: 1})
	answers := map[string]func(w http.ResponseWriter, r *http.Request, id string){
		"status": func(w http.ResponseWriter, r *http.Request, _ string) { h.engine.ServeHTTP(w, r) },
		"respond": func(w http.ResponseWriter, r *http.Request, id string) {
			h.server.Reply(w, r, httpRef(id), receipt(id, true), -1)
		},
	}
	for name, answer := range answers {
		for id, want := range map[string]int64{"small": 0, "big": 1} {
			reserved.Store(0)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/actions/"+id, http.NoBody)
			r.Header.Set("Authorization", "Bearer acme")
			w := writer{httptest.NewRecorder(), func() { assert.Equal(t, want, held.Load(), "%s %s: while it is written", name, id) }}
			answer(w, r, id)
			require.Equal(t, http.StatusOK, w.Code, "%s %s", name, id)
			require.Equal(t, want, reserved.Load(), "%s %s", name, id)
			require.Zero(t, held.Load(), "%s %s", name, id)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/actions/big", http.NoBody)
		r.Header.Set("Authorization", "Bearer full")
		w := httptest.NewRecorder()
		h.engine.ServeHTTP(w, r)
		assert.NotContains(t, w.Body.String(), "xxx")
	}()
	<-full
	leave()
	<-over
}

func TestRespondWhenTheTimeIsUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := build(t)
		h.claim(httpRef("a"))
		begin := time.Now()
		w := h.respond(t.Context(), httpRef("a"), receipt("a", false), 7*time.Second)
		require.Equal(t, 7*time.Second, time.Since(begin))
		require.Equal(t, http.StatusAccepted, w.Code)
		require.Equal(t, "/v1/actions/a", w.Header().Get("Location"))
	})
}

// TestADrainingNodeGivesNoReceipt to a client that knows none and has asked for none, whether it waits already or asks
// now: to an agent ok would say that the write was made. Who asked for a receipt gets it.
func TestADrainingNodeGivesNoReceipt(t *testing.T) {
	t.Parallel()
	push := schemas.Ref{Tenant: "acme", Kind: schemas.KindPush, ID: "p-2"}
	type testCase struct {
		ref      schemas.Ref
		ask      func(h *env, wait time.Duration) *httptest.ResponseRecorder
		says     string
		receipts bool
	}
	table.Bubble(t, map[string]testCase{
		"a write of rules": {ruleRef(), func(h *env, wait time.Duration) *httptest.ResponseRecorder {
			return h.respondAgent(context.Background(), ruleRef(), receipt("rul-1", false), wait)
		}, `"ok":false,"request_id":"req-1","operation":"global.off","error":{"code":"INTERNAL_ERROR"`, true},
		"a completion": {chatRef("a"), func(h *env, wait time.Duration) *httptest.ResponseRecorder {
			return h.talked(talk{id: "a", whole: true, wait: wait})
		}, "Idempotency-Key", true},
		"a stream": {chatRef("a"), func(h *env, _ time.Duration) *httptest.ResponseRecorder { return h.talked(talk{id: "a"}) }, "Idempotency-Key", false},
		"a push": {push, func(h *env, wait time.Duration) *httptest.ResponseRecorder {
			a, rec, r := pushed(h.t, githttp.Asked{SideBand: true})
			h.server.Reply(a, r, push, receipt("p-2", false), wait)
			return rec
		}, "UNAVAILABLE", false},
	}, func(t *testing.T, tc testCase) {
		h := build(t)
		h.claim(tc.ref)
		for range 2 {
			got := make(chan *httptest.ResponseRecorder, 1)
			go func() { got <- tc.ask(h, -1) }()
			synctest.Wait()
			h.feed.EndWaits()
			w := <-got
			require.Equal(t, http.StatusServiceUnavailable, w.Code)
			require.NotEmpty(t, w.Header().Get("Retry-After"))
			require.Contains(t, w.Body.String(), tc.says)
			require.Contains(t, w.Body.String(), schemas.Unavailable)
		}
		if tc.receipts {
			require.Equal(t, http.StatusAccepted, tc.ask(h, time.Hour).Code)
		}
	})
}

// TestRespondToWhatHasNoAnswer of its own: the rest of the ends is shown in executor, plans and runs.
func TestRespondToWhatHasNoAnswer(t *testing.T) {
	t.Parallel()
	h := build(t)
	for ref, tc := range map[schemas.Ref]struct {
		end    schemas.Settled
		status int
		says   string
	}{
		httpRef("unknown"):  {schemas.Settled{Outcome: schemas.OutcomeUnknown, Code: schemas.OutcomeUnknownCode}, 424, `"resolve_url":"/v1/actions/unknown/resolve"`},
		httpRef("dropped"):  {schemas.Settled{Outcome: schemas.OutcomeSucceeded, ResultBlob: "0000"}, 410, `"STREAM_GONE"`},
		planRef("canceled"): {schemas.Settled{Outcome: schemas.OutcomeCanceled, Code: schemas.Canceled}, 409, `"CANCELED"`},
		planRef("expired"):  {schemas.Settled{Outcome: schemas.OutcomeExpired}, 504, `"retryable":false`},
		planRef("killed"):   {schemas.Settled{Outcome: schemas.OutcomeDenied, Code: schemas.DenyKilled, Message: "killed"}, 403, `"detail":"killed"`},
	} {
		h.settle(h.claim(ref), tc.end)
		w := h.respond(t.Context(), ref, receipt(ref.ID, true), -1)
		require.Equal(t, tc.status, w.Code, ref.ID)
		require.Contains(t, w.Body.String(), tc.says, ref.ID)
	}
	require.Equal(t, http.StatusGone, h.get("/v1/actions/dropped").Code)
}

// halfClosed asks as a client does that sends nothing more and reads on, and returns all
// that comes. The server runs answer as a node does.
func halfClosed(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wire.Begin(r.Context())
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server look for what follows
		answer(w, r)
		if wire.Dropped(r.Context()) {
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
			h.server.Reply(w, r, ref, receipt(ref.ID, false), -1)
		}
	}
	talking := func(id string, streams bool, deltas ...string) func(w http.ResponseWriter, r *http.Request) {
		st := h.claim(chatRef(id))
		for _, d := range deltas {
			h.delta(st, d)
		}
		return func(w http.ResponseWriter, r *http.Request) {
			h.chat.Answer(w, r, chatRef(id), receipt(id, false), &schemas.ChatOrder{Stream: streams}, schemas.ChatPosition{}, -1, nil)
		}
	}
	run := schemas.Ref{Tenant: "acme", Kind: schemas.KindRun, ID: "streamed"}
	h.claim(run)
	down := func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		h.chat.Answer(w, r, chatRef("held"), receipt("held", true), &schemas.ChatOrder{Stream: true}, schemas.ChatPosition{}, -1, nil)
	}
	for name, answer := range map[string]http.HandlerFunc{
		"execute": respond(schemas.KindHTTP), "plan": respond(schemas.KindPlan), "run": respond(schemas.KindRun),
		"rule": respond(schemas.KindRule), "repo": respond(schemas.KindRepo), "push": respond(schemas.KindPush),
		"completion": talking("whole", false), "held back": talking("held", true), "gone before": down,
		"inquiry": func(w http.ResponseWriter, r *http.Request) {
			h.tasks.Inquiry(w, r, theTask, 0, 1)
		},
	} {
		require.Empty(t, halfClosed(t, answer), name)
	}
	for name, answer := range map[string]http.HandlerFunc{
		"completion": talking("begun", true, `{"c":1}`),
		"run":        func(w http.ResponseWriter, r *http.Request) { runs.NewAnswerer(h.server).Stream(w, r, run, "LIT", 0) },
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
			h.chat.Answer(w, r.WithContext(context.WithoutCancel(r.Context())), chatRef("over"), receipt("over", true), &schemas.ChatOrder{}, schemas.ChatPosition{}, -1, nil)
		})
		require.True(t, strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n"))
		require.Contains(t, got, fmt.Sprintf("Content-Length: %d\r\n", len(answer)))
		require.True(t, strings.HasSuffix(got, answer))
	})
}

// TestAResolutionIsPartOfTheAnswer: a repeat of a request whose outcome was unknown says what a person
// found, and how to redrive the action if the call had no effect.
func TestAResolutionIsPartOfTheAnswer(t *testing.T) {
	t.Parallel()
	h := build(t)
	run := schemas.Ref{Tenant: "acme", Kind: schemas.KindRun, ID: "r"}
	for _, ref := range []schemas.Ref{httpRef("a"), planRef("p"), run} {
		st := h.claim(ref)
		h.settle(st, schemas.Settled{Outcome: schemas.OutcomeUnknown, Code: schemas.OutcomeUnknownCode, Attempts: 1})
		before := h.respond(t.Context(), ref, receipt(ref.ID, true), -1)
		require.Contains(t, before.Body.String(), schemas.UnknownText)
		effect := schemas.EffectNotApplied
		says := "/v1/actions/" + ref.ID + "/redrive"
		if ref == run {
			effect, says = schemas.EffectApplied, "took effect: do not send it again"
		}
		h.append(st, schemas.Event{Type: schemas.EventResolution, Resolution: &schemas.Resolution{Effect: effect, By: "ann"}})
		after := h.respond(t.Context(), ref, receipt(ref.ID, true), -1)
		require.Equal(t, before.Code, after.Code)
		require.Contains(t, after.Body.String(), says)
		require.NotContains(t, after.Body.String(), "ask a person")
	}
	answer := decode[schemas.ExecuteError](t, h.respond(t.Context(), httpRef("a"), receipt("a", true), -1).Body)
	require.Equal(t, &schemas.Resolution{Effect: schemas.EffectNotApplied, By: "ann"}, answer.Error.Resolution)
}
