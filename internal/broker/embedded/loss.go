package embedded

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"weir/schemas"
)

// wayOut is what an operator can do about a damaged log.
const wayOut = "look at the disk, and restore the data directory from a backup; or start once with --accept-loss to go on without what is gone, " +
	"after which a call whose record is gone may be made a second time when it is asked for again"

// loss is a range of acknowledged records that are gone from a stream.
type loss struct {
	stream string
	span
	// file cannot be read there; empty where something is missing.
	file string
}

func (l loss) String() string {
	text := fmt.Sprintf("%s lacks records %d to %d, which were acknowledged", l.stream, l.From, l.To)
	if l.file != "" {
		text += " (" + filepath.Base(l.file) + " cannot be read)"
	}
	return text
}

// accept lists losses as accepted, with what follows from them, or refuses the log.
func (s *Server) accept(all []loss, then string) error {
	var texts []string
	for _, l := range all {
		texts = append(texts, l.String())
		s.lost = append(s.lost, fmt.Sprintf("records %d to %d of %s are lost%s", l.From, l.To, l.stream, then))
	}
	if len(all) == 0 || s.cfg.AcceptLoss {
		return nil
	}
	return refuse("the log in %s is damaged: %s: records that were acknowledged are gone: %s", s.cfg.Dir, strings.Join(texts, "; "), wayOut)
}

// verify compares the files of the log with its marks before the server opens them. The server
// silently truncates a file at the first record that it cannot read. If verify refuses, it changes
// nothing. After a clean stop it reads only the newest files; otherwise all of them, as the server
// then does.
func (s *Server) verify() error {
	m, err := s.dir.readMarks()
	if err != nil && !s.cfg.AcceptLoss {
		return err
	}
	if err != nil {
		s.lost = append(s.lost, "the log was not checked: its marks cannot be read")
	}
	s.marks.Store(&m)
	for _, stream := range slices.Sorted(maps.Keys(m.Streams)) {
		all, blocks, err := s.dir.losses(stream, m.Streams[stream], m.Clean)
		if err != nil {
			return refuse("the log in %s cannot be read, repair it or restore it from a copy: %w", s.cfg.Dir, err)
		}
		if err := s.accept(all, ""); err != nil {
			return err
		}
		if err := s.skip(stream, all, blocks); err != nil {
			return refuse("the log in %s cannot be mended, repair the disk first: %w", s.cfg.Dir, err)
		}
	}
	return s.unmark()
}

// losses finds what is gone of a stream up to its mark. After a clean stop, and while that finds
// nothing, it leaves out the files between the oldest and the newest two.
func (d *dataDir) losses(stream string, m mark, clean bool) (all []loss, blocks []block, err error) {
	if blocks, err = d.blocks(stream); err != nil {
		return nil, nil, err
	}
	if !clean {
		m.First = 0 // the oldest files may have gone with age
	}
	last := len(blocks) - 1
	for quick := clean && last > 0 && int(blocks[last].index-blocks[0].index) == last && d.indexed(stream); ; quick = false {
		var reads errgroup.Group
		reads.SetLimit(runtime.GOMAXPROCS(0))
		for i := range blocks {
			if !quick || i == 0 || i >= last-1 {
				reads.Go(func() error { return blocks[i].read(stream) })
			}
		}
		if err := reads.Wait(); err != nil {
			return nil, nil, err
		}
		if all = findLosses(stream, m, blocks); !quick || len(all) == 0 {
			return all, blocks, nil
		}
	}
}

// findLosses compares blocks with the mark; those that were not read are not compared. A file that
// is missing in between counts where records are never deleted one by one, or hardly: dead letters
// are.
func findLosses(stream string, m mark, blocks []block) (all []loss) {
	var good uint64 // up to here, nothing more is gone
	file := ""      // cannot be read from there on
	for i, b := range append(slices.Clip(blocks), block{first: m.Last + 1}) {
		end := i == len(blocks)
		gap := end || file != ""
		switch {
		case end:
		case i == 0 && m.First > 0 && b.first > m.First:
			good, gap = m.First-1, true
		case i > 0 && good > 0 && b.index != blocks[i-1].index+1 && stream != schemas.DeadStream: //nolint:gosec // i is at most len(blocks)
			gap = true
		}
		if gap && b.first > 0 {
			gone := span{From: good + 1, To: min(b.first-1, m.Last)}
			if gone.From <= gone.To && !slices.Contains(m.Holes, gone) {
				all = append(all, loss{stream: stream, span: gone, file: file})
			}
			file = ""
		}
		good = max(good, b.last)
		if b.damaged {
			file = b.path
		}
	}
	return all
}

// skip makes a stream continue after the lost records, which it writes down, and after all that may
// have been shown before it was on the disk: of a new stream not even the first file may be there.
func (s *Server) skip(stream string, all []loss, blocks []block) error {
	m := s.marks.Load()
	k := m.Streams[stream]
	reached, to := uint64(0), k.Last
	if !m.Clean {
		to += ahead
	}
	for _, b := range blocks {
		reached = max(reached, b.last)
	}
	if len(all) == 0 && reached >= to {
		return nil
	}
	for _, l := range all {
		k.Holes = append(k.Holes, l.span)
	}
	m.Streams[stream] = k
	dir := s.dir.msgsDir(stream)
	if len(blocks) == 0 {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return err
		}
		blocks = []block{{path: filepath.Join(dir, "1"+blockEnd), index: 1}}
	}
	if to > reached {
		if err := blocks[len(blocks)-1].skipTo(stream, to, time.Now().UnixNano()); err != nil {
			return err
		}
	}
	// Without its index, the server reads all blocks again and cuts off what it cannot read.
	if err := os.RemoveAll(filepath.Join(dir, indexName)); err != nil {
		return err
	}
	return errors.Join(syncDir(dir), s.dir.write(marksName, m))
}

// compare holds the streams that the server has opened against the marks.
func (s *Server) compare(m marks) error {
	var all []loss
	for _, stream := range slices.Sorted(maps.Keys(m.Streams)) {
		if k := m.Streams[stream]; k.shown < k.Last {
			all = append(all, loss{stream: stream, span: span{From: k.shown + 1, To: k.Last}})
		}
	}
	err := s.accept(all, "; their sequences are given out again")
	for i := 0; err == nil && i < len(all); i++ {
		delete(s.marks.Load().Streams, all[i].stream)
	}
	return err
}

// Lost says, a sentence each, what AcceptLoss has accepted as gone.
func (s *Server) Lost() []string { return s.lost }
