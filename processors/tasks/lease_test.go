package tasks

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// TestManyTasksAreForgotten: a worker does not remember the holders of tasks that others work on by now.
func TestManyTasksAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lease, many = time.Minute, 1000
		h := newHolders(lease)
		for i := range many {
			h.silent(schemas.Ref{ID: strconv.Itoa(i)}, sign{lease: 1, revision: 1}, 0)
			time.Sleep(time.Second)
		}
		require.Less(t, len(h.of), 5*int(lease/time.Second))
		require.Equal(t, time.Second, h.silent(schemas.Ref{ID: strconv.Itoa(many - 1)}, sign{lease: 1, revision: 1}, 0), "the newest is known")
	})
}
