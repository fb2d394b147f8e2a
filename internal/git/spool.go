package git

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"weir/internal/limits"
)

const (
	// spoolMemory is how much of a pack is kept in memory, in bytes; a larger one is in a file.
	spoolMemory = 64 << 10
	// spoolChunk is how much of the disk a pack takes at a time.
	spoolChunk = 16 << 20
	// spoolPacks is how many packs of the largest size the files of all may hold together.
	spoolPacks = 16
)

// ErrSpool says that the packs that come in hold as much of the disk as they may.
var ErrSpool = errors.New("packs that come in hold as much of this node's disk as they may")

// Spools keep packs while they come in. They are safe for concurrent use.
type Spools struct {
	dir     string
	maxPack int64
	bytes   *limits.Shares // of their files
	space   func(dir string) (free, all int64, err error)
}

// NewSpools returns spools with files in a directory. TenantShare is as in Config.
func NewSpools(dir string, maxPack int64, tenantShare int) *Spools {
	return &Spools{dir: dir, maxPack: maxPack, bytes: limits.NewShares(limits.Percent(spoolPacks*maxPack, tenantShare)), space: space}
}

// mostReserve is the most that is kept free of the disk of the repositories, in bytes: a twentieth of a smaller one.
const mostReserve = 1 << 30

// roomy returns ErrDiskFull while less than the reserve is free. What has begun by then takes from it: no part of
// the disk is a tenant's own, and repositories grow until pushes of all tenants are refused.
func (s *Spools) roomy() error {
	free, all, err := s.space(s.dir)
	if err == nil && free < min(all/20, mostReserve) {
		err = ErrDiskFull
	}
	return err
}

// Spools are those on the disk of the repositories.
func (g *Git) Spools() *Spools { return g.spools }

// Spool keeps a pack while it comes in, so that its push takes a turn only when all of it is here. A small
// one is in memory, a larger one in a file that is gone with the process. Write and Close may run at once.
type Spool struct {
	spools *Spools
	tenant string

	mu     sync.Mutex
	closed bool
	memory bytes.Buffer
	file   *os.File // once the memory was too small; it has no name any more
	size   int64    // of the file
	room   int64    // its reserved space
	give   []func()
}

// New returns an empty Spool for a push of a tenant's.
func (s *Spools) New(tenant string) *Spool { return &Spool{spools: s, tenant: tenant} }

// Write appends to the pack. ErrDiskFull where the disk is full, ErrSpool where the tenant may have no more of it.
func (s *Spool) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return 0, os.ErrClosed
	case s.file != nil:
		return s.append(p)
	case s.memory.Len()+len(p) <= spoolMemory:
		return s.memory.Write(p)
	}
	f, err := os.CreateTemp(s.spools.dir, "push-")
	if err != nil {
		return 0, roomless(err)
	}
	s.file = f
	if err := os.Remove(f.Name()); err != nil { //nolint:gosec // a name of CreateTemp
		return 0, err
	}
	if _, err := s.append(s.memory.Bytes()); err != nil {
		return 0, err
	}
	s.memory = bytes.Buffer{}
	return s.append(p)
}

// append writes to the file. The caller holds mu.
func (s *Spool) append(p []byte) (int, error) {
	for s.size+int64(len(p)) > s.room {
		if err := s.spools.roomy(); err != nil {
			return 0, err
		}
		n := min(spoolChunk, s.spools.maxPack)
		release, ok := s.spools.bytes.TryAcquire(s.tenant, n)
		if !ok {
			return 0, s.spools.full(s.tenant)
		}
		s.give = append(s.give, release)
		s.room += n
	}
	n, err := s.file.Write(p)
	s.size += int64(n)
	return n, roomless(err)
}

func (s *Spools) full(tenant string) error {
	mebi := func(n int64) float64 { return float64(n) / (1 << 20) }
	d := s.bytes.Division
	return fmt.Errorf("%w: %.1f MiB (%d times git.max_pack), of which one tenant may always have %.1f MiB (limits.tenant_share); this tenant's hold %.1f MiB",
		ErrSpool, mebi(d.Capacity), spoolPacks, mebi(d.Share), mebi(s.bytes.Held(tenant)))
}

// Reader reads the pack from its beginning. Nothing is written any more.
func (s *Spool) Reader() *io.SectionReader {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return io.NewSectionReader(bytes.NewReader(s.memory.Bytes()), 0, int64(s.memory.Len()))
	}
	return io.NewSectionReader(s.file, 0, s.size)
}

// Close gives up the pack. A later Write fails.
func (s *Spool) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.file != nil {
		_ = s.file.Close()
	}
	for _, give := range s.give {
		give()
	}
	s.give = nil
}
