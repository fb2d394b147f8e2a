package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/cmd/cli"
	"weir/cmd/cli/archive"
	"weir/internal/config"
	"weir/internal/fault"
	"weir/internal/git"
	"weir/internal/gitwire"
	"weir/internal/task"
	"weir/internal/weirtest/fixture"
	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/upstream"
	processorsgit "weir/processors/git"
	"weir/schemas"
)

// packedRepo makes a bare repository with a packed branch, a loose one and an unfinished pack.
func packedRepo(t *testing.T, dir string) (head string) {
	t.Helper()
	from, head := gitkit.NewRepo(t)
	gitkit.Git(t, from, "branch", "-M", "main")
	gitkit.Git(t, from, "clone", "--quiet", "--bare", "--template=", from, dir)
	gitkit.Git(t, dir, "repack", "-adq")
	gitkit.Git(t, dir, "pack-refs", "--all")
	gitkit.Git(t, dir, "branch", "tmp_branch", "main")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "objects", "pack", "tmp_pack"), []byte("unfinished"), 0o600))
	return head
}

// TestARepositoryWithPackedRefsAlone: git finds no repository without its directory refs.
func TestARepositoryWithPackedRefsAlone(t *testing.T) {
	t.Parallel()
	dir, to := t.TempDir(), t.TempDir()
	head := packedRepo(t, filepath.Join(dir, "r.git"))
	gitkit.Git(t, filepath.Join(dir, "r.git"), "pack-refs", "--all")
	var file bytes.Buffer
	w := archive.NewWriter(&file)
	require.NoError(t, backupRepos(t.Context(), w, dir))
	require.NoError(t, w.Close(schemas.BackupManifest{Format: 1}))
	var names []string
	r := restorer{cfg: config.Config{Data: to, Git: config.Git{Dir: filepath.Join(to, "git")}}}
	_, err := archive.Read(&file, func(name string, content io.Reader) error {
		names = append(names, name)
		return r.repo(to, strings.TrimPrefix(name, backupGit), content)
	})
	require.NoError(t, err)
	require.Equal(t, head, strings.TrimSpace(gitkit.Git(t, filepath.Join(to, "git", "repos", "r.git"), "rev-parse", "main")))
	refs := slices.Index(names, "git/r.git/packed-refs")
	require.Positive(t, refs)
	for i, name := range names {
		require.Equal(t, strings.Contains(name, "/objects/"), i > refs, names)
	}
}

// TestBackupUnderLoad backs up a node that works, and restores it elsewhere. All that had ended is as it
// was, the open action ends as unknown, and no call is made again.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	target, release := upstream.New(t), make(chan struct{})
	target.Handle("/open", upstream.Hold(release, upstream.OK()))
	call := func(id string) string { // it is not safe to repeat
		return fmt.Sprintf(`{"request_id":%[1]q,"method":"POST","url":"%[2]s/%[1]s","body":%[3]q}`, id, target.URL(), strings.Repeat("x", 2000))
	}
	a := newApp(t, "")
	before := map[string]string{}
	for i := range 8 {
		id := fmt.Sprint("done-", i)
		a.asks(t, http.StatusOK, http.MethodPost, "/v1/execute", call(id))
		before[id], _ = a.asks(t, http.StatusOK, http.MethodGet, "/v1/actions/"+id+"/events", "")
	}
	large := fmt.Sprintf(`{"request_id":"large","method":"POST","url":%q,"body":%q}`, target.URL()+"/large", strings.Repeat("y", 400<<10))
	a.asks(t, http.StatusOK, http.MethodPost, "/v1/execute", large)
	before["large"], _ = a.asks(t, http.StatusOK, http.MethodGet, "/v1/actions/large/events", "")
	a.asks(t, http.StatusAccepted, http.MethodPost, "/v1/execute", call("open"), "Prefer", "respond-async")
	target.WaitHits(10)
	head := packedRepo(t, filepath.Join(a.cfg.GitDir(), "repos", "tmp_r.git"))

	// Load goes on while the backup is made.
	stop, load := make(chan struct{}), sync.WaitGroup{}
	for w := range 4 {
		load.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					a.ask(t, http.MethodPost, "/v1/execute", call(fmt.Sprint("load-", w, "-", i)))
				}
			}
		})
	}
	file := filepath.Join(t.TempDir(), "weir.backup")
	code, out, errs := command(t, "backup", file, "--server", a.URL(), "--json")
	close(stop)
	load.Wait()
	require.Equal(t, cli.ExitOK, code, errs)
	require.Contains(t, errs, "back up WEIR_LOG_0\n")
	m := fixture.Decode[schemas.BackupManifest](t, out)
	require.Equal(t, "streams/WEIR_LOG_0", m.Parts[0].Name)
	require.Equal(t, "git", m.Parts[len(m.Parts)-1].Name)
	close(release)
	a.asks(t, http.StatusOK, http.MethodPost, "/v1/execute", call("open"))
	made := target.Hits()

	dir := filepath.Join(t.TempDir(), "restored")
	code, out, errs = command(t, "restore", file, "--data", dir)
	require.Equal(t, cli.ExitOK, code, errs)
	require.Contains(t, out, "ended as outcome_unknown")
	b, err := begin(t.Context(), dir, "")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.Stop(context.WithoutCancel(t.Context()))) })
	for id, events := range before {
		restored, _ := b.asks(t, http.StatusOK, http.MethodGet, "/v1/actions/"+id+"/events", "")
		require.Equal(t, events, restored, id)
	}
	b.asks(t, http.StatusOK, http.MethodPost, "/v1/execute", call("done-1")) // answered from the log
	status, _ := b.asks(t, http.StatusOK, http.MethodGet, "/v1/actions/open", "")
	require.Contains(t, status, `"outcome_unknown"`)
	repo := filepath.Join(dir, "git", "repos", "tmp_r.git")
	for _, branch := range []string{"main", "tmp_branch"} {
		require.Equal(t, head, strings.TrimSpace(gitkit.Git(t, repo, "rev-parse", branch)))
	}
	gitkit.Git(t, repo, "fsck", "--strict")
	require.DirExists(t, filepath.Join(repo, "weir"))
	require.NoFileExists(t, filepath.Join(repo, "objects", "pack", "tmp_pack"))
	b.asks(t, http.StatusOK, http.MethodPost, "/v1/execute", call("new"))
	page, _ := b.asks(t, http.StatusOK, http.MethodGet, "/v1/actions?status=open", "")
	require.Contains(t, page, `"items":[]`)
	require.Equal(t, made+1, target.Hits(), "a call was made again")
}

