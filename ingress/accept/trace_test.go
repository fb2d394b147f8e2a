package accept_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weir/ingress/accept"
	"weir/schemas"
)

// TestTheModelBehindANameIsKept, and makes no other request of a repeat once the name stands
// for another.
func TestTheModelBehindANameIsKept(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := request(byID("x"), `{"model":"fast"}`)
	for i, name := range []string{"one", "two"} {
		r.Answers = []string{name}
		a := w.accept(t, r)
		require.Equal(t, i > 0, a.Receipt.Duplicate)
	}
	st := w.find(t, "x")
	require.Equal(t, []string{"one"}, st.Action.Answers)
}

// TestTheCallersSpanIsKept where it is one, and makes no other request of a repeat.
func TestTheCallersSpanIsKept(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	w := setup(t)
	for id, tt := range map[string]struct{ header, want string }{
		"span": {parent, parent}, "none": {"", ""}, "junk": {"00-\r\nx", ""},
	} {
		r := request(byID(id), `{"a":1}`)
		r.TraceParent = tt.header
		w.accept(t, r)
		st := w.find(t, id)
		require.Equal(t, tt.want, st.Action.TraceParent)
	}
	again := w.accept(t, accept.Request{Name: byID("span"), Tenant: "t", Kind: schemas.KindHTTP, Class: schemas.ClassOnce, Payload: []byte(`{"a":1}`)})
	require.True(t, again.Receipt.Duplicate)
}
