// Package embedded runs the message broker inside the process: a NATS server with one JetStream
// store on the local disk, the data directory that belongs to it, and the group commit that turns
// its acknowledgements into a promise that outlives a power cut.
//
// The server hands every message to the kernel before it acknowledges it, so that killing the
// process loses nothing that was acknowledged. Only what Barrier has waited for also survives the
// loss of the machine's memory.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"weir/internal/fault"
	"weir/schemas"
)

const (
	startTimeout = 10 * time.Second
	// syncInterval is how long the kernel may hold messages without a pending Barrier. The server's
	// own default is two minutes.
	syncInterval = time.Second
)

// Server is a running broker and its data directory. It is safe for concurrent use.
type Server struct {
	cfg       Config
	dir       *dataDir
	ns        *server.Server
	access    access
	consumers *consumerHandler

	// group is nil where Barrier has nothing to do: durability process, or a server that syncs each
	// message itself.
	group  *commit
	failed chan struct{}
	fail   func() // closes failed, once

	reserve int64 // see CheckDisk

	marks   atomic.Pointer[marks] // as they are on the disk; after Opened it points to an unchanging copy
	lost    []string              // the losses accepted at this start
	told    bool                  // that the marks cannot be written
	open    func() error          // see Opened
	marking sync.WaitGroup
	life    context.Context //nolint:containedctx // the server's own, ended by Stop
	end     context.CancelFunc

	unwell  sync.Once // its log line
	stop    sync.Once
	stopErr error
}

// Start takes the data directory and runs the server in this process. It listens on no port unless
// told to. A directory that cannot be used is ErrDataDir with a sentence for the operator.
func Start(cfg Config) (_ *Server, err error) {
	cfg = cfg.withDefaults()
	dir, err := openDataDir(cfg.Dir, cfg.Layout)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, dir: dir, failed: make(chan struct{})}
	s.fail = sync.OnceFunc(func() { close(s.failed) })
	s.marks.Store(new(marks))
	s.open = sync.OnceValue(s.opened)
	s.life, s.end = context.WithCancel(context.Background())
	for _, step := range []func() error{s.limit, s.check, s.run} {
		if err := step(); err != nil {
			return nil, errors.Join(err, s.Stop())
		}
	}
	return s, nil
}

// check reads the log and mends what it may, beside the first sync, which takes about as long.
func (s *Server) check() error {
	var first errgroup.Group
	first.Go(s.prepareSync)
	err := s.verify()
	if err == nil {
		err = s.mend()
	}
	return errors.Join(err, first.Wait()) // both, because the kernel reports a failed sync once
}

// prepareSync chooses what makes an acknowledgement durable: one sync for all callers, or the
// server's own sync of each message if the system has no such call.
func (s *Server) prepareSync() (err error) {
	if s.cfg.Sync == nil {
		s.cfg.Sync = func() error { return syncFS(s.dir.lock) }
		if s.cfg.Durability == schemas.DurabilityDisk {
			err = s.cfg.Sync()
		}
	}
	switch {
	case s.cfg.Durability != schemas.DurabilityDisk, errors.Is(err, errors.ErrUnsupported):
		return nil
	case err != nil:
		return fmt.Errorf("the file system of %s cannot be synced: %w", s.cfg.Dir, err)
	}
	s.group = newCommit(s.cfg.Sync, s.fail)
	return nil
}

const (
	// leastFree is what a start needs: the server writes down what it makes of the streams.
	leastFree = 1 << 20
	// mostReserve bounds the reserve; see CheckDisk.
	mostReserve = 256 << 20
)

// limit refuses a disk that has no room to start on, and sets the wall where none is configured.
// The server would count what is stored already against the disk that is still free, and refuse all
// writes on a disk that is more than half full of its own messages.
func (s *Server) limit() error {
	free, err := s.cfg.Free()
	switch {
	case err != nil:
		return fmt.Errorf("the free space of %s is unknown: %w", s.cfg.Dir, err)
	case free >= 0 && free < leastFree:
		return refuse("the disk of %s is full, with %d bytes free: make room on it, or move the directory to a larger one", s.cfg.Dir, free)
	case s.cfg.MaxBytes == 0 && free > 0:
		s.cfg.MaxBytes = s.dir.stored() + free/4*3
	}
	s.reserve = s.cfg.MaxBytes
	if free >= 0 {
		s.reserve = min(s.reserve, s.dir.stored()+free)
	}
	s.reserve = min(s.reserve/16, mostReserve)
	return nil
}

func (s *Server) run() error {
	opts, err := s.options()
	if err != nil {
		return err
	}
	if s.ns, err = server.NewServer(opts); err != nil {
		return fmt.Errorf("the embedded broker cannot be set up: %w", err)
	}
	s.ns.Start()
	if !s.ns.ReadyForConnections(startTimeout) {
		return errors.New("the embedded broker did not start")
	}
	// With accounts configured the server does not enable the store itself, where it would open
	// several streams at once.
	if acc := s.ns.GlobalAccount(); !acc.JetStreamEnabled() {
		tasks := make(chan func())
		defer close(tasks)
		for range runtime.GOMAXPROCS(0) {
			go func() {
				for open := range tasks {
					open()
				}
			}()
		}
		if err := acc.EnableJetStream(nil, tasks); err != nil {
			return fmt.Errorf("the message store in %s cannot be opened: %w", s.cfg.Dir, err)
		}
	}
	if s.cfg.Listen == "" {
		return nil
	}
	if err := s.access.write(s.dir, s.Addr()); err != nil {
		return err
	}
	s.consumers, err = openConsumerHandler(s)
	return err
}

