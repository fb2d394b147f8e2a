package relay_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/cmd/app/relay"
	double "weir/internal/weirtest/relay"
)

// TestItComesBack: after a cut, an ordinary close, a restart, and refusals that
// may pass.
func TestItComesBack(t *testing.T) {
	t.Parallel()
	r, a := double.New(t, double.Config{}), &api{}
	e := begin(t, r.URL(), a)
	agent := r.Agent("s1")
	for n, lose := range []func(){
		func() {},
		func() { r.Cut("s1") },
		func() { r.End("s1", 1000, "") },
		func() { r.End("s1", 1001, "bye") },
		func() { r.End("s1", 1012, "service restart") },
		func() { r.End("s1", 4999, "of its own") },
		func() { r.Refuse(503, 429, 502, 500); r.Cut("s1") },
	} {
		lose()
		r.Wait("s1", n+1)
		assert.NotEmpty(t, agent.Ask(fmt.Sprintf(`{"request":{"request_id":"r%d","operation":"status"}}`, n)))
		e.await(relay.Served)
	}
	assert.Len(t, r.Ledger(), 1+7+4)
	e.stop()
	assert.NoError(t, e.over())
}

// TestSomeEndsAreFinal: a relay that refuses, or has another end, is not asked again.
func TestSomeEndsAreFinal(t *testing.T) {
	t.Parallel()
	t.Run("replaced", func(t *testing.T) {
		t.Parallel()
		r := double.New(t, double.Config{})
		first := begin(t, r.URL(), &api{})
		r.Wait("s1", 1)
		second := begin(t, r.URL(), &api{})
		r.Wait("s1", 2)
		require.ErrorIs(t, first.over(), relay.ErrReplaced)
		assert.Contains(t, string(r.Agent("s1").Ask(`{"request":{"request_id":"r","operation":"status"}}`)), `"ok":true`)
		second.await(relay.Served)
		assert.Len(t, r.Ledger(), 3)
	})
	t.Run("replaced in other words", func(t *testing.T) {
		t.Parallel()
		r := double.New(t, double.Config{})
		e := begin(t, r.URL(), &api{})
		r.Wait("s1", 1)
		r.End("s1", 4009, "Replaced by a newer connection")
		require.ErrorIs(t, e.over(), relay.ErrReplaced)
	})
	for _, code := range []int{1008, 4001, 4003} {
		t.Run(fmt.Sprint("closed with ", code), func(t *testing.T) {
			t.Parallel()
			r := double.New(t, double.Config{})
			e := begin(t, r.URL(), &api{})
			r.Wait("s1", 1)
			r.End("s1", code, "\x1b[2Jno")
			refused, ok := errors.AsType[*relay.RefusedError](e.over())
			require.True(t, ok)
			assert.True(t, refused.Denied())
			assert.Contains(t, refused.Error(), `"\x1b[2Jno"`)
			assert.Len(t, r.Ledger(), 1)
		})
	}
	for _, status := range []int{400, 401, 403, 404, 301} {
		t.Run(fmt.Sprint("refused with ", status), func(t *testing.T) {
			t.Parallel()
			r := double.New(t, double.Config{})
			r.Refuse(status)
			refused, ok := errors.AsType[*relay.RefusedError](begin(t, r.URL(), &api{}).over())
			require.True(t, ok)
			assert.Equal(t, status, refused.Status)
			assert.Equal(t, status == 401 || status == 403, refused.Denied())
			assert.Contains(t, refused.Error(), strconv.Itoa(status))
			assert.Len(t, r.Ledger(), 1, "it follows nobody elsewhere")
		})
	}
	t.Run("wrong token", func(t *testing.T) {
		t.Parallel()
		r := double.New(t, double.Config{Token: "right"})
		err := begin(t, r.URL(), &api{}, token("canary-wrong")).over()
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "canary-wrong")
	})
}

// TestTheTokenIsNotShown: no reason of a loss names the URL, which holds it.
func TestTheTokenIsNotShown(t *testing.T) {
	t.Parallel()
	r := double.New(t, double.Config{})
	r.Close() // nobody listens any more
	e := begin(t, r.URL(), &api{}, token("canary-token"))
	ev := e.await(relay.Lost)
	assert.Contains(t, ev.Reason, "cannot be reached")
	assert.NotContains(t, ev.Reason, "canary-token")
	assert.NotContains(t, ev.Reason, "sessionId")
	e.stop()
	assert.NoError(t, e.over())
}

func TestPings(t *testing.T) {
	t.Parallel()
	r := double.New(t, double.Config{})
	e := begin(t, r.URL(), &api{}, func(c *relay.Config) { c.Ping, c.Pong = 10*time.Millisecond, 5*time.Second })
	r.Wait("s1", 1)
	r.Stall("s1")
	assert.Contains(t, e.await(relay.Lost).Reason, "pings")
	r.Wait("s1", 2)
	assert.NotEmpty(t, r.Agent("s1").Ask(`{"request":{"request_id":"r","operation":"status"}}`))
}

// TestStopCutsWaitsShort: whoever interrupts it waits neither for an answer that
// does not come nor for the next try.
func TestStopCutsWaitsShort(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan struct{}), make(chan struct{})
	a := &api{reply: func(ctx context.Context, _ string) (string, error) {
		close(begun)
		<-ctx.Done()
		close(ended)
		return "", ctx.Err()
	}}
	r := double.New(t, double.Config{})
	e := begin(t, r.URL(), a)
	r.Wait("s1", 1)
	r.Agent("s1").Send(`{"request":{"request_id":"r","operation":"status"}}`)
	<-begun
	e.stop()
	<-ended
	require.NoError(t, e.over())

	idle := begin(t, r.URL(), &api{}, func(c *relay.Config) { c.Wait, c.MaxWait = time.Hour, time.Hour })
	r.Wait("s1", 2)
	r.Cut("s1")
	assert.GreaterOrEqual(t, idle.await(relay.Lost).Wait, time.Hour/2)
	idle.stop()
	assert.NoError(t, idle.over())
}
