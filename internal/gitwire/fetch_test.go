package gitwire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/gitwire"
	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/table"
)

func TestParseFetch(t *testing.T) {
	t.Parallel()
	p := gitkit.Pkt
	v2, v0 := true, false
	type testCase struct {
		v2   bool
		in   string
		want gitwire.Fetch
		bad  bool
	}
	table.Run(t, map[string]testCase{
		"the probe":           {in: "0000"},
		"ls-refs":             {v2: v2, in: p("command=ls-refs\n") + "0000", want: gitwire.Fetch{Command: "ls-refs"}},
		"ls-refs of prefixes": {v2: v2, in: string(gitkit.FetchV2("ls-refs", "peel", "symrefs", "unborn", "ref-prefix HEAD", "ref-prefix refs/heads/")), want: gitwire.Fetch{Command: "ls-refs"}},
		"fetch": {v2: v2, in: string(gitkit.FetchV2("fetch", "thin-pack", "filter blob:none", "want "+one, "want-ref "+main, "have "+two, "shallow "+two, "deepen 1", "done")), want: gitwire.Fetch{
			Command: "fetch", Wants: []string{one}, WantRefs: []string{main}, Filter: "blob:none",
		}},
		"what stands behind the end counts": {in: p("want "+one) + "0000" + p("done") + p("want "+two) + p("deepen-not x"), want: gitwire.Fetch{
			Command: "fetch", Wants: []string{one, two}, DeepenNot: []string{"x"},
		}},
		"nothing":                           {v2: v2, bad: true},
		"nothing of v0":                     {bad: true},
		"a length that lies":                {v2: v2, in: "0015command=ls-refs\n", bad: true},
		"arguments without command":         {v2: v2, in: p("agent=x") + "0001" + p("want "+one) + "0000", bad: true},
		"two commands":                      {v2: v2, in: p("command=fetch") + p("command=ls-refs") + "0000", bad: true},
		"another command":                   {v2: v2, in: p("command=object-info") + "0000", bad: true},
		"a want of SHA-256":                 {v2: v2, in: string(gitkit.FetchV2("fetch", "want "+one+one[:24])), bad: true},
		"v0 in v2":                          {v2: v2, in: p("want "+one+"\n") + "0000" + p("done\n"), bad: true},
		"v2 in v0":                          {v2: v0, in: string(gitkit.FetchV2("ls-refs")), bad: true},
		"a clone of v0":                     {in: p("want "+one+" side-band-64k  thin-pack\n") + p("want "+two+"\n") + "0000" + p("done\n"), want: gitwire.Fetch{Command: "fetch", Wants: []string{one, two}}},
		"a shallow clone of v0":             {in: p("want "+one) + p("shallow "+two) + p("deepen 1") + p("filter blob:none") + "0000", want: gitwire.Fetch{Command: "fetch", Wants: []string{one}, Filter: "blob:none"}},
		"a have before the wants":           {in: p("have "+two) + "0000", bad: true},
		"a depth without wants":             {in: p("deepen 1") + "0000", bad: true},
		"a want of v0 that is no object id": {in: p("want main side-band") + "0000" + p("done"), bad: true},
	}, func(t *testing.T, test testCase) {
		got, err := gitwire.ParseFetch([]byte(test.in), test.v2)
		if !test.bad {
			test.want.Request, test.want.V2 = []byte(test.in), test.v2
		}
		require.Equal(t, test.want, got)
		if test.bad {
			require.ErrorIs(t, err, gitwire.ErrMalformed)
		} else {
			require.NoError(t, err)
		}
	})
}

func FuzzParseFetch(f *testing.F) {
	f.Add(gitkit.FetchV2("fetch", "want "+one, "done"), true)
	f.Add([]byte(gitkit.Pkt("want "+one+" thin-pack")+"0000"+gitkit.Pkt("done")), false)
	f.Add([]byte("0000"), false)
	f.Fuzz(func(t *testing.T, data []byte, v2 bool) {
		got, err := gitwire.ParseFetch(data, v2)
		if err != nil {
			require.ErrorIs(t, err, gitwire.ErrMalformed)
			return
		}
		require.Contains(t, []string{"", "fetch", "ls-refs"}, got.Command)
		for _, w := range got.Wants {
			require.True(t, gitwire.ValidOid(w) && strings.Contains(string(data), w))
		}
	})
}
