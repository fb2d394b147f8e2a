package sim_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

// port is a node's way to the log, with everything that goes wrong on it. It keeps the
// broker's contract: an append that is not acknowledged in time is fault.ErrUnavailable,
// stored or not, and a copy of it may still be on its way.
type port struct {
	n *node
	w *world
}

// travel is the time that a message takes. A read that is nobody's in particular takes
// none, so that it does not matter in which order a goroutine of the house does such things.
func (p *port) travel(d *dice) {
	if d != nil {
		time.Sleep(d.within(20*time.Microsecond, 4*time.Millisecond))
	}
}

// or is an actor's dice, or such as hang on what is done and when.
func (p *port) or(d *dice, what string) *dice {
	if d != nil {
		return d
	}
	return roll(p.w.program.seed, fmt.Sprintf("%s %s %d", p.n.name, what, time.Since(p.w.start)))
}

// Append is the broker's.
func (p *port) Append(ctx context.Context, m schemas.Append) (uint64, error) {
	if ctx.Err() != nil {
		return 0, fmt.Errorf("%w: %w", fault.ErrUnavailable, ctx.Err())
	}
	d, who := p.or(of(ctx), m.Subject), p.n.name+" "+brief(m.Subject)
	if _, err := p.n.held(d); err != nil {
		return 0, err
	}
	odds := p.w.odds()
	p.travel(d)
	if d.chance(odds.died) {
		p.w.took(diedBefore, who)
		p.n.die(d.within(0, 8*time.Second))
		return 0, errDead
	}
	if d.chance(odds.appendLost) {
		p.w.took(appendLost, who)
		return 0, p.silence()
	}
	if d.chance(odds.copyLate) {
		p.late(m, d.within(time.Millisecond, 3*time.Second), who)
		return 0, p.silence()
	}
	if strings.Contains(string(m.Data), `"type":"attempt"`) {
		p.w.revoke(d, odds)
	}
	if d.chance(odds.frozen) {
		p.n.freeze(d)
	}
	if _, err := p.n.held(d); err != nil {
		return 0, err
	}
	seq, err := p.store(m)
	switch {
	case errors.Is(err, fault.ErrFenced) && superseded(ctx):
		p.w.took(staleFenced, who)
	case err == nil:
		p.wrote(m, who)
	}
	if d.chance(odds.died) {
		p.w.took(diedAfter, who)
		p.n.die(d.within(0, 8*time.Second))
		return 0, errDead
	}
	if d.chance(odds.ackLost) {
		p.w.took(ackLost, who)
		return 0, p.silence()
	}
	p.travel(d)
	if _, dead := p.n.held(d); dead != nil {
		return 0, dead
	}
	return seq, err
}

// store is the append as it reaches the log.
func (p *port) store(m schemas.Append) (uint64, error) {
	id, marked := strings.CutPrefix(m.Guard, idMark)
	if marked && p.w.repeated(m.Subject, id) {
		return 1, nil
	}
	return p.w.log.Append(context.Background(), p.w.mutant.append(m))
}

// wrote notes who has the answer of a call, and whether another ends its action.
func (p *port) wrote(m schemas.Append, who string) {
	ref, _, err := schemas.ParseSubject(m.Subject)
	if err != nil {
		return
	}
	p.w.mu.Lock()
	had, answered := p.w.answered[ref]
	result := !m.Ends() && strings.Contains(string(m.Data), `"type":"attempted"`)
	if result {
		p.w.answered[ref] = p.n.name
	}
	p.w.mu.Unlock()
	if result && p.n.ctx.Err() != nil {
		p.w.took(drained, who)
	}
	if m.Ends() && answered && had != p.n.name {
		p.w.took(logResumed, who)
	}
}

// silence is what a writer has who hears nothing.
func (p *port) silence() error {
	time.Sleep(attemptTimeout)
	if p.n.isDead() {
		return errDead
	}
	return fmt.Errorf("%w: no acknowledgement", fault.ErrUnavailable)
}

// late has a message arrive when its writer may have given it up.
func (p *port) late(m schemas.Append, after time.Duration, who string) {
	p.w.do(func() {
		time.Sleep(after)
		if after > attemptTimeout {
			p.w.took(copyLate, who)
		}
		_, _ = p.store(m) // nobody listens
	})
}

// read runs one read, perhaps at a replica that is late.
func (p *port) read(ctx context.Context, what string, do func() error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", fault.ErrUnavailable, ctx.Err())
	}
	own := of(ctx)
	d, odds := p.or(own, what), p.w.odds()
	if _, err := p.n.held(d); err != nil {
		return err
	}
	p.travel(own)
	if d.chance(odds.readLost) {
		return fmt.Errorf("%w: no answer", fault.ErrUnavailable)
	}
	late := 0
	if d.chance(odds.replica) {
		late = 1 + d.below(6)
		p.w.tally.add(replicaLate, 1)
	}
	p.w.reading.Lock()
	p.w.lateBy = late
	err := do()
	p.w.lateBy = 0
	p.w.reading.Unlock()
	if _, dead := p.n.held(d); dead != nil {
		return dead
	}
	return err
}

