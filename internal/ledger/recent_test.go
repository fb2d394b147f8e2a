package ledger_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/weirtest/memlog"
	"weir/schemas"
)

// TestLoadTaskWithOutput: a task's state is what its whole log says, and its output is read once.
func TestLoadTaskWithOutput(t *testing.T) {
	t.Parallel()
	log := &counted{Log: memlog.New(layout, time.Now, memlog.Hooks{})}
	l := ledger.New(log, layout, nil)
	a := action("f")
	a.Kind = schemas.KindTask
	st := claim(t, l, a)
	ref := st.Ref
	output := func(n int) {
		for range n {
			require.NoError(t, l.Append(t.Context(), st, schemas.Event{Type: schemas.EventProgress, Data: json.RawMessage(`{"text":"x"}`)}))
		}
	}
	fresh := func() *ledger.State { return load(t, ledger.New(log, layout, nil), ref) }

	output(100)
	assert.Equal(t, fresh(), load(t, l, ref))
	log.records = 0
	assert.Equal(t, 100, load(t, l, ref).Progress)
	assert.Zero(t, log.records, "the output is read again")

	// Readers have states of their own, and see what is stored after them.
	one, other := load(t, l, ref), load(t, l, ref)
	require.NoError(t, l.Append(t.Context(), one, schemas.Event{Type: schemas.EventStatus, Task: &schemas.TaskEvent{What: schemas.TaskClaimed}}))
	require.ErrorIs(t, l.Append(t.Context(), other, schemas.Event{Type: schemas.EventCancel}), fault.ErrFenced)
	assert.Len(t, other.Events, 1)
	wakeUp(t, log, ref)
	log.records = 0
	st = load(t, l, ref)
	assert.Equal(t, 2, log.records)
	assert.Equal(t, fresh(), st)
	output(1)
	assert.Equal(t, fresh(), load(t, l, ref))

	log.Purge(schemas.LogStream(layout.Partition("t", "a")), one.Events[1].Seq)
	_, err := l.Load(t.Context(), ref)
	require.ErrorIs(t, err, fault.ErrGone)
}
