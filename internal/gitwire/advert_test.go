package gitwire_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/gitwire"
	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/table"
)

func TestReadAdvertisement(t *testing.T) {
	t.Parallel()
	p := gitkit.Pkt
	head := p("# service=git-upload-pack\n") + "0000"
	type testCase struct {
		in   string
		want gitwire.Advertisement
		err  error
	}
	table.Run(t, map[string]testCase{
		"version 0": {
			in: head + p(one+" HEAD\x00thin-pack symref=HEAD:"+main+" filter agent=x\n") + p(one+" "+main+"\n") + p(two+" refs/tags/v1\n") + p(one+" refs/tags/v1^{}\n") +
				p("shallow "+two) + "0000",
			want: gitwire.Advertisement{
				Service: "git-upload-pack", Capabilities: []string{"thin-pack", "filter", "agent=x"}, Shallow: []string{two},
				Refs: []gitwire.Ref{{Name: "HEAD", Oid: one, Symref: main}, {Name: main, Oid: one}, {Name: "refs/tags/v1", Oid: two, Peeled: one}},
			},
		},
		"empty": {
			in:   head + p(gitwire.Zero+" capabilities^{}\x00thin-pack") + "0000",
			want: gitwire.Advertisement{Service: "git-upload-pack", Capabilities: []string{"thin-pack"}},
		},
		"a push, with what others have, and what is no ref": {
			in:   p(one+" "+main+"\x00report-status") + p(two+" .have") + p(one+" ../config") + "0000",
			want: gitwire.Advertisement{Capabilities: []string{"report-status"}, Refs: []gitwire.Ref{{Name: main, Oid: one}}},
		},
		"a version behind a flush is none": {in: "0000version 2", want: gitwire.Advertisement{Capabilities: []string{}}},
		"version 2": {
			in:   p("version 2\n") + p("agent=x\n") + p("fetch=shallow filter\n") + p("server-option\n") + "0000",
			want: gitwire.Advertisement{Version: 2, Capabilities: []string{"agent=x", "fetch=shallow filter", "server-option"}},
		},
		"nothing":                   {err: gitwire.ErrMalformed},
		"a page":                    {in: "<!DOCTYPE html>", err: gitwire.ErrMalformed},
		"no end of the service":     {in: p("# service=git-upload-pack\n") + p(one+" "+main) + "0000", err: gitwire.ErrMalformed},
		"version 1":                 {in: p("version 1") + "0000", err: gitwire.ErrMalformed},
		"no id":                     {in: p("main") + "0000", err: gitwire.ErrMalformed},
		"peeled without its tag":    {in: p(one+" "+main) + p(one+" refs/tags/v1^{}") + "0000", err: gitwire.ErrMalformed},
		"shallow without an id":     {in: p(one+" "+main) + p("shallow x") + "0000", err: gitwire.ErrMalformed},
		"sixteen mebibytes of refs": {in: p(one+" HEAD\x00a") + strings.Repeat(p(one+" refs/heads/"+strings.Repeat("x", 900)), 18_000), err: gitwire.ErrTooLarge},
	}, func(t *testing.T, test testCase) {
		got, err := gitwire.ReadAdvertisement(strings.NewReader(test.in))
		require.ErrorIs(t, err, test.err)
		if err == nil {
			require.Equal(t, test.want, got)
			again, err := gitwire.ReadAdvertisement(bytes.NewReader(got.Bytes()))
			require.NoError(t, err)
			require.Equal(t, got, again)
		}
	})
	_, err := gitwire.ReadAdvertisement(strings.NewReader(p("ERR go away")))
	var remote *gitwire.RemoteError
	require.ErrorAs(t, err, &remote)
	require.Equal(t, "go away", remote.Text)
}

func TestReadRefs(t *testing.T) {
	t.Parallel()
	refs := []gitwire.Ref{
		{Name: "HEAD", Symref: main}, {Name: "HEAD", Oid: one, Symref: main}, {Name: main, Oid: one}, {Name: "refs/tags/v1", Oid: two, Peeled: one},
	}
	got, err := gitwire.ReadRefs(bytes.NewReader(gitwire.AppendRefs(nil, refs)))
	require.NoError(t, err)
	require.Equal(t, refs, got)
	require.Equal(t, refs[:3], gitwire.KeepRefs(slices.Clone(refs), func(ref string) bool { return ref == main }))
	hidden := gitwire.KeepRefs(slices.Clone(refs), func(ref string) bool { return ref == "HEAD" || ref == "refs/tags/v1" })
	require.Equal(t, refs[3:], hidden, "a HEAD by whatever name shows where it is")
	for _, in := range []string{
		"", gitkit.Pkt(one+" "+main) + "0001", gitkit.Pkt(one) + "0000", gitkit.Pkt("x "+main) + "0000", gitkit.Pkt(one + " " + main), gitkit.Pkt(one+" HEAD symref-target:..") + "0000",
	} {
		_, err := gitwire.ReadRefs(strings.NewReader(in))
		require.ErrorIs(t, err, gitwire.ErrMalformed, in)
	}
	_, err = gitwire.ReadRefs(strings.NewReader(gitkit.Pkt("ERR no")))
	require.ErrorAs(t, err, new(*gitwire.RemoteError))
}

func FuzzReadAdvertisement(f *testing.F) {
	f.Add([]byte(gitkit.Pkt("# service=git-upload-pack\n") + "0000" + gitkit.Pkt(one+" HEAD\x00thin-pack symref=HEAD:"+main) + gitkit.Pkt(one+" "+main) + "0000"))
	f.Add([]byte(gitkit.Pkt("version 2\n") + gitkit.Pkt("fetch=shallow filter") + "0000"))
	f.Add(gitwire.AppendRefs(nil, []gitwire.Ref{{Name: "HEAD", Symref: main}, {Name: main, Oid: one}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := gitwire.ReadAdvertisement(bytes.NewReader(data))
		if err == nil {
			again, err := gitwire.ReadAdvertisement(bytes.NewReader(a.Bytes()))
			require.NoError(t, err)
			require.Len(t, again.Refs, len(a.Refs))
		}
		refs, err := gitwire.ReadRefs(bytes.NewReader(data))
		if err == nil {
			again, err := gitwire.ReadRefs(bytes.NewReader(gitwire.AppendRefs(nil, refs)))
			require.NoError(t, err)
			require.Equal(t, refs, again)
		}
	})
}
