package app

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/config"
	"weir/internal/fault"
	"weir/internal/git"
	"weir/internal/gitwire"
	processorsgit "weir/processors/git"
	"weir/schemas"
)

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
		_, here["import"] = none.Import(ctx, "t", "r", "http://127.0.0.1:1/r", nil, nil)
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
		for _, err := range []error{err, a.hosts(), none.Advertise(ctx, "r", schemas.GitUploadPack, 2, git.View{}, nil), none.UploadPack(ctx, "r", gitwire.Fetch{}, git.View{}, nil)} {
			var said *fault.Error
			if alone {
				require.ErrorAs(t, err, &said)
				require.Equal(t, schemas.Unavailable, said.Code)
				require.Equal(t, why, said.Message)
				continue
			}
			require.NotErrorAs(t, err, &said)
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