// TestRestoreRefuses what it cannot restore, says what to do, and changes nothing.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	a := openNode.node(t)
	good := filepath.Join(t.TempDir(), "weir.backup")
	code, _, errs := command(t, "backup", good, "--server", a.URL())
	require.Equal(t, cli.ExitOK, code, errs)
	code, _, errs = command(t, "backup", good, "--server", a.URL())
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errs, "exists already; name another file")
	data := fixture.Read(t, good)
	file := func(data []byte) string {
		name := filepath.Join(t.TempDir(), "x")
		require.NoError(t, os.WriteFile(name, data, 0o600))
		return name
	}
	var foreign bytes.Buffer
	w := archive.NewWriter(&foreign)
	require.NoError(t, w.Add("git/../../etc/passwd", 1, strings.NewReader("x")))
	require.NoError(t, w.Close(schemas.BackupManifest{Format: 1, Partitions: 1}))
	newer := bytes.Buffer{}
	require.NoError(t, archive.NewWriter(&newer).Close(schemas.BackupManifest{Format: 2, Weir: "v9", Partitions: 1}))
	damaged := bytes.Clone(data)
	stored := bytes.Index(damaged, []byte("S2sTwO")) // the head of a stream's content
	require.Positive(t, stored)
	damaged[stored+20] ^= 1
	for name, tt := range map[string]struct {
		file, want string
		args       []string
	}{
		"no file":          {filepath.Join(t.TempDir(), "none"), "no such file", nil},
		"no backup":        {file([]byte(strings.Repeat("text ", 300))), "not a backup of Weir", nil},
		"a broken end":     {file(data[:len(data)*2/3]), "incomplete", nil},
		"damage":           {file(damaged), "the checksum of streams/WEIR_LOG_0 differs", nil},
		"a foreign path":   {file(foreign.Bytes()), `it has "git/../../etc/passwd"`, nil},
		"a newer format":   {file(newer.Bytes()), "restore it with Weir v9 or newer", nil},
		"other partitions": {good, "set log.partitions to 1", []string{"--config", file([]byte("log: {partitions: 2}\n"))}},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		code, _, errs := command(t, append([]string{"restore", tt.file, "--data", dir}, tt.args...)...)
		require.NotEqual(t, cli.ExitOK, code, name)
		require.Contains(t, errs, tt.want, name)
		require.NoDirExists(t, dir, name)
	}
	var headless bytes.Buffer
	w = archive.NewWriter(&headless)
	require.NoError(t, w.Add("streams/WEIR_LOG_0/00000001", 1, strings.NewReader("x")))
	require.NoError(t, w.Close(schemas.BackupManifest{Format: 1, Partitions: 1}))
	empty := t.TempDir()
	code, _, errs = command(t, "restore", file(headless.Bytes()), "--data", empty)
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, errs, "stream WEIR_LOG_0: it has no head")
	require.NoDirExists(t, filepath.Join(empty, ".restore"))

	headless.Reset() // with repositories outside of the data directory
	w = archive.NewWriter(&headless)
	for _, name := range []string{"git/a.git/HEAD", "git/a.git/config", "git/b.git/HEAD", "streams/WEIR_LOG_0/00000001"} {
		require.NoError(t, w.Add(name, 1, strings.NewReader("x")))
	}
	require.NoError(t, w.Close(schemas.BackupManifest{Format: 1, Partitions: 1}))
	git := t.TempDir()
	other := filepath.Join(git, "repos", "other.git")
	require.NoError(t, os.MkdirAll(other, 0o700))
	code, _, errs = command(t, "restore", file(headless.Bytes()), "--data", empty, "--config", file([]byte("git: {dir: "+git+"}\n")))
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, errs, "it has no head")
	left, err := filepath.Glob(filepath.Join(git, "repos", "*"))
	require.NoError(t, err)
	require.Equal(t, []string{other}, left, "what a failed restore has made is gone")
	code, _, errs = command(t, "restore", good, "--data", a.cfg.Data)
	require.NotEqual(t, cli.ExitOK, code)
	require.Contains(t, errs, "is in use by another weir")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine"), []byte("x"), 0o600))
	code, _, errs = command(t, "restore", good, "--data", dir)
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errs, "is not empty, and nothing was changed")
	code, _, errs = command(t, "restore", good, "--data", dir, "--replace")
	require.Equal(t, cli.ExitOK, code, errs)
	kept, err := filepath.Glob(filepath.Join(dir, "replaced-*", "mine"))
	require.NoError(t, err)
	require.Len(t, kept, 1)
	require.FileExists(t, filepath.Join(dir, "weir.json"))
}

