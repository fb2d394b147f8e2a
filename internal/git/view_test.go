//go:build linux

package git

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/gitwire"
	"weir/internal/weirtest/gitkit"
	"weir/schemas"
)

func TestViewHidesTheRest(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	commits, s := filled(t, g), serve(t, g, View{All: true})
	_, err := g.Branch(t.Context(), "r1", "mine", "main", "task-mine")
	require.NoError(t, err)
	main := head(t, g, "r1", "main")
	narrow := serve(t, g, View{Refs: []string{"refs/heads/mine", "refs/heads/main"}})
	none := serve(t, g, View{})
	headless := serve(t, g, View{Refs: []string{"refs/heads/mine", "HEAD", "!refs/heads/work", "refs/heads/../x"}})

	for _, version := range []string{"0", "2"} {
		t.Run("version "+version, func(t *testing.T) {
			t.Parallel()
			conf := "protocol.version=" + version
			all := gitkit.Git(t, "/", "-c", conf, "ls-remote", s+"/r1")
			require.Contains(t, all, "refs/heads/work")
			require.NotContains(t, all, ownRefs)
			require.Equal(t, strings.Join([]string{main + "\tHEAD", main + "\trefs/heads/main", main + "\trefs/heads/mine"}, "\n"),
				gitkit.Git(t, "/", "-c", conf, "ls-remote", narrow+"/r1"))
			require.Empty(t, gitkit.Git(t, "/", "-c", conf, "ls-remote", none+"/r1"))
			require.Equal(t, main+"\trefs/heads/mine", gitkit.Git(t, "/", "-c", conf, "ls-remote", headless+"/r1"))

			dir := clone(t, narrow, "r1", "-c", conf)
			for _, oid := range commits {
				out, err := client(t, dir, "fetch", "origin", oid)
				require.Error(t, err, "a commit of a branch that is not shown")
				if version == "2" {
					require.Contains(t, out, "not our ref")
				}
			}
			work := serve(t, g, View{Refs: []string{"refs/heads/work"}})
			lead := clone(t, work, "r1", "-c", conf, "-b", "work", "--depth=1", "--filter=blob:none", "--no-checkout")
			if version == "2" { // what a shown ref leads to
				gitkit.Git(t, lead, "fetch", "-q", "origin", commits[0])
				gitkit.Git(t, lead, "checkout", "-q", commits[0])
			}
			// The same from who may see all of it.
			gitkit.Git(t, clone(t, s, "r1", "-c", conf), "fetch", "-q", "origin", commits[0])
		})
	}
	// Clients of the old protocol do not even ask.
	for _, oid := range commits {
		request := gitwire.AppendPacket(nil, []byte("want "+oid+" ofs-delta\n"))
		request = gitwire.AppendPacket(append(request, gitwire.Flush...), []byte("done\n"))
		var out bytes.Buffer
		err := upload(t.Context(), g, "r1", 0, View{Refs: []string{"refs/heads/main"}}, request, &out)
		require.Error(t, err)
		require.Contains(t, out.String(), "not our ref")
		out.Reset()
		require.NoError(t, upload(t.Context(), g, "r1", 0, View{All: true}, request, &out))
		require.Contains(t, out.String(), "PACK")
	}
}

// Git itself tells from a ref that it hides, and even from its name, whether it is there.
func TestViewHidesNames(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	commits := filled(t, g)
	_, err := g.Branch(t.Context(), "r1", "secret", "main", "t9")
	require.NoError(t, err)
	v := View{Refs: []string{"refs/heads/work"}}
	for service, protocol := range map[string]int{schemas.GitUploadPack: 0, schemas.GitReceivePack: 2} { // which a push has none of
		var out bytes.Buffer
		require.NoError(t, g.Advertise(t.Context(), "r1", service, protocol, v, &out))
		require.True(t, strings.HasPrefix(out.String(), gitkit.Pkt("# service="+service+"\n")+"0000"), out.String())
		require.NotContains(t, out.String(), "push-options")
		require.Contains(t, out.String(), "refs/heads/work\x00")
		require.NotContains(t, out.String(), "main")
	}
	for _, shown := range []View{{All: true}, {Refs: []string{"refs/heads/main", "refs/heads/work"}}} {
		var out bytes.Buffer
		require.NoError(t, g.Advertise(t.Context(), "r1", schemas.GitUploadPack, 0, shown, &out))
		require.Contains(t, out.String(), "symref=HEAD:refs/heads/main", "one that it shows it names")
	}
	for _, version := range []int{0, 2} {
		for _, hidden := range []string{"refs/heads/secret", "secret", "heads/main", "refs/heads/nothere", "HEAD", "work\x00", ""} {
			out, err := shallow(t, g, version, v, commits[2], hidden)
			require.NoError(t, err, hidden)
			require.Equal(t, string(gitwire.AppendErr(nil, "upload-pack: ambiguous deepen-not: "+hidden)), out, "version %d, %q", version, hidden)
		}
		for _, name := range []string{"refs/heads/work", "heads/work", "work"} {
			out, _ := shallow(t, g, version, v, commits[2], name) // git has nothing to send of it, and says so
			require.NotContains(t, out, "ambiguous", "version %d, %q", version, name)
		}
	}
}

// shallow fetches a commit without what a ref leads to.
func shallow(t *testing.T, g *Git, version int, v View, want, not string) (string, error) {
	t.Helper()
	var in []byte
	if version == 2 {
		in = append(gitwire.AppendPacket(nil, []byte("command=fetch\n")), gitwire.Delim...)
	}
	in = gitwire.AppendPacket(in, []byte("want "+want+"\n"))
	in = gitwire.AppendPacket(in, []byte("deepen-not "+not+"\n"))
	if version != 2 {
		in = append(in, gitwire.Flush...)
	}
	in = gitwire.AppendPacket(in, []byte("done\n"))
	if version == 2 {
		in = append(in, gitwire.Flush...)
	}
	var out bytes.Buffer
	err := upload(t.Context(), g, "r1", version, v, in, &out)
	return out.String(), err
}

func TestShallowCloneWithoutARef(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	commits := filled(t, g)
	r, err := g.repo("r1")
	require.NoError(t, err)
	gitkit.Git(t, string(r), "update-ref", "refs/heads/main", commits[0])
	narrow := serve(t, g, View{Refs: []string{"refs/heads/work", "refs/heads/main"}})
	for _, version := range []int{0, 2} {
		dir := clone(t, narrow, "r1", "-c", "protocol.version="+strconv.Itoa(version), "-b", "work", "--shallow-exclude=main")
		require.Equal(t, "2", gitkit.Git(t, dir, "rev-list", "--count", "HEAD"))
	}
}
