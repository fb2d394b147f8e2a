package git

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/google/uuid"

	"weir/internal/fault"
	hosted "weir/internal/git"
	"weir/internal/gitwire"
	"weir/internal/ledger"
	"weir/internal/repos"
	"weir/processors/call"
	"weir/processors/settle"
	"weir/schemas"
)

// Repos executes kind repo. It is safe for concurrent use.
type Repos struct{ cfg Config }

// NewRepos returns an executor of the making of repositories.
func NewRepos(cfg Config) *Repos { return &Repos{cfg} }

// Execute makes the repository, unless an earlier worker has made it already. All of it
// may be done again: the same action makes the same one.
func (r *Repos) Execute(ctx context.Context, st *ledger.State, stop call.Stop) (settle.Outcome, error) {
	order, err := call.Payload[schemas.RepoOrder](st, "an order of a repository")
	if err != nil {
		return settle.Outcome{}, err
	}
	repo, err := r.make(ctx, st, order, stop)
	if errors.Is(err, hosted.ErrDiskFull) {
		err = &fault.Error{Code: schemas.GitRejected, Message: hosted.ErrDiskFull.Error() + "; make the repository when its operator has made some", Cause: err}
	}
	if errors.Is(err, hosted.ErrNoRepo) { // none can be made here
		return settle.Outcome{}, away(st, r.cfg.Now())
	}
	said, known := errors.AsType[*fault.Error](err)
	if err != nil && (!known || errors.Is(err, fault.ErrUnavailable)) {
		return settle.Outcome{}, later(err)
	}
	e := settle.Outcome{Outcome: schemas.OutcomeSucceeded}
	if err != nil {
		e = end(said.Code, said.Message)
		if err := r.undo(ctx, st, order); err != nil {
			return settle.Outcome{}, err
		}
	}
	audit := schemas.RepoAudit{Repo: order.Name, Mode: repo.Mode, Result: cmp.Or(string(e.Code), schemas.AuditOK)}
	if e.Code == "" {
		repo.ID, repo.Tenant = "", ""
		e.Result = repo
	}
	return e, r.cfg.record(ctx, st, ".repo", schemas.EvidenceRepo, e.Code, audit)
}

// later retries a system failure. A lost race on another log does not fence this action.
func later(err error) error {
	if errors.Is(err, fault.ErrFenced) {
		return &fault.RetryAfter{Cause: errBusy}
	}
	return err
}

func identity(st *ledger.State) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte("repo\x00"+st.Tenant+"\x00"+st.ID)).String()
}

