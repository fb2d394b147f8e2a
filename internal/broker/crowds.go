package broker

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

const (
	// crowdTick is how often queues are looked at: which has too much of one tenant.
	crowdTick = 250 * time.Millisecond
	// crowdReview is how often a crowd is looked at: whether it has been worked off.
	crowdReview = time.Second
	// crowdPoll is how often the record is read without being told of a change.
	crowdPoll = 5 * time.Second
	// crowdForgotten is when the server drops the consumer of a crowd that nobody asks
	// for work: one that was left behind would be counted as waiting work. That of a crowd
	// is made again from the record by the next worker.
	crowdForgotten = time.Minute
)

// crowds follows the record of one partition and does what it asks for: each node on its
// own, and all the same.
type crowds struct {
	s      *Subscriber
	stream string
	key    string
	bucket *Bucket

	known atomic.Pointer[crowdTable] // the newest that was seen
	kick  chan struct{}

	mu     sync.Mutex
	queues map[string]*feed // by their consumer
	// The rest is keep's own.
	branches map[string]*feed  // of each crowd that is known, by the crowd's name
	ends     map[string]uint64 // the stream's end when a crowd's end was first seen
	read     time.Time         // when the record was read last
	reviewed time.Time         // when the crowds were looked at last
	unwatch  func()

	serving atomic.Int64 // the branches' number
}

func (s *Subscriber) newCrowds(stream string) *crowds {
	return &crowds{
		s: s, stream: stream, key: strings.TrimPrefix(stream, schemas.LogStreamPrefix),
		bucket: s.b.bucket(schemas.CrowdBucket, crowdLive), kick: make(chan struct{}, 1),
		queues: make(map[string]*feed), branches: make(map[string]*feed), ends: make(map[string]uint64),
	}
}

// may reports whether a message of a queue may be a crowd's: then the record is asked.
func (k *crowds) may(queue string, r schemas.Record) bool {
	return k.known.Load().has(queue, r.Subject, r.Seq)
}

// fresh reads the record as it is now.
func (k *crowds) fresh(ctx context.Context) (*crowdTable, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	r, err := k.bucket.Get(ctx, k.key)
	if err != nil && !errors.Is(err, fault.ErrNotFound) {
		return nil, err
	}
	t, err := readCrowds(r)
	if err != nil {
		return nil, err
	}
	for {
		old := k.known.Load()
		if old != nil && old.rev >= t.rev || k.known.CompareAndSwap(old, &t) {
			return &t, nil
		}
	}
}

// change writes the record anew, as it was read just now. fault.ErrFenced: another node was
// first, and its word counts.
func (k *crowds) change(ctx context.Context, edit func(crowdTable) (crowdTable, error)) error {
	t, err := k.fresh(ctx)
	if err != nil {
		return err
	}
	next, err := edit(*t)
	if err != nil {
		return err
	}
	data, err := json.Marshal(next)
	if err != nil {
		return err
	}
	next.rev, err = k.bucket.Put(ctx, k.key, data, t.rev)
	if err != nil {
		return err
	}
	if old := k.known.Load(); old == nil || old.rev < next.rev {
		k.known.CompareAndSwap(old, &next)
	}
	k.hurry()
	return nil
}

func (k *crowds) hurry() {
	select {
	case k.kick <- struct{}{}:
	default:
	}
}

// add has a queue looked after.
func (k *crowds) add(f *feed) {
	k.mu.Lock()
	k.queues[f.durable] = f
	k.mu.Unlock()
	k.hurry()
}

// watched is the queue's feeds that are open.
func (k *crowds) watched() []*feed {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]*feed, 0, len(k.queues))
	for _, f := range k.queues {
		select {
		case <-f.ended:
		default:
			all = append(all, f)
		}
	}
	return all
}

// start reads the record and begins to follow it. Where it cannot be read yet it is later.
func (k *crowds) start(ctx context.Context) {
	stop, err := k.bucket.Watch(func(r schemas.Record) {
		if r.Subject == k.key {
			k.hurry()
		}
	}, k.hurry)
	if err == nil {
		k.unwatch = stop
	}
	k.refresh(ctx)
}

// keep follows the record until the subscriber closes.
func (k *crowds) keep(ctx context.Context, closed <-chan struct{}) {
	tick := time.NewTicker(crowdTick)
	defer tick.Stop()
	defer func() {
		if k.unwatch != nil {
			k.unwatch()
		}
	}()
	for {
		select {
		case <-tick.C:
			if time.Since(k.read) > crowdPoll {
				k.refresh(ctx)
			}
		case <-k.kick:
			k.refresh(ctx)
		case <-closed:
			return
		case <-ctx.Done():
			return
		}
		k.serve(ctx)
		if time.Since(k.reviewed) >= crowdReview {
			k.reviewed = time.Now()
			k.review(ctx)
		}
		for _, f := range k.watched() {
			k.look(ctx, f)
		}
	}
}

func (k *crowds) refresh(ctx context.Context) {
	k.read = time.Now()
	_, _ = k.fresh(ctx) // what cannot be read now is read soon
}

// name tells a crowd from every other.
func (c crowd) name() string {
	return c.Queue + "." + c.Tenant + "." + strconv.FormatUint(c.From, 10) + "." + strconv.Itoa(c.Slot)
}

// serve opens the feeds of the crowds that there are, and ends those of the others.
func (k *crowds) serve(ctx context.Context) {
	t := k.known.Load()
	if t == nil {
		return
	}
	there := make(map[string]bool, len(t.Crowds))
	for _, f := range k.watched() {
		for _, c := range t.Crowds {
			if c.Queue != f.durable {
				continue
			}
			there[c.name()] = true
			if k.branches[c.name()] != nil {
				continue
			}
			one, err := f.branch(ctx, c)
			if err != nil {
				f.warn("crowd_missing") // and try at the next tick
				continue
			}
			k.branches[c.name()] = one
		}
	}
	for name, one := range k.branches {
		if !there[name] {
			one.leave()
			delete(k.branches, name)
			delete(k.ends, name)
		}
	}
	k.serving.Store(int64(len(k.branches)))
	k.s.tellCrowds()
}
