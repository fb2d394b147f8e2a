package sim_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"weir/egress/stream"
	"weir/ingress/accept"
	"weir/internal/fault"
	"weir/internal/policy"
	"weir/internal/weirtest/history"
	"weir/schemas"
)

// enact starts everybody who has to do with an action.
func (w *world) enact(a act) {
	someone := func(what string, after time.Duration, do func(ctx context.Context, d *dice)) {
		d := roll(w.program.seed, a.tenant+"/"+a.name+" "+what)
		w.people.Add(1)
		w.do(func() {
			defer w.people.Done()
			time.Sleep(after + d.within(0, 2*time.Second))
			ctx, cancel := context.WithCancel(with(context.Background(), d))
			defer cancel()
			w.do(func() { // whoever still waits at the end of the run gives up
				select {
				case <-w.over:
					cancel()
				case <-ctx.Done():
				}
			})
			do(ctx, d)
		})
	}
	for i := range a.repeaters {
		someone(fmt.Sprintf("client %d", i), a.at, func(ctx context.Context, d *dice) { w.client(ctx, d, a) })
	}
	for i := range a.watchers {
		someone(fmt.Sprintf("watcher %d", i), a.at, func(ctx context.Context, d *dice) { w.watcher(ctx, d, a) })
	}
	if a.cancel > 0 {
		someone("canceler", a.cancel, func(ctx context.Context, d *dice) { w.canceler(ctx, d, a) })
	}
	if a.conflict {
		someone("stranger", a.at+5*time.Second, func(ctx context.Context, d *dice) { w.stranger(ctx, d, a) })
	}
}

// request is what every client of an action asks for.
func (a act) request() accept.Request {
	kind, doc := schemas.KindHTTP, any(a.call())
	if a.sort == plan {
		kind, doc = schemas.KindPlan, a.plan()
	}
	payload, err := json.Marshal(doc)
	if err != nil {
		panic(err) // it is written here
	}
	id, key := a.name, ""
	if a.keyed {
		id, key = "", a.name
	}
	return accept.Request{
		Name: accept.NameOf(a.tenant, "/v1/execute", id, key), Timeout: a.limit,
		Action: schemas.Action{Tenant: a.tenant, Kind: kind, Class: a.class(), Payload: payload},
	}
}

// ref is the name of the action on the log.
func (a act) ref() schemas.Ref {
	r := a.request()
	return schemas.Ref{Tenant: r.Tenant, Kind: r.Kind, ID: r.Name.ID}
}

func (a act) class() schemas.Class {
	if a.sort == plan {
		return ""
	}
	c := a.call()
	d := permissive().Decide(policy.Request{Method: c.Method, URL: c.URL})
	permit, _ := d.Permit()
	return policy.Class(c.Method, c.IdempotencyKey != "" || permit.DerivesKey(), permit)
}

func (a act) call() schemas.HTTPCall {
	c := schemas.HTTPCall{Method: "POST", URL: "http://up.example/" + a.tenant + "/" + a.name, Body: json.RawMessage(`{"n":"` + a.name + `"}`)}
	switch a.sort {
	case get:
		c.Method, c.Body = "GET", nil
	case put:
		c.Method = "PUT"
	case keyed:
		c.IdempotencyKey = "k-" + a.name
	case mocked, held, derived, probed:
		c.URL = "http://up.example/" + a.sort + "/" + a.tenant + "/" + a.name
	case denied:
		c.URL = "http://elsewhere.example/" + a.tenant + "/" + a.name
	}
	return c
}