// make makes the repository. An *fault.Error says why there is none.
func (r *Repos) make(ctx context.Context, st *ledger.State, order schemas.RepoOrder, stop call.Stop) (schemas.Repo, error) {
	there, err := r.cfg.Repos.Get(ctx, st.Tenant, order.Name)
	switch {
	case err == nil && there.By == st.ID:
		return there, nil
	case err == nil:
		return there, used(order.Name)
	case !errors.Is(err, fault.ErrNotFound):
		return there, err
	}
	repo := schemas.Repo{
		ID: identity(st), Name: order.Name, Tenant: st.Tenant, Mode: schemas.RepoHosted, ImportURL: order.ImportURL,
		AllowlistKey: order.AllowlistKey, Created: st.Action.AcceptedAt, By: st.ID,
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(stop, func() { cancel(errCanceled) })() //nolint:contextcheck // a signal, not a scope
	if st.CancelRequested || stop.Requested() {
		cancel(errCanceled)
	}
	if d := st.Action.Deadline; !d.IsZero() {
		late, free := context.WithDeadlineCause(ctx, d, errLate)
		defer free()
		ctx = late
	}
	if repo, err = r.fill(ctx, st, order, repo); err != nil {
		if over, ok := errors.AsType[*fault.Error](context.Cause(ctx)); ok {
			err = over
		}
		return repo, err
	}
	if repo, err = r.cfg.Repos.Add(context.WithoutCancel(ctx), repo); errors.Is(err, repos.ErrTaken) {
		err = used(order.Name)
	}
	return repo, err
}

// undo takes away what was made of a repository that is not to be, by a worker before this one
// as well. It is tried until the action's time is up. A repository in the catalog stays.
func (r *Repos) undo(ctx context.Context, st *ledger.State, order schemas.RepoOrder) error {
	if order.UpstreamURL != "" {
		return nil
	}
	there, err := r.cfg.Repos.Get(ctx, st.Tenant, order.Name)
	switch {
	case err == nil && there.By == st.ID:
		return &fault.RetryAfter{Cause: errBusy} // by now; then it is made
	case err != nil && !errors.Is(err, fault.ErrNotFound):
		return err
	}
	err = r.cfg.Hosted.Remove(ctx, identity(st))
	late := !st.Action.Deadline.IsZero() && !r.cfg.Now().Before(st.Action.Deadline)
	if err == nil || errors.Is(err, hosted.ErrNoRepo) || late && ctx.Err() == nil {
		return nil
	}
	return &fault.RetryAfter{After: again, Cause: err}
}

func used(name string) error {
	return fault.New(schemas.Conflict, "there is a repository "+name+" already; choose another name")
}

var (
	errCanceled error = fault.New(schemas.Canceled, "it was canceled; the repository was not made")
	errLate     error = fault.New(schemas.DeadlineExceeded, "its time was up; the repository was not made")
)

// fill makes what is behind a repository, and says which branch is its default.
func (r *Repos) fill(ctx context.Context, st *ledger.State, order schemas.RepoOrder, repo schemas.Repo) (schemas.Repo, error) {
	if err := ctx.Err(); err != nil {
		return repo, err
	}
	switch {
	case order.UpstreamURL != "":
		return r.inspectUpstream(ctx, st, order, repo)
	case order.ImportURL != "":
		var err error
		switch repo.DefaultBranch, err = r.importing(ctx, st, order); {
		case errors.Is(err, hosted.ErrNoRef) && order.DefaultBranch == "":
			return repo, empty("import_url")
		case errors.Is(err, hosted.ErrNoRef):
			return repo, noDefault(order.DefaultBranch)
		case err != nil:
			return repo, importError(err)
		}
		return repo, nil
	default:
		repo.DefaultBranch, repo.AllowlistKey = cmp.Or(order.DefaultBranch, "main"), ""
		_, err := r.cfg.Hosted.Create(ctx, identity(st), repo.DefaultBranch)
		return repo, err
	}
}

// inspectUpstream looks at a repository that stays where it is.
func (r *Repos) inspectUpstream(ctx context.Context, st *ledger.State, order schemas.RepoOrder, repo schemas.Repo) (schemas.Repo, error) {
	repo.ID, repo.Mode, repo.UpstreamURL = identity(st), schemas.RepoProxy, strings.TrimRight(order.UpstreamURL, "/")
	if strings.ContainsAny(repo.UpstreamURL, "?#") {
		return repo, fault.New(schemas.ValidationError, "upstream_url has a query or a fragment; name the repository's URL alone")
	}
	var prefixes []string
	if order.DefaultBranch != "" {
		prefixes = append(prefixes, schemas.RefOf(order.DefaultBranch))
	}
	refs, err := r.cfg.Forward.refs(ctx, asking(st, ""), repo, append(prefixes, "refs/heads/")...)
	if err != nil {
		return repo, err
	}
	if repo.DefaultBranch = order.DefaultBranch; repo.DefaultBranch == "" {
		if branch, ok := strings.CutPrefix(find(refs, gitwire.HEAD).Symref, schemas.RefOf("")); ok {
			repo.DefaultBranch = branch
		}
	}
	switch {
	case repo.DefaultBranch == "":
		return repo, empty("upstream_url")
	case find(refs, schemas.RefOf(repo.DefaultBranch)).Oid == "":
		return repo, noDefault(repo.DefaultBranch)
	}
	return repo, nil
}

func empty(member string) error {
	return fault.New(schemas.ValidationError, "the repository at "+member+" does not say which branch is its own; name one as default_branch, and push a commit there if it has none")
}

func noDefault(name string) error {
	return fault.New(schemas.ValidationError, "the repository has no branch "+name+"; name one that it has as default_branch")
}

// importError is the error of a failed import. A system failure stays one.
func importError(err error) error {
	var x *hosted.ExitError
	switch {
	case errors.As(err, &x), errors.Is(err, hosted.ErrFull):
		return &fault.Error{Code: schemas.GitRejected, Message: "git could not copy the repository at import_url; it may be larger than is allowed, or broken", Cause: err}
	case errors.Is(err, hosted.ErrTimeout):
		return &fault.Error{Code: schemas.UpstreamTimeout, Message: "the repository at import_url could not be copied in time", Cause: err}
	}
	return err
}
