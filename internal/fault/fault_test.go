package fault_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/schemas"
)

func TestDisposition(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		err   error
		ack   bool
		again time.Duration
	}{
		"done":              {nil, true, 0},
		"later":             {&fault.RetryAfter{After: time.Minute}, false, time.Minute},
		"later, wrapped":    {fmt.Errorf("work: %w", &fault.RetryAfter{After: time.Minute}), false, time.Minute},
		"later, who knows":  {&fault.RetryAfter{Cause: fault.ErrFenced}, false, time.Second},
		"the log is away":   {fault.ErrUnavailable, false, time.Second},
		"parking it failed": {&fault.Terminal{Code: schemas.Poison}, false, time.Second},
		"something else":    {errors.New("something"), false, time.Second},
	}
	for name, tt := range tests {
		ack, again := fault.Disposition(tt.err)
		assert.Equal(t, tt.ack, ack, name)
		assert.Equal(t, tt.again, again, name)
	}
}

// TestOnlyThePublicHalfShows: the private cause is for errors.Is alone.
func TestOnlyThePublicHalfShows(t *testing.T) {
	t.Parallel()
	cause := errors.New("AGWCANARY 10.0.0.1")
	for _, err := range []error{
		&fault.Error{Code: schemas.Internal, Message: "m", Cause: cause},
		&fault.Call{Code: schemas.UpstreamReset, Cause: cause},
		&fault.Terminal{Code: schemas.Poison, Reason: "r", Cause: cause},
	} {
		assert.NotContains(t, err.Error(), "AGWCANARY")
		assert.ErrorIs(t, err, cause)
	}
}

func TestScope(t *testing.T) {
	t.Parallel()
	for _, scope := range schemas.Scopes() {
		require.NoError(t, fault.Scope([]string{schemas.ScopeAdmin}, scope))
		require.NoError(t, fault.Scope([]string{"x", scope}, scope))
		require.Equal(t, fault.New(schemas.Forbidden, "the token lacks the scope "+scope), fault.Scope(nil, scope))
		if scope != schemas.ScopeActionsRead {
			require.Error(t, fault.Scope([]string{schemas.ScopeActionsRead}, scope))
		}
	}
	require.NoError(t, fault.Scope([]string{"c", "b"}, "a", "b"))
	require.Equal(t, fault.New(schemas.Forbidden, "the token lacks the scope a or b"), fault.Scope([]string{"c"}, "a", "b"))
	require.Error(t, fault.Scope([]string{"a"}), "no scope is nobody's")
}

func TestOperator(t *testing.T) {
	t.Parallel()
	require.NoError(t, fault.Operator(schemas.Operator, "fly"))
	require.Equal(t, fault.New(schemas.Forbidden, "only an admin of the tenant default may fly"), fault.Operator("acme", "fly"))
}