// plan has a decision of each class, and one that is denied.
func (a act) plan() schemas.PlanRequest {
	target := func(i int, method, host string) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"method":%q,"url":"http://%s/%s/%s/%d","allowlist_key":"up"}`, method, host, a.tenant, a.name, i))
	}
	return schemas.PlanRequest{Snapshot: json.RawMessage(`{}`), Plan: schemas.ProposedPlan{Decisions: []schemas.PlanDecision{
		{EffectRef: "put", TargetState: target(0, "PUT", "up.example")},
		{EffectRef: "denied", TargetState: target(1, "GET", "elsewhere.example")},
		{EffectRef: "post", TargetState: target(2, "POST", "up.example")},
		{EffectRef: "keyed", TargetState: target(3, "POST", "up.example"), IdempotencyKey: "k-" + a.name},
		{EffectRef: "get", TargetState: target(4, "GET", "up.example")},
	}}}
}

// each has one node after the other do something until try reports that it is done. It is false
// where the run ends before that.
func (w *world) each(ctx context.Context, d *dice, least, most time.Duration, try func(n *node) (done bool)) bool {
	for ctx.Err() == nil {
		if n := w.any(d); n != nil && try(n) {
			return true
		}
		select {
		case <-time.After(d.within(least, most)):
		case <-ctx.Done():
		}
	}
	return false
}

// client asks for an action, at one node after the other, until it knows how it ended.
func (w *world) client(ctx context.Context, d *dice, a act) {
	told := w.each(ctx, d, 100*time.Millisecond, 4*time.Second, func(n *node) bool {
		asked := w.ask(ctx, d, n, a)
		w.mu.Lock()
		w.asked = append(w.asked, asked)
		w.mu.Unlock()
		if asked.Outcome == schemas.OutcomeUnknown && d.chance(.7) {
			w.resolve(ctx, d, a)
		}
		done := asked.Outcome != "" || a.content && asked.Answer == history.Accepted
		if !done && asked.Answer == history.Accepted {
			w.took(clientLeft, a.name)
		}
		return done
	})
	if !told {
		w.breach(history.Violation{Invariant: "I2", Tenant: a.tenant, Subject: a.name, Detail: "a client that went on asking was never told the end"})
	}
}

// resolve is a person who has looked at the target, and says so until it is heard.
func (w *world) resolve(ctx context.Context, d *dice, a act) {
	w.each(ctx, d, 100*time.Millisecond, 3*time.Second, func(n *node) bool {
		_, err := n.control.Resolve(ctx, a.tenant, a.ref().ID, schemas.Resolution{Effect: schemas.EffectApplied})
		return err == nil && !n.isDead()
	})
}

// ask is one request of a client, and what it hears.
func (w *world) ask(ctx context.Context, d *dice, n *node, a act) history.Asked {
	heard := history.Asked{Tenant: a.tenant, Name: a.name, Answer: history.Unheard}
	req, release := w.mutant.request(a.request(), d), func() {}
	req.Before = func(ref schemas.Ref) { release = n.feed.Expect(ref) }
	defer func() { release() }()
	out, err := n.acceptor.Accept(ctx, req)
	if n.isDead() || ctx.Err() != nil {
		return heard
	}
	heard.ID = out.ID
	if err != nil {
		return w.turnedAway(heard, err)
	}
	heard.Answer, heard.Status = history.Accepted, 202
	if out.Receipt.Duplicate {
		w.tally.add(joined, 1)
	}
	if out.Replayed {
		w.tally.add(repaid, 1)
	}
	if a.content {
		return heard
	}
	ctx, cancel := context.WithTimeout(ctx, a.patience)
	defer cancel()
	end, _, err := n.feed.Await(ctx, out.Ref, !out.Receipt.Duplicate, false)
	if n.isDead() || errors.Is(err, stream.ErrClosed) {
		heard.Answer, heard.Status = history.Unheard, 0 // the answer had not begun
		return heard
	}
	if err == nil {
		w.safe(a, out.ID, end.Seq)
		heard.Status, heard.Outcome, heard.Digest = 200, end.Event.Settled.Outcome, shown(end.Event.Settled)
	}
	return heard
}

// turnedAway reads an error as a client does.
func (w *world) turnedAway(heard history.Asked, err error) history.Asked {
	public, ok := errors.AsType[*fault.Error](err)
	if !ok {
		w.breach(history.Violation{Invariant: "I1", Tenant: heard.Tenant, Subject: heard.Name, Detail: "the answer is no error that may be shown: " + err.Error()})
		return heard
	}
	switch public.Code {
	case schemas.InFlight, schemas.Unavailable:
		heard.Status = 409
		return heard // it is there, or may be
	default:
		heard.Answer, heard.Status = history.Refused, 409
		return heard
	}
}

// shown is the digest of the target's answer that an end shows; empty where it shows none.
func shown(s *schemas.Settled) string {
	var doc schemas.HTTPResult
	if json.Unmarshal(s.Result, &doc) != nil || doc.Answer == nil {
		return ""
	}
	return sum(string(doc.Answer.Body))
}

// stranger asks for something else under a name that is in use.
func (w *world) stranger(ctx context.Context, d *dice, a act) {
	w.each(ctx, d, 100*time.Millisecond, 3*time.Second, func(n *node) bool {
		other := a.request()
		other.Payload = json.RawMessage(`{"method":"GET","url":"http://up.example/other"}`)
		if _, err := w.log.Newest(context.Background(), w.stream(a), layout.AnyKind(a.tenant, other.Name.ID)); err != nil {
			return false // it is not in use yet
		}
		_, err := n.acceptor.Accept(ctx, other)
		public, ok := errors.AsType[*fault.Error](err)
		switch {
		case n.isDead() || ctx.Err() != nil, ok && public.Code == schemas.Unavailable:
			return false
		case ok && (public.Code == schemas.Conflict || public.Code == schemas.IdempotencyMismatch):
			w.tally.add(refused, 1)
		default:
			w.breach(history.Violation{Invariant: "I9", Tenant: a.tenant, Subject: a.name, Detail: fmt.Sprintf("another payload was not refused: %v", err)})
		}
		return true
	})
}

func (w *world) stream(a act) string {
	return schemas.LogStream(layout.Partition(a.tenant, a.ref().ID))
}

// canceler asks an action to stop until it hears a word on that.
func (w *world) canceler(ctx context.Context, d *dice, a act) {
	w.each(ctx, d, 200*time.Millisecond, 2*time.Second, func(n *node) bool {
		_, err := n.control.Cancel(ctx, a.tenant, a.ref().ID)
		public, ok := errors.AsType[*fault.Error](err)
		return !n.isDead() && (err == nil || ok && public.Code == schemas.Conflict)
	})
}

// watcher reads an action's events from their beginning to their end, cut off now and then.
func (w *world) watcher(ctx context.Context, d *dice, a act) {
	seen, cuts := history.Watched{Tenant: a.tenant, ID: a.ref().ID}, a.cuts
	defer func() {
		w.mu.Lock()
		w.watched = append(w.watched, seen)
		w.mu.Unlock()
	}()
	at := uint64(0)
	w.each(ctx, d, 10*time.Millisecond, 2*time.Second, func(n *node) bool {
		live, cancel := ctx, func() {}
		if cuts--; cuts >= 0 {
			live, cancel = context.WithTimeout(ctx, d.within(0, 10*time.Second))
			w.tally.add(readerCut, 1)
		}
		defer cancel()
		w.follow(live, n, a, &at, &seen)
		return seen.Ended
	})
}

// follow is one connection of a watcher. What comes from a node that is dead by then did
// not come.
func (w *world) follow(ctx context.Context, n *node, a act, at *uint64, seen *history.Watched) {
	r, err := n.feed.Follow(ctx, a.ref(), w.mutant.position(*at))
	if err != nil {
		if errors.Is(err, fault.ErrGone) || errors.Is(err, stream.ErrBeyond) {
			w.breach(history.Violation{Invariant: "I7", Tenant: a.tenant, Subject: a.name, Detail: fmt.Sprintf("no resuming after %d: %v", *at, err)})
		}
		return
	}
	defer r.Close()
	for {
		items, err := r.Next(ctx, nil)
		if n.isDead() || n.isPaused() {
			return
		}
		for _, it := range items {
			if it.Event.NeedsBarrier() {
				w.safe(a, a.ref().ID, it.Seq)
			}
			*at = it.Seq
			seen.IDs = append(seen.IDs, it.Seq)
		}
		if errors.Is(err, fault.ErrGone) {
			w.breach(history.Violation{Invariant: "I7", Tenant: a.tenant, Subject: a.name, Detail: fmt.Sprintf("the events after %d are said to be gone", *at)})
		}
		if errors.Is(err, io.EOF) {
			seen.Ended = true
		}
		if err != nil {
			return
		}
	}
}
