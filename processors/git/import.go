package git

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"weir/internal/fault"
	hosted "weir/internal/git"
	"weir/internal/gitwire"
	"weir/internal/ledger"
	"weir/processors/call"
	"weir/schemas"
)

// importing copies the branches and tags of a repository elsewhere.
func (r *Repos) importing(ctx context.Context, st *ledger.State, order schemas.RepoOrder) (defaultBranch string, err error) {
	const tags = "refs/tags/"
	f, who, branches := r.cfg.Forward, asking(st, ""), schemas.RefOf("")
	from := schemas.Repo{Tenant: st.Tenant, UpstreamURL: order.ImportURL, AllowlistKey: order.AllowlistKey}
	source := func(ctx context.Context, take func(string, []gitwire.Ref, io.Reader) error) error {
		refs, err := f.refs(ctx, who, from, branches, tags)
		if err != nil {
			return err
		}
		branch := cmp.Or(order.DefaultBranch, defaultOf(refs))
		refs = slices.DeleteFunc(refs, func(r gitwire.Ref) bool {
			return !strings.HasPrefix(r.Name, branches) && !strings.HasPrefix(r.Name, tags)
		})
		if find(refs, schemas.RefOf(branch)).Oid == "" {
			return hosted.ErrNoRef
		}
		var oids []string
		for _, r := range refs {
			oids = append(oids, r.Oid)
		}
		return f.fetch(ctx, who, from, gitwire.Fetch{Request: gitwire.RequestPack(oids)}, func(r io.Reader, _ bool) error {
			return publicError(take(branch, refs, r))
		})
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	t := &progressWriter{log: r.cfg.Ledger, st: st, now: r.cfg.Now, end: end, last: r.cfg.Now()}
	return r.cfg.Hosted.Import(ctx, st.Tenant, identity(st), source, func(p schemas.RepoProgress) { t.write(ctx, p) })
}

// defaultOf is the branch that an upstream's HEAD names, or else is at; failing that main, master, or the first one.
func defaultOf(refs []gitwire.Ref) (branch string) {
	head := find(refs, gitwire.HEAD)
	likely := []string{head.Symref, schemas.RefOf("main"), schemas.RefOf("master")}
	best := 0
	for _, r := range refs {
		name, ok := strings.CutPrefix(r.Name, schemas.RefOf(""))
		rank := []int{1, 6, 3, 2}[1+slices.Index(likely, r.Name)]
		if r.Oid == head.Oid {
			rank += 3
		}
		if ok && rank > best {
			branch, best = name, rank
		}
	}
	return branch
}

// progressInterval is the interval of progress events on the log: an event is a write, and a person does
// not look more often. A shorter copy writes none. The end of a phase is written at once, because
// the next phase may be silent for a while.
const progressInterval = time.Second

// progressWriter writes the progress of a copy to the log.
type progressWriter struct {
	log call.Events
	st  *ledger.State
	now func() time.Time
	end context.CancelCauseFunc // of the copy

	last        time.Time
	written     schemas.RepoProgress
	unconfirmed *schemas.Event // not acknowledged; the log may have it
}

// write ends the copy if the action must stop, or belongs to another worker by now. A log that is
// unavailable for a while does not end it: the same event is then written the next time, because no
// other event may follow it before its fate is known.
func (t *progressWriter) write(ctx context.Context, p schemas.RepoProgress) {
	now := t.now()
	over := p.Done == p.Total && t.written.Total > 0
	if p == t.written || now.Sub(t.last) < progressInterval && !over || ctx.Err() != nil {
		return
	}
	t.last = now
	if t.unconfirmed == nil {
		doc, err := ledger.Encode(p)
		if err != nil {
			return
		}
		t.written, t.unconfirmed = p, &schemas.Event{Type: schemas.EventProgress, Time: time.Now().UTC(), Data: doc}
	}
	err := t.log.Append(context.WithoutCancel(ctx), t.st, *t.unconfirmed) // a stop does not tear it
	switch {
	case errors.Is(err, fault.ErrUnavailable):
		return
	case err == nil && t.st.CancelRequested:
		err = errCanceled
	}
	if t.unconfirmed = nil; err != nil {
		t.end(err)
	}
}
