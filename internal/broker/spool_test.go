package broker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/internal/fault"
	"weir/schemas"
)

// stores counts what the object store has, in messages that are not empty.
func (n *node) stores(t *testing.T) (messages int) {
	t.Helper()
	for _, r := range must(n.Range(t.Context(), blobStream, "$O."+schemas.BlobBucket+".>", 0, 1000))(t) {
		if len(r.Data) > 0 {
			messages++
		}
	}
	return messages
}

// TestSpool: a body is found by its hash after Commit, and nothing of it is left in any other case.
func TestSpool(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	for _, size := range []int{0, 1, blobChunk, blobChunk + 1, 9*blobChunk + 7} {
		data := []byte(strings.Repeat("0123456", size/7+1)[:size])
		s := must(n.Spool(t.Context(), iotest.HalfReader(bytes.NewReader(data))))(t)
		require.Equal(t, size, s.Size)
		_, _, err := n.OpenBlob(t.Context(), s.Name)
		require.ErrorIs(t, err, fault.ErrNotFound)
		require.NoError(t, n.Commit(t.Context(), "t", s))
		kept := n.stores(t)

		body, length, err := n.OpenBlob(t.Context(), s.Name)
		require.NoError(t, err)
		require.EqualValues(t, size, length)
		require.NoError(t, iotest.TestReader(body, data))
		require.NoError(t, body.Close())

		again := must(n.Spool(t.Context(), bytes.NewReader(data)))(t)
		require.NoError(t, n.Commit(t.Context(), "t", again))
		n.Discard(t.Context(), must(n.Spool(t.Context(), bytes.NewReader(data)))(t))
		for _, broken := range []error{errors.New("broken"), io.ErrUnexpectedEOF, &fault.Error{Cause: io.EOF}} {
			_, err = n.Spool(t.Context(), io.MultiReader(bytes.NewReader(data), iotest.ErrReader(broken)))
			require.Equal(t, broken, err)
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		_, err = n.Spool(gone, bytes.NewReader(append(data, make([]byte, 5*blobChunk)...)))
		require.Error(t, err)
		require.Equal(t, kept, n.stores(t), "%d bytes", size)
	}
}

// TestKeep: a body is stored anew only if it would expire before a record of now.
func TestKeep(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	name := must(n.PutBlob(t.Context(), "t", []byte("body")))(t)
	require.NoError(t, n.Keep(t.Context(), "t", name))
	require.Equal(t, 2, n.stores(t))
	require.ErrorIs(t, n.Keep(t.Context(), "t", strings.Repeat("0", 64)), fault.ErrNotFound)

	n.cfg.History = 0 // every record is too old
	require.NoError(t, n.Keep(t.Context(), "t", name))
	require.Equal(t, 3, n.stores(t), "another chunk, and its description in place of the first")
	require.Equal(t, "body", string(must(n.GetBlob(t.Context(), name))(t)))
}

// TestDamagedBodies never come to their end: their last chunks are held back.
func TestDamagedBodies(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	data := make([]byte, 10*blobChunk)
	for what, change := range map[string]func(chunks string){
		"another chunk": func(chunks string) { must(n.store(t.Context(), &nats.Msg{Subject: chunks, Data: []byte("x")}))(t) },
		"no chunks":     func(chunks string) { must(n.store(t.Context(), rollup(chunks, []byte("x"))))(t) },
	} {
		data[0]++
		s := must(n.Spool(t.Context(), bytes.NewReader(data)))(t)
		require.NoError(t, n.Commit(t.Context(), "t", s))
		change(blobChunks + s.Object)
		_, _, err := n.OpenBlob(t.Context(), s.Name)
		require.ErrorIs(t, err, fault.ErrUnavailable, what)
	}

	data[0]++
	s := must(n.Spool(t.Context(), bytes.NewReader(data)))(t)
	s.Name = strings.Repeat("00", 32)
	require.NoError(t, n.describe(t.Context(), "t", s))
	body, _, err := n.OpenBlob(t.Context(), s.Name)
	require.NoError(t, err)
	got, err := io.ReadAll(body)
	require.ErrorIs(t, err, fault.ErrUnavailable)
	require.Len(t, got, 8*blobChunk)

	body, _, err = n.OpenBlob(t.Context(), s.Name)
	require.NoError(t, err)
	require.NoError(t, body.Close())
	_, err = io.ReadAll(body)
	require.ErrorIs(t, err, context.Canceled)
}
