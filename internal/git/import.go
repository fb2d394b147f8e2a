package git

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"weir/internal/gitwire"
	"weir/schemas"
)

// Import makes a repository of what git fetches from a URL, branches and tags, and returns its default branch: the
// one that is asked for, or if that is empty the one that the URL's HEAD names. The URL must be one of this machine's own
// making (http://127.0.0.1…): git's own network is closed to everything else. A repository that is there is left as it is.
// ErrNoRef: the branch that is asked for is not there, or none at all; ErrFull: there is more than a repository
// may have. Then nothing is left of it. tell hears how far it is, many times a second, and never after
// this has returned; git waits for it. nil: no progress is reported.
//
// An import takes a turn of the tenant's, one of the few for imports, and ends when its server sends less than 1 KiB/s
// for 2 min.
//
// Git's children have the URL among their arguments, where users of this machine may see it: it should be good for this import alone.
func (g *Git) Import(ctx context.Context, tenant, id, from, branch string, tell func(schemas.RepoProgress)) (defaultBranch string, err error) {
	if err := checkURL(from); err != nil {
		return "", err
	}
	if branch != "" && !validBranch(branch) {
		return "", ErrNoRef
	}
	t, err := g.copying(ctx, tenant)
	if err != nil {
		return "", err
	}
	defer t.end()
	r, err := g.make(t, id, func(r repository) error { return g.copyFrom(t, r, from, branch, tell) })
	if err != nil {
		return "", err
	}
	ref, err := r.head()
	return strings.TrimPrefix(ref, schemas.RefOf("")), err
}

// checkURL lets plain addresses of this machine pass. A URL with a space or a control
// character in it, or an "@", is no such address to git.
func checkURL(from string) error {
	u, err := url.Parse(from)
	if err == nil {
		addr, failed := netip.ParseAddrPort(u.Host)
		if failed == nil && u.Scheme == "http" && addr.Addr() == netip.AddrFrom4([4]byte{127, 0, 0, 1}) &&
			u.User == nil && u.RawQuery == "" && u.Fragment == "" && u.String() == from {
			return nil
		}
	}
	return errors.New("git fetches from this machine's own addresses only")
}

// importing are the settings of an import. Nothing is synced on the way, as all of it is before the repository is there.
func importing() []setting {
	return []setting{
		{"protocol.http.allow", "always"},
		{"http.followRedirects", "false"},
		{"http.proxy", ""},
		// A server sends no more than a line a second while it counts the objects of a large repository, for a
		// minute and more.
		{"http.lowSpeedLimit", "1024"},
		{"http.lowSpeedTime", "120"},
		{"fetch.fsckObjects", "true"},
		{"fetch.recurseSubmodules", "false"},
		{"fetch.writeCommitGraph", "false"},
		{"transfer.bundleURI", "false"},
		{"core.fsync", "none"},
	}
}

func (g *Git) copyFrom(t turn, r repository, from, branch string, tell func(schemas.RepoProgress)) error {
	env := []string{"GIT_DIR=" + string(r), "GIT_ALLOW_PROTOCOL=http"}
	head := ""
	if branch == "" {
		var err error
		if head, err = g.remoteHead(t, r, env, from); err != nil {
			return err
		}
	}
	err := g.run(t, job{
		args: []string{
			"fetch", "--progress", "--no-tags", "--no-auto-gc", "--no-write-fetch-head",
			"--no-recurse-submodules", "--stdin", from,
		},
		dir: string(r), env: env, settings: importing(), file: g.cfg.MaxRepo,
		in:   strings.NewReader("+refs/heads/*:refs/heads/*\n+refs/tags/*:refs/tags/*\n"),
		told: progressTo(tell),
	})
	if n, _ := r.size(); n >= g.cfg.MaxRepo {
		return ErrFull
	}
	if err != nil {
		return err
	}
	if err := g.run(t, job{args: []string{"pack-refs", "--all"}, dir: string(r), env: r.dirEnv()}); err != nil {
		return err
	}
	ref := schemas.RefOf(branch)
	if branch == "" {
		ref, err = g.defaultOf(t, r, head)
	} else {
		_, err = g.tip(t, r, ref)
	}
	if err != nil {
		return err
	}
	return r.setHead(ref)
}

