package broker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
)

// TestInsist: a leader that does not answer is asked again, and for no longer than
// anybody is.
func TestInsist(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, tt := range map[string]struct {
			silent int   // so often in the beginning
			then   error // what comes after
			asked  int
		}{
			"answers at once":    {0, nil, 1},
			"there is none":      {0, fault.ErrNotFound, 1},
			"no connection":      {0, fault.ErrUnavailable, 1},
			"answers the third":  {2, nil, 3},
			"remains silent":     {99, nil, 4},
			"has nothing, later": {1, fault.ErrNotFound, 2},
		} {
			begun, asked := time.Now(), 0
			err := insist(func(within time.Duration) error {
				if asked++; asked > tt.silent {
					return tt.then
				}
				<-time.After(within)
				return fmt.Errorf("%w: %w in %s", fault.ErrUnavailable, errSilent, within)
			})
			require.Equal(t, tt.asked, asked, name)
			if tt.silent < 99 {
				require.Equal(t, tt.then, err, name)
				continue
			}
			require.ErrorIs(t, err, fault.ErrUnavailable, name)
			require.Less(t, time.Since(begun), 2*readTimeout, name)
		}
	})
}
