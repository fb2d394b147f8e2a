package git

import (
	"bytes"
	"context"
	"errors"
	"io"
)

// errCut ends a git that has more to say than is wanted.
var errCut = errors.New("the diff is longer than is wanted")

// Diff is the difference of two commits as git shows it, in whole lines of at most so many bytes; cut: there is
// more. ErrNoRef: the repository has no such commit any more. It takes a tenant's turn of a fetch.
func (g *Git) Diff(ctx context.Context, id, tenant, base, head string, most int) (diff []byte, cut bool, err error) {
	if g.asked != nil {
		return nil, false, g.asked
	}
	r, err := g.repo(id)
	if err != nil {
		return nil, false, err
	}
	t, err := g.wait(ctx, tenant, min(g.cfg.Timeout, smallTimeout), g.slots.reads)
	if err != nil {
		return nil, false, err
	}
	defer t.end()
	found, err := g.look(t, r, []string{base, head})
	if err != nil {
		return nil, false, err
	}
	if found[0].kind != "commit" || found[1].kind != "commit" {
		return nil, false, ErrNoRef
	}
	err = g.run(t, job{
		// Nothing that the repository's files say runs a program: there is no driver in the configuration.
		// Large files are "Binary files differ", and few files are searched for renames: both cost much more time
		// and memory than the diff has bytes.
		args:     []string{"diff-tree", "-p", "-M", "-l100", "--no-ext-diff", "--no-textconv", "--no-color", found[0].oid, found[1].oid},
		settings: []setting{{"core.bigFileThreshold", "1m"}},
		dir:      string(r), env: r.dirEnv(), out: func(o io.Reader) (err error) {
			diff, err = io.ReadAll(io.LimitReader(o, int64(most)+1))
			if cut = len(diff) > most; cut {
				return errCut
			}
			return err
		},
	})
	if cut {
		diff = diff[:most]
		return diff[:bytes.LastIndexByte(diff, '\n')+1], true, nil
	}
	return diff, false, err
}
