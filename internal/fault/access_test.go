package fault_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/schemas"
)

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
}

func TestOneOfTwoScopes(t *testing.T) {
	t.Parallel()
	for _, granted := range [][]string{{"a"}, {"b"}, {"c", "b"}, {schemas.ScopeAdmin}} {
		require.NoError(t, fault.Scope(granted, "a", "b"), granted)
	}
	for _, granted := range [][]string{nil, {"c"}, {""}} {
		require.Equal(t, fault.New(schemas.Forbidden, "the token lacks the scope a or b"), fault.Scope(granted, "a", "b"))
	}
	require.Error(t, fault.Scope([]string{"a"}), "no scope is nobody's")
}

func TestOperator(t *testing.T) {
	t.Parallel()
	require.NoError(t, fault.Operator(schemas.Operator, "fly"))
	require.Equal(t, fault.New(schemas.Forbidden, "only an admin of the tenant default may fly"), fault.Operator("acme", "fly"))
}
