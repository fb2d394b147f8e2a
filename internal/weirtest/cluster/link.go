package cluster

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// Way is a direction over a link, as whoever dialled it sees it.
type Way int

// The two directions.
const (
	Out Way = iota
	Back
)

// Weather is what a link does to the bytes that it passes on. The zero value does nothing.
type Weather struct {
	// Delay is added to every piece, and up to Jitter more or less. Pieces stay in order,
	// as TCP keeps them.
	Delay, Jitter time.Duration
	// Loss is how many pieces of 1,000 come another 200 ms later, as after TCP has sent
	// them again.
	Loss int
}

const (
	// piece is how much is passed on at a time, and ahead how many pieces are on their way:
	// what is held back beyond that stays with the kernel.
	piece = 32 << 10
	ahead = 256
	// again is how long a lost piece takes.
	again = 200 * time.Millisecond
)

// Link is a TCP port that passes connections on to another one, and does to them what
// networks do. It is safe for concurrent use.
type Link struct {
	to       string
	listener net.Listener
	wg       sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed when what the link does changes
	held    [2]bool
	cut     bool
	closed  bool
	weather Weather
	conns   map[net.Conn]bool
}

// NewLink passes on to an address. It listens on a port of its own.
func NewLink(ctx context.Context, to string) (*Link, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Link{to: to, listener: listener, changed: make(chan struct{}), conns: map[net.Conn]bool{}}
	l.wg.Go(l.accept)
	return l, nil
}

// Addr is where it listens.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Close ends the link and what goes over it.
func (l *Link) Close() {
	l.change(func() { l.closed, l.cut = true, true })
	_ = l.listener.Close()
	l.Break()
	l.wg.Wait()
}

// Cut breaks every connection, and each new one at once, until Heal.
func (l *Link) Cut() {
	l.change(func() { l.cut = true })
	l.Break()
}

// Break ends every connection without a farewell, and returns how many ends they had. New ones may come.
func (l *Link) Break() (ends int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
		delete(l.conns, c)
		ends++
	}
	return ends
}

// Hold lets nothing through that way, and breaks nothing: neither end is told.
func (l *Link) Hold(ways ...Way) {
	l.change(func() {
		for _, w := range ways {
			l.held[w] = true
		}
	})
}

// Set has bytes take longer from now on.
func (l *Link) Set(w Weather) { l.change(func() { l.weather = w }) }

// Heal has it pass everything on, what was held back first.
func (l *Link) Heal() {
	l.change(func() { l.held, l.cut, l.weather = [2]bool{}, false, Weather{} })
}

func (l *Link) change(what func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	what()
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *Link) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		far, err := new(net.Dialer).Dial("tcp4", l.to)
		if err != nil {
			_ = near.Close()
			continue
		}
		l.mu.Lock()
		cut := l.cut
		if !cut {
			l.conns[near], l.conns[far] = true, true
		}
		l.mu.Unlock()
		if cut {
			_, _ = near.Close(), far.Close()
			continue
		}
		over := make(chan struct{})
		end := sync.OnceFunc(func() { l.end(near, far); close(over) })
		l.wg.Go(func() { defer end(); l.pass(far, near, Out, over) })
		l.wg.Go(func() { defer end(); l.pass(near, far, Back, over) })
	}
}

func (l *Link) end(both ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range both {
		_ = c.Close()
		delete(l.conns, c)
	}
}

// parcel is a piece and when it may arrive.
type parcel struct {
	data []byte
	due  time.Time
}

// pass copies one way until either end is gone.
func (l *Link) pass(to io.Writer, from io.Reader, way Way, over <-chan struct{}) {
	parcels := make(chan parcel, ahead)
	l.wg.Go(func() {
		defer close(parcels)
		var last time.Time
		for {
			data := make([]byte, piece)
			n, err := from.Read(data)
			if err != nil {
				return
			}
			if due := time.Now().Add(l.late()); due.After(last) {
				last = due
			}
			select {
			case parcels <- parcel{data[:n], last}:
			case <-over:
				return
			}
		}
	})
	for p := range parcels {
		if !l.await(way, p.due, over) {
			return
		}
		if _, err := to.Write(p.data); err != nil {
			return
		}
	}
}

// late is by how much the next piece is.
func (l *Link) late() time.Duration {
	l.mu.Lock()
	w := l.weather
	l.mu.Unlock()
	d := w.Delay
	if w.Jitter > 0 {
		d += rand.N(2*w.Jitter) - w.Jitter //nolint:gosec // it is weather
	}
	if w.Loss > 0 && rand.IntN(1000) < w.Loss { //nolint:gosec // as above
		d += again
	}
	return max(d, 0)
}

// await blocks until a piece may go; false: there is nobody to have it.
func (l *Link) await(way Way, due time.Time, over <-chan struct{}) bool {
	for {
		l.mu.Lock()
		held, changed, closed := l.held[way], l.changed, l.closed
		l.mu.Unlock()
		left := time.Until(due)
		switch {
		case closed:
			return false
		case !held && left <= 0:
			return true
		}
		var arrives <-chan time.Time
		if !held {
			arrives = time.After(left)
		}
		select {
		case <-changed:
		case <-arrives:
		case <-over:
			return false
		}
	}
}
