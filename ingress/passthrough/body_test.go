package passthrough

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"weir/ingress"
	"weir/ingress/accept"
	"weir/ingress/executor"
	"weir/ingress/grant"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/limits"
	"weir/internal/problem"
	"weir/internal/weirtest/memlog"
	"weir/schemas"
)

// full is a log that takes no new actions.
type full struct{ *memlog.Log }

func (full) Accepting() error { return fault.ErrFull }

// TestLargeBodies: one is stored if a call names it, and in no other case.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	layout := schemas.Layout{Partitions: 1}
	log := memlog.New(layout, time.Now, memlog.Hooks{})
	led := ledger.New(log, layout, nil)
	permits, bodies := allows(true), Bodies(log)
	var got schemas.Receipt
	serve := func(who ingress.Identity, key string, body io.Reader) error {
		handler := New(ingress.NewServer(led, ingress.Config{}), Config{
			Policy: func(grant.Caller) executor.Policy { return permits }, Bodies: bodies, MaxBody: 1 << 20,
			Answer: func(_ http.ResponseWriter, _ *http.Request, _ schemas.Ref, receipt schemas.Receipt, _ time.Duration, _ func()) {
				got = receipt
			},
		})
		c, _ := gin.CreateTestContext(httptest.NewRecorder())
		c.Request = httptest.NewRequest(http.MethodPost, "/via/e/x", body)
		if c.Request.ContentLength = -1; key != "" {
			c.Request.Header.Set("Idempotency-Key", key)
		}
		return handler.Serve(c, who, "http://h.example/x", "e")
	}
	refused := func(err error, want schemas.Code) {
		t.Helper()
		public, ok := errors.AsType[*fault.Error](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, want, public.Code)
	}
	a := ingress.Identity{Token: schemas.Token{Tenant: "a"}}
	first, second := strings.Repeat("x", schemas.InlineLimit+1), strings.Repeat("\xff", schemas.InlineLimit+1)
	sum := sha256.Sum256([]byte(first))
	name := hex.EncodeToString(sum[:])

	permits = false
	require.NoError(t, serve(a, "", strings.NewReader(first)))
	require.Empty(t, log.Blobs(), "of a denied call")
	st, err := led.Find(t.Context(), "a", got.ID)
	require.NoError(t, err)
	var denied schemas.HTTPCall
	require.NoError(t, json.Unmarshal(st.Action.Payload, &denied))
	require.Equal(t, []any{name, len(first)}, []any{denied.Denied.BodySHA256, denied.Denied.BodyBytes})

	permits = true
	refused(serve(ingress.Identity{Token: schemas.Token{Tenant: "a", Entries: []string{"other"}}}, "", strings.NewReader(first)), schemas.Forbidden)
	refused(serve(a, "", io.MultiReader(strings.NewReader(first), iotest.ErrReader(io.ErrUnexpectedEOF))), schemas.InvalidRequest)
	refused(serve(a, "", strings.NewReader(strings.Repeat(first, 5))), schemas.PayloadTooLarge)
	require.Empty(t, log.Blobs(), "of a request that is refused, or whose client leaves")

	require.NoError(t, serve(a, "k", strings.NewReader(first)))
	require.Equal(t, []string{name}, log.Blobs())
	made := got
	st, err = led.Find(t.Context(), "a", made.ID)
	require.NoError(t, err)
	require.JSONEq(t, `{"method":"POST","url":"http://h.example/x","allowlist_key":"e","idempotency_key":"k","content_type":"application/octet-stream","body_blob":"`+
		name+`","body_bytes":262145}`, string(st.Action.Payload))

	bodies = full{log}
	require.NoError(t, serve(a, "k", strings.NewReader(first)), "a full log knows the actions that it has")
	refused(serve(a, "k", strings.NewReader(second)), schemas.IdempotencyMismatch)
	refused(serve(a, "k2", strings.NewReader(second)), schemas.LogFull)
	refused(serve(a, "", strings.NewReader(second)), schemas.LogFull)
	bodies = log
	require.NoError(t, serve(a, "k", strings.NewReader(first)))
	require.Equal(t, made.ID, got.ID)
	refused(serve(a, "k", strings.NewReader(second)), schemas.IdempotencyMismatch)
	require.Equal(t, []string{name}, log.Blobs(), "of a request that joins, or whose key is another's")
}

