//go:build e2e

package roles_test

import (
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/crowd"
	"weir/internal/weirtest/history"
	"weir/internal/weirtest/stored"
	"weir/schemas"
)

// partitions are the log's.
func partitions() []string { return []string{schemas.LogStream(0), schemas.LogStream(1)} }

// stored reads what the log and the evidence hold, past Weir, when no queue has anything left.
func (h *house) stored() (run history.Run) {
	h.t.Helper()
	log, err := stored.Open(h.cluster.Direct())
	require.NoError(h.t, err)
	defer log.Close()
	h.eventually(func() bool {
		waits, _, err := log.Waiting(h.ctx, partitions())
		return err == nil && waits == 0
	}, "nothing is left under way")
	for _, name := range partitions() {
		records, err := log.Read(h.ctx, name, 1)
		require.NoError(h.t, err)
		run.Log = append(run.Log, records...)
	}
	run.Evidence, err = log.Read(h.ctx, schemas.EvidenceStream, 1)
	require.NoError(h.t, err)
	return run
}

// judge holds what crowds were told against what is stored and what the target heard.
func (h *house) judge(crowds ...*crowd.Crowd) {
	h.t.Helper()
	run := h.stored()
	for _, c := range crowds {
		c.Fill(&run)
	}
	h.t.Logf("%d actions, %d records of evidence", len(history.Read(run.Log)), len(run.Evidence))
	for _, v := range history.Check(run, history.Bounds{}) {
		h.t.Error(v)
	}
}
