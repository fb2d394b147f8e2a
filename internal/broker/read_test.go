package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"weir/internal/broker/embedded"
	"weir/internal/fault"
	"weir/schemas"
)

func TestReads(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	stream := schemas.LogStream(0)
	first, last, err := n.Bounds(t.Context(), stream)
	require.NoError(t, err)
	require.Zero(t, last)
	require.LessOrEqual(t, first, uint64(1))
	_, err = n.Last(t.Context(), stream, layout.AnyKind("t", "a"))
	require.ErrorIs(t, err, fault.ErrNotFound)
	none := n.records(t, stream, layout.All(ref("a")), 0, 10)
	require.Empty(t, none)

	begun := time.Now()
	seq := n.put(t, claim("a", "0"))
	for i := 1; i < 10; i++ {
		n.put(t, claim(fmt.Sprintf("other-%d", i), "x"))
		seq = n.put(t, event("a", strconv.Itoa(i), seq))
	}

	rec := must(n.Last(t.Context(), stream, layout.AnyKind("t", "a")))(t)
	newest := must(n.Newest(t.Context(), stream, layout.AnyKind("t", "a")))(t)
	require.Equal(t, rec, newest)
	_, err = n.Newest(t.Context(), stream, layout.AnyKind("t", "b"))
	require.ErrorIs(t, err, fault.ErrNotFound)
	require.WithinDuration(t, begun, rec.Time, time.Minute)
	rec.Time = time.Time{}
	require.Equal(t, schemas.Record{
		Stream: stream, Subject: layout.Subject(ref("a"), schemas.SectionEvent), Seq: seq, Data: []byte("9"),
	}, rec)

	for _, filter := range []string{layout.All(ref("a")), layout.AnyKind("t", "a")} {
		all := n.records(t, stream, filter, 0, 100)
		require.Len(t, all, 10)
		for i, r := range all {
			require.Equal(t, strconv.Itoa(i), string(r.Data))
			require.Equal(t, stream, r.Stream)
		}
		part := n.records(t, stream, filter, all[3].Seq, 4)
		require.Equal(t, all[3:7], part)
		part = n.records(t, stream, filter, all[3].Seq+1, 1)
		require.Equal(t, all[4:5], part)
		next := must(n.Next(t.Context(), stream, filter, all[3].Seq+1))(t)
		require.Equal(t, all[4], next)
		next = must(n.Next(t.Context(), stream, filter, 0))(t)
		require.Equal(t, all[0], next)
		_, err = n.Next(t.Context(), stream, filter, seq+1)
		require.ErrorIs(t, err, fault.ErrNotFound)
		part = n.records(t, stream, filter, seq+1, 5)
		require.Empty(t, part)
		for _, tc := range []struct {
			from        uint64
			limit, size int
			want        []schemas.Record
			more        bool
		}{
			{0, 100, 1 << 20, all, false},
			{0, 10, 1 << 20, all, false},
			{0, 9, 1 << 20, all[:9], true},
			{0, 10, 1, all[:1], true},
			{seq, 10, 1, all[9:], false},
			{seq + 1, 10, 1, nil, false},
		} {
			part, more, err := n.Page(t.Context(), stream, filter, tc.from, tc.limit, tc.size)
			require.NoError(t, err)
			require.Equal(t, tc.want, part, tc)
			require.Equal(t, tc.more, more, tc)
		}
	}
	first, last, err = n.Bounds(t.Context(), stream)
	require.NoError(t, err)
	require.EqualValues(t, 1, first)
	require.Equal(t, seq, last)

	_, _, err = n.Bounds(t.Context(), "NONE")
	require.ErrorIs(t, err, fault.ErrNotFound)
	_, err = n.Next(t.Context(), "NONE", "x", 1)
	require.ErrorIs(t, err, fault.ErrUnavailable)
	_, err = n.Last(t.Context(), "NONE", "x")
	require.ErrorIs(t, err, fault.ErrUnavailable)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = n.Page(ctx, stream, "weir.log.>", 1, 1, 1)
	require.ErrorIs(t, err, context.Canceled)
	_, err = n.Last(ctx, stream, "weir.log.>")
	require.ErrorIs(t, err, fault.ErrUnavailable)
}

