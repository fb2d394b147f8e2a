package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// consumerStates are the files that say how far each consumer is, below a data directory.
const consumerStates = storeName + "/*/streams/*/obs/*/o.dat"

// mend removes unreadable consumer states, and logs their number. The server writes these files
// without a sync, so a power cut can leave one filled with zeros. The server would then silently
// skip the consumer and refuse to create it again. A consumer without a state starts at the first
// record; its repeated deliveries are recognised as done from the log.
func (s *Server) mend() error {
	names, err := fs.Glob(os.DirFS(s.cfg.Dir), consumerStates) // the directory's name is no pattern
	removed := 0
	for _, name := range names {
		path := s.dir.file(filepath.FromSlash(name))
		data, gone := os.ReadFile(path)
		if errors.Is(gone, fs.ErrNotExist) || readable(data) {
			continue
		}
		if err = os.Remove(path); err != nil {
			err = refuse("%s is damaged and cannot be removed: remove it; the log holds its content as well: %w", path, err)
			break
		}
		removed++
	}
	if removed > 0 {
		s.cfg.Logger.WarnContext(s.life, "consumers_restarted", "count", removed)
	}
	return err
}

// The head of a consumer's state.
const (
	stateMagic   = 22
	stateVersion = 2
)

// readable reports whether a consumer's state is intact. The state holds the acknowledgement floor
// and the delivered position, each by consumer and by stream; the pending messages, each once and
// above the floor; and the redelivery counts. It has no checksum.
func readable(data []byte) bool {
	if len(data) == 0 {
		return true // the server takes it for none
	}
	if len(data) < 2 || data[0] != stateMagic || data[1] != stateVersion {
		return false
	}
	r := bytes.NewReader(data[2:])
	short := false
	next := func() uint64 {
		v, err := binary.ReadUvarint(r)
		short = short || err != nil
		return v
	}
	_, floor, _, delivered := next(), next(), next(), next()
	if n := next(); n > 0 {
		next()
		seen := map[uint64]bool{}
		for ; n > 0 && !short; n-- {
			above := next()
			next()
			next()
			if above == 0 || floor+above > delivered || seen[above] {
				return false
			}
			seen[above] = true
		}
	}
	for n := next(); n > 0 && !short; n-- {
		next()
		if next() == 0 {
			return false
		}
	}
	return !short && r.Len() == 0 && floor <= delivered
}
