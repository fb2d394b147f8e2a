//go:build linux

package git

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/fault"
	"weir/internal/gitwire"
	"weir/internal/task"
	"weir/internal/weirtest/gitkit"
	"weir/schemas"
)

func TestViewHidesTheRest(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	commits, s := filled(t, g), serve(t, g, view{All: true})
	_, err := g.Branch(t.Context(), "r1", "mine", "main", "task-mine")
	require.NoError(t, err)
	main := head(t, g, "r1", "main")
	narrow := serve(t, g, view{Refs: []string{"refs/heads/mine", "refs/heads/main"}})
	none := serve(t, g, view{})
	based := serve(t, g, view{Refs: []string{"refs/heads/mine", "refs/heads/work"}, Head: "refs/heads/work"})
	headless := serve(t, g, view{Refs: []string{"refs/heads/mine", "HEAD", "!refs/heads/work", "refs/heads/../x"}})

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

			dir := clone(t, based, "r1", "-c", conf)
			require.Equal(t, commits[2], gitkit.Git(t, dir, "rev-parse", "HEAD"))
			require.Equal(t, "work", gitkit.Git(t, dir, "branch", "--show-current"), "a clone checks out the base")
			dir = clone(t, narrow, "r1", "-c", conf)
			for _, oid := range commits {
				out, err := client(t, dir, "fetch", "origin", oid)
				require.Error(t, err, "a commit of a branch that is not shown")
				if version == "2" {
					require.Contains(t, out, "not our ref")
				}
			}
		})
	}
	// Clients of the old protocol do not even ask.
	for _, oid := range commits {
		request := []byte(gitkit.Pkt("want "+oid+" ofs-delta\n") + "0000" + gitkit.Pkt("done\n"))
		var out bytes.Buffer
		err := upload(t.Context(), g, "r1", 0, view{Refs: []string{"refs/heads/main"}}, request, &out)
		require.Error(t, err)
		require.Contains(t, out.String(), "not our ref")
		out.Reset()
		require.NoError(t, upload(t.Context(), g, "r1", 0, view{All: true}, request, &out))
		require.Contains(t, out.String(), "PACK")
	}
}

func TestViewOfAGrant(t *testing.T) {
	t.Parallel()
	repo := schemas.Repo{DefaultBranch: "main"}
	for name, c := range map[string]struct {
		who  task.Grant
		want view
	}{
		"a reader":            {task.Grant{Tenant: "acme"}, view{All: true, Tenant: "acme"}},
		"a task":              {task.Grant{Tenant: "acme", TaskID: "t", Branch: "work"}, view{Refs: []string{"refs/heads/work", "refs/heads/main"}, Head: "refs/heads/main", Tenant: "acme"}},
		"with another base":   {task.Grant{TaskID: "t", Branch: "work", Base: "dev"}, view{Refs: []string{"refs/heads/work", "refs/heads/dev"}, Head: "refs/heads/dev"}},
		"at its base's place": {task.Grant{TaskID: "t", Branch: "main"}, view{Refs: []string{"refs/heads/main"}, Head: "refs/heads/main"}},
	} {
		require.Equal(t, c.want, viewOf(repo, c.who), name)
		for _, ref := range c.want.Refs {
			require.True(t, c.who.Reads(ref, repo.DefaultBranch), "%s: one rule", name)
		}
	}
}

func TestReadsFailInPublic(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{ErrNoRepo, ErrBusy, ErrClosed, ErrTimeout, errGone} {
		g, out := None(cause, cause), new(bytes.Buffer)
		_, _, failed := g.Diff(t.Context(), schemas.Repo{ID: "r"}, "b", "c", 9)
		for _, err := range []error{
			g.Advertise(t.Context(), schemas.Repo{ID: "r"}, task.Grant{}, schemas.GitUploadPack, 2, out),
			g.UploadPack(t.Context(), schemas.Repo{ID: "r"}, task.Grant{}, gitwire.Fetch{}, out), failed,
		} {
			require.ErrorIs(t, err, cause)
			said, public := errors.AsType[*fault.Error](err)
			require.Equal(t, !errors.Is(cause, errGone), public && said.Code == schemas.Unavailable)
		}
	}
}

// Git itself tells from a ref that it hides, and even from its name, whether it is there.
func TestViewHidesNames(t *testing.T) {
	t.Parallel()
	g := open(t, Config{})
	commits := filled(t, g)
	_, err := g.Branch(t.Context(), "r1", "secret", "main", "t9")
	require.NoError(t, err)
	v := view{Refs: []string{"refs/heads/work"}}
	for service, protocol := range map[string]int{schemas.GitUploadPack: 0, schemas.GitReceivePack: 2} { // which a push has none of
		var out bytes.Buffer
		require.NoError(t, g.advertise(t.Context(), "r1", service, protocol, v, &out))
		require.True(t, strings.HasPrefix(out.String(), gitkit.Pkt("# service="+service+"\n")+"0000"), out.String())
		require.NotContains(t, out.String(), "push-options")
		require.Contains(t, out.String(), "refs/heads/work\x00")
		require.NotContains(t, out.String(), "main")
	}
	for _, shown := range []view{{All: true}, {Refs: []string{"refs/heads/main", "refs/heads/work"}}} {
		var out bytes.Buffer
		require.NoError(t, g.advertise(t.Context(), "r1", schemas.GitUploadPack, 0, shown, &out))
		require.Contains(t, out.String(), "symref=HEAD:refs/heads/main", "one that it shows it names")
	}
	for _, version := range []int{0, 2} {
		for _, hidden := range []string{"refs/heads/secret", "heads/main", "refs/heads/nothere", "HEAD", ""} {
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
func shallow(t *testing.T, g *Git, version int, v view, want, not string) (string, error) {
	t.Helper()
	in := gitkit.FetchV2("fetch", "want "+want, "deepen-not "+not, "done")
	if version != 2 {
		in = []byte(gitkit.Pkt("want "+want+"\n") + gitkit.Pkt("deepen-not "+not+"\n") + "0000" + gitkit.Pkt("done\n"))
	}
	var out bytes.Buffer
	err := upload(t.Context(), g, "r1", version, v, in, &out)
	return out.String(), err
}
