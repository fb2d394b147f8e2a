package git

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"weir/internal/fault"
	"weir/internal/gitwire"
	"weir/internal/task"
	"weir/schemas"
)

// Advertise writes the answer to GET info/refs as the holder of a grant may see it: the service line
// where the protocol has one, and git's own advertisement. Protocol is 0 or 2; a push has none but 0,
// whatever is asked for. Nothing is written before git has said something. Errors that are not git's
// are public.
func (g *Git) Advertise(ctx context.Context, repo schemas.Repo, who task.Grant, name string, protocol int, w io.Writer) error {
	return public(g.advertise(ctx, repo.ID, name, protocol, viewOf(repo, who), w))
}

// UploadPack answers one request of a fetch of what the grant lets be seen. An error after something was
// written means that git could not go on; it has said why to the client before. Errors are as Advertise's.
func (g *Git) UploadPack(ctx context.Context, repo schemas.Repo, who task.Grant, f gitwire.Fetch, w io.Writer) error {
	return public(g.uploadPack(ctx, repo.ID, f, viewOf(repo, who), w))
}

// public words why a read was not begun, or not ended.
func public(err error) error {
	for _, known := range []struct {
		err  error
		says string
	}{
		{ErrNoRepo, "this repository lives on another node; ask that one"},
		{ErrBusy, "too many fetches and pushes are running; try again later"},
		{ErrClosed, "the node is stopping; try again"},
		{ErrTimeout, "git took longer than it may; try again, or fetch less at a time"},
	} {
		if errors.Is(err, known.err) {
			return &fault.Error{Code: schemas.Unavailable, Message: known.says, Cause: err}
		}
	}
	return err
}

func (g *Git) advertise(ctx context.Context, id, name string, protocol int, v view, w io.Writer) error {
	if name != schemas.GitUploadPack && name != schemas.GitReceivePack {
		return errors.New("git has no such service")
	}
	command := strings.TrimPrefix(name, "git-")
	if command == "receive-pack" {
		protocol, v.Head = 0, ""
	}
	var before []byte
	if protocol != 2 {
		before = append(gitwire.AppendPacket(nil, []byte("# service="+name+"\n")), gitwire.Flush...)
	}
	s, j, err := g.uploadOrReceive(ctx, id, command, protocol, v)
	if err != nil {
		return err
	}
	defer s.end()
	j.args = append(j.args, "--advertise-refs", ".")
	if j.out = copyTo(w, before); protocol != 2 && !v.All {
		j.out = v.narrowed(j.out)
	}
	return s.run(j)
}

func (g *Git) uploadPack(ctx context.Context, id string, f gitwire.Fetch, v view, w io.Writer) error {
	protocol := 0
	if f.V2 {
		protocol = 2
	}
	s, j, err := g.uploadOrReceive(ctx, id, "upload-pack", protocol, v)
	if err != nil {
		return err
	}
	defer s.end()
	if !v.All {
		refusal, err := s.within(v, f)
		if err == nil && refusal != "" {
			_, err = w.Write(gitwire.AppendErr(nil, "upload-pack: "+refusal))
		}
		if err != nil || refusal != "" {
			return err
		}
	}
	j.args = append(j.args, ".")
	j.in = &source{Reader: bytes.NewReader(f.Request)}
	if j.out = copyTo(w, nil); v.Head != "" && f.Command == gitwire.CommandLsRefs {
		j.out = func(r io.Reader) error {
			refs, err := gitwire.ReadRefs(r)
			if err == nil {
				_, err = w.Write(gitwire.AppendRefs(nil, gitwire.AddHead(refs, v.Head)))
			}
			return err
		}
	}
	return s.run(j)
}

// uploadOrReceive prepares a process of either, with a session for it.
func (g *Git) uploadOrReceive(ctx context.Context, id, command string, protocol int, v view) (session, job, error) {
	if err := g.Here(id); err != nil {
		return session{}, job{}, err
	}
	s, err := g.enter(ctx, id, v.Tenant, g.cfg.Timeout, g.slots.reads)
	if err != nil {
		return session{}, job{}, err
	}
	list, err := v.settings(s.repository)
	if err != nil {
		s.end()
		return session{}, job{}, err
	}
	j := job{args: []string{command, "--stateless-rpc"}, settings: append(g.receiving(false), list...)}
	if command == "upload-pack" {
		j.args, j.settings = append(j.args, "--strict"), append(uploading(), list...)
	}
	if protocol == 2 {
		j.env = []string{"GIT_PROTOCOL=version=2"}
	}
	return s, j, nil
}

// copyTo copies what git writes, with something before its first byte.
func copyTo(w io.Writer, before []byte) func(io.Reader) error {
	return func(r io.Reader) error {
		out := bufio.NewReaderSize(r, 64<<10)
		if _, err := out.Peek(1); err == io.EOF {
			return nil
		}
		_, err := io.Copy(w, io.MultiReader(bytes.NewReader(before), out))
		return err
	}
}

// view is what a client is shown of a repository: all of it, or those refs alone.
//
// Of a view that is not All, a fetch gets commits and tags only that the refs lead to. A file or a
// directory it gets by its object id, as partial clones need, wherever that is: who names one has its content's hash.
type view struct {
	All  bool
	Refs []string
	// Head is the one of them that HEAD stands for where the repository's own HEAD is not shown.
	Head string
	// Tenant is whose turn a fetch takes.
	Tenant string
}

// viewOf is what Grant.Reads allows, in the form that git takes.
func viewOf(repo schemas.Repo, who task.Grant) view {
	if who.TaskID == "" {
		return view{All: true, Tenant: who.Tenant}
	}
	base := schemas.RefOf(cmp.Or(who.Base, repo.DefaultBranch))
	return view{Refs: slices.Compact([]string{schemas.RefOf(who.Branch), base}), Head: base, Tenant: who.Tenant}
}