// TestNoGit: a node without git ends nothing that another node could do, and where there is
// no other it says what is wrong to whoever asks.
func TestNoGit(t *testing.T) {
	t.Parallel()
	const why = "git is not installed"
	for _, alone := range []bool{true, false} {
		var cfg config.Config
		if !alone {
			cfg.NATS.URL = "nats://n"
		}
		a := &App{cfg: cfg}
		a.noGit(why)
		none := a.repositories.program
		a.repositories.branch = processorsgit.NewBranches(processorsgit.Config{Hosted: none})
		ctx, here := t.Context(), map[string]error{}
		_, here["create"] = none.Create(ctx, "r", "main")
		_, here["import"] = none.Import(ctx, "t", "r", nil, nil)
		_, here["branch"] = none.Branch(ctx, "r", "b", "main", "t")
		_, here["push"] = none.ReceivePack(ctx, "r", git.Push{})
		_, here["fate"] = none.PushState(ctx, "r", "b", "o")
		here["remove"] = none.Remove(ctx, "r")
		for what, err := range here {
			require.ErrorIs(t, err, git.ErrNoRepo, what)
			var verdict *fault.Error
			require.NotErrorAs(t, err, &verdict, what)
		}
		_, err := a.branchExists(ctx, schemas.Repo{Mode: schemas.RepoHosted}, "main")
		repo, elsewhere := schemas.Repo{ID: "r"}, "this repository lives on another node; ask that one"
		reads := []error{none.Advertise(ctx, repo, task.Grant{}, schemas.GitUploadPack, 2, nil), none.UploadPack(ctx, repo, task.Grant{}, gitwire.Fetch{}, nil)}
		for i, err := range append(reads, err, a.hosts()) {
			said, public := errors.AsType[*fault.Error](err)
			require.Equal(t, alone || i < len(reads), public)
			if public {
				require.Equal(t, schemas.Unavailable, said.Code)
				require.Equal(t, map[bool]string{true: why, false: elsewhere}[alone], said.Message)
			}
		}
	}

	// The only node has git, and not the repository's directory any more.
	program, err := git.Open(t.Context(), git.Config{Dir: t.TempDir()})
	require.NoError(t, err)
	defer program.Close()
	a := &App{}
	a.repositories.program = program
	a.repositories.branch = processorsgit.NewBranches(processorsgit.Config{Hosted: program})
	require.NoError(t, a.hosts())
	_, err = a.branchExists(t.Context(), schemas.Repo{ID: "r", Mode: schemas.RepoHosted}, "main")
	var said *fault.Error
	require.ErrorAs(t, err, &said)
	require.Contains(t, said.Message, "git.dir")
}
