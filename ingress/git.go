package ingress

import (
	"context"
	"sync"

	"github.com/gin-gonic/gin"

	"weir/ingress/accept"
	"weir/ingress/git"
	"weir/internal/githttp"
	"weir/internal/gitwire"
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

// push takes a push. It reads the commands; the performer of the action reads the pack after them.
// The answer waits for the end, whatever the client prefers.
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
		githttp.NewStream(c.Writer, gitwire.ResultType(schemas.GitReceivePack)).Begin()
		c.Writer.WriteHeaderNow()
		return
	}
	in.submitPush(c, door, who, git.Order(who, commands), body)
}

// refusePush is fail, for a body that may still be on its way.
func (in *Room) refusePush(c *gin.Context, err error) {
	githttp.Refuse(c.Writer, c.Request, func() { in.fail(c, err) })
}

// submitPush stores a push, has it executed here, where its body is, and answers with its end.
func (in *Room) submitPush(c *gin.Context, door *git.Door, who task.Grant, order schemas.PushOrder, body *githttp.Body) {
	payload, err := ledger.Encode(order)
	if err != nil {
		in.refusePush(c, err)
		return
	}
	upload := &githttp.Upload{Body: body}
	asked := githttp.Asked{Ref: order.Ref, Report: order.Report, SideBand: order.SideBand}
	answer := githttp.NewAnswer(c.Writer, asked, body, door.MaxPack, upload.Wait)
	upload.Progress = answer.Progress
	defer answer.Close()
	var execute func(context.Context)
	release := func() {}
	defer func() { release() }()
	out, err := in.acceptor.Accept(c.Request.Context(), accept.Request{
		Tenant: who.Tenant, Kind: schemas.KindPush, Payload: payload, Principal: who.Principal, Entries: who.Entries,
		Before: func(ref schemas.Ref) {
			forget := in.responder.Expect(ref)
			run, free := door.Reserve(ref)
			execute, release = run, sync.OnceFunc(func() { free(); forget() })
		},
	})
	if err != nil {
		release() // if the push is on the log after all, a worker ends it
		githttp.Refuse(c.Writer, c.Request, func() { in.taken(c, out, err) })
		return
	}
	in.taken(c, out, nil)
	answer.Open()
	ctx := c.Request.Context()
	if order.Denied == "" {
		ctx = upload.In(ctx)
	}
	execute(ctx)
	in.responder.Respond(answer, c.Request, out.Ref, out.Receipt, -1)
}
