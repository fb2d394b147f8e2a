// Package git executes what has to do with repositories: pushes and the making of
// repositories, as actions, and the branches of tasks. What lives on this node the real
// git does; what lives elsewhere is requested through guard.
package git

import (
	"cmp"
	"context"
	"io"
	"time"

	"weir/internal/ledger"
	"weir/internal/outbound"
	"weir/processors/call"
	"weir/processors/call/dial"
	"weir/processors/guard"
	"weir/processors/settle"
	"weir/schemas"
)

// Upstream is how repositories elsewhere are reached. Nil parts: there are none.
type Upstream struct {
	Forward *Forward
	Caller  *call.Caller
	Answers call.Answers
	// Adapter returns the adapter of one push; see Forward.Push.
	Adapter func(PushCall) call.Adapter
}

const (
	getMethod  = "GET"
	postMethod = "POST"

	statusOK = 200

	// Agent is how Weir calls itself to git servers. Some serve no client whose name does
	// not begin with git's.
	Agent = "git/weir"

	// idle is how long an upstream may say nothing while it answers.
	idle = 2 * time.Minute
	// inline is the longest that traffic rules may hold a request back: longer ones are
	// refused, for a client waits.
	inline = 30 * time.Second
	// parting is how long the evidence of a request may take whose client is gone.
	parting = 5 * time.Second
)

// ForwardConfig is what Forward needs besides its collaborators. All but Secrets have
// defaults.
type ForwardConfig struct {
	// Secrets fills what the policy's entries add.
	Secrets dial.Secrets
	// Worker names this process in evidence.
	Worker string
	// Timeout bounds one request with its answer, what traffic rules hold it back for
	// included; default 10 min.
	Timeout time.Duration
	// Answer is the most that one fetch may bring, in bytes; default 10 GiB.
	Answer int64
	Now    func() time.Time
}

// Forward reads from git servers elsewhere, by the policy and the traffic rules in
// force, with the credentials of the policy's entry. Its
// requests are repeatable, so they are on no log; each leaves evidence, that of one
// which was refused included. Its errors are *fault.Error with a sentence for a
// person, or the log's and ctx's. It is safe for concurrent use.
type Forward struct {
	reads    *call.Caller // on no log
	client   *outbound.Client
	recorder settle.Storer
	cfg      ForwardConfig
}

// NewForward returns a Forward. The client's own limits on the time of headers and bodies
// do not hold.
func NewForward(g *guard.Guard, c *outbound.Client, r settle.Storer, cfg ForwardConfig) *Forward {
	cfg.Timeout = cmp.Or(cfg.Timeout, 10*time.Minute)
	cfg.Answer = cmp.Or(cfg.Answer, 10<<30)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	reads := call.New(call.Unlogged{}, g, nil, call.Config{
		Worker: cfg.Worker, Hold: inline, Now: cfg.Now, Barrier: func(context.Context) error { return nil },
	})
	return &Forward{reads, c, r, cfg}
}

// caller is the caller on whose behalf an upstream is called.
type caller struct {
	action    schemas.Ref // owns the evidence of the call
	taskID    string
	principal string
	entries   []string
	// hides reports the refs that are not shown; nil: all are shown.
	hides func(ref string) bool
}

func callerOf(st *ledger.State, taskID string) caller {
	return caller{action: st.Ref, taskID: taskID, principal: st.Action.Principal, entries: st.Action.Entries}
}

// readAnswer takes an answer with the status and of the type that were wanted. A mocked one is what
// a traffic rule says, whatever that is.
type readAnswer func(r io.Reader, mocked bool) error
