package git

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/google/uuid"

	"weir/internal/fault"
	hosted "weir/internal/git"
	"weir/internal/gitwire"
	"weir/internal/ledger"
	"weir/processors/call"
	"weir/processors/settle"
	"weir/schemas"
)

// Branches makes the branches of tasks, wherever their repositories live. It is safe
// for concurrent use.
type Branches struct{ cfg Config }

// NewBranches returns Branches.
func NewBranches(cfg Config) *Branches { return &Branches{cfg} }

// Exists reports whether a repository has a branch now. Its errors are *fault.Error with a
// sentence where the repository's upstream is why, and else the system's; ErrNoRepo of
// internal/git: it is another node that knows.
func (b *Branches) Exists(ctx context.Context, repo schemas.Repo, branch string) (bool, error) {
	if repo.Mode == schemas.RepoProxy {
		who := schemas.Action{Tenant: repo.Tenant, Kind: schemas.KindTask, ID: "look-" + uuid.NewString()}
		refs, err := b.cfg.Forward.refs(ctx, who, repo, schemas.RefOf(branch))
		return find(refs, schemas.RefOf(branch)).Oid != "", err
	}
	_, err := b.cfg.Hosted.Head(ctx, repo.ID, branch)
	if errors.Is(err, hosted.ErrNoRef) {
		return false, nil
	}
	return err == nil, err
}

// Open creates the branch of a task, unless an earlier worker has done so, and returns its first
// object. A *fault.Error says why there is and will be no branch; any other error gives the time of
// the next try. Its requests to other systems are attempts on the task's log.
func (b *Branches) Open(ctx context.Context, st *ledger.State, order schemas.TaskOrder, branch string) (base string, err error) {
	repo, err := b.cfg.Repos.Get(ctx, st.Tenant, order.Repo)
	if errors.Is(err, fault.ErrNotFound) {
		return "", fault.New(schemas.NotFound, "the repository "+order.Repo+" is not there any more")
	} else if err != nil {
		return "", err
	}
	from := cmp.Or(order.BaseRef, repo.DefaultBranch)
	if repo.Mode == schemas.RepoProxy {
		return (&opening{b, st, repo, from, branch}).open(ctx)
	}
	oid, err := b.cfg.Hosted.Branch(ctx, repo.ID, branch, from, st.ID)
	switch {
	case errors.Is(err, hosted.ErrNoRef):
		return "", noBase(from)
	case errors.Is(err, hosted.ErrRefExists):
		return "", branchTaken(branch)
	case errors.Is(err, hosted.ErrNoRepo):
		return "", away(st, b.cfg.Now())
	}
	return oid, err
}

// soonest is when an action is looked at again that this node cannot do. It is looked
// at less often the longer no node could.
const soonest = 500 * time.Millisecond

// away leaves an action to the node that has its repository, or git: the next worker may
// be that one. To wait for it is all that one without them can do, up to the deadline,
// which the action's own executor holds it to.
func away(st *ledger.State, now time.Time) error {
	return rest(st, now.Add(min(max(now.Sub(st.Action.AcceptedAt)/8, soonest), again)), schemas.WaitNode)
}

// rest leaves an action until then, or until its deadline. The log hears of a reason once.
func rest(st *ledger.State, until time.Time, reason string) error {
	if d := st.Action.Deadline; !d.IsZero() && d.Before(until) {
		until = d
	}
	return &call.Deferral{Until: until, Reason: reason, Quiet: slices.ContainsFunc(st.Events, func(ev schemas.Event) bool {
		return ev.Waiting != nil && ev.Waiting.For == reason
	})}
}

func noBase(name string) error {
	return fault.New(schemas.NotFound, "the repository has no branch "+name+"; name one that it has as base_ref")
}

func branchTaken(name string) error {
	return fault.New(schemas.Conflict, "the repository has a branch "+name+" already; file the task with another branch, or with none")
}

type opening struct {
	*Branches

	st           *ledger.State
	repo         schemas.Repo
	base, branch string
}

const (
	// maxOpenings is how many errors of an upstream's git end the making of a branch, each in a step of the task's log.
	maxOpenings = 5
	// openingTimeout bounds one push that makes a branch elsewhere.
	openingTimeout = time.Minute
	// again is the pause after an upstream could not be reached. It grows with the action's age, to longest.
	again   = 10 * time.Second
	longest = 10 * time.Minute
)

// errNoLook: it is not known where the branch would begin.
var errNoLook = errors.New("the upstream was not looked at")

