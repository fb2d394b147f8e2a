// Package broker is Weir's log, evidence and queues on NATS JetStream: guarded appends, reads by
// subject, bodies by hash, delayed wake-ups, a live feed of newly stored messages, and Watermill's
// subscriber. No other package of Weir uses NATS.
package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"weir/internal/broker/access"
	"weir/internal/broker/embedded"
	"weir/internal/fault"
	"weir/schemas"
)

// Metrics counts events that operators should see. The methods are called from several goroutines
// and must not block.
type Metrics interface {
	// HeartbeatMissed: a pull for work was silent and was sent again.
	HeartbeatMissed()
	// Redelivered: a message of this kind was delivered again.
	Redelivered(kind schemas.Kind)
	// Barrier: one wait for the group commit ended.
	Barrier(d time.Duration)
	// Overflowed: a message of this kind was moved to an overflow queue.
	Overflowed(kind schemas.Kind)
}

// Config configures the server and the log on it. Set either Server or URL.
type Config struct {
	// Server is the embedded server. Open neither starts nor stops it.
	Server *embedded.Server
	// URL is an external cluster. Creds is a file with credentials, or empty: a .creds file, the
	// seed of an nkey, or a user and a password as JSON.
	URL, Creds string
	// TLS configures the connection to a cluster. It may be empty.
	TLS TLS
	// Role is this process's role on a cluster; see package access. Default: access.Serve.
	Role access.Role
	// Layout must be the one that a cluster's log was created with. An embedded server has its own.
	Layout schemas.Layout
	// History is how long records of the log are stored; default 7 days.
	History time.Duration
	// MaxBytes is the size at which new actions are refused; events of accepted actions are still
	// stored. It counts everything stored, and by polling, so it is exact to about a second.
	// Default: 15/16 of the embedded server's wall; on a cluster 15/16 of the account's limit, and
	// unlimited without one.
	MaxBytes int64
	// TenantShare is the percentage of MaxBytes that is reserved for each tenant; default 100.
	TenantShare int
	// Replicas is the number of copies on a cluster; default 3. An embedded server has one.
	Replicas int
	// Durability is the promise of Barrier. Default: the embedded server's, or replicated, or
	// process with one replica. It does not configure the servers.
	Durability schemas.Durability
	// AckWait is when the message of a dead worker is delivered again. Live workers send a
	// heartbeat three times as often. Default DefaultAckWait with an embedded server, else
	// ClusterAckWait.
	AckWait time.Duration
	// AttemptTimeout is the timeout of one publish. On a cluster it is also the delay when a
	// stream's leader changes. Default 400 ms; with an embedded server 5 s, because that only waits
	// for the disk, whose syncs sometimes hold the stream's lock.
	AttemptTimeout time.Duration
	Logger         *slog.Logger // default: none
	Metrics        Metrics      // default: none
}

// The acknowledgement waits. An embedded log starts with its workers, so a dead worker's messages
// wait for the restart; on a cluster other workers take over soon.
const (
	DefaultAckWait = 10 * time.Second
	ClusterAckWait = 3 * time.Second
)

const (
	defaultHistory = 7 * 24 * time.Hour
	// evidenceHistory is how long evidence and dead letters are stored.
	evidenceHistory        = 90 * 24 * time.Hour
	defaultAttemptTimeout  = 400 * time.Millisecond
	embeddedAttemptTimeout = 5 * time.Second
	clusterReplicas        = 3
)

func (c Config) withDefaults() Config {
	own, attempt, ack := schemas.DurabilityReplicated, defaultAttemptTimeout, ClusterAckWait
	switch {
	case c.Server != nil:
		own, attempt, ack = c.Server.Durability(), embeddedAttemptTimeout, DefaultAckWait
		c.Replicas, c.Layout = 1, c.Server.Layout()
		c.MaxBytes = cmp.Or(c.MaxBytes, c.Server.MaxBytes()-c.Server.MaxBytes()/16)
	case c.Replicas == 1:
		own = schemas.DurabilityProcess
	}
	c.Replicas = cmp.Or(c.Replicas, clusterReplicas)
	c.Durability = cmp.Or(c.Durability, own)
	c.History = cmp.Or(c.History, defaultHistory)
	c.AckWait = cmp.Or(c.AckWait, ack)
	c.AttemptTimeout = cmp.Or(c.AttemptTimeout, attempt)
	c.TenantShare = cmp.Or(c.TenantShare, 100)
	c.Role = cmp.Or(c.Role, access.Serve)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.Metrics = cmp.Or(c.Metrics, Metrics(noMetrics{}))
	return c
}

type noMetrics struct{}

func (noMetrics) HeartbeatMissed()         {}
func (noMetrics) Redelivered(schemas.Kind) {}
func (noMetrics) Barrier(time.Duration)    {}
func (noMetrics) Overflowed(schemas.Kind)  {}

// Broker is an open log. It is safe for concurrent use and owns its connections; subscribers
// made from it borrow them.
type Broker struct {
	cfg     Config
	nc      *nats.Conn // for all but appends
	writes  *nats.Conn // for appends
	js      jetstream.JetStream
	asking  atomic.Pointer[context.CancelCauseFunc] // see asked
	granted *granted                                // nil: everything, or the servers do not say
	acks    *exchange                               // acknowledgements of publishes
	reads   *exchange                               // stored messages, apart so that they hold no acknowledgement up
	usage   usage
	leaders struct { // the last result of haveLeaders
		sync.Mutex
		at  time.Time
		err error
	}

	life context.Context //nolint:containedctx // the broker's own, ended by Close
	end  context.CancelFunc
	work sync.WaitGroup

	mu    sync.Mutex
	lives []*live
	early map[string]*feed // by stream: the queue that takes new actions when they are stored
	close sync.Once
}

