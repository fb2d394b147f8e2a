//go:build linux

package git

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/gitwire"
	"weir/internal/weirtest/gitkit"
	"weir/schemas"
)

// shownBy is a repository of another Git, as a server shows it.
func shownBy(g *Git, id, branch string) Source {
	return func(ctx context.Context, take func(string, []gitwire.Ref, io.Reader) error) error {
		var shown, answer bytes.Buffer
		if err := g.advertise(ctx, id, schemas.GitUploadPack, 0, view{All: true}, &shown); err != nil {
			return err
		}
		a, err := gitwire.ReadAdvertisement(&shown)
		if err != nil {
			return err
		}
		refs := slices.DeleteFunc(a.Refs, func(r gitwire.Ref) bool { return r.Name == gitwire.HEAD })
		var oids []string
		for _, r := range refs {
			oids = append(oids, r.Oid)
		}
		if err := upload(ctx, g, id, 0, view{All: true}, gitwire.RequestPack(oids), &answer); err != nil {
			return err
		}
		return take(branch, refs, &answer)
	}
}

// TestImportThatFails leaves nothing, and says whose fault it was.
func TestImportThatFails(t *testing.T) {
	t.Parallel()
	from := open(t, Config{})
	commits := filled(t, from)
	r, err := from.repo("r1")
	require.NoError(t, err)
	g := open(t, Config{})
	fails := func(g *Git, s Source) error {
		_, err := g.Import(t.Context(), "acme", "x", s, func(schemas.RepoProgress) {})
		require.Error(t, err)
		_, none := g.Head(t.Context(), "x", "main")
		require.ErrorIs(t, none, ErrNoRepo)
		return err
	}
	require.ErrorIs(t, fails(g, shownBy(from, "nobody", "main")), ErrNoRepo)
	for _, bad := range []string{"", "gone", "a..b", "-x", "work/x"} {
		require.ErrorIs(t, fails(g, shownBy(from, "r1", bad)), ErrNoRef, bad)
	}
	gitkit.Git(t, string(r), "-c", "user.name=a", "-c", "user.email=a@b", "tag", "-a", "-m", "x", "v1", commits[0])
	var said []schemas.RepoProgress
	branch, err := g.Import(t.Context(), "acme", "copy", shownBy(from, "r1", "work"), func(p schemas.RepoProgress) { said = append(said, p) })
	require.NoError(t, err)
	require.Equal(t, "work", branch, "HEAD is what was asked for")
	require.Equal(t, commits[2], head(t, g, "copy", "work"))
	c, err := g.repo("copy")
	require.NoError(t, err)
	list := []string{"for-each-ref", "refs/heads/", "refs/tags/"}
	require.Equal(t, gitkit.Git(t, string(r), list...), gitkit.Git(t, string(c), list...))
	clean(t, g, "copy")
	require.Equal(t, "work", gitkit.Git(t, clone(t, serve(t, g, view{All: true}), "copy"), "branch", "--show-current"))
	for _, phase := range []schemas.RepoPhase{schemas.RepoCounting, schemas.RepoReceiving} {
		require.True(t, slices.ContainsFunc(said, func(p schemas.RepoProgress) bool { return p.Phase == phase && p.Done == p.Total }), phase)
	}
	// An answer that ends early, is none, or is an error.
	for name, answer := range map[string]string{
		"nothing": "", "no answer": "0008abc\n", "no pack": "0008NAK\n0000", "half": "0008NAK\n0009\x01PACK", "no band": "0008NAK\n0009PACK\x00",
	} {
		err := fails(g, func(_ context.Context, take func(string, []gitwire.Ref, io.Reader) error) error {
			return take("main", nil, strings.NewReader(answer))
		})
		var failed *ExitError
		require.True(t, errors.Is(err, gitwire.ErrMalformed) || errors.As(err, &failed), "%s: %v", name, err)
	}
	require.ErrorAs(t, fails(g, func(_ context.Context, take func(string, []gitwire.Ref, io.Reader) error) error {
		return take("main", nil, strings.NewReader("0008NAK\n000b\x03denied"))
	}), new(*gitwire.RemoteError))
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err = g.Import(ctx, "acme", "x", func(ctx context.Context, _ func(string, []gitwire.Ref, io.Reader) error) error {
		cancel(errGone)
		return ctx.Err()
	}, nil)
	require.ErrorIs(t, err, errGone, "why the source had to end")
	// Past git's own checks, as a hostile upstream would have it.
	pack, evil := gitkit.BadTree(".git", commits[2])
	gitkit.GitIn(t, string(r), pack, "unpack-objects", "-q")
	gitkit.Git(t, string(r), "update-ref", "refs/heads/bad", evil)
	var failed *ExitError
	require.ErrorAs(t, fails(g, shownBy(from, "r1", "main")), &failed)
	require.NotEmpty(t, failed.Text)
	gitkit.Git(t, string(r), "update-ref", "-d", "refs/heads/bad")
	push(t, from, noise(3<<20))
	require.ErrorIs(t, fails(open(t, Config{MaxRepo: 1 << 20}), shownBy(from, "r1", "main")), ErrFull)
}

