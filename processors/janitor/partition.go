package janitor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"weir/internal/fault"
)

// position is how far a partition was looked through: the value that is stored.
type position struct {
	// Worker holds the partition for as long as it stores a new revision now and then.
	Worker string `json:"worker"`
	// Seq: every action that was accepted up to there was looked at.
	Seq uint64 `json:"seq"`
	// Open are those of them that had not ended, by their sequence.
	Open []open `json:"open,omitempty"`
	// Anew is of an earlier version: Open lacks actions from there on.
	Anew *open `json:"anew,omitempty"`
}

// open is an action that had not ended, and when to look at it again.
type open struct {
	Seq uint64    `json:"seq"`
	Due time.Time `json:"due"`
}

// partition is what this process knows of one. It belongs to one goroutine.
type partition struct {
	*Janitor
	number int
	key    string // of its position
	stream string

	position
	mine     bool
	revision uint64    // of the place that was seen last
	since    time.Time // when it was first seen: of one's own, when it was saved
	dirty    bool      // the place has changed since it was saved
}

// hold makes the partition ours, or says fault.ErrFenced where it is another's.
func (p *partition) hold(ctx context.Context) error {
	rec, err := p.positions.Get(ctx, p.key)
	if err != nil && !errors.Is(err, fault.ErrNotFound) {
		return err
	}
	if p.mine && rec.Seq == p.revision {
		return nil
	}
	// The former holder has stored something since, or the partition is new.
	if rec.Seq != p.revision || p.since.IsZero() {
		p.mine, p.revision, p.since = false, rec.Seq, time.Now()
	}
	p.position = position{}
	if json.Unmarshal(rec.Data, &p.position) != nil {
		p.position = position{} // nothing that can be read: from the beginning
	}
	if a := p.Anew; a != nil {
		p.Seq, p.Anew = min(p.Seq, a.Seq-1), nil
	}
	fresh := time.Since(p.since) < takeover*p.cfg.Every
	if rec.Seq > 0 && fresh && !p.cfg.Alone && p.Worker != "" && p.Worker != p.cfg.Worker {
		return fault.ErrFenced
	}
	// A log that was made anew is shorter than the place.
	_, last, err := p.log.Bounds(ctx, p.stream)
	if err != nil {
		return err
	}
	if p.Seq > last {
		p.position = position{}
	}
	return p.save(ctx)
}

// save stores the place, and renews the hold by that. Of many open actions it stores the first: the
// next holder walks from the others once more.
func (p *partition) save(ctx context.Context) error {
	p.Worker = p.cfg.Worker
	place := p.position
	if most := p.cfg.Most; len(p.Open) > most {
		place.Seq, place.Open = p.Open[most].Seq-1, p.Open[:most]
	}
	value, err := json.Marshal(place)
	if err != nil {
		return err
	}
	revision, err := p.positions.Put(ctx, p.key, value, p.revision)
	if err != nil {
		p.mine = false // or unknown: the next round reads it back
		return err
	}
	p.mine, p.revision, p.since, p.dirty = true, revision, time.Now(), false
	return nil
}

// renew saves what has changed, and the hold where another might take it over.
func (p *partition) renew(ctx context.Context) error {
	if old := time.Since(p.since) >= p.cfg.Every; old && (p.dirty || !p.cfg.Alone) {
		return p.save(ctx)
	}
	return nil
}

// keep schedules an action for a check when it is due.
func (p *partition) keep(o open) {
	at, known := slices.BinarySearchFunc(p.Open, o, bySeq)
	if !known {
		p.Open = slices.Insert(p.Open, at, o)
	}
	p.Open[at], p.dirty = o, true
}

func (p *partition) forget(o open) {
	if at, known := slices.BinarySearchFunc(p.Open, o, bySeq); known {
		p.Open, p.dirty = slices.Delete(p.Open, at, at+1), true
	}
}

func bySeq(a, b open) int { return cmp.Compare(a.Seq, b.Seq) }
