package outbound

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/policy"
)

// The bounds of the connections that wait for a request. Where a target closes one just as a request
// leaves, that request may have been read: so none waits for long, and least of all one for a
// request that may not be repeated.
const (
	keepFor        = 90 * time.Second // from when it was dialled, so that changes of DNS take effect
	keepIdle       = 30 * time.Second
	spareIdle      = 3 * time.Second
	keepEach       = 256 // of a key: as many as workers.slots, by default, use at a time
	spareEach      = 4
	keepAltogether = 1024
)

// poolKey identifies calls that may share connections: a tenant's calls of one entry of one policy
// to one target. Some targets identify a caller by its connection.
type poolKey struct {
	tenant, entry, version, scheme, host string

	port uint16
	used bool
}

func keyOf(p *policy.Permit, tenant string, used bool) poolKey {
	return poolKey{tenant, p.Entry(), p.Version(), p.Scheme(), p.Host(), p.Port(), used}
}

// pool has the connections that wait for a request: those that have carried whole exchanges, and
// spares, which have carried nothing.
type pool struct {
	dial func(context.Context, *policy.Permit) (*link, error)

	mu     sync.Mutex
	idle   map[poolKey][]*link // the newest last
	count  int
	asked  map[poolKey]time.Time // when a call last wanted a spare
	coming map[poolKey]int       // spares that are being dialled
	ctx    context.Context       //nolint:containedctx // of the dials of spares
	stop   context.CancelFunc
	closed bool
	epoch  atomic.Int64 // connections dialled before the policy in force are not kept
	dials  sync.WaitGroup
}

func newPool(dial func(context.Context, *policy.Permit) (*link, error)) *pool {
	p := &pool{dial: dial, idle: map[poolKey][]*link{}, asked: map[poolKey]time.Time{}, coming: map[poolKey]int{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// put has a link wait under a key, or closes it where enough do, or another policy is in force.
func (p *pool) put(l *link, k poolKey) {
	l.key, l.used = k, k.used
	most, wait := keepEach, keepIdle
	if !k.used {
		most, wait = spareEach, spareIdle
	}
	wait = min(wait, time.Until(l.born.Add(keepFor)))
	p.mu.Lock()
	fits := canPeek && !p.closed && l.epoch == p.epoch.Load() && wait > 0 && p.count < keepAltogether && len(p.idle[k]) < most
	if fits {
		p.idle[k] = append(p.idle[k], l)
		p.count++
		l.expiry = time.AfterFunc(wait, func() {
			p.mu.Lock()
			p.shut([]*link{l})
		})
	}
	p.mu.Unlock()
	if !fits {
		l.shut()
	}
}

// get returns a link that is ready for a request, or nil.
func (p *pool) get(k poolKey, permit *policy.Permit) *link {
	for {
		p.mu.Lock()
		all := p.idle[k]
		if len(all) == 0 {
			p.mu.Unlock()
			return nil
		}
		l := all[len(all)-1]
		p.remove(l)
		p.mu.Unlock()
		if l.quiet() == nil && permit.CheckAddrs(l.addrs) == nil {
			return l
		}
		l.shut()
	}
}

// remove takes a link out, and reports whether it was in. The caller holds mu.
func (p *pool) remove(l *link) bool {
	all := p.idle[l.key]
	i := slices.Index(all, l)
	if i < 0 {
		return false
	}
	if p.idle[l.key] = slices.Delete(all, i, i+1); len(all) == 1 {
		delete(p.idle, l.key)
	}
	p.count--
	l.expiry.Stop()
	return true
}

// dialAhead notes that a call wants a spare, and dials one for the next call where calls follow each
// other.
func (p *pool) dialAhead(k poolKey, permit *policy.Permit) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	busy := now.Sub(p.asked[k]) < spareIdle
	if len(p.asked) >= keepAltogether {
		clear(p.asked) // most of them are old
	}
	p.asked[k] = now
	if p.closed || !busy || len(p.idle[k])+p.coming[k] >= spareEach {
		return
	}
	p.coming[k]++
	ctx := p.ctx
	p.dials.Go(func() {
		l, err := p.dial(ctx, permit)
		p.mu.Lock()
		if p.coming[k]--; p.coming[k] == 0 {
			delete(p.coming, k)
		}
		p.mu.Unlock()
		if err == nil {
			p.put(l, k)
		}
	})
}

// drop closes those that wait under a key: one of them was lost as it was used, and the others are
// as old.
func (p *pool) drop(k poolKey) {
	p.mu.Lock()
	all := slices.Clone(p.idle[k])
	p.shut(all)
}

// clear closes all that wait, and has none wait that was dialled until now; with end, none at all.
func (p *pool) clear(end bool) {
	p.mu.Lock()
	all := slices.Concat(slices.Collect(maps.Values(p.idle))...)
	p.stop()
	p.epoch.Add(1)
	if p.closed = p.closed || end; !end {
		p.ctx, p.stop = context.WithCancel(context.Background())
	}
	p.shut(all)
	if end {
		p.dials.Wait()
	}
}

// shut closes those of the links that wait, and lets go of mu, which the caller holds.
func (p *pool) shut(all []*link) {
	all = slices.DeleteFunc(all, func(l *link) bool { return !p.remove(l) })
	p.mu.Unlock()
	for _, l := range all {
		l.shut()
	}
}