// remoteHead asks the other side for its HEAD: the ref that it is, or else the object. It speaks to git's helper
// for HTTP, as git's document gitremote-helpers has it: that, unlike ls-remote, is limited
// before it begins.
func (g *Git) remoteHead(t turn, r repository, env []string, from string) (head string, err error) {
	err = g.run(t, job{
		args: []string{"remote-http", from, from},
		dir:  string(r), env: env, settings: append(importing(), setting{"protocol.version", "0"}),
		in: strings.NewReader("list\n\n"),
		out: func(o io.Reader) error {
			lines := bufio.NewReaderSize(o, 16<<10)
			for {
				line, err := lines.ReadSlice('\n')
				if value, ok := bytes.CutSuffix(line, []byte(" HEAD\n")); ok {
					head = strings.TrimPrefix(string(value), "@")
				}
				if err == io.EOF {
					return nil
				}
				if err != nil {
					return err
				}
			}
		},
	})
	return head, err
}

// defaultOf is the branch that a HEAD names, or else is at; failing that main, master, or the first one.
func (g *Git) defaultOf(t turn, r repository, head string) (string, error) {
	best, rank := "", 0
	err := g.eachBranch(t, r, func(ref, oid string) {
		mine := 1
		switch {
		case ref == head:
			mine = 6
		case ref == schemas.RefOf("main"):
			mine = 3
		case ref == schemas.RefOf("master"):
			mine = 2
		}
		if oid == head {
			mine += 3
		}
		if mine > rank {
			best, rank = ref, mine
		}
	})
	if err == nil && best == "" {
		err = ErrNoRef
	}
	return best, err
}

// eachBranch calls do for each branch, in the order of their names.
func (g *Git) eachBranch(t turn, r repository, do func(ref, oid string)) error {
	return g.run(t, job{
		args: []string{"for-each-ref", "--format=%(objectname) %(refname)", "refs/heads"},
		dir:  string(r), env: r.dirEnv(),
		out: func(o io.Reader) error {
			lines := bufio.NewScanner(o)
			for lines.Scan() {
				if oid, ref, ok := strings.Cut(lines.Text(), " "); ok && gitwire.ValidOid(oid) {
					do(ref, oid)
				}
			}
			return lines.Err()
		},
	})
}

// percent is how git says how far it is, or has the other side say it.
var percent = regexp.MustCompile(`^(remote: )?(Counting|Compressing|Receiving|Unpacking|Resolving) (?:objects|deltas): +[0-9]{1,3}% \(([0-9]{1,10})/([0-9]{1,10})\)`)

// phaseOf reads git's word for what it is at. One that the other side says may not be taken
// for one of this side's.
func phaseOf(word string) (schemas.RepoPhase, bool) {
	switch word {
	case "remote: Counting":
		return schemas.RepoCounting, true
	case "remote: Compressing":
		return schemas.RepoCompressing, true
	case "Receiving", "Unpacking":
		return schemas.RepoReceiving, true
	case "Resolving":
		return schemas.RepoResolving, true
	default:
		return "", false
	}
}

// progressOf reads a line of what git says.
func progressOf(line string) (p schemas.RepoProgress, ok bool) {
	m := percent.FindStringSubmatch(line)
	if m == nil {
		return p, false
	}
	p.Phase, ok = phaseOf(m[1] + m[2])
	done, err := strconv.Atoi(m[3])
	total, wrong := strconv.Atoi(m[4])
	p.Done, p.Total = done, total
	return p, ok && err == nil && wrong == nil && done <= total
}

// progressTo passes on what lines say of progress.
func progressTo(tell func(schemas.RepoProgress)) func(string) {
	if tell == nil {
		return nil
	}
	return func(line string) {
		if p, ok := progressOf(line); ok {
			tell(p)
		}
	}
}
