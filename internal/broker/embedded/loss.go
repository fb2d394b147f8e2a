package embedded

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/schemas"
)

// wayOut is what an operator can do about a damaged log.
const wayOut = "look at the disk, and restore the data directory from a backup; or start once with --accept-loss to go on without what is gone, " +
	"after which a call whose record is gone may be made a second time when it is asked for again"

// skipped is how far beyond its mark a stream goes on after a loss: beyond what it can have had, so
// that no sequence is given out twice.
const skipped = 1 << 16

// loss is a range of acknowledged records that are gone from a stream.
type loss struct {
	stream string
	span
	// file cannot be read there; empty where something is missing.
	file string
	// inside: records follow the loss.
	inside bool
}

func (l loss) String() string {
	switch {
	case l.file != "":
		return fmt.Sprintf("%s cannot be read behind record %d, in %s, and records up to %d were acknowledged", l.stream, l.From-1, filepath.Base(l.file), l.To)
	case l.inside:
		return fmt.Sprintf("%s lacks records %d to %d, which were acknowledged", l.stream, l.From, l.To)
	case l.From == 1:
		return fmt.Sprintf("%s is missing, and records up to %d were acknowledged", l.stream, l.To)
	}
	return fmt.Sprintf("%s ends at record %d, and records up to %d were acknowledged", l.stream, l.From-1, l.To)
}

func refuseLoss(dir string, all []loss) error {
	var texts []string
	for _, l := range all {
		texts = append(texts, l.String())
	}
	return refuse("the log in %s is damaged: %s: records that were acknowledged are gone: %s", dir, strings.Join(texts, "; "), wayOut)
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
	s.marks = m
	for _, stream := range slices.Sorted(maps.Keys(m.Streams)) {
		all, blocks, err := s.dir.losses(stream, m.Streams[stream], m.Clean)
		switch {
		case err != nil:
			return refuse("the log in %s cannot be read, repair it or restore it from a copy: %w", s.cfg.Dir, err)
		case len(all) > 0 && !s.cfg.AcceptLoss:
			return refuseLoss(s.cfg.Dir, all)
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
		for i := range blocks {
			if quick && i > 0 && i < last-1 {
				continue
			}
			if err := blocks[i].read(stream); err != nil {
				return nil, nil, err
			}
		}
		if all = findLosses(stream, m, blocks); !quick || len(all) == 0 && !blocks[0].damaged {
			return all, blocks, nil
		}
	}
}

// findLosses compares blocks that were read with the mark. A file that is missing in between counts
// where records are never deleted one by one, or hardly: dead letters are.
func findLosses(stream string, m mark, blocks []block) (all []loss) {
	var good uint64
	add := func(l loss) {
		l.stream, l.From, l.To = stream, good+1, min(l.To, m.Last)
		if l.From <= l.To && !slices.Contains(m.Holes, l.span) {
			all = append(all, l)
		}
		good = max(good, l.To)
	}
	for i, b := range blocks {
		switch {
		case i == 0 && m.First > 0 && b.first > m.First:
			good = m.First - 1
			add(loss{span: span{To: b.first - 1}, inside: true})
		case i > 0 && good > 0 && b.index != blocks[i-1].index+1 && b.first > good+1 && stream != schemas.DeadStream:
			add(loss{span: span{To: b.first - 1}, inside: true})
		}
		good = max(good, b.last)
		switch {
		case !b.damaged:
		case i == len(blocks)-1:
			add(loss{span: span{To: m.Last}, file: b.path})
		case blocks[i+1].first > 0:
			add(loss{span: span{To: blocks[i+1].first - 1}, file: b.path, inside: true})
		}
	}
	add(loss{span: span{To: m.Last}})
	return all
}

// skip makes a stream continue after the lost records, which it lists, and after all that may have
// been shown before it was on the disk. If nothing is lost and nothing of the stream is on the disk,
// nothing was shown.
func (s *Server) skip(stream string, all []loss, blocks []block) error {
	m := s.marks.Streams[stream]
	var reached uint64
	for _, b := range blocks {
		reached = max(reached, b.last)
	}
	to := m.Reserved
	if len(all) == 0 && (len(blocks) == 0 || reached >= to) {
		return nil
	}
	for _, l := range all {
		s.lost = append(s.lost, fmt.Sprintf("records %d to %d of %s are lost", l.From, l.To, stream))
		m.Holes = append(m.Holes, l.span)
	}
	s.marks.Streams[stream] = m
	dir := s.dir.msgsDir(stream)
	if len(blocks) == 0 {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return err
		}
		blocks = []block{{path: filepath.Join(dir, "1"+blockEnd), index: 1}}
	}
	newest := &blocks[len(blocks)-1]
	if len(all) > 0 && (newest.damaged || newest.last < m.Last) {
		to = max(to, m.Last+skipped)
	}
	if to > reached {
		if err := newest.skipTo(stream, to, time.Now().UnixNano()); err != nil {
			return err
		}
	}
	// Without its index, the server reads all blocks again and cuts off what it cannot read.
	if err := os.Remove(filepath.Join(dir, indexName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return errors.Join(syncDir(dir), s.dir.write(marksName, s.marks))
}

// compare holds the streams that the server has opened against the marks.
func (s *Server) compare(now map[string]uint64) error {
	var all []loss
	for stream, was := range s.marks.Streams {
		if last := now[stream]; last < was.Last {
			all = append(all, loss{stream: stream, span: span{From: last + 1, To: was.Last}})
		}
	}
	if len(all) > 0 && !s.cfg.AcceptLoss {
		slices.SortFunc(all, func(a, b loss) int { return strings.Compare(a.stream, b.stream) })
		return refuseLoss(s.cfg.Dir, all)
	}
	for _, l := range all {
		s.lost = append(s.lost, fmt.Sprintf("records %d to %d of %s are lost; its sequence begins again behind %d", l.From, l.To, l.stream, l.From-1))
		s.marks.Streams[l.stream] = mark{Last: now[l.stream]}
	}
	if len(all) > 0 && s.cfg.Durability == schemas.DurabilityDisk {
		s.report(s.life, s.dir.write(marksName, s.marks))
	}
	return nil
}

// Lost says, a sentence each, what AcceptLoss has accepted as gone.
func (s *Server) Lost() []string { return s.lost }