func (s *Server) options() (*server.Options, error) {
	o := &server.Options{
		ServerName:             "weir",
		DontListen:             true,
		JetStream:              true,
		StoreDir:               s.cfg.Dir,
		JetStreamMaxStore:      s.cfg.MaxBytes,
		MaxPayload:             s.cfg.MaxPayload,
		SyncInterval:           syncInterval,
		SyncAlways:             s.cfg.Durability == schemas.DurabilityDisk && s.group == nil,
		NoSigs:                 true,
		NoLog:                  true,
		DisableJetStreamBanner: true,
	}
	if s.cfg.Listen == "" {
		return o, nil
	}
	host, port, err := address(s.cfg.Listen)
	if err != nil {
		return nil, err
	}
	o.DontListen, o.Host, o.Port = false, host, port
	if port == 0 {
		o.Port = server.RANDOM_PORT
	}
	if s.access, err = openAccess(s.dir); err != nil {
		return nil, err
	}
	return o, s.access.apply(o)
}

// Connect opens an in-memory connection to the server with full rights. Its reply subjects are
// closed to other users. The caller closes it.
func (s *Server) Connect(opts ...nats.Option) (*nats.Conn, error) {
	opts = append(opts, nats.InProcessServer(s.ns), nats.CustomInboxPrefix(ownerInbox))
	if u := s.access.owner; u.User != "" {
		opts = append(opts, nats.UserInfo(u.User, u.Password))
	}
	return nats.Connect("", opts...)
}

// Barrier returns once every message acknowledged before the call would survive a power cut. With
// durability process it returns at once. After a failed sync it fails permanently, as does Failed:
// the node must stop.
func (s *Server) Barrier(ctx context.Context) error {
	if s.group == nil {
		return nil
	}
	return s.group.wait(ctx)
}

// Failed is closed after a failed sync, because messages acknowledged since the last successful one
// may be lost in a power cut; and if the store has stopped, see CheckDisk. The process must end.
func (s *Server) Failed() <-chan struct{} { return s.failed }

// Durability is what Barrier promises.
func (s *Server) Durability() schemas.Durability { return s.cfg.Durability }

// Layout is how the log in the data directory is cut.
func (s *Server) Layout() schemas.Layout { return s.cfg.Layout }

// MaxBytes is the wall in force; 0 where the server chose it itself.
func (s *Server) MaxBytes() int64 { return s.cfg.MaxBytes }

// Addr is where observers and agents connect; empty when no port is open.
func (s *Server) Addr() string {
	if a := s.ns.Addr(); s.cfg.Listen != "" && a != nil {
		return a.String()
	}
	return ""
}

// CheckDisk returns how many bytes may be stored before the disk is down to a reserve, in which
// accepted actions end: a sixteenth of the wall, or of what the disk had room for at the start, and at
// most mostReserve. Only a restart mends a store
// that is not Healthy: Failed is closed then, as soon as the disk has room for the start.
func (s *Server) CheckDisk() (room int64) {
	room = math.MaxInt64 // where the free space is unknown
	if free, err := s.cfg.Free(); err == nil && free >= 0 {
		room = free - s.reserve
	}
	if s.Healthy() == nil {
		return room
	}
	kind := "no_space"
	if room > 0 {
		kind = "write"
		s.fail()
	}
	s.unwell.Do(func() { s.cfg.Logger.ErrorContext(s.life, "log_write_failed", "component", "broker", "err_kind", kind) })
	return min(room, 0)
}

// Healthy says why the store cannot be relied on, or nil. A disk that is full or gone makes the
// server close its store, or refuse all writes to a stream, while its connections live on.
func (s *Server) Healthy() error {
	for _, e := range s.ns.Healthz(&server.HealthzOptions{Details: true}).Errors {
		if strings.Contains(e.Error, "write error") { // others may pass
			return fmt.Errorf("%w: %s", fault.ErrUnavailable, e.Error)
		}
	}
	select {
	case <-s.failed:
		return fmt.Errorf("%w: the data directory could not be synced", fault.ErrUnavailable)
	default:
	}
	if !s.ns.Running() || !s.ns.JetStreamEnabled() {
		return fmt.Errorf("%w: the message store has stopped", fault.ErrUnavailable)
	}
	return nil
}

// Stop ends the server, waits for it, and gives the data directory back. It may be called more than
// once. Connections must be closed by their owners.
func (s *Server) Stop() error {
	s.stop.Do(func() {
		s.end()
		s.marking.Wait()
		if s.consumers != nil {
			s.consumers.Close()
		}
		s.shutdown()
		s.stopErr = s.dir.close()
	})
	return s.stopErr
}
