package actions_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/ingress/accept"
	"weir/ingress/actions"
	"weir/ingress/grant"
	"weir/ingress/strict"
	"weir/schemas"
)

func (w *world) redriver() *actions.Redriver {
	return actions.NewRedriver(w.log, w.ledger, w.accept, func(schemas.HTTPCall, grant.Asker) schemas.Class { return schemas.ClassKeyed })
}

func (w *world) park(t *testing.T, d schemas.DeadLetter) uint64 {
	t.Helper()
	data, err := json.Marshal(d)
	require.NoError(t, err)
	seq, err := w.log.Append(t.Context(), schemas.Append{Subject: schemas.DeadSubject(d), Data: data})
	require.NoError(t, err)
	return seq
}

func letter(id string) schemas.DeadLetter {
	return schemas.DeadLetter{Tenant: "t", Kind: schemas.KindHTTP, ActionID: id, Code: schemas.Poison}
}

func TestReadRedrive(t *testing.T) {
	t.Parallel()
	n, err := actions.ReadRedrive([]byte(`{"sequence":7}`))
	require.NoError(t, err)
	require.EqualValues(t, 7, n)
	for _, body := range []string{`{}`, `{"sequence":0}`, `{"sequence":-1}`, `{"sequence":1.5}`, `{"sequence":"7"}`, `{"sequence":7,"all":true}`, `{"sequence":null}`} {
		require.NoError(t, strict.Check([]byte(body), strict.Limits{}))
		require.Equal(t, schemas.ValidationError, code(t, errOf(actions.ReadRedrive([]byte(body)))), body)
	}
	require.Equal(t, schemas.InvalidRequest, code(t, errOf(actions.ReadRedrive([]byte(`[7]`)))), "not an object")
}

func TestRedriveMakesOneNewAction(t *testing.T) {
	t.Parallel()
	w := setup(t)
	old := w.put(t, "x", schemas.KindHTTP, started(), settled(schemas.OutcomeFailed))
	seq := w.park(t, letter("x"))
	out := w.redrive(t, grant.Asker{Tenant: "t"}, seq)
	require.NotEqual(t, old.ID, out.ID)
	require.False(t, out.Receipt.Duplicate)
	st := w.load(t, out.Ref)
	require.Equal(t, "x", st.Action.Supersedes)
	require.Equal(t, schemas.ClassKeyed, st.Action.Class, "judged by the policy of today")
	require.JSONEq(t, `{"method":"POST","url":"http://h/"}`, string(st.Action.Payload))
	again := w.redrive(t, grant.Asker{Tenant: "t"}, seq)
	require.Equal(t, out.Ref, again.Ref)
	require.True(t, again.Receipt.Duplicate)
}

// A completion is asked for anew, within what both tokens may use.
func TestRedriveOfACompletion(t *testing.T) {
	t.Parallel()
	w := setup(t)
	out, err := w.accept.Accept(t.Context(), accept.Request{
		Name: accept.Name{ID: "x", Source: schemas.IDRequest}, Tenant: "t", Kind: schemas.KindChat, Sensitive: true,
		Payload: json.RawMessage(`{"model":"m","body":{},"prompt":1,"choices":1}`), Models: []string{"a/*", "b"}, Entries: []string{"model:a"},
	})
	require.NoError(t, err)
	w.write(t, out.Ref, started(), settled(schemas.OutcomeFailed))
	dead := letter("x")
	dead.Kind = schemas.KindChat
	seq := w.park(t, dead)
	require.Equal(t, schemas.Forbidden, code(t, errOf(w.redriver().Redrive(t.Context(), grant.Asker{Tenant: "t", Models: []string{"c"}}, seq))))
	again := w.redrive(t, grant.Asker{Tenant: "t", Principal: "p", Models: []string{"a/1", "c"}}, seq)
	st := w.load(t, again.Ref)
	require.True(t, st.Action.Sensitive)
	require.Equal(t, []string{"a/1"}, st.Action.Models)
	require.Equal(t, []string{"model:a"}, st.Action.Entries)
	require.Equal(t, "p", st.Action.Principal)
	require.JSONEq(t, `{"model":"m","body":{},"prompt":1,"choices":1}`, string(st.Action.Payload))
}

func TestRedriveRefuses(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put(t, "running", schemas.KindHTTP, started())
	running := w.park(t, letter("running"))
	dropped := w.park(t, letter("dropped"))
	ref := schemas.Ref{Tenant: "t", Kind: schemas.KindHTTP, ID: "poison"}
	_, err := w.log.Append(t.Context(), schemas.Append{Subject: w.ledger.Layout().Subject(ref, schemas.TailAccepted), Data: []byte("?")})
	require.NoError(t, err)
	require.Equal(t, schemas.Conflict, code(t, errOf(w.Cancel(t.Context(), "t", "poison"))), "only the worker that parks it may end it")
	w.write(t, ref, settled(schemas.OutcomeFailed))
	poison := w.park(t, letter("poison"))
	garbled, err := w.log.Append(t.Context(), schemas.Append{Subject: schemas.DeadSubject(letter("garbled")), Data: []byte("?")})
	require.NoError(t, err)
	w.put(t, "write", schemas.KindRule, started(), settled(schemas.OutcomeFailed))
	write := letter("write")
	write.Kind = schemas.KindRule
	rule := w.park(t, write)
	final := map[schemas.Kind]uint64{}
	for _, kind := range []schemas.Kind{schemas.KindTask, schemas.KindPush, schemas.KindRepo} {
		w.put(t, string(kind), kind, started(), settled(schemas.OutcomeFailed))
		parked := letter(string(kind))
		parked.Kind = kind
		final[kind] = w.park(t, parked)
	}
	other := letter("x")
	other.Tenant = "u"
	foreign := w.park(t, other)
	for name, tc := range map[string]struct {
		seq  uint64
		code schemas.Code
	}{
		"not ended":      {running, schemas.InFlight},
		"dropped":        {dropped, schemas.StreamGone},
		"poison":         {poison, schemas.Conflict},
		"garbled letter": {garbled, schemas.Conflict},
		"of the rules":   {rule, schemas.Conflict},
		"a task":         {final[schemas.KindTask], schemas.Conflict},
		"a push":         {final[schemas.KindPush], schemas.Conflict},
		"a repository":   {final[schemas.KindRepo], schemas.Conflict},
		"other tenant's": {foreign, schemas.NotFound},
		"none":           {999, schemas.NotFound},
	} {
		require.Equal(t, tc.code, code(t, errOf(w.redriver().Redrive(t.Context(), grant.Asker{Tenant: "t"}, tc.seq))), name)
	}
}
