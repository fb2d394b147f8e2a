// Package git reads what a push asks for, and decides whether its asker may have it,
// before git or an upstream sees a byte. The routes that only read are egress's.
package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"weir/internal/fault"
	"weir/internal/git"
	"weir/internal/githttp"
	"weir/internal/gitwire"
	"weir/internal/limits"
	"weir/internal/task"
	"weir/schemas"
)

// Hosted is the repositories on this node's disk, see internal/git.
type Hosted interface {
	// Here returns git.ErrNoRepo where a repository is not on this node.
	Here(id string) error
}

// Config of the push route. A field without a default says so.
type Config struct {
	// Grant says what the holder of a token may do with repositories. Required.
	Grant func(ctx context.Context, token string) (task.Grant, error)
	// Repos finds repositories. Required.
	Repos githttp.Repos
	// Reserve has this process execute a push that is about to be accepted, and returns how; see
	// processors.Pipeline. Execute returns when the push has ended, or cannot go on here. Required.
	Reserve func(ref schemas.Ref) (execute func(context.Context), release func())
	// Hosted knows which repositories are on this node; default: all are.
	Hosted Hosted
	// Hold keeps the lease of the client until it is released; default: no client has one.
	Hold func(g task.Grant) (release func())
	// Pushes is how many one task may have on their way at a time; default 4.
	Pushes int
	// Slots is how many pushes of all tenants may be on their way to this node at a time, and TenantShare the percentage
	// of them that one tenant leaves to the next; see limits.Percent. Default 0 and 100: nothing is divided.
	Slots, TenantShare int
	// MaxPack is the most that one push may bring, in bytes, as it is sent and as it is
	// decoded; default 1 GiB.
	MaxPack int64
	// Timeout bounds how long a push may take to come; default 10 min.
	Timeout time.Duration
}

// WithDefaults fills in what was left out.
func (c Config) WithDefaults() Config {
	if c.Hold == nil {
		c.Hold = func(task.Grant) func() { return func() {} }
	}
	c.Pushes = cmp.Or(c.Pushes, 4)
	c.TenantShare = cmp.Or(c.TenantShare, 100)
	c.MaxPack = cmp.Or(c.MaxPack, 1<<30)
	c.Timeout = cmp.Or(c.Timeout, 10*time.Minute)
	return c
}

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

// here refuses a push to a repository of another node: this one could not execute it.
func (d *Door) here(repo schemas.Repo) error {
	if repo.Mode == schemas.RepoProxy || d.Hosted == nil {
		return nil
	}
	err := d.Hosted.Here(repo.ID)
	if errors.Is(err, git.ErrNoRepo) {
		return &fault.Error{Code: schemas.Unavailable, Message: "this repository lives on another node; push to that one", Cause: err}
	}
	return err
}

// Order is the push that commands ask for, at least one. Where it may not be, it says
// why: Denied.
func Order(g task.Grant, c gitwire.Commands) schemas.PushOrder {
	first := c.List[0]
	o := schemas.PushOrder{
		Repo: g.Repo, Ref: first.Ref, Old: first.Old, New: first.New,
		TaskID: g.TaskID, Lease: g.Lease, Key: g.Key, Branch: g.Branch, Force: g.Force, Holder: g.Holder,
		Denied:   denied(g, c.List),
		Report:   c.Reports(),
		SideBand: c.Has(gitwire.CapSideBand),
	}
	// Those that change what git does; the others only tell who the client is.
	for _, name := range []string{gitwire.CapAtomic, gitwire.CapOfsDelta, gitwire.CapQuiet, gitwire.CapReport, gitwire.CapSideBand} {
		if c.Has(name) {
			o.Capabilities = append(o.Capabilities, name)
		}
	}
	return o
}

// denied is why a task's token may not have an update, or nothing: it updates the
// task's own branch, and does that alone.
func denied(g task.Grant, list []gitwire.Command) string {
	ref := schemas.RefOf(g.Branch)
	first := list[0]
	switch {
	case len(list) > 1:
		return "a push may update one branch alone: push to " + ref + " and to nothing else"
	case first.Ref != ref:
		return "this token may push to its task's branch alone: push to " + ref
	case first.New == gitwire.Zero:
		return "a task's branch may not be deleted: push commits to " + ref + " instead"
	case first.Old == gitwire.Zero:
		return "a task's branch may not be created, only updated: fetch " + ref + ", and push what is built on it"
	default:
		return ""
	}
}
