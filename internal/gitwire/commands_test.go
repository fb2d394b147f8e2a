package gitwire_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"weir/internal/gitwire"
	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/table"
)

const (
	one  = "1111111111111111111111111111111111111111"
	two  = "2222222222222222222222222222222222222222"
	main = "refs/heads/main"
)

func TestReadCommandsLeavesThePack(t *testing.T) {
	t.Parallel()
	pack := []byte("PACK and whatever follows")
	body := gitkit.PushBody(gitkit.Update{Old: one, New: two, Ref: main}, pack)
	for name, r := range map[string]io.Reader{
		"whole": bytes.NewReader(body), "by bytes": iotest.OneByteReader(bytes.NewReader(body)),
		"by halves": iotest.HalfReader(bytes.NewReader(body)), "end with data": iotest.DataErrReader(bytes.NewReader(body)),
	} {
		got, err := gitwire.ReadCommands(r)
		require.NoError(t, err, name)
		require.Equal(t, gitwire.Commands{
			List: []gitwire.Command{{Old: one, New: two, Ref: main}}, Capabilities: gitkit.Capabilities(),
		}, got, name)
		require.True(t, got.Reports() && got.Has(gitwire.CapSideBand))
		require.False(t, got.Has("side-band"))
		rest, err := io.ReadAll(r)
		require.NoError(t, err, name)
		require.Equal(t, string(pack), string(rest), name)
	}
}

func TestReadCommands(t *testing.T) {
	t.Parallel()
	p := gitkit.Pkt
	line := one + " " + two + " " + main
	repeat := func(n int, text string) string { return strings.Repeat(p(text), n) }
	type testCase struct {
		in   string
		want gitwire.Commands
		err  error
	}
	table.Run(t, map[string]testCase{
		"the probe of a large push": {in: "0000"},
		"two of everything": {
			in:   p("shallow "+one) + p("shallow "+two) + p(line+"\x00report-status") + p(two+" "+gitwire.Zero+" refs/tags/v1\n") + "0000",
			want: gitwire.Commands{List: []gitwire.Command{{one, two, main}, {two, gitwire.Zero, "refs/tags/v1"}}, Capabilities: []string{"report-status"}},
		},
		"a ref that is none is for others to deny": {
			in:   p(one+" "+two+" refs/heads/../../config\x00atomic") + "0000",
			want: gitwire.Commands{List: []gitwire.Command{{one, two, "refs/heads/../../config"}}, Capabilities: []string{"atomic"}},
		},
		"a space behind the ref is of its name": {in: p(line+" \x00atomic") + "0000", want: gitwire.Commands{
			List: []gitwire.Command{{one, two, main + " "}}, Capabilities: []string{"atomic"},
		}},
		"a ref that is no UTF-8":      {in: p(line+"\xff\x00atomic") + "0000", err: gitwire.ErrMalformed},
		"nothing":                     {in: "", err: gitwire.ErrMalformed},
		"no flush":                    {in: p(line), err: gitwire.ErrMalformed},
		"half a packet":               {in: p(line)[:40], err: gitwire.ErrMalformed},
		"a length of three":           {in: "0003", err: gitwire.ErrMalformed},
		"a length that no packet has": {in: "fff1" + strings.Repeat("x", 65521), err: gitwire.ErrMalformed},
		"a length that is no number":  {in: "-001" + line, err: gitwire.ErrMalformed},
		"a delimiter":                 {in: p(line) + "0001", err: gitwire.ErrMalformed},
		"short id":                    {in: p(one[1:]+" "+two+" "+main) + "0000", err: gitwire.ErrMalformed},
		"ids of SHA-256":              {in: p(one+one[:24]+" "+two+two[:24]+" "+main) + "0000", err: gitwire.ErrMalformed},
		"SHA-256 by name":             {in: p(line+"\x00 object-format=sha256") + "0000", err: gitwire.ErrMalformed},
		"a ref with an escape":        {in: p(line+"\x1b[31m\x00atomic") + "0000", err: gitwire.ErrMalformed},
		"a signed push":               {in: p("push-cert\x00report-status") + "0000", err: gitwire.ErrMalformed},
		"thirty-three commands":       {in: p(line+"\x00atomic") + repeat(32, line) + "0000", err: gitwire.ErrTooLarge},
		"a long ref":                  {in: p(line+strings.Repeat("x", 1024)+"\x00atomic") + "0000", err: gitwire.ErrTooLarge},
		"many shallow lines":          {in: repeat(8193, "shallow "+one) + "0000", err: gitwire.ErrTooLarge},
	}, func(t *testing.T, test testCase) {
		got, err := gitwire.ReadCommands(strings.NewReader(test.in))
		require.ErrorIs(t, err, test.err)
		require.Equal(t, test.want, got)
	})
}

func TestReadCommandsReturnsItsReadersError(t *testing.T) {
	t.Parallel()
	gone := errors.New("the client is gone")
	body := gitkit.PushBody(gitkit.Update{Old: one, New: two, Ref: main}, nil)
	for n := range body {
		_, err := gitwire.ReadCommands(io.MultiReader(bytes.NewReader(body[:n]), iotest.ErrReader(gone)))
		require.ErrorIs(t, err, gone)
		_, err = gitwire.ReadCommands(bytes.NewReader(body[:n]))
		require.ErrorIs(t, err, gitwire.ErrMalformed)
	}
}

func FuzzReadCommands(f *testing.F) {
	f.Add(gitkit.PushBody(gitkit.Update{Old: one, New: two, Ref: main}, []byte("PACK")))
	f.Add([]byte("0000"))
	f.Add([]byte("0003"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		c, err := gitwire.ReadCommands(r)
		if err != nil {
			require.Zero(t, c)
			return
		}
		// What was read is what is written, and exactly that was taken.
		read := data[:len(data)-r.Len()]
		if len(c.List) == 1 {
			again, err := gitwire.ReadCommands(bytes.NewReader(c.List[0].Request(c.Capabilities...)))
			require.NoError(t, err)
			require.Equal(t, c, again)
		}
		_, err = gitwire.ReadCommands(bytes.NewReader(read[:len(read)-1]))
		require.ErrorIs(t, err, gitwire.ErrMalformed)
	})
}

// Each of these names is asked of the real git as well.
func TestValidRefAgreesWithGit(t *testing.T) {
	t.Parallel()
	names := []string{
		"", "a", "@", "HEAD", "refs", "refs/heads", "refs/heads/main", "refs//heads", "/refs/heads", "refs/heads/", "refs/heads/@", "refs/heads/@{", "refs/heads/a@b",
		"refs/heads/-x", "refs/heads/\u00e9", "refs/heads/\xff", "refs/heads/a.lock/b", "refs/heads/lock", "a./b", "a/b.", "a/.b", ".a/b", "a/...",
	}
	for _, c := range "\x01 ~^:?*[\\\x7f!]" { // no argument holds a 0
		names = append(names, "a/b"+string(c)+"c")
	}
	for _, name := range names {
		r := gitkit.Run(t.Context(), "/", gitkit.Env(), nil, "check-ref-format", name)
		require.Contains(t, []int{0, 1}, r.Code, r.Err)
		require.Equal(t, r.Code == 0, gitwire.ValidRef(name), "%q", name)
	}
	require.False(t, gitwire.ValidRef("refs/heads/a\x00b"))
}
