package sim_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/internal/fault"
	"weir/internal/weirtest/history"
	"weir/processors/call"
	"weir/processors/guard"
	"weir/schemas"
)

// target is what is called. It writes down each request before it answers.
type target struct {
	w    *world
	mu   sync.Mutex
	hits []hit
}

// hit is a request as it came, and when its first byte left the node.
type hit struct {
	history.Hit
	begun time.Time
	shows time.Time // when probes see its effect
}

// door is a node's way to the target.
type door struct {
	*target
	n *node
}

// Open dials.
func (d door) Open(ctx context.Context, p guard.Pass) (call.Exchange, error) {
	x := &exchange{door: d, pass: p, dice: of(ctx)}
	if p.Mocked() {
		return x, nil
	}
	time.Sleep(x.dice.within(10*time.Microsecond, 3*time.Millisecond))
	if _, err := d.n.held(x.dice); err != nil {
		return nil, &fault.Call{Code: schemas.UpstreamConnect}
	}
	switch {
	case ctx.Err() != nil:
		return nil, &fault.Call{Code: schemas.UpstreamTimeout}
	case x.dice.chance(d.w.odds().connect):
		return nil, &fault.Call{Code: schemas.UpstreamConnect}
	}
	return x, nil
}

type exchange struct {
	door
	pass  guard.Pass
	dice  *dice
	begun func() // nil: no callback
}

func (x *exchange) Close() {}

// begins says that the request's first byte has left.
func (x *exchange) begins() {
	if x.begun != nil {
		x.begun()
	}
}

// Do sends the request. A node that dies here leaves it as far as it has come.
func (x *exchange) Do(ctx context.Context, p guard.Pass, begun func()) (*call.Reply, error) {
	x.pass, x.begun = p, begun
	if x.pass.Mocked() {
		return reply(x.pass.Effect().Answer.Status, `{"mocked":true}`), nil
	}
	odds, who := x.w.odds(), x.n.name+" "+path.Base(x.pass.Call().URL)
	if strings.Contains(x.pass.Call().URL, lookup) {
		return x.look(ctx, odds)
	}
	x.w.revoke(x.dice, odds)
	if x.dice.chance(odds.frozenCall) {
		x.n.freeze(x.dice)
	}
	time.Sleep(x.dice.within(time.Microsecond, 2*time.Millisecond))
	paused, err := x.n.held(x.dice)
	switch {
	case err != nil:
		return nil, &fault.Call{Code: schemas.UpstreamReset, Sent: true}
	case ctx.Err() != nil && (!paused || x.dice.chance(.5) || strings.Contains(x.pass.Call().URL, "/probed/")):
		return nil, &fault.Call{Code: cut(ctx)}
	case ctx.Err() != nil:
		x.w.took(zombieSent, who) // it looked at its clock before it was paused
	case x.dice.chance(odds.diedCall):
		x.w.took(diedCalling, who)
		return x.dead()
	}
	h := hit{Hit: mark(*x.pass.Call()), begun: time.Now(), shows: time.Now().Add(x.dice.within(0, callTimeout))}
	if x.w.mutant == ownKeys && x.pass.DerivedKey() != "" {
		h.Key += who
	}
	x.begins()
	time.Sleep(x.dice.within(time.Microsecond, 5*time.Millisecond))
	if x.dice.chance(odds.reset) { // before it is all there
		if h.Whole = false; x.dice.chance(.5) {
			x.put(h)
		}
		return nil, &fault.Call{Code: schemas.UpstreamReset, Sent: !x.w.mutant.lies()}
	}
	at := x.put(h)
	if x.w.mutant == sendsTwice && x.dice.chance(.2) {
		x.put(h)
	}
	if x.dice.chance(odds.diedCall) {
		x.w.took(diedHeard, who)
		return x.dead()
	}
	return x.answer(ctx, at, odds)
}

// look answers a probe, unless the answer is lost.
func (x *exchange) look(ctx context.Context, odds odds) (*call.Reply, error) {
	x.begins()
	time.Sleep(x.dice.within(time.Microsecond, 5*time.Millisecond))
	if _, err := x.n.held(x.dice); err != nil || ctx.Err() != nil || x.dice.chance(odds.swallow) {
		return nil, &fault.Call{Code: schemas.UpstreamReset, Sent: true}
	}
	shown := func(h hit) bool {
		return h.Whole && h.Mark == path.Base(x.pass.Call().URL) && !time.Now().Before(h.shows)
	}
	if slices.ContainsFunc(x.all(), shown) {
		return reply(200, `{}`), nil
	}
	return reply(404, `{}`), nil
}

// dead is the end of a node in the middle of a call.
func (x *exchange) dead() (*call.Reply, error) {
	x.n.die(x.dice.within(0, 8*time.Second))
	return nil, &fault.Call{Code: schemas.UpstreamReset, Sent: true}
}

// answer is what comes back to the request that was written down at a place.
func (x *exchange) answer(ctx context.Context, at int, odds odds) (*call.Reply, error) {
	took := x.dice.within(time.Millisecond, 60*time.Millisecond)
	switch {
	case x.dice.chance(odds.hang):
		took = time.Hour
	case x.dice.chance(odds.slow):
		took = x.dice.within(0, 2*callTimeout)
	}
	timer := time.NewTimer(took)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, &fault.Call{Code: cut(ctx), Sent: true}
	}
	if _, err := x.n.held(x.dice); err != nil || ctx.Err() != nil || x.dice.chance(odds.swallow) {
		return nil, &fault.Call{Code: schemas.UpstreamReset, Sent: !x.w.mutant.lies()}
	}
	status, wish := 200, time.Duration(0)
	switch {
	case x.dice.chance(odds.failed):
		status = []int{400, 404, 500}[x.dice.below(3)]
	case x.dice.chance(odds.busy):
		status = 503
		if x.dice.chance(.5) {
			status, wish = 429, 4*time.Second
		}
	}
	body := fmt.Sprintf(`{"hit":%d}`, at)
	x.mu.Lock()
	x.hits[at].Status, x.hits[at].Digest = status, sum(body)
	x.mu.Unlock()
	r := reply(status, body)
	r.Answer.RetryAfter = wish
	return r, nil
}

// put writes a request down, and gives its place.
func (t *target) put(h hit) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hits = append(t.hits, h)
	return len(t.hits) - 1
}

func (t *target) all() []hit {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]hit(nil), t.hits...)
}

// mark reads off a call whose it is: its path ends in the tenant and the name, and in the
// step if it is one of a plan's.
func mark(c schemas.HTTPCall) history.Hit {
	at, name := path.Split(c.URL)
	if _, err := strconv.Atoi(name); err == nil {
		step := name
		at, name = path.Split(path.Clean(at))
		name += "/" + step
	}
	return history.Hit{Tenant: path.Base(at), Mark: name, Method: c.Method, Key: c.IdempotencyKey, Sum: sum(string(c.Body)), Whole: true}
}

// cut is why a call was given up.
func cut(ctx context.Context) schemas.Code {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return schemas.UpstreamTimeout
	}
	return schemas.Canceled
}

func reply(status int, body string) *call.Reply {
	return &call.Reply{Answer: schemas.Answer{Status: status, JSON: true, Hash: sum(body), Body: json.RawMessage(body)}}
}

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}
