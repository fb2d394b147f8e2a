package git

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"weir/ingress"
	"weir/ingress/accept"
	"weir/internal/githttp"
	"weir/internal/gitwire"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/internal/task"
	"weir/schemas"
)

// Reply answers for a push that was accepted; see ingress.Config.
type Reply func(w http.ResponseWriter, r *http.Request, ref schemas.Ref, receipt schemas.Receipt, wait time.Duration)

type handlers struct {
	*Door

	server *ingress.Server
	reply  Reply
}

// Surface is the route that takes pushes.
func Surface(s *ingress.Server, cfg Config, reply Reply) ingress.Surface {
	h := handlers{New(cfg), s, reply}
	return ingress.Surface{
		Name: "git", Kind: schemas.KindPush, Fail: ingress.Written(problem.WriteGit),
		Owns:        func(path string) bool { return strings.HasPrefix(path, schemas.RouteGit+"/") },
		Routes:      []ingress.Route{ingress.Post(schemas.RouteGit+"/:repo/"+schemas.GitReceivePack, h.push)},
		NotRedriven: "a push is not redriven; its objects are not kept, so push again",
		Canceled:    canceled,
	}
}

func canceled(payload json.RawMessage, message string) (json.RawMessage, error) {
	var order schemas.PushOrder
	_ = json.Unmarshal(payload, &order) // a few lines, never aside
	return ledger.Encode(schemas.PushResult{
		Repo: order.Repo, Ref: order.Ref, Old: order.Old, New: order.New, TaskID: order.TaskID,
		Reason: message, Report: order.Report, SideBand: order.SideBand,
	})
}

// push takes a push. It reads the commands; the executor of the action reads the pack after them.
// The answer waits for the end, whatever the client prefers.
func (h handlers) push(c *gin.Context) error {
	who, body, leave, err := h.Admit(c.Writer, c.Request, c.Param("repo"))
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
	return h.submit(c, who, Order(who, commands), body)
}

// refuse is ingress.Fail for a body that may still be on its way.
func refuse(c *gin.Context, err error) error {
	githttp.Refuse(c.Writer, c.Request, func() { ingress.Fail(c, err) })
	return nil
}

// submit stores a push, has it executed here, where its body is, and answers with its end.
func (h handlers) submit(c *gin.Context, who task.Grant, order schemas.PushOrder, body *githttp.Body) error {
	payload, err := ledger.Encode(order)
	if err != nil {
		return refuse(c, err)
	}
	asked := githttp.Asked{Ref: order.Ref, Report: order.Report, SideBand: order.SideBand}
	answer, upload := githttp.NewAnswer(c.Writer, asked, body, h.MaxPack)
	defer answer.Close()
	req := accept.Request{Tenant: who.Tenant, Kind: schemas.KindPush, Payload: payload, Principal: who.Principal, Entries: who.Entries}
	defer h.server.Expect(&req)()
	expect := req.Before
	var execute func(context.Context)
	release := func() {}
	defer func() { release() }()
	req.Before = func(ref schemas.Ref) {
		expect(ref)
		execute, release = h.Reserve(ref)
	}
	out, err := h.server.Acceptor().Accept(c.Request.Context(), req)
	if err := h.server.Accepted(c, out, err); err != nil {
		release() // if the push is on the log after all, a worker ends it
		return refuse(c, err)
	}
	ctx := c.Request.Context()
	if order.Denied == "" {
		ctx = upload.In(ctx)
	}
	execute(ctx)
	h.reply(answer, c.Request, out.Ref, out.Receipt, -1)
	return nil
}
