// Package ingress is the room through which every write enters: it reads a
// request strictly, asks who it comes from, translates it to an action and
// stores that. It performs nothing, and leaves the answer to a Responder.
package ingress

import (
	"net/http"
	"time"

	"weir/ingress/accept"
	"weir/ingress/actions"
	"weir/ingress/executor"
	"weir/schemas"
)

// Ledger is what ingress needs of the action log.
type Ledger interface {
	accept.Ledger
	actions.Ledger
}

// Responder answers for an action that was accepted or joined.
type Responder interface {
	// Expect is called before the claim of an action whose end will be waited
	// for; release after Respond has returned.
	Expect(ref schemas.Ref) (release func())
	// Respond writes the whole answer. wait < 0 waits for the action's end,
	// 0 answers 202 at once, anything else waits so long and then answers 202.
	Respond(w http.ResponseWriter, r *http.Request, ref schemas.Ref, receipt schemas.Receipt, wait time.Duration)
	// Resume is the place in a run's stream that the request's Last-Event-ID names; the zero
	// place without one.
	Resume(r *http.Request) (behind schemas.RunPlace, err error)
	// ResumeChat is the place in a completion's stream that the request's Last-Event-ID
	// names; the zero place without one.
	ResumeChat(r *http.Request) (behind schemas.ChatPlace, err error)
	// Seat takes the place of one more open stream for whoever sends a request, before
	// anything is stored for it; one that may hold no more is refused. Stream or Chat takes
	// it over with the request that comes back. Leave gives it back where neither is called,
	// and does nothing behind them.
	Seat(r *http.Request) (seated *http.Request, leave func(), err error)
	// Stream answers for a run with its events, from behind a position to its end.
	Stream(w http.ResponseWriter, r *http.Request, ref schemas.Ref, taskType string, after uint64)
	// Chat answers for a completion: as a stream with its chunks from behind a place to
	// its end, or with the whole, where wait is as in Respond. Left is called at most once,
	// when the client has gone before the end and was the last on this node who read the
	// completion or waited for it; nil: nobody wants to know.
	Chat(w http.ResponseWriter, r *http.Request, ref schemas.Ref, receipt schemas.Receipt, stream bool, behind schemas.ChatPlace, wait time.Duration, left func())
	// ReadRules answers an operation of the agent API that changes nothing. Its
	// arguments have the types that they should.
	ReadRules(w http.ResponseWriter, r *http.Request, tenant string, req schemas.AgentRequest)
	// RecordRules answers with rules that give the answers again which an action
	// of the tenant got. Principal is the id of the token that asks.
	RecordRules(w http.ResponseWriter, r *http.Request, tenant, principal string, req schemas.RecordRequest)
	// Task answers with a task as its people see it; with a token, which is shown this
	// once, as schemas.NewTask. The headers that name it are set already.
	Task(w http.ResponseWriter, r *http.Request, ref schemas.Ref, status int, token string)
	// AgentTask answers with a task as the holder of a lease reads it, once its branch is
	// there or the wait for that is over; lease 0 is the task's own token's.
	AgentTask(w http.ResponseWriter, r *http.Request, ref schemas.Ref, lease int)
	// Leased answers with a task, the lease that was made of it, and its token. Timeout is
	// after how long without a call the lease is lost. Where given is false nobody has got
	// the token.
	Leased(w http.ResponseWriter, r *http.Request, ref schemas.Ref, lease int, token string, timeout time.Duration) (given bool)
	// Inquiry waits for the answer to a task's n-th question while the task is held by the
	// lease that asks, and answers with that. It calls touch every now and then, which keeps
	// the lease.
	Inquiry(w http.ResponseWriter, r *http.Request, ref schemas.Ref, lease, n int, touch func())
}

// Room is the ingress. It is safe for concurrent use.
type Room struct {
	policy    executor.Policy
	responder Responder
	acceptor  *accept.Acceptor
	control   *actions.Control
	redriver  *actions.Redriver // nil: not served
	freight   *freight          // of completions; nil: they are not served
	cfg       Config
}

// New returns the room. It starts nothing and needs no Stop.
func New(l Ledger, p executor.Policy, r Responder, cfg Config) *Room {
	cfg = cfg.withDefaults()
	in := &Room{
		policy: p, responder: r, cfg: cfg,
		acceptor: accept.New(l, cfg.Accept),
		control:  actions.New(l, actions.Config{Barrier: cfg.Accept.Barrier, Stop: cfg.Stop, NoEnds: cfg.NoEnds, StoreTimeout: cfg.Accept.StoreTimeout}),
	}
	if cfg.Chat != nil {
		in.freight = newFreight(cfg.Chat.MaxBodies)
	}
	if cfg.Dead != nil {
		in.redriver = actions.NewRedriver(cfg.Dead, l, in.acceptor, func(call schemas.HTTPCall, who Asker) schemas.Class {
			_, class := in.policyFor(who).Judge(call)
			return class
		})
	}
	return in
}

// policyFor is what decides about somebody's calls.
func (in *Room) policyFor(who Asker) executor.Policy {
	if in.cfg.Judge == nil {
		return in.policy
	}
	return in.cfg.Judge(who)
}
