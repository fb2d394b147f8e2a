package gitwire_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"weir/internal/gitwire"
	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/table"
)

// realPacks are packs by the real git: whole, with deltas of both kinds, and thin.
func realPacks(t *testing.T) map[string][]byte {
	t.Helper()
	dir, first := gitkit.NewRepo(t)
	text := strings.Repeat("a line that is there in every version\n", 2000)
	for i := range 6 {
		gitkit.Write(t, dir, "file", text+strings.Repeat("more\n", i)+text)
	}
	noise := make([]byte, 100_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	head := gitkit.Write(t, dir, "noise", hex.EncodeToString(noise))
	gitkit.Git(t, dir, "tag", "-a", "-m", "a tag", "v1")
	return map[string][]byte{
		"whole": gitkit.PackOf(t, dir, false, "v1"), "thin": gitkit.PackOf(t, dir, true, "HEAD", "HEAD~2"),
		"by id": []byte(gitkit.GitIn(t, dir, []byte(head+"\n"), "pack-objects", "-q", "--stdout", "--revs", "--no-reuse-delta")),
		"stored": []byte(gitkit.GitIn(t, dir, []byte(head+"\n"), "-c", "pack.compression=0", "pack-objects", "-q", "--stdout", "--revs",
			"--no-reuse-object")),
		"empty": gitkit.PackOf(t, dir, false, first, first), "our own": gitwire.EmptyPack(),
	}
}

func TestReadPackTakesRealPacks(t *testing.T) {
	t.Parallel()
	for name, pack := range realPacks(t) {
		for chunks, r := range map[string]io.Reader{
			"whole": bytes.NewReader(pack), "by bytes": iotest.OneByteReader(bytes.NewReader(pack)),
			"halves": iotest.HalfReader(bytes.NewReader(pack)), "data and end": iotest.DataErrReader(bytes.NewReader(pack)),
		} {
			t.Run(name+" "+chunks, func(t *testing.T) {
				t.Parallel()
				var got bytes.Buffer
				n, err := gitwire.ReadPack(io.TeeReader(r, &got), gitwire.PackLimits{Bytes: int64(len(pack))}, nil)
				require.NoError(t, err)
				require.True(t, bytes.Equal(pack, got.Bytes()), "all of it was read")
				require.Equal(t, len(pack) > 32, n > 0)
			})
		}
	}
}

func small() (objects []gitkit.Object) {
	base := gitkit.BlobOf(strings.Repeat("base ", 100))
	tree := gitkit.TreeOf(gitkit.Entry{Mode: "100644", Name: "f", ID: base.ID()})
	return []gitkit.Object{
		gitkit.CommitOf(tree.ID(), "m"), tree, base,
		{Type: gitkit.OfsDelta, Base: 2, Data: gitkit.Delta(500, 700, gitkit.Copy(0, 500), gitkit.Copy(100, 200))},
		{Type: gitkit.RefDelta, BaseID: base.ID(), Data: gitkit.Delta(500, 5, gitkit.Insert("other"))},
		{Type: gitkit.Blob},
	}
}

func read(r io.Reader, l gitwire.PackLimits) (int64, error) { return gitwire.ReadPack(r, l, nil) }

func TestReadPackWantsAllOfIt(t *testing.T) {
	t.Parallel()
	pack := gitkit.Pack(small()...)
	gone := errors.New("the client is gone")
	for n := range pack {
		_, err := read(bytes.NewReader(pack[:n]), gitwire.PackLimits{})
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		_, err = read(io.MultiReader(bytes.NewReader(pack[:n]), iotest.ErrReader(gone)), gitwire.PackLimits{})
		require.ErrorIs(t, err, gone)
	}
	_, err := read(io.MultiReader(bytes.NewReader(pack), iotest.ErrReader(gone)), gitwire.PackLimits{})
	require.ErrorIs(t, err, gone, "the end is what says that nothing follows")
	for i := range pack {
		bad := slices.Clone(pack)
		bad[i] ^= 1 << (i % 8)
		_, err := read(bytes.NewReader(bad), gitwire.PackLimits{})
		require.Error(t, err)
	}
}

// idle is a reader that brings nothing, for ever.
type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

func TestReadPackRefuses(t *testing.T) {
	t.Parallel()
	s := small()
	pack := gitkit.Pack(s...)
	with := func(o gitkit.Object) []byte { return gitkit.Pack(append(small(), o)...) }
	raw := func(b ...byte) []byte {
		return gitkit.Seal(append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01"), b...))
	}
	zero := gitkit.Deflate(nil)
	dictionary := []byte{0x78, 0xbb, 0, 0, 0, 2, 3, 0, 0, 0, 0, 1}
	type testCase struct {
		in     []byte
		limits gitwire.PackLimits
		err    error
	}
	table.Run(t, map[string]testCase{
		"no pack":                           {in: []byte("PACK-age and more"), err: gitwire.ErrMalformed},
		"version 3":                         {in: gitkit.Seal([]byte("PACK\x00\x00\x00\x03\x00\x00\x00\x00")), err: gitwire.ErrMalformed},
		"something behind":                  {in: append(slices.Clone(pack), 'x'), err: gitwire.ErrMalformed},
		"more objects than it says":         {in: gitkit.PackSaying(len(s)-1, s...), err: gitwire.ErrMalformed},
		"fewer objects than it says":        {in: gitkit.PackSaying(len(s)+1, s...), err: gitwire.ErrMalformed}, // the checksum reads as an object
		"type 0":                            {in: raw(append([]byte{0x00}, zero...)...), err: gitwire.ErrMalformed},
		"type 5":                            {in: raw(append([]byte{0x50}, zero...)...), err: gitwire.ErrMalformed},
		"a size of 2^60":                    {in: raw(append([]byte{0xb0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1}, zero...)...), err: gitwire.ErrTooLarge},
		"a size without end":                {in: raw(bytes.Repeat([]byte{0xb0}, 30)...), err: gitwire.ErrTooLarge},
		"smaller than it says":              {in: with(gitkit.Object{Type: gitkit.Blob, Data: []byte("abc"), Size: 4}), err: gitwire.ErrMalformed},
		"larger than it says":               {in: with(gitkit.Object{Type: gitkit.Blob, Data: []byte("abc"), Size: 2}), err: gitwire.ErrMalformed},
		"not zlib":                          {in: with(gitkit.Object{Type: gitkit.Blob, Packed: []byte("plain text"), Size: 3}), err: gitwire.ErrMalformed},
		"a dictionary":                      {in: with(gitkit.Object{Type: gitkit.Blob, Packed: dictionary}), err: gitwire.ErrMalformed},
		"a base before the pack":            {in: raw(append([]byte{0x63, 0x81, 0x00}, gitkit.Deflate([]byte("abc"))...)...), err: gitwire.ErrMalformed},
		"a delta without sizes":             {in: with(gitkit.Object{Type: gitkit.OfsDelta, Base: 2, Data: []byte{0x80, 0x80, 0x80}}), err: gitwire.ErrMalformed},
		"a delta whose sizes never end":     {in: with(gitkit.Object{Type: gitkit.OfsDelta, Base: 2, Data: bytes.Repeat([]byte{0x80}, 40)}), err: gitwire.ErrTooLarge},
		"a reader that brings nothing":      {err: io.ErrNoProgress},
		"more bytes than it may have":       {in: pack, limits: gitwire.PackLimits{Bytes: int64(len(pack)) - 1}, err: gitwire.ErrTooLarge},
		"fewer bytes than its objects need": {in: gitkit.PackSaying(1000), limits: gitwire.PackLimits{Bytes: 1000}, err: gitwire.ErrTooLarge},
		"more objects than it may have":     {in: pack, limits: gitwire.PackLimits{Objects: len(s) - 1}, err: gitwire.ErrTooLarge},
		"a delta that makes too much":       {in: pack, limits: gitwire.PackLimits{Object: 699}, err: gitwire.ErrTooLarge},
		"a blob that is too much":           {in: gitkit.Pack(gitkit.BlobOf("abc")), limits: gitwire.PackLimits{Object: 2}, err: gitwire.ErrTooLarge},
		"ten gigabytes by deltas":           {in: gitkit.DeltaBomb(10 << 30), limits: gitwire.PackLimits{Object: 1 << 30}, err: gitwire.ErrTooLarge},
		"more together than an int64": {in: gitkit.Pack(slices.Repeat([]gitkit.Object{
			{Type: gitkit.RefDelta, BaseID: gitwire.Zero, Data: gitkit.Delta(1, 1<<62)},
		}, 3)...), err: gitwire.ErrTooLarge},
	}, func(t *testing.T, test testCase) {
		r := io.Reader(bytes.NewReader(test.in))
		if test.in == nil {
			r = idle{}
		}
		_, err := read(r, test.limits)
		require.ErrorIs(t, err, test.err)
	})
}

func TestPackLimitsAreExact(t *testing.T) {
	t.Parallel()
	s := small()
	pack := gitkit.Pack(s...)
	got, err := read(bytes.NewReader(pack), gitwire.PackLimits{})
	require.NoError(t, err)
	want := int64(700 + 5)
	for _, o := range s {
		want += int64(len(o.Data))
	}
	require.Equal(t, want, got)
	_, err = read(bytes.NewReader(pack), gitwire.PackLimits{Bytes: int64(len(pack)), Objects: len(s), Object: 700, Unpacked: want})
	require.NoError(t, err)
	_, err = read(bytes.NewReader(pack), gitwire.PackLimits{Unpacked: want - 1})
	require.ErrorIs(t, err, gitwire.ErrTooLarge)
}

func FuzzReadPack(f *testing.F) {
	f.Add(gitkit.Pack(small()...), 7)
	f.Add(gitwire.EmptyPack(), 1)
	f.Add(gitkit.DeltaBomb(1<<30), 100)
	commits, _ := gitkit.GoodCommit("x", gitwire.Zero)
	f.Add(commits, 50)
	f.Fuzz(func(t *testing.T, data []byte, chunk int) {
		limits := gitwire.PackLimits{Bytes: 1 << 20, Objects: 1000, Object: 1 << 20, Unpacked: 1 << 22}
		n, err := read(bytes.NewReader(data), limits)
		if err != nil {
			require.True(t, errors.Is(err, gitwire.ErrMalformed) || errors.Is(err, gitwire.ErrTooLarge) || errors.Is(err, io.ErrUnexpectedEOF), err)
		}
		require.LessOrEqual(t, n, limits.Unpacked+limits.Object)
		// The verdict is the same however the bytes come, and whether the commits are kept. (That
		// of a pack which breaks in several ways may name another of them.)
		line := gitwire.NewLineage()
		_, again := gitwire.ReadPack(&pieces{b: data, n: 1 + max(chunk, -chunk-1)%4096}, limits, line)
		require.Equal(t, err == nil, again == nil)
		_ = line.Builds(gitwire.Zero, strings.Repeat("1", len(gitwire.Zero)))
	})
}

// pieces brings n bytes at a time.
type pieces struct {
	b []byte
	n int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.b) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.n)], p.b)
	p.b = p.b[n:]
	return n, nil
}
