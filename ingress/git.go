package ingress

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"weir/ingress/accept"
	"weir/ingress/git"
	"weir/internal/githttp"
	"weir/internal/gitwire"
	"weir/internal/handoff"
	"weir/internal/ledger"
	"weir/internal/task"
	"weir/schemas"
)

func (in *Room) mountGit(e *gin.Engine) {
	if in.cfg.Git == nil {
		return
	}
	door := git.New(*in.cfg.Git)
	e.POST(schemas.RouteGit+"/:repo/"+schemas.GitReceivePack, surface("git", dialectGit), func(c *gin.Context) { in.push(c, door) })
}

// push takes a push. Its commands are read here, and the pack behind them goes to the
// worker as it comes; the answer waits for the end, whatever the client prefers.
func (in *Room) push(c *gin.Context, door *git.Door) {
	who, body, leave, err := door.Admit(c.Writer, c.Request, c.Param("repo"))
	c.Set(keyTenant, who.Tenant)
	if err != nil {
		in.refusePush(c, err)
		return
	}
	defer leave()
	commands, err := gitwire.ReadCommands(body)
	if err != nil {
		in.refusePush(c, githttp.Refusal(err, "the push"))
		return
	}
	if len(commands.List) == 0 { // asks whether a push would be let in, before it sends it
		h := c.Writer.Header()
		h.Set("Content-Type", githttp.ResultType(schemas.GitReceivePack))
		c.Writer.WriteHeader(http.StatusOK)
		c.Writer.WriteHeaderNow()
		return
	}
	in.submitPush(c, door, who, git.Order(who, commands), body)
}

// refusePush is fail, for a body that may still be on its way.
func (in *Room) refusePush(c *gin.Context, err error) {
	githttp.Refuse(c.Writer, c.Request, func() { in.fail(c, err) })
}

// submitPush stores a push and answers with its end. Its pack is offered to this
// node's worker before the action can be seen, and taken back before the request ends.
func (in *Room) submitPush(c *gin.Context, door *git.Door, who task.Grant, order schemas.PushOrder, body *githttp.Body) {
	payload, err := ledger.Encode(order)
	if err != nil {
		in.refusePush(c, err)
		return
	}
	withdraw := func() {}
	letGo := func() { withdraw() }
	defer letGo()
	asked := githttp.Asked{Ref: order.Ref, Report: order.Report, SideBand: order.SideBand}
	answer := githttp.NewAnswer(c.Writer, asked, body, door.MaxPack, letGo)
	release := func() {}
	defer func() { release() }()
	out, err := in.acceptor.Accept(c.Request.Context(), accept.Request{
		Tenant: who.Tenant, Kind: schemas.KindPush, Payload: payload, Principal: who.Principal, Entries: who.Entries,
		Before: func(ref schemas.Ref) {
			release = in.responder.Expect(ref)
			if order.Denied == "" {
				withdraw = door.Hands.Offer(ref, handoff.Hand{Body: body, Progress: answer.Progress})
			}
		},
	})
	if err != nil {
		letGo() // who answers has the request to itself
		githttp.Refuse(c.Writer, c.Request, func() { in.taken(c, out, err) })
		return
	}
	in.taken(c, out, nil)
	answer.Open()
	in.responder.Respond(answer, c.Request, out.Ref, out.Receipt, -1)
}