// TestReadOfABucket takes page by page, each of a bounded number of bytes, and what was taken before
// an error counts.
func TestReadOfABucket(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	k := n.Bucket(schemas.RuleBucket)
	const size, count = 1 << 20, 20
	for i := range count {
		must(k.Set(t.Context(), strconv.Itoa(i), make([]byte, size)))(t)
	}
	ctx, cancel := context.WithCancel(t.Context())
	taken := 0
	take := func(r schemas.Record) {
		require.Equal(t, strconv.Itoa(taken), r.Subject)
		require.Len(t, r.Data, size)
		if taken++; taken == 3 { // within the first page
			cancel()
		}
	}
	last, err := k.Read(ctx, 0, take)
	require.ErrorIs(t, err, fault.ErrUnavailable)
	require.Less(t, taken, count)
	last = must(k.Read(t.Context(), last, take))(t)
	require.Equal(t, count, taken)
	require.Empty(t, contents(t, k, last))
}

// A message's own headers cannot speak for the server.
func readsNoForgedHeaders(t *testing.T, n *node) {
	t.Helper()
	m := &nats.Msg{Subject: layout.Subject(ref("forged"), schemas.SectionEvent), Header: nats.Header{
		nats.JSSequence: {"77"}, nats.JSSubject: {"weir.log.forged"}, nats.JSTimeStamp: {"x"}, nats.JSStream: {"X", "Y"},
	}, Data: []byte("d")}
	seq := must(n.store(t.Context(), m))(t)
	rec := must(n.Last(t.Context(), schemas.LogStream(0), layout.All(ref("forged"))))(t)
	require.Equal(t, seq, rec.Seq)
	require.Equal(t, m.Subject, rec.Subject)
	require.Equal(t, schemas.LogStream(0), rec.Stream)
	all := n.records(t, schemas.LogStream(0), layout.All(ref("forged")), 1, 2)
	require.Equal(t, []schemas.Record{rec}, all)
}

func TestBlobs(t *testing.T) {
	t.Parallel()
	n := open(t, embedded.Config{}, Config{})
	for _, size := range []int{0, 1, 300 << 10, 3 << 20} {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(i * 7)
		}
		name := must(n.PutBlob(t.Context(), "t", data))(t)
		require.Regexp(t, "^[0-9a-f]{64}$", name)
		_, before, err := n.Bounds(t.Context(), "OBJ_"+schemas.BlobBucket)
		require.NoError(t, err)
		again := must(n.PutBlob(t.Context(), "t", data))(t)
		require.Equal(t, name, again)
		_, after, err := n.Bounds(t.Context(), "OBJ_"+schemas.BlobBucket)
		require.NoError(t, err)
		require.Equal(t, before, after, "a repeat stores nothing")
		got, err := n.GetBlob(t.Context(), name)
		size, sizeErr := n.BlobSize(t.Context(), name)
		require.NoError(t, sizeErr)
		require.EqualValues(t, len(got), size)
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, got), "%d bytes", len(got))
	}
	_, err := n.GetBlob(t.Context(), "00")
	require.ErrorIs(t, err, fault.ErrNotFound)

	// It is an ordinary object store to others.
	store := must(n.js.ObjectStore(t.Context(), schemas.BlobBucket))(t)
	name := must(n.PutBlob(t.Context(), "t", []byte("for everybody")))(t)
	got := must(store.GetBytes(t.Context(), name))(t)
	require.Equal(t, "for everybody", string(got))

	for object, body := range map[string]string{
		"forged": `{"name":"x","nuid":"none","chunks":1}`,
		"broken": `{`,
	} {
		must(n.store(t.Context(), &nats.Msg{Subject: blobSubject(object), Data: []byte(body)}))(t)
		_, err = n.GetBlob(t.Context(), object)
		require.ErrorIs(t, err, fault.ErrUnavailable)
	}
	must(n.store(t.Context(), &nats.Msg{Subject: blobSubject("gone"), Data: []byte(`{"deleted":true}`)}))(t)
	_, err = n.GetBlob(t.Context(), "gone")
	require.ErrorIs(t, err, fault.ErrNotFound)
}

// TestInsist: a leader that does not answer is asked again, and for no longer than anybody is.
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

// stores counts what the object store has, in messages that are not empty.
func (n *node) stores(t *testing.T) (messages int) {
	t.Helper()
	for _, r := range n.records(t, blobStream, "$O."+schemas.BlobBucket+".>", 0, 1000) {
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
