package git_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/egress/git"
	"weir/internal/fault"
	internal "weir/internal/git"
	"weir/internal/task"
	"weir/schemas"
)

// program notes what it was asked, and fails as it is told.
type program struct {
	id, service, in string
	protocol        int
	view            internal.View
	say             string
	err             error
}

func (p *program) Advertise(_ context.Context, id, service string, protocol int, v internal.View, w io.Writer) error {
	p.id, p.service, p.protocol, p.view = id, service, protocol, v
	_, _ = io.WriteString(w, p.say)
	return p.err
}

func (p *program) UploadPack(_ context.Context, id string, protocol int, v internal.View, in io.Reader, w io.Writer) error {
	data, _ := io.ReadAll(in)
	p.id, p.in, p.protocol, p.view = id, string(data), protocol, v
	_, _ = io.WriteString(w, p.say)
	return p.err
}

func TestHostedShowsWhatTheGrantReads(t *testing.T) {
	t.Parallel()
	repo := schemas.Repo{ID: "r-1", DefaultBranch: "main"}
	for name, tc := range map[string]struct {
		g    task.Grant
		want internal.View
	}{
		"a reader":            {task.Grant{Tenant: "acme"}, internal.View{All: true, Tenant: "acme"}},
		"a task":              {task.Grant{Tenant: "acme", TaskID: "t", Branch: "work"}, internal.View{Refs: []string{"refs/heads/work", "refs/heads/main"}, Tenant: "acme"}},
		"with another base":   {task.Grant{TaskID: "t", Branch: "work", Base: "dev"}, internal.View{Refs: []string{"refs/heads/work", "refs/heads/dev"}}},
		"at its base's place": {task.Grant{TaskID: "t", Branch: "main"}, internal.View{Refs: []string{"refs/heads/main"}}},
	} {
		p := &program{say: "x"}
		var out bytes.Buffer
		require.NoError(t, git.NewHosted(p).Advertise(t.Context(), repo, tc.g, schemas.GitReceivePack, 2, &out), name)
		require.Equal(t, program{id: "r-1", service: schemas.GitReceivePack, protocol: 2, view: tc.want, say: "x"}, *p, name)
		require.Equal(t, "x", out.String())
		for _, ref := range tc.want.Refs {
			require.True(t, tc.g.Reads(ref, repo.DefaultBranch), "%s: one rule", name)
		}
		require.NoError(t, git.NewHosted(p).UploadPack(t.Context(), repo, tc.g, 2, []byte("in"), &out), name)
		require.Equal(t, tc.want, p.view, name)
		require.Equal(t, "in", p.in, name)
	}
}

func TestHostedFails(t *testing.T) {
	t.Parallel()
	odd := errors.New("odd")
	for _, tc := range []struct {
		err  error
		code schemas.Code
	}{
		{internal.ErrNoRepo, schemas.Unavailable},
		{internal.ErrBusy, schemas.Unavailable},
		{internal.ErrClosed, schemas.Unavailable},
		{internal.ErrTimeout, schemas.Unavailable},
		{odd, ""},
	} {
		h := git.NewHosted(&program{err: tc.err})
		for _, err := range []error{
			h.Advertise(t.Context(), schemas.Repo{}, task.Grant{}, schemas.GitUploadPack, 2, io.Discard),
			h.UploadPack(t.Context(), schemas.Repo{}, task.Grant{}, 2, nil, io.Discard),
		} {
			require.ErrorIs(t, err, tc.err)
			public, ok := errors.AsType[*fault.Error](err)
			require.Equal(t, tc.code != "", ok)
			if ok {
				require.Equal(t, tc.code, public.Code)
			}
		}
	}
}
