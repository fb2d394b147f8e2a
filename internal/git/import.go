package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/internal/gitwire"
	"weir/schemas"
)

// Source asks a git server for everything that a repository is imported from, and calls take once with
// the default branch, the refs, and the answer to gitwire.RequestPack for them.
type Source func(ctx context.Context, take func(branch string, refs []gitwire.Ref, answer io.Reader) error) error

// Import creates a repository from what a source has, and returns its default branch. If the
// repository exists, it stays unchanged and the source is not asked. Git itself has no network.
// ErrNoRef: the default branch does not exist. ErrFull: the source exceeds the size limit of a repository.
// Nothing remains of a repository that is not imported.
// tell is called many times a second while the pack arrives, by one goroutine at a time, and never after
// Import has returned.
//
// An import takes one import slot; each tenant has few.
func (g *Git) Import(ctx context.Context, tenant, id string, from Source, tell func(schemas.RepoProgress)) (defaultBranch string, err error) {
	s, err := g.wait(ctx, tenant, g.cfg.Timeout, g.slots.imports, g.slots.writes)
	if err != nil {
		return "", err
	}
	defer s.end()
	s, err = s.make(id, func(s session) error {
		var failed error // of take
		err := from(s.ctx, func(branch string, refs []gitwire.Ref, answer io.Reader) error {
			failed = s.receiveAll(branch, refs, answer, tell)
			return failed
		})
		if cause := context.Cause(s.ctx); err != nil && cause != nil && !errors.Is(failed, cause) && !errors.Is(failed, ErrFull) {
			err = fmt.Errorf("the import: %w", cause) // which is why the source failed
		}
		return err
	})
	if err != nil {
		return "", err
	}
	ref, err := s.head()
	return strings.TrimPrefix(ref, schemas.RefOf("")), err
}

// receiveAll fills an empty repository. Nothing is synced on the way, as all of it is before the repository is there.
func (s session) receiveAll(branch string, refs []gitwire.Ref, answer io.Reader, tell func(schemas.RepoProgress)) error {
	var one sync.Mutex // the server and git say how far they are at the same time
	onLine := func(line string) {
		if p, ok := progressOf(line); ok {
			one.Lock()
			defer one.Unlock()
			tell(p)
		}
	}
	pack, err := gitwire.ReadPackAnswer(&paced{Reader: answer, roomy: s.spools.roomy}, func(said []byte) {
		for line := range strings.FieldsFuncSeq(string(said), func(r rune) bool { return r == '\r' || r == '\n' }) {
			onLine("remote: " + line)
		}
	})
	if err != nil {
		return err
	}
	unsynced := []setting{{"core.fsync", "none"}}
	err = s.run(job{
		args: []string{"index-pack", "--stdin", "-v", "--strict=" + strings.Join(harmless(), "=ignore,") + "=ignore"},
		in:   &source{Reader: pack}, settings: unsynced, file: s.cfg.MaxRepo, onLine: onLine, sole: true,
	})
	if n, _ := s.size(); n >= s.cfg.MaxRepo {
		return ErrFull
	}
	var updates strings.Builder
	for _, r := range refs {
		fmt.Fprintf(&updates, "create %s %s\n", r.Name, r.Oid)
	}
	if err == nil {
		err = s.run(job{args: []string{"update-ref", "--stdin"}, in: text(updates.String()), settings: unsynced})
	}
	if err == nil {
		err = s.run(job{args: []string{"pack-refs", "--all"}, settings: unsynced})
	}
	if err == nil {
		_, err = s.tip(schemas.RefOf(branch))
	}
	if err != nil {
		return err
	}
	return s.setHead(schemas.RefOf(branch))
}

// percent is how git says how far it is, or has the other side say it.
var percent = regexp.MustCompile(`^(remote: )?(Counting|Compressing|Receiving|Resolving) (?:objects|deltas): +[0-9]{1,3}% \(([0-9]{1,10})/([0-9]{1,10})\)`)

// phases are what git calls them. One that the other side says is not to be taken for one of this side's.
func phases() map[string]schemas.RepoPhase {
	return map[string]schemas.RepoPhase{
		"remote: Counting": schemas.RepoCounting, "remote: Compressing": schemas.RepoCompressing,
		"Receiving": schemas.RepoReceiving, "Resolving": schemas.RepoResolving,
	}
}

// progressOf reads a line of what git says.
func progressOf(line string) (p schemas.RepoProgress, ok bool) {
	m := percent.FindStringSubmatch(line)
	if m == nil {
		return p, false
	}
	p.Phase = phases()[m[1]+m[2]]
	p.Done, _ = strconv.Atoi(m[3]) // ten digits at most
	p.Total, _ = strconv.Atoi(m[4])
	return p, p.Phase != "" && p.Done <= p.Total
}

// A source must send leastBytes within leastTime, 1 KiB/s, because it occupies an import slot. Only the
// time in which it is waited for counts.
const (
	leastBytes = 120 << 10
	leastTime  = 2 * time.Minute
)

// paced ends a source that is too slow with ErrTimeout, and any where the disk is full with ErrDiskFull.
type paced struct {
	io.Reader

	roomy func() error

	waited time.Duration // for the next leastBytes
	came   int           // of them
}

func (p *paced) Read(b []byte) (n int, err error) {
	start := time.Now()
	n, err = p.Reader.Read(b)
	p.waited += time.Since(start)
	switch p.came += n; {
	case p.came >= leastBytes:
		p.waited, p.came = 0, 0
		err = cmp.Or(err, p.roomy())
	case p.waited > leastTime && err == nil:
		err = fmt.Errorf("%w: it brings less than 1 KiB a second", ErrTimeout)
	}
	return n, err
}
