package board_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/board"
	"weir/internal/broker"
	"weir/internal/broker/embedded"
	"weir/internal/ledger"
	"weir/schemas"
)

var layout = schemas.Layout{Partitions: 2}

// open is a node on a server: its broker, and its board.
func open(t *testing.T, server *embedded.Server) (*broker.Broker, *board.Board) {
	t.Helper()
	b, err := broker.Open(t.Context(), broker.Config{Server: server, Layout: layout, AttemptTimeout: 5 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { b.Close(context.Background()) })
	all := board.New(b, board.Config{Layout: layout})
	require.NoError(t, all.Start(t.Context()))
	t.Cleanup(all.Stop)
	return b, all
}

func anyTask(board.Entry) bool { return true }

// TestBoardsShareALog: what one node acknowledged another knows when it has caught up, and
// who waits is told.
func TestBoardsShareALog(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start(embedded.Config{Dir: t.TempDir(), Layout: layout, Durability: schemas.DurabilityProcess})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	here, _ := open(t, server)
	_, there := open(t, server)
	l := ledger.New(here, layout, time.Now)
	const tasks = 40
	var all sync.WaitGroup
	changed := there.Changed("acme.inc:1")
	for i := range tasks {
		all.Go(func() {
			id := "task." + strconv.Itoa(i)
			st, duplicate, err := l.Claim(t.Context(), schemas.Action{
				ID: id, Tenant: "acme.inc:1", Kind: schemas.KindTask, Fingerprint: id, AcceptedAt: time.Now(), Deadline: time.Now().Add(time.Hour),
				Payload: []byte(`{"description":"d","repo":"r","pool":"ci"}`),
			})
			if err != nil || duplicate {
				t.Error(err)
				return
			}
			for _, e := range []schemas.Event{
				{Type: schemas.EventStarted, Started: &schemas.Started{Worker: "w"}},
				{Type: schemas.EventStatus, Task: &schemas.TaskEvent{What: schemas.TaskOpened, Base: "b"}},
			} {
				if err := l.Append(t.Context(), st, e); err != nil {
					t.Error(err)
				}
			}
			if i > 0 {
				return
			}
			for _, e := range []schemas.Event{
				{Type: schemas.EventSignal, Task: &schemas.TaskEvent{What: schemas.TaskClaimed, Lease: 1, Holder: "k", TokenHash: "x"}},
				{Type: schemas.EventWaiting, Waiting: &schemas.Waiting{For: schemas.WaitAgent}},
			} {
				if err := l.Append(t.Context(), st, e); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	<-changed
	require.NoError(t, there.CatchUp(t.Context()))
	require.Len(t, there.Leasable("acme.inc:1", anyTask, 1000), tasks-1)
	e, held := there.Held("acme.inc:1", "k")
	require.True(t, held)
	require.Equal(t, schemas.Ref{Tenant: "acme.inc:1", Kind: schemas.KindTask, ID: "task.0"}, e.Ref)

	over, forget := there.Over(e.Ref, 1)
	defer forget()
	st, err := l.Load(t.Context(), e.Ref)
	require.NoError(t, err)
	require.NoError(t, l.Append(t.Context(), st, schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeExpired}}))
	<-over
	_, late := open(t, server)
	require.Equal(t, there.Leasable("acme.inc:1", anyTask, 1000), late.Leasable("acme.inc:1", anyTask, 1000))
	_, held = late.Held("acme.inc:1", "k")
	require.False(t, held)
}
