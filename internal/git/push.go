package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"weir/internal/gitwire"
	"weir/schemas"
)

// Push is one update of one ref.
type Push struct {
	// Tenant is whose turn it takes.
	Tenant  string
	Command gitwire.Command // for a branch
	// Capabilities are those that the client asked for.
	Capabilities []string
	Pack         io.Reader // already bounded. Git runs while it is read: see Spool
	// Force lets the update drop what the ref was at.
	Force bool
	// Progress takes what git has to say while it works. It is not called after ReceivePack has returned.
	Progress func([]byte)
}

// ReceivePack passes a push to git and returns git's report. An error means that there is no
// report; only the ref itself then shows the result. If the reader of the pack fails, its error is
// returned; git is killed before it sees the end of the input.
// If the report says that the ref was updated, the update and its objects are on the disk.
func (g *Git) ReceivePack(ctx context.Context, id string, p Push) (gitwire.Report, error) {
	s, err := g.enter(ctx, id, p.Tenant, g.cfg.Timeout, g.slots.writes)
	if err != nil {
		return gitwire.Report{}, err
	}
	defer s.end()
	ref := p.Command.Ref
	if !strings.HasPrefix(ref, schemas.RefOf("")) || !gitwire.ValidRef(ref) {
		return gitwire.Report{}, errors.New("a push is for a branch")
	}
	if err := s.spools.roomy(); err != nil {
		return gitwire.Report{}, err
	}
	if n, err := s.size(); err != nil {
		return gitwire.Report{}, err
	} else if n >= g.cfg.MaxRepo {
		return gitwire.Report{}, ErrFull
	}
	w, err := s.write(ctx, ref)
	if err != nil {
		return gitwire.Report{}, roomless(err)
	}
	rep, err := s.receive(p, w.lock)
	if err != nil {
		w.abandon(ctx)
		return rep, err
	}
	defer w.done()
	if rep.Reason == "" {
		if err := s.syncRef(ref); err != nil {
			return gitwire.Report{}, fmt.Errorf("bringing the push to the disk: %w", err)
		}
		g.grown(ctx, s.repository)
	}
	return rep, nil
}

// capabilities are sent to git regardless of the client's own, because this process parses the
// report and the progress first.
func (p Push) capabilities() []string {
	list := []string{gitwire.CapReport, gitwire.CapSideBand}
	for _, c := range []string{gitwire.CapOfsDelta, gitwire.CapAtomic} {
		if slices.Contains(p.Capabilities, c) {
			list = append(list, c)
		}
	}
	if p.Progress == nil || slices.Contains(p.Capabilities, gitwire.CapQuiet) {
		list = append(list, gitwire.CapQuiet)
	}
	return list
}

func (s session) receive(p Push, lock *os.File) (gitwire.Report, error) {
	var rep gitwire.Report
	whole, room := false, true
	var tail []byte // of what was said, as a sentence may come in pieces
	progress := func(b []byte) {
		tail = append(tail, b...)
		room = room && !bytes.Contains(tail, []byte(noRoom))
		tail = slices.Clone(tail[max(0, len(tail)-len(noRoom)):])
		if p.Progress != nil {
			p.Progress(bytes.ReplaceAll(b, []byte(s.cfg.Dir), nil))
		}
	}
	in := &source{Reader: io.MultiReader(bytes.NewReader(p.Command.Request(p.capabilities()...)), p.Pack)}
	err := s.run(job{
		args: []string{"receive-pack", "--stateless-rpc", "."}, settings: s.receiving(p.Force),
		in: in, hold: []*os.File{lock}, file: s.cfg.MaxRepo,
		out: func(o io.Reader) (err error) {
			rep, err = gitwire.Demux(o, p.Command.Ref, true, progress)
			whole = err == nil
			return err
		},
	})
	switch {
	case in.failed != nil:
	case whole:
		err = nil // it has said all that it had to, however it ended
	case err == nil:
		err = errors.New("git receive-pack: it gave no report")
	}
	if rep.Unpack = s.scrub(rep.Unpack); !room && rep.Unpack != gitwire.UnpackOK {
		rep.Unpack = ErrDiskFull.Error() // git tells its own side alone
	}
	rep.Reason = s.scrub(rep.Reason)
	return rep, err
}

// noRoom is the system's word for a full disk, as git passes it on in the locale that it is
// given here.
const noRoom = "No space left on device"

// roomless is ErrDiskFull where a disk is full, and otherwise err.
func roomless(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("%w: %w", ErrDiskFull, err)
	}
	return err
}

// PushState is the state of a branch after a push.
type PushState struct {
	// Head is where the branch is.
	Head string
	// Has: it is at the push's object, or at one that was built on it.
	Has bool
}

// PushState waits until no process writes to the repository, and checks whether a branch has an object.
// The reported state is on the disk: a failed sync is an error. ErrNoRef if the branch does not
// exist.
func (g *Git) PushState(ctx context.Context, id, branch, oid string) (PushState, error) {
	r, err := g.repo(id)
	switch {
	case err != nil:
		return PushState{}, err
	case !validBranch(branch):
		return PushState{}, ErrNoRef
	case !gitwire.ValidOid(oid):
		return PushState{}, errors.New("the push has no proper object id")
	}
	if err := r.quiet(ctx); err != nil {
		return PushState{}, err
	}
	s, err := g.lookUp(ctx, id)
	if err != nil {
		return PushState{}, err
	}
	defer s.end()
	ref := schemas.RefOf(branch)
	f := PushState{}
	if f.Head, err = s.tip(ref); err != nil {
		return PushState{}, err
	}
	if f.Has, err = s.leadsTo(f.Head, oid); err != nil {
		return PushState{}, err
	}
	// After the look: the sync covers everything that the look has seen.
	return f, s.syncRef(ref)
}

// leadsTo reports whether a commit is another, or was built on it.
func (s session) leadsTo(from, oid string) (bool, error) {
	if from == oid {
		return true, nil
	}
	found, err := s.look(oid)
	if err != nil || found[0].kind != "commit" {
		return false, err
	}
	rest, err := s.firstOf(oid + "\n^" + from + "\n")
	return err == nil && rest == "", err
}
