// Package broker is Weir's log, evidence and queues on NATS JetStream: guarded
// appends and reads by subject, bodies by hash, delayed wake-ups, the live feed
// of what was just stored, and Watermill's publisher and subscriber over it.
// Nothing else in Weir speaks to NATS.
package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/broker/access"
	"weir/internal/broker/embedded"
	"weir/internal/fault"
	"weir/schemas"
)

// Metrics is told of what an operator should see. The methods are called from
// several goroutines and must not block.
type Metrics interface {
	// HeartbeatMissed: a pull for work went silent and was asked anew.
	HeartbeatMissed()
	// Redelivered: a message of this kind came for the second time or more.
	Redelivered(kind schemas.Kind)
	// Barrier: one wait for the group commit ended.
	Barrier(d time.Duration)
	// Overflowed: a message of this kind was moved to an overflow queue.
	Overflowed(kind schemas.Kind)
}

// Config says which server to use and how the log on it is kept. Exactly one
// of Server and URL is set.
type Config struct {
	// Server is the embedded server. Open neither starts nor stops it.
	Server *embedded.Server
	// URL is an external cluster, Creds a file with credentials for it or empty: those of
	// a .creds file, the seed of an nkey, or a user and a password as JSON.
	URL, Creds string
	// TLS is for the connection to a cluster. It may be empty.
	TLS TLS
	// Role is what this process does on a cluster, and so what it may do: see package
	// access. Default: everything that serving takes.
	Role access.Role
	// Layout must be the one the log was made with; required.
	Layout schemas.Layout
	// History is how long records of the log are kept; default 7 days.
	History time.Duration
	// EvidenceHistory is how long evidence and dead letters are kept; default
	// 90 days.
	EvidenceHistory time.Duration
	// MaxBytes is where new actions are refused, while the events of accepted
	// ones are still stored. It counts everything stored, and by polling, so
	// that it is exact to about a second. Default: 15/16 of the embedded
	// server's wall; on a cluster 15/16 of the account's limit, and none where it has none.
	MaxBytes int64
	// TenantShare is the percentage of MaxBytes that one tenant may always use; default 100.
	TenantShare int
	// Replicas is the number of copies on a cluster; default 3. Embedded there is one.
	Replicas int
	// Durability is what Barrier promises. The default is the embedded
	// server's, or replicated, or process with one replica. It does not change what the
	// servers do.
	Durability schemas.Durability
	// Barrier replaces the embedded server's.
	Barrier func(context.Context) error
	// AckWait is how long a message of a worker that died stays away; living
	// workers send heartbeats three times as often. Default DefaultAckWait
	// embedded, else ClusterAckWait.
	AckWait time.Duration
	// AttemptTimeout is how long one publish waits for its acknowledgement,
	// which on a cluster is also how long a change of a stream's leader is
	// felt. Default 400 ms; embedded 5 s, because there the only thing to wait
	// for is the disk, whose syncs hold the stream's lock now and then.
	AttemptTimeout time.Duration
	Logger         *slog.Logger // default: none
	Metrics        Metrics      // default: none
}

// The acknowledgement waits. An embedded log is started with its workers, so that a dead
// one's work waits for them; on a cluster others take it over, and soon.
const (
	DefaultAckWait = 10 * time.Second
	ClusterAckWait = 3 * time.Second
)

const (
	defaultHistory         = 7 * 24 * time.Hour
	defaultEvidenceHistory = 90 * 24 * time.Hour
	defaultAttemptTimeout  = 400 * time.Millisecond
	embeddedAttemptTimeout = 5 * time.Second
	clusterReplicas        = 3
)

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.History, defaultHistory)
	set(&c.EvidenceHistory, defaultEvidenceHistory)
	if c.Server != nil {
		set(&c.AckWait, DefaultAckWait)
		set(&c.AttemptTimeout, embeddedAttemptTimeout)
	}
	set(&c.AckWait, ClusterAckWait)
	set(&c.AttemptTimeout, defaultAttemptTimeout)
	switch {
	case c.Server != nil:
		c.Replicas = 1
	case c.Replicas == 0:
		c.Replicas = clusterReplicas
	}
	if c.Durability == "" {
		switch {
		case c.Server != nil:
			c.Durability = c.Server.Durability()
		case c.Replicas == 1:
			c.Durability = schemas.DurabilityProcess
		default:
			c.Durability = schemas.DurabilityReplicated
		}
	}
	if c.Server != nil && c.Barrier == nil {
		c.Barrier = c.Server.Barrier
	}
	if c.Server != nil && c.MaxBytes == 0 {
		wall := c.Server.MaxBytes()
		c.MaxBytes = wall - wall/16
	}
	if c.TenantShare == 0 {
		c.TenantShare = 100
	}
	if c.Role == "" {
		c.Role = access.Serve
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = noMetrics{}
	}
	return c
}