// Open connects, creates or checks the streams, queues and buckets, and returns the log. It refuses
// a log with another layout. On a cluster it leaves what is correct alone, and creates or updates
// the rest if the user may; otherwise the error names `weir nats provision`. If the user lacks a
// permission that the role needs, the error is a *DeniedError with the first one.
func Open(ctx context.Context, cfg Config) (*Broker, error) {
	return start(ctx, cfg, func(b *Broker) error {
		if _, err := b.provision(ctx); err != nil {
			return err
		}
		if b.cfg.Server != nil {
			if err := b.cfg.Server.Opened(); err != nil {
				return err
			}
		}
		err := b.boundUsage(ctx)
		if err == nil && b.cfg.Server == nil && b.cfg.Replicas == 1 {
			b.cfg.Logger.WarnContext(ctx, "log_unreplicated", "component", "broker")
		}
		return err
	})
}

// start connects, checks this user's permissions, and goes on with then.
func start(ctx context.Context, cfg Config, then func(*Broker) error) (*Broker, error) {
	if (cfg.Server == nil) == (cfg.URL == "") {
		return nil, errors.New("broker: configure the embedded server or the url of a cluster, not both")
	}
	cfg = cfg.withDefaults()
	b := &Broker{early: map[string]*feed{}, cfg: cfg, acks: newExchange(), reads: newExchange()}
	b.acks.acked = b.acked
	b.life, b.end = context.WithCancel(context.WithoutCancel(ctx))
	err := b.connect()
	if err == nil {
		err = b.checkAccess(ctx)
	}
	if err == nil {
		err = then(b)
	}
	if err != nil {
		b.Close(ctx)
		return nil, err
	}
	return b, nil
}

// Barrier returns once every record that was appended before the call has the promised durability.
// On a cluster, and with durability process, acknowledged records already have it.
func (b *Broker) Barrier(ctx context.Context) error {
	if b.cfg.Server == nil {
		return nil
	}
	begun := time.Now()
	err := b.cfg.Server.Barrier(ctx)
	b.cfg.Metrics.Barrier(time.Since(begun))
	return err
}

// Reserved reports whether a record may be shown before a Barrier, because its sequence will never
// belong to another record. On a cluster, and with durability process, that holds for every
// acknowledged record.
func (b *Broker) Reserved(stream string, seq uint64) bool {
	return b.cfg.Server == nil || b.cfg.Server.Reserved(stream, seq)
}

// Durability is what Barrier promises.
func (b *Broker) Durability() schemas.Durability { return b.cfg.Durability }

// AckWait is when a message of a dead worker is delivered again.
func (b *Broker) AckWait() time.Duration { return b.cfg.AckWait }

// Accepting returns fault.ErrFull while new actions are refused because the log is full. Events and
// bodies of accepted actions are still stored.
func (b *Broker) Accepting() error {
	if b.usage.full() {
		return fault.ErrFull
	}
	return nil
}

// Close ends the broker and its connections, after sent messages have reached the server or ctx has
// ended. Close subscribers first. It is safe to call Close twice.
func (b *Broker) Close(ctx context.Context) {
	b.close.Do(func() {
		b.end()
		b.work.Wait()
		b.acks.close()
		b.reads.close()
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		for _, nc := range []*nats.Conn{b.writes, b.nc} {
			if nc != nil {
				_ = nc.FlushWithContext(ctx) // acknowledged messages are stored anyway
				nc.Close()
			}
		}
	})
}

// leaderWait is how long the result of haveLeaders is reused: a node may be probed often.
const leaderWait = time.Second

// Ready reports whether a write would reach the log. It makes a round trip to the server, checks
// the store and the disk of an embedded one, and on a cluster whether each partition has a leader,
// as of a second ago at most.
func (b *Broker) Ready(ctx context.Context) error {
	if b.cfg.Server != nil {
		if err := b.cfg.Server.Healthy(); err != nil {
			return err
		}
	} else if !b.nc.IsConnected() || !b.writes.IsConnected() { // a flush would wait for the connection
		return fmt.Errorf("%w: no connection", fault.ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err := errors.Join(wrap(b.nc.FlushWithContext(ctx)), wrap(b.writes.FlushWithContext(ctx)))
	if err != nil || b.cfg.Server != nil {
		return err
	}
	return b.haveLeaders(ctx)
}

// haveLeaders sends a request to the leader of each partition, all at once.
func (b *Broker) haveLeaders(ctx context.Context) error {
	b.leaders.Lock()
	defer b.leaders.Unlock()
	if time.Since(b.leaders.at) < leaderWait {
		return b.leaders.err
	}
	var asked errgroup.Group
	for p := range b.cfg.Layout.Partitions {
		asked.Go(func() error {
			s, err := b.js.Stream(ctx, schemas.LogStream(p))
			if err == nil {
				if c := s.CachedInfo().Cluster; c == nil || c.Leader != "" {
					return nil
				}
				err = fmt.Errorf("%w: no leader", fault.ErrUnavailable)
			}
			return fmt.Errorf("stream %s: %w", schemas.LogStream(p), wrap(err))
		})
	}
	err := asked.Wait()
	b.leaders.at, b.leaders.err = time.Now(), err
	return err
}
