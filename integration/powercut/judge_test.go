//go:build nightly

package powercut_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"

	"weir/internal/broker"
	"weir/internal/broker/embedded"
	"weir/internal/weirtest/history"
	"weir/schemas"
)

// stored is what the log and the evidence hold of one action.
type stored struct {
	seqs                                  []uint64 // of its events
	accepted, settled, attempts, evidence int
	outcome                               schemas.Outcome
	digests                               map[string]bool // of the answers that its attempts got
	last                                  string          // of the last one
}

// book is the log of a data directory, read while no program runs on it.
type book struct {
	actions map[string]*stored
	events  map[uint64]schemas.Record // by sequence
	half    []string                  // what cannot be read
}

// open reads a copy of a data directory.
func open(ctx context.Context, data, copied string) (*book, error) {
	if out, err := exec.CommandContext(ctx, "cp", "-a", data, copied).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	layout := schemas.Layout{Partitions: 1}
	server, err := embedded.Start(embedded.Config{Dir: copied, Layout: layout, Durability: schemas.DurabilityProcess})
	if err != nil {
		return nil, err
	}
	defer func() { _ = server.Stop() }()
	b, err := broker.Open(ctx, broker.Config{Server: server, Layout: layout})
	if err != nil {
		return nil, err
	}
	defer b.Close(ctx)
	k := &book{actions: map[string]*stored{}, events: map[uint64]schemas.Record{}}
	if err := k.each(ctx, b, schemas.LogStream(0), schemas.LogRoot+".>", k.event); err != nil {
		return nil, err
	}
	return k, k.each(ctx, b, schemas.EvidenceStream, schemas.EvidenceRoot+".>", k.record)
}

func (k *book) each(ctx context.Context, b *broker.Broker, stream, filter string, take func(schemas.Record)) error {
	const many = 1000
	for from := uint64(1); ; {
		page, err := b.Range(ctx, stream, filter, from, many)
		if err != nil {
			return err
		}
		for _, r := range page {
			take(r)
			from = r.Seq + 1
		}
		if len(page) == 0 {
			return nil
		}
	}
}

func (k *book) event(r schemas.Record) {
	ref, _, err := schemas.ParseSubject(r.Subject)
	if err != nil {
		k.half = append(k.half, fmt.Sprintf("record %d: %v", r.Seq, err))
		return
	}
	if r.Notifies() {
		return
	}
	var e schemas.Event
	if err := json.Unmarshal(r.Data, &e); err != nil {
		k.half = append(k.half, fmt.Sprintf("record %d: %v", r.Seq, err))
		return
	}
	k.events[r.Seq] = r
	a := k.of(ref.ID)
	a.seqs = append(a.seqs, r.Seq)
	switch e.Type {
	case schemas.EventAccepted:
		a.accepted++
	case schemas.EventAttempt:
		a.attempts++
	case schemas.EventSettled:
		a.settled++
		a.outcome = e.Settled.Outcome
	default:
	}
	if e.Attempted != nil && e.Attempted.Answer != nil { // attempted or settled
		a.last = e.Attempted.Answer.Hash
		a.digests[a.last] = true
	}
}

func (k *book) record(r schemas.Record) {
	var e schemas.Evidence
	if err := json.Unmarshal(r.Data, &e); err != nil {
		k.half = append(k.half, fmt.Sprintf("evidence %d: %v", r.Seq, err))
		return
	}
	k.of(e.ActionID).evidence++
}

func (k *book) of(id string) *stored {
	if k.actions[id] == nil {
		k.actions[id] = &stored{digests: map[string]bool{}}
	}
	return k.actions[id]
}

