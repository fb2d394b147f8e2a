package call_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/processors/call"
	"weir/schemas"
)

// blobs are documents by name.
type blobs map[string]json.RawMessage

func (b blobs) Blob(_ context.Context, _ json.RawMessage, name string) (json.RawMessage, error) {
	doc, ok := b[name]
	if !ok {
		return nil, fault.ErrNotFound
	}
	return doc, nil
}

// TestMemoryOfAStoredAnswer is reserved until it is released, and not for an answer that cannot be read.
func TestMemoryOfAStoredAnswer(t *testing.T) {
	t.Parallel()
	held := 0
	answers := call.Answers{Blobs: blobs{"b": json.RawMessage(`{"status":201}`)}, Reserve: func(_ context.Context, tenant string, names ...string) (func(), error) {
		require.Equal(t, "acme", tenant)
		require.Len(t, names, 1)
		held++
		return func() { held-- }, nil
	}}
	try := func(name string) *ledger.Try {
		return &ledger.Try{Result: &schemas.Attempted{Answer: &schemas.Answer{Status: 200}, AnswerBlob: name}}
	}
	a, release, err := answers.Reserved(t.Context(), "acme", try("b"))
	require.NoError(t, err)
	require.Equal(t, 201, a.Status)
	require.Equal(t, 1, held)
	release()
	require.Zero(t, held)
	_, _, err = answers.Reserved(t.Context(), "acme", try("gone"))
	require.ErrorAs(t, err, new(*fault.Parked))
	require.Zero(t, held)
	for _, none := range []*ledger.Try{try(""), {}, nil} {
		_, release, err = answers.Reserved(t.Context(), "acme", none)
		require.NoError(t, err)
		require.Zero(t, held)
		release()
	}
}

// TestNoMemoryForAStoredAnswer: an action gives its slot back after a while, and comes again.
func TestNoMemoryForAStoredAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answers := call.Answers{Reserve: func(ctx context.Context, _ string, _ ...string) (func(), error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}
		_, _, err := answers.Reserved(t.Context(), "acme", &ledger.Try{Result: &schemas.Attempted{AnswerBlob: "b"}})
		require.ErrorAs(t, err, new(*fault.Later))
	})
}
