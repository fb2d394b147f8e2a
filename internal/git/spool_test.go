//go:build linux

package git

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/limits"
	"weir/internal/weirtest/gitkit"
)

func newSpool(t *testing.T, g *Git, tenant string) *Spool {
	t.Helper()
	s := g.Spools().New(tenant)
	t.Cleanup(s.Close)
	return s
}

func TestSpool(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	for _, size := range []int{0, 1, spoolMemory, spoolMemory + 1, 3<<20 + 7} {
		want := make([]byte, size)
		_, _ = noisy{}.Read(want)
		s := newSpool(t, g, "a")
		n, err := io.CopyBuffer(struct{ io.Writer }{s}, struct{ io.Reader }{bytes.NewReader(want)}, make([]byte, 10_000))
		require.NoError(t, err)
		require.EqualValues(t, size, n)
		left, err := os.ReadDir(g.tmpDir())
		require.NoError(t, err)
		require.Empty(t, left, "its file has no name")
		require.Equal(t, size > spoolMemory, g.spools.bytes.Held("a") > 0)
		got, err := io.ReadAll(s.Reader())
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "%d", size)
		s.Close()
		s.Close()
		_, err = s.Write([]byte("x"))
		require.ErrorIs(t, err, os.ErrClosed)
		require.Zero(t, g.spools.bytes.Held("a"))
	}
}

// TestSpoolsOfTenants: what packs hold on the disk is bounded, and one tenant's leave a share of it to the next.
func TestSpoolsOfTenants(t *testing.T) {
	t.Parallel()
	g := open(t, Config{MaxPack: 1 << 20, TenantShare: 25})
	begin(t, g)
	pack := make([]byte, 1<<20)
	var all []*Spool
	for range 12 {
		all = append(all, newSpool(t, g, "a"))
		_, err := all[len(all)-1].Write(pack)
		require.NoError(t, err)
	}
	small := newSpool(t, g, "a")
	_, err := small.Write(pack[:spoolMemory])
	require.NoError(t, err, "what is small is not on the disk")
	_, err = small.Write(pack[:1])
	require.ErrorIs(t, err, ErrSpool)
	for _, part := range []string{"16.0 MiB (16 times git.max_pack)", "one tenant may always have 4.0 MiB (limits.tenant_share)", "this tenant's hold 12.0 MiB"} {
		require.ErrorContains(t, err, part)
	}
	for range 4 {
		_, err = newSpool(t, g, "b").Write(pack)
		require.NoError(t, err)
	}
	all[0].Close()
	_, err = newSpool(t, g, "b").Write([]byte(strings.Repeat("x", spoolMemory+1)))
	require.ErrorIs(t, err, ErrSpool, "another tenant's first push finds a share free")
	_, err = newSpool(t, g, "c").Write(pack)
	require.NoError(t, err)
}

func TestTurns(t *testing.T) {
	t.Parallel()
	g := open(t, Config{Processes: 1})
	_, err := g.Create(t.Context(), "r1", "main")
	require.NoError(t, err)
	g.cfg.Timeout = 100 * time.Millisecond
	held, err := g.wait(t.Context(), "", g.cfg.Timeout, g.slots.reads)
	require.NoError(t, err)
	var out bytes.Buffer
	require.ErrorIs(t, g.advertise(t.Context(), "r1", "git-upload-pack", 2, view{All: true}, &out), ErrBusy)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errGone)
	require.ErrorIs(t, g.advertise(ctx, "r1", "git-upload-pack", 2, view{All: true}, &out), errGone)
	<-held.ctx.Done()
	require.ErrorIs(t, context.Cause(held.ctx), ErrTimeout)
	held.end()
	g.cfg.Timeout = time.Minute
	require.NoError(t, g.advertise(t.Context(), "r1", "git-upload-pack", 2, view{All: true}, &out))
	require.NotEmpty(t, out.Bytes())
}

// TestTurnsOfTenants: a tenant leaves a share of the turns to the next, of imports as of the others, and whoever waits
// for the turn of an import is in no push's way.
func TestTurnsOfTenants(t *testing.T) {
	t.Parallel()
	g := open(t, Config{Processes: 32, TenantShare: 25})
	for all, want := range map[*limits.Shares]int64{g.slots.reads: 16, g.slots.writes: 16, g.slots.imports: 4} {
		require.Equal(t, limits.Percent(want, 25), all.Division)
	}
	imports, writes := []*limits.Shares{g.slots.imports, g.slots.writes}, g.slots.writes
	var held []session
	take := func(tenant string, of ...*limits.Shares) {
		s, err := g.wait(t.Context(), tenant, time.Minute, of...)
		require.NoError(t, err)
		held = append(held, s)
	}
	for range 3 {
		take("a", imports...)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	waits := make(chan error, 1)
	go func() {
		_, err := g.wait(ctx, "a", time.Minute, imports...)
		waits <- err
	}()
	take("b", imports...)
	take("a", writes)
	cancel(errGone)
	require.ErrorIs(t, <-waits, errGone)
	require.EqualValues(t, 3, g.slots.imports.Held("a"))
	require.EqualValues(t, 4, g.slots.writes.Held("a"))
	require.EqualValues(t, 1, g.slots.writes.Held("b"))
	for _, s := range held {
		s.end()
	}
	for _, all := range imports {
		require.Zero(t, all.Held("a")+all.Held("b"))
	}
}

// TestReserve: with less than a twentieth of the disk free, or 1 GiB of a large one, nothing is added.
func TestReserve(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	from := begin(t, g)
	pack, oid := gitkit.GoodCommit("x", from)
	all, free := int64(100<<20), int64(5<<20-1)
	g.spools.space = func(string) (int64, int64, error) { return free, all, nil }
	add := func() map[string]error {
		_, pushed := g.ReceivePack(t.Context(), "r1", pushOf("work", from, oid, bytes.NewReader(pack)))
		_, made := g.Create(t.Context(), "r2", "main")
		s := g.spools.New("acme")
		defer s.Close()
		_, spooled := s.Write(make([]byte, spoolMemory+1))
		_, paced := (&paced{Reader: bytes.NewReader(make([]byte, leastBytes)), roomy: g.spools.roomy}).Read(make([]byte, leastBytes))
		return map[string]error{"push": pushed, "create": made, "spool": spooled, "import": paced}
	}
	for name, err := range add() {
		require.ErrorIs(t, err, ErrDiskFull, name)
	}
	all, free = 1<<40, 1<<30-1
	for name, err := range add() {
		require.ErrorIs(t, err, ErrDiskFull, name)
	}
	free++
	for name, err := range add() {
		require.NoError(t, err, name)
	}
}