// judge holds what clients were told and what the upstream received against the log. It
// returns a sentence for each thing that was promised and is not there.
func (k *book) judge(c *crowd) []string {
	broken := append([]string(nil), k.half...)
	say := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	for _, t := range c.told {
		if t.Answer != history.Accepted {
			continue
		}
		a := k.of(t.ID)
		switch {
		case a.accepted == 0:
			say("I1 %s was accepted before cut %d and is not on the log", t.ID, t.cut+1)
		case t.Outcome == "":
		case a.outcome != t.Outcome:
			say("I5 %s was told to have %s before cut %d and has %q", t.ID, t.Outcome, t.cut+1, a.outcome)
		case t.Digest != "" && t.Digest != a.last:
			say("I5 %s was answered before cut %d with what the log has no more", t.ID, t.cut+1)
		case a.evidence == 0:
			say("I6 %s has ended before cut %d and left no evidence", t.ID, t.cut+1)
		}
	}
	for _, s := range c.shown {
		if why := k.shows(s); why != "" {
			say("I7 %s event %d (%s), shown before cut %d: %s", s.id, s.Seq, s.Type, s.cut+1, why)
		}
	}
	broken = append(broken, twice(c.shown)...)
	for id, r := range c.readings {
		broken = append(broken, k.read(id, r)...)
	}
	for id, a := range k.actions {
		if a.accepted != 1 || a.settled != 1 {
			say("I2 %s has %d accepted and %d settled records", id, a.accepted, a.settled)
		}
	}
	return append(broken, k.sent(c.target.ledger())...)
}

// shows says why an event is not what a watcher was shown, or nothing.
func (k *book) shows(s shown) string {
	r, have := k.events[s.Seq]
	switch {
	case !have && !s.Type.NeedsBarrier():
		return "" // shown before it was on the disk, and in the place of nothing
	case !have:
		return "it is not on the log"
	}
	var e schemas.Event
	ref, _, err := schemas.ParseSubject(r.Subject)
	if err != nil || json.Unmarshal(r.Data, &e) != nil || ref.ID != s.id || e.N != s.N || e.Type != s.Type || !e.Time.Equal(s.Time) {
		return "there is another one in its place, of " + ref.ID
	}
	return ""
}

// gone counts the events that were shown and are not on the log.
func (k *book) gone(all []shown) (n int) {
	for _, s := range all {
		if _, have := k.events[s.Seq]; !have {
			n++
		}
	}
	return n
}

// twice finds sequences that were shown with one event, and then with another.
func twice(all []shown) (broken []string) {
	first := map[uint64]shown{}
	for _, s := range all {
		f, before := first[s.Seq]
		switch {
		case !before:
			first[s.Seq] = s
		case f.id != s.id || f.N != s.N || f.Type != s.Type || !f.Time.Equal(s.Time):
			broken = append(broken, fmt.Sprintf("I7 sequence %d was event %d of %s before cut %d and is event %d of %s before cut %d",
				s.Seq, f.N, f.id, f.cut+1, s.N, s.id, s.cut+1))
		}
	}
	return broken
}

// read judges a reader that went on behind each cut: in order, and with all that is
// on the log.
func (k *book) read(id string, r *reading) (broken []string) {
	got := map[uint64]bool{}
	for i, seq := range r.seqs {
		got[seq] = true
		if i > 0 && seq <= r.seqs[i-1] {
			broken = append(broken, fmt.Sprintf("I7 %s: a reader got event %d behind %d", id, seq, r.seqs[i-1]))
		}
	}
	if !r.ended {
		broken = append(broken, fmt.Sprintf("I7 %s: a reader did not come to the end from %d on", id, r.place()))
		return broken
	}
	for _, seq := range k.of(id).seqs {
		if !got[seq] {
			broken = append(broken, fmt.Sprintf("I7 %s: a reader that resumed never got event %d", id, seq))
		}
	}
	return broken
}

// sent judges what the upstream received. A call of class safe may be made before its
// attempt is on the device, and so once more for each cut.
func (k *book) sent(hits []history.Hit) (broken []string) {
	counts := map[string]int{}
	method := map[string]string{}
	for _, h := range hits {
		counts[h.Mark]++
		method[h.Mark] = h.Method
	}
	for id, n := range counts {
		a := k.of(id)
		switch m := method[id]; {
		case m == http.MethodPost && n > 1:
			broken = append(broken, fmt.Sprintf("I3 %s is a POST and was sent %d times", id, n))
		case m != http.MethodGet && n > a.attempts:
			broken = append(broken, fmt.Sprintf("I4 %s was sent %d times, by %d attempts on the log", id, n, a.attempts))
		}
	}
	return broken
}

// kinds counts sentences by the invariant that they begin with.
func kinds(broken []string) map[string]int {
	n := map[string]int{}
	for _, b := range broken {
		kind, _, _ := strings.Cut(b, " ")
		n[kind]++
	}
	return n
}
