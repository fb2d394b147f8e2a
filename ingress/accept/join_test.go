package accept_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weir/ingress/accept"
	"weir/internal/fault"
	"weir/schemas"
)

// TestARequestThatMayOnlyJoin has its refusal where there is nothing to join, and
// stores nothing whatever happens.
func TestARequestThatMayOnlyJoin(t *testing.T) {
	t.Parallel()
	w := setup(t)
	refusal := fault.New(schemas.UnsupportedTaskType, "no")
	ask := func(id, payload string, entries ...string) (accept.Accepted, error) {
		r := request(byID(id), payload)
		r.Refusal, r.Entries = refusal, entries
		return w.Accept(t.Context(), r)
	}
	stored := func() uint64 {
		var n uint64
		for p := range 2 {
			_, last, err := w.log.Bounds(t.Context(), schemas.LogStream(p))
			require.NoError(t, err)
			n += last
		}
		return n
	}
	out, err := ask("x", `{"a":1}`)
	require.Equal(t, refusal, err)
	require.Zero(t, out)
	require.Zero(t, stored())

	made := w.accept(t, request(byID("x"), `{"a":1}`))
	out, err = ask("x", `{ "a": 1 }`)
	require.NoError(t, err)
	require.Equal(t, made.Ref, out.Ref)
	require.True(t, out.Receipt.Duplicate)
	require.Equal(t, 2, w.barriers, "what is joined must survive too")
	for _, err := range []error{
		func() error { _, err := ask("x", `{"a":2}`); return err }(),
		func() error { _, err := ask("x", `{"a":1}`, "stock"); return err }(),
	} {
		require.Equal(t, schemas.Conflict, code(t, err))
	}
	w.set(func() { w.reads = fault.ErrUnavailable })
	out, err = ask("x", `{"a":1}`)
	require.ErrorIs(t, err, fault.ErrUnavailable)
	require.NotErrorIs(t, err, refusal, "nobody knows whether there is one")
	require.Zero(t, out, "and there is none of this request's making")
	w.set(func() { w.reads = nil })
	require.EqualValues(t, 1, stored())
}

// TestWhatTellsNoRequestsApart: the caller's span and the model behind a name are kept of the
// first request, and a repeat may have others.
func TestWhatTellsNoRequestsApart(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for id, tt := range map[string]struct{ header, want string }{
		"span": {parent, parent}, "none": {"", ""}, "junk": {"00-\r\nx", ""},
	} {
		w := setup(t)
		r := request(byID(id), `{"model":"fast"}`)
		r.TraceParent, r.Answers = tt.header, []string{"one"}
		require.False(t, w.accept(t, r).Receipt.Duplicate, id)
		r.TraceParent, r.Answers = "", []string{"two"}
		require.True(t, w.accept(t, r).Receipt.Duplicate, id)
		a := w.find(t, id).Action
		require.Equal(t, tt.want, a.TraceParent, id)
		require.Equal(t, []string{"one"}, a.Answers, id)
	}
}
