//go:build e2e || nightly

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/weirtest/history"
	"weir/internal/weirtest/poll"
	"weir/internal/weirtest/stored"
	"weir/schemas"
)

// log reads what is stored, past every fault.
type log struct {
	*stored.Log
	layout schemas.Layout

	from      map[string]uint64 // where the part begins that is judged next
	consumers int               // how many there are when nothing is wrong
	ackWait   time.Duration
}

// answered is how long an answer of the servers may take. A request that is lost on the way
// to one that is cut off gets none, and a scene has minutes.
const answered = 10 * time.Second

func openLog(url string, layout schemas.Layout) (*log, error) {
	l, err := stored.Open(url)
	return &log{Log: l, layout: layout, from: map[string]uint64{}}, err
}

func (l *log) partitions() []string {
	var names []string
	for p := range l.layout.Partitions {
		names = append(names, schemas.LogStream(p))
	}
	return names
}

// begin has what is judged next begin here, and counts the consumers where nobody has.
func (l *log) begin(ctx context.Context) error {
	for _, name := range append(l.partitions(), schemas.EvidenceStream) {
		s, err := l.JS.Stream(ctx, name)
		if err != nil {
			return fmt.Errorf("stream %s: %w", name, err)
		}
		l.from[name] = s.CachedInfo().State.LastSeq + 1
	}
	if l.consumers > 0 {
		return nil
	}
	return l.queues(ctx, func(_ string, info *jetstream.ConsumerInfo) error {
		l.consumers++
		l.ackWait = max(l.ackWait, info.Config.AckWait)
		return nil
	})
}

// queues goes through the durable consumers of the log.
func (l *log) queues(ctx context.Context, each func(stream string, info *jetstream.ConsumerInfo) error) error {
	return l.Queues(ctx, l.partitions(), each)
}

// backlog is what waits for a worker or an acknowledgement, and how many consumers there
// are more than at the beginning.
func (l *log) backlog(ctx context.Context) (waits uint64, more int, err error) {
	ctx, cancel := context.WithTimeout(ctx, answered)
	defer cancel()
	waits, more, err = l.Waiting(ctx, l.partitions())
	return waits, more - l.consumers, err
}

// drained waits until nothing waits any more.
func (l *log) drained(ctx context.Context) (left history.Left, err error) {
	ctx, cancel := context.WithTimeout(ctx, long(time.Minute, 3*time.Minute))
	defer cancel()
	for {
		waits, more, err := l.backlog(ctx)
		if err == nil && waits == 0 && more == 0 {
			return history.Left{}, nil
		}
		if wait := poll.Rest(ctx, 100*time.Millisecond); wait != nil {
			if err == nil || errors.Is(err, context.DeadlineExceeded) {
				return history.Left{Backlog: waits, Consumers: more}, nil
			}
			return history.Left{}, errors.Join(wait, err)
		}
	}
}

// count is how many messages a stream has had.
func (l *log) count(ctx context.Context, stream string) (uint64, error) {
	s, err := l.JS.Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	return s.CachedInfo().State.LastSeq, nil
}

// ended is fill once each action has its end: one that a dead worker had called for may wait without
// a message until that call's time is over. It does not wait for longer than drained does.
func (l *log) ended(ctx context.Context, run *history.Run) error {
	most, cancel := context.WithTimeout(ctx, long(time.Minute, 3*time.Minute))
	defer cancel()
	for {
		run.Log = nil
		if err := l.fill(ctx, run); err != nil {
			return err
		}
		open := slices.ContainsFunc(history.Read(run.Log), func(a *history.Action) bool { return a.Accepted() != nil && a.Settled() == nil })
		if !open || poll.Rest(most, time.Second) != nil {
			return nil
		}
	}
}

// fill reads what was stored since begin.
func (l *log) fill(ctx context.Context, run *history.Run) error {
	for _, name := range l.partitions() {
		records, err := l.Read(ctx, name, l.from[name])
		if err != nil {
			return err
		}
		run.Log = append(run.Log, records...)
	}
	var err error
	run.Evidence, err = l.Read(ctx, schemas.EvidenceStream, l.from[schemas.EvidenceStream])
	return err
}

// again has every queue given out once more from where the judged part begins: what a
// server does whose consumers' places were lost.
func (l *log) again(ctx context.Context) (queues int, err error) {
	err = l.queues(ctx, func(stream string, info *jetstream.ConsumerInfo) error {
		_, err := l.JS.ResetConsumerToSequence(ctx, stream, info.Name, l.from[stream])
		if err == nil {
			queues++
		}
		return err
	})
	return queues, err
}

// stepDown has a group choose another leader; one that has none does it by itself.
func (l *log) stepDown(ctx context.Context, group string) error {
	ctx, cancel := context.WithTimeout(ctx, answered)
	defer cancel()
	if _, err := l.Conn.RequestWithContext(ctx, "$JS.API."+group, nil); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", group, err)
	}
	return nil
}