// shown are the refs of a view that may be one.
func (v view) shown() []string {
	return slices.DeleteFunc(slices.Clone(v.Refs), func(ref string) bool {
		return !strings.HasPrefix(ref, "refs/") || !gitwire.ValidRef(ref)
	})
}

// settings make git hide what is not in the view. The last one that fits counts.
func (v view) settings(r repository) ([]setting, error) {
	if v.All {
		return []setting{{hideRefs, ownRefs}}, nil
	}
	list := []setting{{hideRefs, "refs"}}
	for _, ref := range v.shown() {
		list = append(list, setting{hideRefs, "!" + ref})
	}
	head, err := r.head()
	if err != nil {
		return nil, err
	}
	if !slices.Contains(v.Refs, head) {
		list = append(list, setting{hideRefs, "HEAD"})
	}
	return list, nil
}

const hideRefs = "transfer.hideRefs"

// unseen returns an object that a request of protocol 2 asks for and that the view does
// not lead to, or nothing. Git itself would give out whatever it has: that protocol knows no other rule.
func (s session) unseen(v view, f gitwire.Fetch) (string, error) {
	tips, err := s.look(v.shown()...)
	if err != nil {
		return "", err
	}
	asked := slices.DeleteFunc(slices.Clone(f.Wants), func(oid string) bool {
		return slices.ContainsFunc(tips, func(o object) bool { return o.oid == oid })
	})
	if len(asked) == 0 {
		return "", nil
	}
	found, err := s.look(asked...)
	if err != nil {
		return "", err
	}
	var walk strings.Builder
	for i, o := range found {
		switch o.kind {
		case "tag":
			return asked[i], nil
		case "commit":
			fmt.Fprintln(&walk, o.oid)
		}
	}
	if walk.Len() == 0 {
		return "", nil
	}
	for _, o := range tips {
		if o.kind == "commit" {
			fmt.Fprintln(&walk, "^"+o.oid)
		}
	}
	return s.firstOf(walk.String())
}

// within returns why git must not see a request of a fetch, or nothing. Git looks at what is hidden in some
// places where it should not.
func (s session) within(v view, f gitwire.Fetch) (refusal string, err error) {
	for _, name := range f.DeepenNot { // git's words for a ref that is none
		if !slices.ContainsFunc(v.shown(), func(ref string) bool {
			return name == ref || "refs/"+name == ref || schemas.RefOf(name) == ref
		}) {
			return "ambiguous deepen-not: " + name, nil
		}
	}
	if f.V2 {
		if oid, err := s.unseen(v, f); err != nil || oid != "" {
			return "not our ref " + oid, err
		}
	}
	return "", nil
}

// narrowed takes out of an advertisement of protocol 0 which ref HEAD is, if that is not in the view: git
// says so whatever it hides.
func (v view) narrowed(next func(io.Reader) error) func(io.Reader) error {
	return func(r io.Reader) error {
		a, err := gitwire.ReadAdvertisement(r)
		if err != nil {
			return err
		}
		a.Refs = gitwire.AddHead(gitwire.KeepRefs(a.Refs, func(ref string) bool { return slices.Contains(v.Refs, ref) }), v.Head)
		return next(bytes.NewReader(a.Bytes()))
	}
}

// errCut ends a git that has more to say than is wanted.
var errCut = errors.New("the diff is longer than is wanted")

// diffHeap is the memory for a diff, in bytes: that of half a million paths.
const diffHeap = 256 << 20

// Diff is the difference of two commits as git shows it, in whole lines of at most so many bytes; cut: there is
// more, or it takes more memory than diffHeap. fault.ErrNotFound: the repository has no such commit any more; other
// errors are as Advertise's. It takes a tenant's turn of a fetch.
func (g *Git) Diff(ctx context.Context, repo schemas.Repo, base, head string, most int) (diff []byte, cut bool, err error) {
	diff, cut, err = g.diff(ctx, repo, base, head, most)
	return diff, cut, public(err)
}

func (g *Git) diff(ctx context.Context, repo schemas.Repo, base, head string, most int) (diff []byte, cut bool, err error) {
	if err := g.Here(repo.ID); err != nil {
		return nil, false, err
	}
	s, err := g.enter(ctx, repo.ID, repo.Tenant, smallTimeout, g.slots.reads)
	if err != nil {
		return nil, false, err
	}
	defer s.end()
	found, err := s.look(base, head)
	if err != nil {
		return nil, false, err
	}
	if found[0].kind != "commit" || found[1].kind != "commit" {
		return nil, false, fault.ErrNotFound
	}
	err = s.run(job{
		// Nothing that the repository's files say runs a program: there is no driver in the configuration.
		// Large files are "Binary files differ", and few files are searched for renames: both cost much more time
		// and memory than the diff has bytes.
		args:     []string{"diff-tree", "-p", "-M", "-l100", "--no-ext-diff", "--no-textconv", "--no-color", found[0].oid, found[1].oid},
		settings: []setting{{"core.bigFileThreshold", "1m"}},
		heap:     diffHeap, // git holds every path that differs before it shows one, and a pack of 1 KB may have any number
		out: func(o io.Reader) (err error) {
			diff, err = io.ReadAll(io.LimitReader(o, int64(most)+1))
			if cut = len(diff) > most; cut {
				return errCut
			}
			return err
		},
	})
	if failed, ok := errors.AsType[*ExitError](err); ok && strings.Contains(failed.Text, "memory") { // of diffHeap
		cut = true
	}
	if cut {
		diff = diff[:min(most, len(diff))]
		return diff[:bytes.LastIndexByte(diff, '\n')+1], true, nil
	}
	return diff, false, err
}
