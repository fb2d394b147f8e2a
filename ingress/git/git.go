// Package git reads what a push asks for, and decides whether its caller may have it,
// before git or an upstream sees a byte. The routes that only read are egress's.
package git

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"weir/ingress"
	"weir/ingress/accept"
	"weir/internal/fault"
	"weir/internal/git"
	"weir/internal/githttp"
	"weir/internal/gitwire"
	"weir/internal/ledger"
	"weir/internal/limits"
	"weir/internal/problem"
	"weir/internal/task"
	"weir/schemas"
)

// Config of the push route. Every field is required.
type Config struct {
	githttp.Authorizer
	// Reserve has this process execute a push that is about to be accepted, and returns how; see
	// processors.Pipeline. Execute returns when the push has ended, or cannot go on here.
	Reserve func(ref schemas.Ref) (execute func(context.Context), release func())
	// Here returns git.ErrNoRepo where a repository is not on this node.
	Here func(id string) error
	// Hold keeps the lease of the client until it is released.
	Hold func(g task.Grant) (release func())
	// Slots is how many pushes of all tenants may be on their way to this node at a time, and TenantShare the percentage
	// of them that one tenant leaves to the next; see limits.Percent.
	Slots, TenantShare int
	// MaxPack is the most that one push may bring, in bytes, as it is sent and as it is
	// decoded.
	MaxPack int64
	// Timeout bounds how long a push may take to come.
	Timeout time.Duration
}

// Reply answers for a push that was accepted; see ingress.Config.
type Reply func(w http.ResponseWriter, r *http.Request, ref schemas.Ref, receipt schemas.Receipt, wait time.Duration)

// handler accepts the pushes of git clients. It is safe for concurrent use.
type handler struct {
	Config

	server *ingress.Server
	reply  Reply
	limit  func(g task.Grant) (release func(), err error)
	shares *limits.Shares // of incoming pushes; nil: not divided
}

// Surface is the route that takes pushes.
func Surface(s *ingress.Server, cfg Config, reply Reply) ingress.Surface {
	const pushes = 4 // of one task at a time
	d := handler{cfg, s, reply, githttp.TaskLimit("pushes", pushes), nil}
	if places := limits.Percent(int64(cfg.Slots), cfg.TenantShare); places.Share < places.Capacity {
		d.shares = limits.NewShares(places)
	}
	return ingress.Surface{
		Name: "git", Kind: schemas.KindPush, Fail: ingress.Written(problem.WriteGit),
		Owns:        func(path string) bool { return strings.HasPrefix(path, schemas.RouteGit+"/") },
		Routes:      []ingress.Route{ingress.Post(schemas.RouteGit+"/:repo/"+schemas.GitReceivePack, d.push)},
		NotRedriven: "a push is not redriven; its objects are not kept, so push again",
		Canceled:    canceled,
	}
}

func canceled(payload json.RawMessage, message string) (json.RawMessage, error) {
	var order schemas.PushOrder
	_ = json.Unmarshal(payload, &order) // a few lines, never aside
	return ledger.Encode(schemas.PushResult{
		Repo: order.Repo, Ref: order.Ref, Old: order.Old, New: order.New, TaskID: order.TaskID,
		Reason: message,
	})
}

// push takes a push. It reads the commands; the executor of the action reads the pack after them.
// The answer waits for the end, whatever the client prefers.
func (d handler) push(c *gin.Context) error {
	who, body, leave, err := d.admit(c.Writer, c.Request, c.Param("repo"))
	ingress.SetTenant(c, who.Tenant)
	if err != nil {
		return refuse(c, err)
	}
	defer leave()
	commands, err := gitwire.ReadCommands(body)
	if err != nil {
		return refuse(c, githttp.Refusal(err, "the push"))
	}
	if len(commands.List) == 0 { // asks whether a push would be let in, before it sends it
		githttp.NewStream(c.Writer, gitwire.ResultType(schemas.GitReceivePack)).Begin()
		c.Writer.WriteHeaderNow()
		return nil
	}
	return d.submit(c, who, commands, body)
}

// refuse is ingress.Fail for a body that may still be on its way.
func refuse(c *gin.Context, err error) error {
	githttp.Refuse(c.Writer, c.Request, func() { ingress.Fail(c, err) })
	return nil
}

// submit stores a push, has it executed here, where its body is, and answers with its end.
func (d handler) submit(c *gin.Context, who task.Grant, commands gitwire.Commands, body *githttp.Body) error {
	order := Order(who, commands)
	payload, err := ledger.Encode(order)
	if err != nil {
		return refuse(c, err)
	}
	asked := githttp.Asked{Ref: order.Ref, Report: commands.Reports(), SideBand: commands.Has(gitwire.CapSideBand)}
	for _, c := range commands.List[1:] {
		asked.Others = append(asked.Others, c.Ref)
	}
	answer, upload := githttp.NewAnswer(c.Writer, asked, body, d.MaxPack)
	defer answer.Close()
	req := accept.Request{Action: schemas.Action{Tenant: who.Tenant, Kind: schemas.KindPush, Payload: payload, Principal: who.Principal, Entries: who.Entries}}
	defer d.server.Expect(&req)()
	expect := req.Before
	var execute func(context.Context)
	release := func() {}
	defer func() { release() }()
	req.Before = func(ref schemas.Ref) {
		expect(ref)
		execute, release = d.Reserve(ref)
	}
	out, err := d.server.Acceptor().Accept(c.Request.Context(), req)
	if err := d.server.Accepted(c, out, err); err != nil {
		release() // if the push is on the log after all, a worker ends it
		return refuse(c, err)
	}
	ctx := c.Request.Context()
	if order.Denied == "" {
		ctx = upload.In(ctx)
	}
	execute(ctx)
	d.reply(answer, c.Request, out.Ref, out.Receipt, -1)
	return nil
}

// commandRoom is for the commands of a push, beside its pack.
const commandRoom = 1 << 20

// admit finds out who pushes to the repository that a path names, and whether a push of that
// one can be read at all: nothing of the body has been read. Until it leaves, it counts as one that is on
// its way, and has its lease kept.
func (d handler) admit(w http.ResponseWriter, r *http.Request, named string) (who task.Grant, body *githttp.Body, leave func(), err error) {
	who, repo, err := d.Authorize(r, named)
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
	most := d.MaxPack + commandRoom
	if err == nil && r.ContentLength > most {
		err = fault.New(schemas.GitPackTooLarge, "the push is larger than this node takes; push fewer commits at a time, or smaller files")
	}
	if err == nil {
		body, err = githttp.NewBody(w, r, most, d.Timeout)
	}
	if err != nil {
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
func (d handler) count(who task.Grant) (leave func(), err error) {
	left, err := d.limit(who)
	if err != nil || d.shares == nil {
		return left, err
	}
	release, ok := d.shares.TryAcquire(who.Tenant, 1)
	if !ok {
		left()
		return nil, fault.New(schemas.RateLimited, fmt.Sprintf(
			"this tenant has %d pushes on their way to this node, which takes %d of all tenants (workers.slots) and of one tenant always %d (limits.tenant_share); push again when one of them has ended",
			d.shares.Held(who.Tenant), d.shares.Capacity, d.shares.Share))
	}
	return func() { release(); left() }, nil
}

// here refuses a push to a repository of another node: this one could not execute it.
func (d handler) here(repo schemas.Repo) error {
	if repo.Mode == schemas.RepoProxy {
		return nil
	}
	err := d.Here(repo.ID)
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
		Denied: denied(g, c.List),
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
