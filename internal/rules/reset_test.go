package rules

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/schemas"
)

// TestReset: what cannot be read is replaced by the empty set and in force at once;
// what can be is not touched.
func TestReset(t *testing.T) {
	t.Parallel()
	s := newShelf()
	k := node(t, s, Config{})
	_, err := k.Reset(t.Context(), "t", "action")
	require.ErrorIs(t, err, fault.ErrFenced, "no set is the empty one")
	was := k.put(t, "t", doc(rule("a")), 0)
	_, err = k.Reset(t.Context(), "t", "action")
	require.ErrorIs(t, err, fault.ErrFenced)
	require.Equal(t, was.Etag, k.force(t, "t"))

	s.set(func(s *shelf) { s.deaf = true; s.store("t", []byte(`{"v":99}`)) }) // this node has not heard of it
	now, err := k.Reset(t.Context(), "t", "action")
	require.NoError(t, err)
	require.Equal(t, uint64(3), now.Revision)
	require.Equal(t, schemas.RuleSet{
		V: schemas.RuleSetVersion, Tenant: "t", GlobalActive: true, Groups: []string{}, Rules: []schemas.Rule{},
		By: "action", Previous: 2, At: now.Doc.At,
	}, now.Doc)
	require.False(t, now.Doc.At.IsZero())
	require.Equal(t, now.Etag, k.force(t, "t"))

	s.set(func(s *shelf) { s.down = fault.ErrUnavailable })
	_, err = k.Reset(t.Context(), "t", "action")
	require.ErrorIs(t, err, fault.ErrUnavailable)
}
