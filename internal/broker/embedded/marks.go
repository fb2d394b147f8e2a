package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"weir/schemas"
)

const (
	marksName    = "weir.marks"
	marksVersion = 1
	// marksEvery is how often the marks are updated while the log grows. A loss of newer records
	// goes unnoticed.
	marksEvery = time.Second
	// ahead is how many sequences of a stream are reserved beyond its mark, until a clean stop: they may
	// be shown without being on the disk. If it gains more between two writes of the marks, its readers
	// wait for barriers.
	ahead = 1 << 17
)

// marks say how far the log is known to reach on the disk: never further than its durability
// promises. A log that is shorter at the next start was damaged.
type marks struct {
	Version int `json:"version"`
	// Clean: written by a stop, after the server's last write.
	Clean   bool            `json:"clean"`
	Streams map[string]mark `json:"streams"`
}

// mark is the known range of one stream. Last never decreases: neither age nor a deletion lowers
// it. A higher First does not prove a loss, because records expire.
type mark struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Reserved is Last+ahead, or 0 after a clean stop: an older program that is started here reads it.
	Reserved uint64 `json:"reserved,omitempty"`
	// Holes are records whose loss was accepted.
	Holes []span `json:"holes,omitempty"`

	shown uint64 // the last sequence that the server shows
}

// span is a range of sequences, both ends in it.
type span struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// readMarks returns none where there is no file, as in a directory that an older version has
// written: nothing can be said of it then.
func (d *dataDir) readMarks() (m marks, err error) {
	raw, err := os.ReadFile(d.file(marksName))
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return marks{}, nil
	case err != nil || m.Version == 0:
		return marks{}, refuse("%s is damaged, so Weir cannot tell whether the log is complete: %s", d.file(marksName), wayOut)
	case m.Version != marksVersion:
		return marks{}, refuse("%s has version %d and this weir reads version %d: run the weir that wrote it, or name another directory",
			d.file(marksName), m.Version, marksVersion)
	}
	return m, nil
}

// unmark withdraws what the marks say of a clean end, because from now on the log changes. With
// durability process they go altogether: until the next clean stop a power cut may make the log
// shorter.
func (s *Server) unmark() error {
	if s.cfg.Durability == schemas.DurabilityProcess {
		return errors.Join(os.RemoveAll(s.dir.file(marksName)), syncDir(s.cfg.Dir))
	}
	m := s.marks.Load()
	if !m.Clean {
		return nil
	}
	m.Clean = false
	return s.dir.write(marksName, m) // the old ones would go on to call it a clean end
}

// reach is what the marks should say now: not to be written before a barrier that began later. A
// stream that the server does not show keeps its mark. Buckets have none: Weir answers for the rest.
func (s *Server) reach() (m marks, err error) {
	account, err := s.ns.JszAccount(&server.JSzOptions{Account: server.DEFAULT_GLOBAL_ACCOUNT, Streams: true})
	if err != nil {
		return m, err
	}
	m = marks{Version: marksVersion, Streams: map[string]mark{}}
	maps.Copy(m.Streams, s.marks.Load().Streams)
	for _, st := range account.Streams {
		if strings.HasPrefix(st.Name, "WEIR_") {
			was := m.Streams[st.Name]
			last := max(was.Last, st.State.LastSeq)
			m.Streams[st.Name] = mark{First: st.State.FirstSeq, Last: last, Reserved: last + ahead, Holes: was.Holes, shown: st.State.LastSeq}
		}
	}
	return m, nil
}

// Opened must be called after the streams exist, and before anything is accepted or delivered. It
// refuses a log that ends before its marks although its files looked intact, and updates the marks
// from then on. A log without marks gets them. Later calls return the result of the first.
func (s *Server) Opened() error { return s.open() }

func (s *Server) opened() error {
	m, err := s.reach()
	if err == nil {
		err = s.compare(m)
	}
	if err == nil && s.cfg.Durability == schemas.DurabilityDisk {
		s.marking.Go(func() { s.keepMarks(s.life) })
	}
	return err
}

// keepMarks brings the marks up to date until ctx ends.
func (s *Server) keepMarks(ctx context.Context) {
	tick := time.NewTicker(marksEvery)
	defer tick.Stop()
	for {
		m, err := s.reach()
		was, grown := s.marks.Load().Streams, false
		for stream, k := range m.Streams {
			grown = grown || k.Last > was[stream].Last
		}
		if grown && s.Barrier(ctx) != nil {
			return // the node stops
		}
		if grown || len(m.Streams) > len(was) {
			err = s.setMarks(m)
		}
		s.report(ctx, err)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *Server) setMarks(m marks) error {
	err := s.dir.write(marksName, m)
	if err == nil {
		s.marks.Store(&m)
	}
	return err
}

// report logs the first of several failures: without fresh marks, damage to what came since goes
// unnoticed, and nothing else is worse.
func (s *Server) report(ctx context.Context, err error) {
	if err != nil && !s.told {
		s.cfg.Logger.WarnContext(ctx, "marks_write_failed")
	}
	s.told = err != nil
}

// Reserved reports whether a record may be shown before a Barrier has covered it: no other record
// gets its sequence later, even if a power cut loses this one, because the marks on the disk reserve
// it and a start after an unclean stop continues after what they reserve. So a reader that resumes
// after a record that was shown misses no replacement. For a record that is not reserved, a Barrier
// gives the same guarantee. Reserved never waits. It is true for all records if Barrier has nothing
// to do.
func (s *Server) Reserved(stream string, seq uint64) bool {
	if s.group == nil {
		return true
	}
	k, known := s.marks.Load().Streams[stream]
	return known && seq <= k.Last+ahead
}

// endMarks writes the marks of a clean stop, after the server's last write is on the disk.
func (s *Server) endMarks(m marks) {
	m.Clean = true
	for stream, k := range m.Streams {
		// The oldest files may have grown too old since the marks were taken. If they cannot be
		// read now, the next start must not compare them.
		first := uint64(0)
		if all, err := s.dir.blocks(stream); err == nil && len(all) > 0 && all[0].read(stream) == nil {
			first = max(k.First, all[0].first)
		}
		m.Streams[stream] = mark{First: first, Last: k.Last, Holes: k.Holes}
	}
	s.report(s.life, s.setMarks(m))
}

// shutdown ends the server and all syncs, and writes down how far the log reached if it ran and all of
// it is on the disk.
func (s *Server) shutdown() {
	if s.ns == nil {
		return
	}
	m, err := s.reach()
	s.ns.Shutdown()
	s.ns.WaitForShutdown()
	switch {
	case s.group != nil:
		last := s.group.begin()
		<-last.done
		err = errors.Join(err, last.err)
	case s.cfg.Durability == schemas.DurabilityProcess:
		err = errors.Join(err, s.cfg.Sync())
	}
	if err == nil {
		s.endMarks(m)
	}
}
