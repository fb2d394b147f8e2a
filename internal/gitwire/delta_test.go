package gitwire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzPatch: what a delta makes is as long as it says, and never more than a commit may be.
func FuzzPatch(f *testing.F) {
	f.Add([]byte("base"), []byte("\x04\x06\x90\x04\x02xy"))
	f.Add([]byte("base"), []byte("\x04\x80\x80\x80\x80\x80\x04\x80"))
	f.Fuzz(func(t *testing.T, base, delta []byte) {
		out, ok := patch(nil, base, delta)
		require.LessOrEqual(t, len(out), maxCommit)
		require.LessOrEqual(t, cap(out), maxCommit+maxCommit/4)
		if ok {
			_, n, err := number(delta)
			require.NoError(t, err)
			size, _, err := number(delta[n:])
			require.NoError(t, err)
			require.Len(t, out, int(size))
		}
	})
}

// Limit bounds what a lineage holds.
func (l *Lineage) Limit(room int) { l.room = room }