func TestProgress(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]schemas.RepoProgress{
		"remote: Counting objects:   7% (3/40)":                            {Phase: schemas.RepoCounting, Done: 3, Total: 40},
		"remote: Counting objects: 100% (40/40), done.":                    {Phase: schemas.RepoCounting, Done: 40, Total: 40},
		"remote: Compressing objects:  50% (1/2)":                          {Phase: schemas.RepoCompressing, Done: 1, Total: 2},
		"Receiving objects:  46% (4600/10000), 1.20 MiB | 2.10 MiB/s":      {Phase: schemas.RepoReceiving, Done: 4600, Total: 10000},
		"Resolving deltas:   0% (0/77)":                                    {Phase: schemas.RepoResolving, Total: 77},
		"Resolving deltas: 100% (0/0), done.":                              {Phase: schemas.RepoResolving},
		"Receiving objects: 100% (9999999999/9999999999), 1 GiB | 1 MiB/s": {Phase: schemas.RepoReceiving, Done: 9999999999, Total: 9999999999},
	} {
		got, ok := progressOf(line)
		require.True(t, ok, line)
		require.Equal(t, want, got, line)
	}
	for _, line := range []string{
		"", "done", "From http://127.0.0.1:1/x", "remote: Enumerating objects: 5, done.",
		" * [new branch]      main       -> main", "remote: Receiving objects:  46% (4600/10000)",
		"remote: remote: Counting objects: 100% (1/1)", "Counting objects: 100% (1/1)",
		"Receiving objects:  46% (46/10)", "Receiving objects:  46% (-1/10)", "Receiving objects: 4% (1/99999999999)",
		"x Receiving objects:  46% (4/10)", "fatal: Receiving objects: 100% (1/1)",
	} {
		_, ok := progressOf(line)
		require.False(t, ok, line)
	}
}

// TestLastLine: what git says is heard a line at a time, whatever ends it, and however long.
func TestLastLine(t *testing.T) {
	t.Parallel()
	for said, want := range map[string][]string{
		"":                                 {},
		"\n \r\n":                          {},
		"one":                              {"one"},
		"a: 1%\ra: 2%\ra: 2%, done.\nb \n": {"a: 1%", "a: 2%", "a: 2%, done.", "b"},
		"fatal: \xff\n\n":                  {"fatal:"},
		strings.Repeat("x", mostLine+1):    {strings.Repeat("x", mostLine), "x"},
		strings.Repeat("y", mostLine) + "\n" + strings.Repeat("z", mostLine-1) + "\r": {strings.Repeat("y", mostLine), strings.Repeat("z", mostLine-1)},
	} {
		lines := []string{}
		last := lastLine(strings.NewReader(said), func(line string) { lines = append(lines, line) })
		require.Equal(t, want, lines)
		require.Equal(t, append([]string{""}, want...)[len(want)], last)
		require.Equal(t, last, lastLine(strings.NewReader(said), nil))
	}
}

// TestASourceMustNotBeSlow: what counts is the time in which it is waited for.
func TestASourceMustNotBeSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for pause, slow := range map[time.Duration]bool{time.Second: false, 3 * time.Second: true} {
			r := &paced{Reader: dripping(pause), roomy: func() error { return nil }}
			_, err := io.CopyN(io.Discard, struct{ io.Reader }{r}, 4*leastBytes)
			require.Equal(t, slow, errors.Is(err, ErrTimeout), pause)
		}
	})
}

// dripping gives 2 KiB after each pause.
type dripping time.Duration

func (d dripping) Read(b []byte) (int, error) {
	time.Sleep(time.Duration(d))
	return min(len(b), 2<<10), nil
}
