package git

import (
	"errors"
	"fmt"
	"net/http"

	"weir/internal/fault"
	"weir/internal/git"
	"weir/internal/githttp"
	"weir/internal/limits"
	"weir/internal/task"
	"weir/schemas"
)

// Door is where clients of git push. It is safe for concurrent use.
type Door struct {
	Config

	crowd  *githttp.Crowd
	places *limits.Shares // of pushes on their way; nil: not divided
}

// New returns a door.
func New(cfg Config) *Door {
	cfg = cfg.WithDefaults()
	d := &Door{Config: cfg, crowd: githttp.NewCrowd("pushes", cfg.Pushes)}
	if places := limits.Percent(int64(cfg.Slots), cfg.TenantShare); places.Share < places.Capacity {
		d.places = limits.NewShares(places)
	}
	return d
}

// commandRoom is for the commands of a push, beside its pack.
const commandRoom = 1 << 20

// Admit finds out who pushes to the repository that a path names, and whether a push of that
// one can be read at all: nothing of the body has been read. Until it leaves, it counts as one that is on
// its way, and has its lease kept.
func (d *Door) Admit(w http.ResponseWriter, r *http.Request, named string) (who task.Grant, body *githttp.Body, leave func(), err error) {
	if who, err = d.enter(r, named); err != nil {
		return who, nil, nil, err
	}
	bounds := githttp.Limits{Bytes: d.MaxPack + commandRoom, Total: d.Timeout}
	if r.ContentLength > bounds.Bytes {
		return who, nil, nil, fault.New(schemas.GitPackTooLarge, "the push is larger than this node takes; push fewer commits at a time, or smaller files")
	}
	if body, err = githttp.NewBody(w, r, bounds); err != nil {
		return who, nil, nil, err
	}
	left, err := d.count(who)
	if err != nil {
		return who, nil, nil, err
	}
	release := d.Hold(who)
	return who, body, func() { release(); left() }, nil
}

// count counts a push as one on its way until it leaves. A tenant's slow pushes, each of which holds a worker's slot, leave
// a share of the slots free.
func (d *Door) count(who task.Grant) (leave func(), err error) {
	left, err := d.crowd.Enter(who)
	if err != nil || d.places == nil {
		return left, err
	}
	release, ok := d.places.Try(who.Tenant, 1)
	if !ok {
		left()
		return nil, fault.New(schemas.RateLimited, fmt.Sprintf(
			"this tenant has %d pushes on their way to this node, which takes %d of all tenants (workers.slots) and of one tenant always %d (limits.tenant_share); push again when one of them has ended",
			d.places.Held(who.Tenant), d.places.Capacity, d.places.Share))
	}
	return func() { release(); left() }, nil
}

func (d *Door) enter(r *http.Request, named string) (task.Grant, error) {
	who, repo, err := githttp.Gate{Grant: d.Grant, Repos: d.Repos}.Enter(r, named)
	if err == nil {
		err = githttp.Pushes(who)
	}
	if err == nil {
		err = d.here(repo)
	}
	if err == nil {
		_, err = githttp.Protocol(r.Header) // there is one for pushes; what makes no sense is refused
	}
	if err == nil {
		err = githttp.MediaType(r.Header, schemas.GitReceivePack)
	}
	return who, err
}

// here refuses a push to a repository of another node: this one could only hold its body
// until somebody gives it up.
func (d *Door) here(repo schemas.Repo) error {
	if repo.Mode == schemas.RepoProxy {
		return nil
	}
	err := d.Hosted.Here(repo.ID)
	if errors.Is(err, git.ErrNoRepo) {
		return &fault.Error{Code: schemas.Unavailable, Message: "this repository lives on another node; push to that one", Cause: err}
	}
	return err
}