// open looks at the upstream, and pushes the branch if it does not exist. After a push with an
// unknown result it looks again, and pushes again after a pause; if the branch was created after all,
// the upstream refuses the repeat.
func (o *opening) open(ctx context.Context) (string, error) {
	sent := false // a push of ours may have arrived
	pause, wish := false, time.Duration(0)
	for step, refused := 0, 0; refused < maxOpenings; step++ {
		tries := o.st.AttemptsOf(step)
		for _, t := range tries {
			sent = sent || t.Result != nil && t.Result.Sent
		}
		oid := ""
		// A step may make another attempt if there was none, or if the last one must be repeated.
		if n := len(tries); n == 0 || tries[n-1].Result != nil && !tries[n-1].Result.RetryAt.IsZero() {
			base, there, err := o.look(ctx)
			switch {
			case err != nil:
				return "", err
			case there != "" && sent:
				return there, nil
			case there != "":
				return "", branchTaken(o.branch)
			case base == "":
				return "", noBase(o.base)
			case pause:
				return "", o.later(wish)
			}
			oid = base
		}
		r, err := o.push(ctx, step, oid)
		if err != nil {
			return "", err
		}
		made, err := o.checkPush(ctx, r)
		switch said, _ := errors.AsType[*fault.Error](err); {
		case sent && said != nil && said.Code == schemas.GitRejected: // perhaps it is there by now
			refused++
		case err != nil:
			return "", err
		case made && oid != "":
			return oid, nil
		case r.Answered && r.Last.Result.Status == statusOK:
			refused++
		case oid != "": // else an earlier worker has waited
			pause = true
			if a := r.Last.Result.Answer; a != nil {
				wish = a.RetryAfter
			}
		}
		// Requests that an earlier worker has sent count as well.
		sent = sent || r.Last != nil && r.Last.Result.Sent
	}
	return "", fault.New(schemas.Unavailable, "the task's branch could not be made at the repository's upstream; file the task again later")
}

// later leaves the task for as long as the upstream wishes, and else longer the older the task is. It has its
// deadline for an end.
func (o *opening) later(wish time.Duration) error {
	now := o.cfg.Now()
	return rest(o.st, now.Add(max(wish, min(max(now.Sub(o.st.Action.AcceptedAt)/8, again), longest))), schemas.WaitDelay)
}

// look is where the base and the branch are now; empty: nowhere. If the upstream could not be reached, or asks for
// another time, the task comes back. What policy denies, and what the upstream refuses, stays so.
func (o *opening) look(ctx context.Context) (base, branch string, err error) {
	b, n := schemas.RefOf(o.base), schemas.RefOf(o.branch)
	refs, err := o.cfg.Forward.refs(ctx, asking(o.st, o.st.ID), o.repo, b, n)
	wish, busy := errors.AsType[busyError](err)
	if said, ok := errors.AsType[*fault.Error](err); busy || ok && said.Code != schemas.HTTPFailure && !said.Code.Denied() {
		err = o.later(time.Duration(wish))
	}
	return find(refs, b).Oid, find(refs, n).Oid, err
}

// push makes one push of the branch, or reads its end off the log.
func (o *opening) push(ctx context.Context, step int, oid string) (call.Result, error) {
	t := o.cfg.remoteTask(o.st, o.repo, PushCall{
		Command:      gitwire.Command{Old: gitwire.Zero, New: cmp.Or(oid, gitwire.Zero), Ref: schemas.RefOf(o.branch)},
		Capabilities: capabilities(schemas.PushOrder{}),
		Pack: func() (io.Reader, int64, error) {
			if oid == "" { // its end is on the log; such a command would delete the branch
				return nil, 0, errNoLook
			}
			pack := bytes.NewReader(gitwire.EmptyPack())
			return pack, pack.Size(), nil
		},
	})
	t.Step, t.Stop, t.Timeout = step, call.Stop{Context: context.WithoutCancel(ctx)}, openingTimeout // too short to be stopped
	return o.cfg.Caller.Run(ctx, t)
}

// checkPush reports whether a push has made the branch. Where it has not, and another would
// not either, the error says so.
func (o *opening) checkPush(ctx context.Context, r call.Result) (made bool, err error) {
	rejected := func(why string) error {
		return fault.New(schemas.GitRejected, "the repository's upstream did not take the task's branch: "+why)
	}
	switch {
	case r.Canceled, r.Expired:
		return false, &fault.RetryAfter{Cause: context.Canceled} // the task's own executor settles that
	case r.Denied:
		if err := settle.Deny(ctx, o.cfg.Recorder, r.Task, r.Decision); err != nil {
			return false, err
		}
		return false, denies(r.Decision)
	case r.Last.Mocked():
		return false, fault.New(schemas.GitRejected, "a traffic rule answers in the upstream's place, so that the task's branch cannot be made; take the rule away, or scope it")
	case !r.Answered && r.Last.Result.Code.Denied():
		code := r.Last.Result.Code
		return false, fault.New(code, "policy does not let the task's branch be made at the repository's upstream: "+call.Describe(*r.Last))
	case !r.Answered:
		return false, nil // the next look tells
	}
	word, err := readReport(ctx, o.cfg.Answers, r.Last)
	status := r.Last.Result.Status
	switch {
	case err != nil || word.Updated:
		return err == nil, err
	case status == statusOK && word.Refused == nil:
		return false, rejected(word.Reason)
	case busy(status), status == statusOK:
		return false, nil
	}
	return false, rejected(fmt.Sprintf("it answered with status %d; look at the credential that the policy's entry adds", status))
}
