package git_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	hosted "weir/internal/git"
	"weir/internal/gitwire"
	"weir/internal/handoff"
	"weir/internal/weirtest/table"
	"weir/processors/git"
	"weir/schemas"
)

// filed is a pack that is too large for the memory of a spool.
func filed(parent string) (pack []byte, head string) {
	noise := make([]byte, 256<<10)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(noise)
	return commit(string(noise), parent)
}

// asked is a git that says when it is asked for a turn, and does something meanwhile.
type asked struct {
	*hosted.Git
	meanwhile func()
}

func (a *asked) ReceivePack(ctx context.Context, id string, p hosted.Push) (gitwire.Report, error) {
	a.meanwhile()
	return a.Git.ReceivePack(ctx, id, p)
}

// TestAPackArrivesBeforeItsTurn: git is not asked for one while the client sends.
func TestAPackArrivesBeforeItsTurn(t *testing.T) {
	t.Parallel()
	turn := make(chan struct{}, 1)
	r := newRoom(t, options{program: func(g *hosted.Git) git.Receiver {
		return &asked{g, func() { turn <- struct{}{} }}
	}})
	repo := r.host()
	_, base := r.file(repo, false)
	pack, head := filed(base)
	body := stutter(pack, len(pack)-1)
	st := r.accept(schemas.KindPush, "push-1", order(repo, base, head))
	withdraw := r.hands.Offer(st.Ref, handoff.Hand{Body: body})
	defer withdraw()
	done := make(chan pushed, 1)
	go func() { done <- r.perform(t.Context(), st) }()
	<-body.at
	require.Empty(t, turn)
	close(body.on)
	<-turn
	p := <-done
	require.NoError(t, p.err)
	assert.Equal(t, schemas.OutcomeSucceeded, p.Outcome, p.Message)
	assert.Equal(t, head, r.head(repo))
	assert.EqualValues(t, len(pack), p.result.Bytes)
}

// TestATaskThatEndsWhileItsPushWaits for its turn pushes nothing, also where nobody has told this node of that.
func TestATaskThatEndsWhileItsPushWaits(t *testing.T) {
	t.Parallel()
	table.Run(t, map[string]func(*room){
		"unheard":  (*room).complete,
		"heard of": func(r *room) { r.complete(); close(r.over) },
		"canceled": func(r *room) { r.stop.stop() },
	}, func(t *testing.T, end func(*room)) {
		var r *room
		r = newRoom(t, options{program: func(g *hosted.Git) git.Receiver { return &asked{g, func() { end(r) }} }})
		repo := r.host()
		_, base := r.file(repo, false)
		pack, head := commit("one", base)
		p := r.push("push-1", order(repo, base, head), bytes.NewReader(pack))
		require.NoError(t, p.err)
		assert.Equal(t, schemas.OutcomeCanceled, p.Outcome, p.Message)
		assert.Equal(t, base, r.head(repo))
		assert.Zero(t, r.task().Pushes)
	})
}

// cramped is a git whose packs come in elsewhere.
type cramped struct{ *hosted.Git }

func (c cramped) ReceivePack(context.Context, string, hosted.Push) (gitwire.Report, error) {
	panic("nothing has arrived")
}

// TestAPackWithoutRoom is rejected with what would help.
func TestAPackWithoutRoom(t *testing.T) {
	t.Parallel()
	small, err := hosted.Open(t.Context(), hosted.Config{Dir: t.TempDir(), MaxPack: 1 << 10})
	require.NoError(t, err)
	defer small.Close()
	_, err = small.Create(t.Context(), "app-id", "main")
	require.NoError(t, err)
	r := newRoom(t, options{program: func(*hosted.Git) git.Receiver { return cramped{small} }})
	repo := r.host()
	_, base := r.file(repo, false)
	pack, head := filed(base)
	p := r.push("push-1", order(repo, base, head), bytes.NewReader(pack))
	require.NoError(t, p.err)
	assert.Equal(t, schemas.GitRejected, p.Code)
	for _, part := range []string{"git.max_pack", "limits.tenant_share", "push again in a moment"} {
		assert.Contains(t, p.result.Reason, part)
	}
	assert.Equal(t, base, r.head(repo))
}