// Last is the broker's, as are the other reads.
func (p *port) Last(ctx context.Context, name, filter string) (r schemas.Record, err error) {
	err = p.read(ctx, filter, func() (err error) { r, err = p.w.log.Last(context.Background(), name, filter); return err })
	return r, err
}

func (p *port) Newest(ctx context.Context, name, filter string) (r schemas.Record, err error) {
	err = p.read(ctx, filter, func() (err error) { r, err = p.w.log.Newest(context.Background(), name, filter); return err })
	return r, err
}

func (p *port) Next(ctx context.Context, name, filter string, from uint64) (r schemas.Record, err error) {
	err = p.read(ctx, filter, func() (err error) { r, err = p.w.log.Next(context.Background(), name, filter, from); return err })
	return r, err
}

func (p *port) Page(ctx context.Context, name, filter string, from uint64, limit, size int) (r []schemas.Record, more bool, err error) {
	err = p.read(ctx, filter, func() (err error) {
		r, more, err = p.w.log.Page(context.Background(), name, filter, from, limit, size)
		return err
	})
	return r, more, err
}

func (p *port) Bounds(ctx context.Context, name string) (first, last uint64, err error) {
	err = p.read(ctx, name, func() (err error) { first, last, err = p.w.log.Bounds(context.Background(), name); return err })
	return first, last, err
}

func (p *port) PutBlob(context.Context, string, []byte) (string, error) {
	panic("nothing here is large")
}

func (p *port) GetBlob(context.Context, string) ([]byte, error) { panic("nothing here is large") }

// Accepting says that there is always room.
func (p *port) Accepting() error { return nil }

// Barrier waits for a device that keeps everything, and notes what it is known to have.
func (p *port) Barrier(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	has := map[string]uint64{}
	for i := range layout.Partitions {
		name := schemas.LogStream(i)
		_, has[name], _ = p.w.log.Bounds(context.Background(), name) // it is in memory
	}
	d := p.or(of(ctx), "barrier")
	p.travel(d)
	if _, err := p.n.held(d); err != nil {
		return err
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	for name, seq := range has {
		p.w.synced[name] = max(p.w.synced[name], seq)
	}
	return nil
}

// Wake plans a wake-up; that is an append like any other.
func (p *port) Wake(ctx context.Context, ref schemas.Ref, at time.Time) error {
	d, odds, who := p.or(of(ctx), "wake"), p.w.odds(), p.n.name+" wake-up of "+ref.ID
	if _, err := p.n.held(d); err != nil {
		return err
	}
	p.travel(d)
	if d.chance(odds.appendLost) {
		p.w.took(appendLost, who)
		return p.silence()
	}
	if p.w.mutant == neverWakes {
		return nil
	}
	if err := p.w.log.Wake(context.Background(), ref, at); err != nil {
		return err
	}
	if st := p.w.state(ref); st != nil && st.Open() != nil && st.Open().Worker != p.n.name {
		p.w.took(logInFlight, who)
	}
	if d.chance(odds.ackLost) {
		p.w.took(ackLost, who)
		return p.silence()
	}
	_, err := p.n.held(d)
	return err
}

// Live is the subscription of the node's feed, of which records may be missed.
func (p *port) Live(subject string, fn func(schemas.Record), lost func()) (func(), error) {
	p.n.mu.Lock()
	p.n.lost = append(p.n.lost, lost)
	p.n.mu.Unlock()
	return p.w.log.Live(subject, func(r schemas.Record) {
		if p.n.isDead() || p.n.isPaused() {
			return // what a paused node missed it is told of when it goes on
		}
		d := roll(p.w.program.seed, fmt.Sprintf("live %s %s %d", p.n.name, r.Stream, r.Seq))
		if d.chance(p.w.odds().live) {
			p.w.tally.add(liveMissed, 1)
			return
		}
		fn(r)
	}, lost)
}

// brief names an append for a person: the action and what is written of it.
func brief(subject string) string {
	if ref, section, err := schemas.ParseSubject(subject); err == nil {
		return ref.ID + "." + string(section)
	}
	return subject[strings.LastIndexByte(subject, '.')+1:]
}

// Send is the broker's, of evidence and dead letters: what it hears nothing of it sends again under
// the same id, which the stream knows again for a while.
func (p *port) Send(ctx context.Context, subject, id string, data []byte) (wait func() error, err error) {
	for until := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if !p.w.mutant.loses(subject, id) {
			_, err = p.Append(ctx, schemas.Append{Subject: subject, Data: data, Guard: idMark + p.w.mutant.id(id)})
		}
		if !errors.Is(err, fault.ErrUnavailable) || time.Now().After(until) || ctx.Err() != nil {
			return func() error { return nil }, err
		}
	}
}

// idMark begins the guard of an append that is none: it holds the message's id.
const idMark = "id:"

// repeated reports whether the window knows a record, and has it know it from now on.
func (w *world) repeated(subject, id string) bool {
	root, _, _ := strings.Cut(strings.TrimPrefix(subject, "weir."), ".")
	w.mu.Lock()
	defer w.mu.Unlock()
	at, known := w.ids[root+id]
	if known && time.Since(at) < window {
		return true
	}
	w.ids[root+id] = time.Now()
	return false
}
