package git

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/processors/call"
	"weir/schemas"
)

// importing has this node's git copy a repository.
func (r *Repos) importing(ctx context.Context, st *wanted) (defaultBranch string, err error) {
	p, err := openPassage(ctx, r.cfg.Upstream.Forward, asking(st.st, ""), schemas.Repo{
		Tenant: st.st.Tenant, UpstreamURL: st.order.ImportURL, AllowlistKey: st.order.AllowlistKey,
	})
	if err != nil {
		return "", err
	}
	defer p.close()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	t := &teller{log: r.cfg.Log, st: st.st, now: r.cfg.Now, end: end, last: r.cfg.Now()}
	defaultBranch, err = r.cfg.Hosted.Import(ctx, st.st.Tenant, st.id, p.url, st.order.DefaultBranch, func(p schemas.RepoProgress) { t.tell(ctx, p) })
	if cause := p.failure(); err != nil && cause != nil && ctx.Err() == nil {
		return "", fmt.Errorf("%w: %w", errImport, cause)
	}
	return defaultBranch, err
}

var errImport = errors.New("the repository could not be copied")

// tellEvery is how often the log is told how far a copy is: an event is a write, and a person
// looks no faster. What takes no longer says nothing. That a phase is over is told at once,
// since what comes next may say nothing for a while.
const tellEvery = time.Second

// teller writes down how far a copy is.
type teller struct {
	log call.Events
	st  *ledger.State
	now func() time.Time
	end context.CancelCauseFunc // of the copy

	last    time.Time
	told    schemas.RepoProgress
	unheard *schemas.Event // the log may have it, and has not said so
}

// tell ends the copy where the action is to stop, or is another worker's by now. A log that
// is away for a while does not end it: the same event is then written the next time, for no
// other may stand behind it before that is known.
func (t *teller) tell(ctx context.Context, p schemas.RepoProgress) {
	now := t.now()
	over := p.Done == p.Total && t.told.Total > 0
	if p == t.told || now.Sub(t.last) < tellEvery && !over || ctx.Err() != nil {
		return
	}
	t.last = now
	if t.unheard == nil {
		doc, err := ledger.Encode(p)
		if err != nil {
			return
		}
		t.told, t.unheard = p, &schemas.Event{Type: schemas.EventProgress, Time: time.Now().UTC(), Data: doc}
	}
	err := t.log.Append(context.WithoutCancel(ctx), t.st, *t.unheard) // a stop does not tear it
	switch {
	case errors.Is(err, fault.ErrUnavailable):
		return
	case err == nil && t.st.CancelRequested:
		err = errCanceled
	}
	if t.unheard = nil; err != nil {
		t.end(err)
	}
}
