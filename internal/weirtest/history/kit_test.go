package history_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"weir/internal/weirtest/history"
	"weir/schemas"
)

// What the actions of a run are asked to do.
const (
	get    = "get-1"
	put    = "put-1"
	post   = "post-1"
	keyed  = "keyed-1"
	mocked = "mocked-1"
	denied = "denied-1"
	plan   = "plan-1"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func digest(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// book writes a run as Weir would leave it behind.
type book struct {
	run history.Run
	seq uint64
	n   map[string]int
}

func newBook() *book { return &book{n: map[string]int{}} }

func (b *book) record(subject string, v any) schemas.Record {
	b.seq++
	return schemas.Record{Stream: "S", Subject: subject, Seq: b.seq, Time: epoch.Add(time.Duration(b.seq) * time.Millisecond), Data: encode(v)}
}

func subject(kind schemas.Kind, id string, s schemas.Section) string {
	layout := schemas.Layout{Partitions: 1}
	return layout.Subject(schemas.Ref{Tenant: "t", Kind: kind, ID: id}, s)
}

func (b *book) event(kind schemas.Kind, id string, ev schemas.Event) {
	b.n[id]++
	ev.V, ev.N = 1, b.n[id]
	b.run.Log = append(b.run.Log, b.record(subject(kind, id, schemas.SectionOf(ev.Type)), ev))
}

func (b *book) wake(kind schemas.Kind, id string) {
	r := b.record(subject(kind, id, schemas.SectionWake), nil)
	r.Data = nil
	b.run.Log = append(b.run.Log, r)
}

func (b *book) accept(kind schemas.Kind, id string, class schemas.Class) {
	b.run.Asked = append(b.run.Asked, history.Asked{Tenant: "t", Name: id, Answer: history.Unheard})
	b.event(kind, id, schemas.Event{Type: schemas.EventAccepted, Action: &schemas.Action{
		ID: id, Tenant: "t", Kind: kind, Class: class, Deadline: epoch.Add(time.Minute),
		Payload: encode(map[string]string{"url": "http://127.0.0.1:1/" + id}),
	}})
	b.event(kind, id, schemas.Event{Type: schemas.EventStarted, Started: &schemas.Started{Worker: "w"}})
}

func (b *book) declare(kind schemas.Kind, id string, step, number int, class schemas.Class) {
	b.event(kind, id, schemas.Event{Type: schemas.EventAttempt, Attempt: &schemas.Attempt{Step: step, Number: number, Class: class}})
}

// hear is the upstream's part; status 0: it does not answer.
func (b *book) hear(mark, method string, status int) {
	h := history.Hit{Tenant: "t", Mark: mark, Method: method, Sum: digest("body"), Whole: true, Status: status}
	if mark == keyed {
		h.Key = "k"
	}
	if status != 0 {
		h.Digest = digest("answer of " + mark)
	}
	b.run.Hits = append(b.run.Hits, h)
}

// result is what the worker writes down of an attempt, with its evidence.
func (b *book) result(kind schemas.Kind, id, mark string, step, number, status int) {
	res := schemas.Attempted{Step: step, Number: number, Sent: true, Status: status}
	if status != 0 {
		res.Answer = &schemas.Answer{Status: status, Hash: digest("answer of " + mark)}
	} else {
		res.Code = schemas.Interrupted
	}
	b.event(kind, id, schemas.Event{Type: schemas.EventAttempted, Attempted: &res})
	b.leave(id, fmt.Sprintf("%s.attempt.%d.%d.0", id, step, number))
}

func (b *book) leave(action, id string) {
	e := schemas.Evidence{ID: id, Tenant: "t", ActionID: action, Kind: schemas.EvidenceAttempt}
	b.run.Evidence = append(b.run.Evidence, b.record(schemas.EvidenceSubject(e), e))
}

// settle ends an action, has its client told, and its reader given everything.
func (b *book) settle(kind schemas.Kind, id string, outcome schemas.Outcome, status int) {
	s := schemas.Settled{Outcome: outcome}
	asked := history.Asked{Tenant: "t", Name: id, ID: id, Answer: history.Accepted, Status: http.StatusOK, Outcome: outcome}
	if kind == schemas.KindHTTP && status != 0 {
		hash := digest("answer of " + id)
		s.Result = encode(schemas.HTTPResult{Answer: &schemas.Answer{Status: status, Hash: hash}})
		asked.Digest = hash
	}
	b.event(kind, id, schemas.Event{Type: schemas.EventSettled, Settled: &s})
	b.wake(kind, id)
	b.run.Asked = append(b.run.Asked, asked)
	w := history.Watched{Tenant: "t", ID: id, Ended: true}
	for _, a := range history.Read(b.run.Log) {
		if a.ID == id {
			for _, ev := range a.Events {
				w.IDs = append(w.IDs, ev.Seq)
			}
		}
	}
	b.run.Watched = append(b.run.Watched, w)
}

// clean is a run in which everything that may happen did.
func clean() *book {
	b, one := newBook(), schemas.KindHTTP
	b.accept(one, get, schemas.ClassSafe) // interrupted, and made again
	b.declare(one, get, 0, 1, schemas.ClassSafe)
	b.hear(get, http.MethodGet, 0)
	b.result(one, get, get, 0, 1, 0)
	b.wake(one, get)
	b.declare(one, get, 0, 2, schemas.ClassSafe)
	b.hear(get, http.MethodGet, 200)
	b.result(one, get, get, 0, 2, 200)
	b.settle(one, get, schemas.OutcomeSucceeded, 200)

	b.accept(one, put, schemas.ClassIdempotent) // three times, and given up
	for n := 1; n <= 3; n++ {
		b.declare(one, put, 0, n, schemas.ClassIdempotent)
		b.hear(put, http.MethodPut, 503)
		b.result(one, put, put, 0, n, 503)
	}
	b.settle(one, put, schemas.OutcomeFailed, 503)

	b.accept(one, post, schemas.ClassOnce) // nobody knows
	b.declare(one, post, 0, 1, schemas.ClassOnce)
	b.hear(post, http.MethodPost, 0)
	b.result(one, post, post, 0, 1, 0)
	b.settle(one, post, schemas.OutcomeUnknown, 0)
	b.event(one, post, schemas.Event{Type: schemas.EventResolution, Resolution: &schemas.Resolution{Effect: "applied"}})

	b.accept(one, keyed, schemas.ClassKeyed)
	for n, status := range []int{0, 200} {
		b.declare(one, keyed, 0, n+1, schemas.ClassKeyed)
		b.hear(keyed, http.MethodPost, status)
		b.result(one, keyed, keyed, 0, n+1, status)
	}
	b.settle(one, keyed, schemas.OutcomeSucceeded, 200)

	b.accept(one, mocked, schemas.ClassOnce)
	b.event(one, mocked, schemas.Event{
		Type:      schemas.EventAttempted,
		Attempt:   &schemas.Attempt{Number: 1, Class: schemas.ClassOnce, Decision: schemas.Decision{Traffic: &schemas.Traffic{Mocked: "r"}}},
		Attempted: &schemas.Attempted{Number: 1, Status: 200, Answer: &schemas.Answer{Status: 200, Hash: digest("answer of " + mocked)}},
	})
	b.leave(mocked, mocked+".attempt.0.1.0")
	b.settle(one, mocked, schemas.OutcomeSucceeded, 200)

	b.accept(one, denied, schemas.ClassOnce)
	b.leave(denied, denied+".denial.0.0")
	b.settle(one, denied, schemas.OutcomeDenied, 0)

	b.accept(schemas.KindPlan, plan, "")
	for step, method := range []string{http.MethodPost, http.MethodGet} {
		mark := fmt.Sprintf("%s/%d", plan, step)
		b.declare(schemas.KindPlan, plan, step, 1, schemas.ClassOnce)
		b.hear(mark, method, 200)
		b.result(schemas.KindPlan, plan, mark, step, 1, 200)
	}
	b.leave(plan, plan+".closing")
	b.settle(schemas.KindPlan, plan, schemas.OutcomeSucceeded, 0)
	b.run.Asked = append(b.run.Asked, history.Asked{Tenant: "t", Name: "refused-1", Answer: history.Refused, Status: 429})
	return b
}

// edit changes the events of an action that fn is true for; fn may change them.
func (b *book) edit(id string, fn func(ev *schemas.Event) (keep bool)) {
	var kept []schemas.Record
	for _, r := range b.run.Log {
		ref, _, err := schemas.ParseSubject(r.Subject)
		if err != nil || ref.ID != id || r.Notifies() {
			kept = append(kept, r)
			continue
		}
		var ev schemas.Event
		if err := json.Unmarshal(r.Data, &ev); err != nil {
			panic(err)
		}
		if fn(&ev) {
			r.Data = encode(ev)
			kept = append(kept, r)
		}
	}
	b.run.Log = kept
}

// renumber gives an action's events their ordinals anew, and its readers what is there.
func (b *book) renumber(id string) {
	n := 0
	b.edit(id, func(ev *schemas.Event) bool {
		n++
		ev.N = n
		return true
	})
	b.run.Watched = slices.DeleteFunc(slices.Clone(b.run.Watched), func(w history.Watched) bool { return w.ID == id })
}

// drop takes an action's events of one type off the log.
func (b *book) drop(id string, t schemas.EventType) {
	b.edit(id, func(ev *schemas.Event) bool { return ev.Type != t })
	b.renumber(id)
}

// say changes what the client of an action heard at last.
func (b *book) say(id string, fn func(a *history.Asked)) {
	for i := range b.run.Asked {
		if a := &b.run.Asked[i]; a.Name == id && a.Answer == history.Accepted {
			fn(a)
		}
	}
}

// hits are what the upstream heard of a name.
func (b *book) hits(mark string) []*history.Hit {
	var all []*history.Hit
	for i := range b.run.Hits {
		if b.run.Hits[i].Mark == mark {
			all = append(all, &b.run.Hits[i])
		}
	}
	return all
}

// reopen has more happen to an action before its end.
func (b *book) reopen(id string, more func()) {
	ends := map[string]schemas.Record{}
	b.run.Log = slices.DeleteFunc(slices.Clone(b.run.Log), func(r schemas.Record) bool {
		if r.Subject != subject(schemas.KindHTTP, id, schemas.SectionEvent) || !r.Ends() {
			return false
		}
		ends[id] = r
		return true
	})
	more()
	end := ends[id]
	b.seq++
	end.Seq, end.Time = b.seq, epoch.Add(time.Duration(b.seq)*time.Millisecond)
	b.run.Log = append(b.run.Log, end)
	b.edit(id, func(ev *schemas.Event) bool { return ev.Type != schemas.EventResolution })
	b.renumber(id)
}

// settleAs has an action end another way, and its client told so.
func (b *book) settleAs(id string, outcome schemas.Outcome) {
	b.edit(id, func(ev *schemas.Event) bool {
		if ev.Type == schemas.EventSettled {
			ev.Settled.Outcome = outcome
		}
		return true
	})
	b.say(id, func(a *history.Asked) { a.Outcome = outcome })
}

// forget loses a record of the evidence.
func (b *book) forget(id string) {
	b.run.Evidence = slices.DeleteFunc(slices.Clone(b.run.Evidence), func(r schemas.Record) bool {
		var e schemas.Evidence
		return json.Unmarshal(r.Data, &e) == nil && e.ID == id
	})
}
