package wire_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/wire"
)

func TestWhatIsLeftOfAnAnswer(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = theirs.Close() })
	c, err := wire.Wrap(one{conn: ours}, wire.Config{}).Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	ctx := wire.Context(context.Background(), c)
	var did []string
	note := func(what string) func() { return func() { did = append(did, what) } }

	require.False(t, wire.Later(ctx, note("early")), "no handler has the request")
	wire.Begin(ctx)
	wire.Finish(ctx)
	require.Nil(t, wire.Left(ctx))
	require.True(t, wire.Later(ctx, note("rest")))
	rest := wire.Left(ctx)
	require.NotNil(t, rest)
	require.Nil(t, wire.Left(ctx), "it was taken back")
	require.True(t, wire.Later(ctx, func() { rest(); note("around")() }))
	require.Empty(t, did)
	wire.Finish(ctx)
	wire.Finish(ctx)
	require.Equal(t, []string{"rest", "around"}, did, "once")

	require.False(t, wire.Later(context.Background(), note("nowhere")), "no connection of ours")
	require.Nil(t, wire.Left(context.Background()))
	wire.Finish(context.Background())
}

func TestAside(t *testing.T) {
	t.Parallel()
	ran := false
	wire.Aside(func() { ran = true })
	require.True(t, ran)
	boom := errors.New("boom")
	require.PanicsWithValue(t, boom, func() { wire.Aside(func() { panic(boom) }) })
}

// TestAStreamIsFinishedBesideItsHandler answers over a socket as a stream does.
func TestAStreamIsFinishedBesideItsHandler(t *testing.T) {
	t.Parallel()
	addr := serve(t, wire.Config{}, func(w http.ResponseWriter, r *http.Request) {
		wire.Aside(func() {
			_, _ = io.WriteString(w, "begun ")
			if !wire.Later(r.Context(), func() { wire.Aside(func() { _, _ = io.WriteString(w, "ended") }) }) {
				panic("nothing was left")
			}
		})
		wire.Finish(r.Context())
	})
	resp, err := http.Get("http://" + addr)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "begun ended", string(body))
	http.DefaultClient.CloseIdleConnections()
}