func (c Config) validate() error {
	switch {
	case (c.Server == nil) == (c.URL == ""):
		return errors.New("broker: configure the embedded server or the url of a cluster, not both")
	case c.Layout.Partitions < 1:
		return fmt.Errorf("broker: %d partitions: there must be at least 1", c.Layout.Partitions)
	case c.Server != nil && c.Server.Layout() != c.Layout:
		return errors.New("broker: the layout is not the one of the data directory")
	case c.History < 0 || c.EvidenceHistory < 0 || c.AckWait < 0 || c.AttemptTimeout < 0 || c.MaxBytes < 0 || c.Replicas < 0:
		return errors.New("broker: a limit is negative")
	}
	return nil
}

type noMetrics struct{}

func (noMetrics) HeartbeatMissed()         {}
func (noMetrics) Redelivered(schemas.Kind) {}
func (noMetrics) Barrier(time.Duration)    {}
func (noMetrics) Overflowed(schemas.Kind)  {}

// Broker is an open log. It is safe for concurrent use and owns its
// connections; publishers and subscribers made from it borrow them.
type Broker struct {
	cfg    Config
	nc     *nats.Conn // for all but appends
	writes *nats.Conn // for appends
	js     jetstream.JetStream
	denials
	granted granted   // on a cluster that says so
	acks    *exchange // acknowledgements of publishes
	reads   *exchange // stored messages, apart so that they hold no acknowledgement up
	usage   usage
	leaders leadership

	life context.Context //nolint:containedctx // the broker's own, ended by Close
	end  context.CancelFunc
	work sync.WaitGroup

	followers atomic.Pointer[[]*live] // those of lives that are in memory

	mu    sync.Mutex
	lives map[*live]struct{}
	close sync.Once
}

// Open connects, makes or checks the streams, queues and buckets, and returns the
// log. A log that was made with another layout is refused. On a cluster what is as it
// should be is left alone, and what is not is made where the user may do that; else the
// error names `weir nats provision`. Of what the role needs to be allowed, the first
// thing that is not is a *DeniedError.
func Open(ctx context.Context, cfg Config) (_ *Broker, err error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	b := newBroker(ctx, cfg)
	defer func() {
		if err != nil {
			b.Close(ctx)
		}
	}()
	if err := b.connect(); err != nil {
		return nil, err
	}
	if err := b.checkAccess(ctx); err != nil {
		return nil, err
	}
	if _, err := b.provision(ctx); err != nil {
		return nil, err
	}
	switch {
	case cfg.Server != nil:
		if err := cfg.Server.Opened(); err != nil {
			return nil, err
		}
	case cfg.Replicas == 1:
		cfg.Logger.WarnContext(ctx, "log has one copy", "component", "broker")
	}
	if err := b.boundUsage(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

func newBroker(ctx context.Context, cfg Config) *Broker {
	b := &Broker{cfg: cfg, lives: make(map[*live]struct{})}
	b.life, b.end = context.WithCancel(context.WithoutCancel(ctx))
	return b
}

// Barrier returns once everything that was appended before the call would
// survive what the durability promises. On a cluster, and with durability
// process, an acknowledgement already says that much.
func (b *Broker) Barrier(ctx context.Context) error {
	if b.cfg.Barrier == nil {
		return nil
	}
	begun := time.Now()
	err := b.cfg.Barrier(ctx)
	b.cfg.Metrics.Barrier(time.Since(begun))
	return err
}

// Reserved reports whether a record may be shown before a Barrier has passed it: its
// sequence will never name another one. On a cluster, and with durability process, an
// acknowledgement already says as much as a Barrier.
func (b *Broker) Reserved(stream string, seq uint64) bool {
	return b.cfg.Server == nil || b.cfg.Server.Reserved(stream, seq)
}

// Durability is what Barrier promises.
func (b *Broker) Durability() schemas.Durability { return b.cfg.Durability }

// Replicas is on how many servers everything lies; 1 embedded.
func (b *Broker) Replicas() int { return b.cfg.Replicas }

// AckWait is how long a message of a worker that died stays away.
func (b *Broker) AckWait() time.Duration { return b.cfg.AckWait }

// Layout is how the log is cut.
func (b *Broker) Layout() schemas.Layout { return b.cfg.Layout }

// Accepting is fault.ErrFull while new actions are refused because so much is
// stored. The events and bodies of accepted ones are stored all the same.
func (b *Broker) Accepting() error {
	if b.usage.full() {
		return fault.ErrFull
	}
	return nil
}

// Close ends the broker and its connection, after what was handed to the
// connection has reached the server or ctx has ended. Subscribers must be
// closed first. It may be called more than once.
func (b *Broker) Close(ctx context.Context) {
	b.close.Do(func() {
		b.end()
		b.work.Wait()
		for _, x := range []*exchange{b.acks, b.reads} {
			if x != nil {
				x.close()
			}
		}
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		for _, nc := range []*nats.Conn{b.writes, b.nc} {
			if nc != nil {
				_ = nc.FlushWithContext(ctx) // a server that is gone loses nothing that was acknowledged
				nc.Close()
			}
		}
	})
}