// TestRedriveOfALargeBody stores the body anew, or says that there is none.
func TestRedriveOfALargeBody(t *testing.T) {
	t.Parallel()
	layout := schemas.Layout{Partitions: 1}
	log := memlog.New(layout, time.Now, memlog.Hooks{})
	name, err := log.PutBlob(t.Context(), "a", []byte("body"))
	require.NoError(t, err)
	kept := &keeping{Log: log}
	handler := New(ingress.NewServer(ledger.New(log, layout, nil), ingress.Config{}), Config{
		Policy: func(grant.Caller) executor.Policy { return allows(true) }, Bodies: kept,
	})
	for body, want := range map[string]error{name: nil, "gone": fault.New(schemas.StreamGone, "the body of the old action has been dropped; send a new request")} {
		req := accept.Request{Action: schemas.Action{Tenant: "a", Kind: schemas.KindPassthrough, Payload: json.RawMessage(`{"method":"POST","url":"http://h.example/x","body_blob":"` + body + `"}`)}}
		require.NoError(t, handler.redrive(&req, grant.Caller{Tenant: "a"}))
		require.Equal(t, want, req.Commit(t.Context()))
	}
	require.Equal(t, []string{name}, kept.names)
}

// keeping notes the bodies that live on.
type keeping struct {
	*memlog.Log

	names []string
}

func (k *keeping) Keep(ctx context.Context, tenant, name string) error {
	err := k.Log.Keep(ctx, tenant, name)
	if err == nil {
		k.names = append(k.names, name)
	}
	return err
}

// TestAClientThatHasSentAllMayLeave: its call is stored, as one with a small body is.
func TestAClientThatHasSentAllMayLeave(t *testing.T) {
	t.Parallel()
	layout := schemas.Layout{Partitions: 1}
	log := memlog.New(layout, time.Now, memlog.Hooks{})
	ctx, leave := context.WithCancel(t.Context())
	handler := New(ingress.NewServer(ledger.New(log, layout, nil), ingress.Config{}), Config{
		Policy: func(grant.Caller) executor.Policy { return allows(true) }, Bodies: leaving{log, leave},
		Answer: func(http.ResponseWriter, *http.Request, schemas.Ref, schemas.Receipt, time.Duration, func()) {},
	})
	c, _ := gin.CreateTestContext(httptest.NewRecorder())
	c.Request = httptest.NewRequest(http.MethodPost, "/via/e/x", strings.NewReader(strings.Repeat("x", schemas.InlineLimit+1))).WithContext(ctx)
	require.NoError(t, handler.Serve(c, ingress.Identity{Token: schemas.Token{Tenant: "a"}}, "http://h.example/x", "e"))
	require.Len(t, log.Blobs(), 1)
}

// TestARefusedTenantStoresNoBody: one that has used up its share of the log writes nothing more to it.
func TestARefusedTenantStoresNoBody(t *testing.T) {
	t.Parallel()
	layout := schemas.Layout{Partitions: 1}
	log := memlog.New(layout, time.Now, memlog.Hooks{})
	handler := New(ingress.NewServer(ledger.New(log, layout, nil), ingress.Config{Accept: accept.Config{Pressure: accept.NewPressure(nil, accept.PressureConfig{
		Stored: func(string) limits.Quota { return limits.Quota{Used: 2, Limit: 1} },
	})}}), Config{
		Policy: func(grant.Caller) executor.Policy { return allows(true) }, Bodies: leaving{log, func() { t.Error("the body was stored") }},
	})
	c, _ := gin.CreateTestContext(httptest.NewRecorder())
	c.Request = httptest.NewRequest(http.MethodPost, "/via/e/x", strings.NewReader(strings.Repeat("x", schemas.InlineLimit+1)))
	require.Equal(t, schemas.RateLimited, problem.Of(handler.Serve(c, ingress.Identity{Token: schemas.Token{Tenant: "a"}}, "http://h.example/x", "e")).Code)
}

// leaving is a log whose client leaves when its body has been read.
type leaving struct {
	*memlog.Log

	leave func()
}

func (l leaving) Spool(ctx context.Context, body io.Reader) (schemas.Spooled, error) {
	s, err := l.Log.Spool(ctx, body)
	l.leave()
	return s, errors.Join(err, ctx.Err())
}
