package git

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"weir/schemas"
)

// Import creates a repository from the branches and tags that git fetches from a URL, with the
// default branch that the function branch returns, and returns that branch. The URL must point to
// this machine (http://127.0.0.1…): git's own network access is closed to everything else. If the
// repository exists, it stays unchanged and branch is not called.
// ErrNoRef: the branch does not exist. ErrFull: the source exceeds the size limit of a repository.
// In both cases nothing remains of the repository.
// tell is called many times a second during the fetch, and never after Import has returned. nil: no
// progress reports.
//
// An import takes one of the tenant's few import slots. It ends if its server sends less than 1
// KiB/s for 2 min.
//
// The URL is an argument of git's child processes and so visible to users of this machine: it
// should be valid for this import alone.
func (g *Git) Import(
	ctx context.Context, tenant, id, from string, branch func(context.Context) (string, error), tell func(schemas.RepoProgress),
) (defaultBranch string, err error) {
	if err := checkURL(from); err != nil {
		return "", err
	}
	s, err := g.wait(ctx, tenant, g.cfg.Timeout, g.slots.imports, g.slots.writes)
	if err != nil {
		return "", err
	}
	defer s.end()
	s, err = s.make(id, func(s session) error { return s.copyFrom(from, branch, tell) })
	if err != nil {
		return "", err
	}
	ref, err := s.head()
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

func (s session) copyFrom(from string, branch func(context.Context) (string, error), tell func(schemas.RepoProgress)) error {
	name, err := branch(s.ctx)
	if err != nil {
		return err
	}
	if !validBranch(name) {
		return ErrNoRef
	}
	err = s.run(job{
		args: []string{
			"fetch", "--progress", "--no-tags", "--no-auto-gc", "--no-write-fetch-head",
			"--no-recurse-submodules", "--stdin", from,
		},
		env: []string{"GIT_ALLOW_PROTOCOL=http"}, settings: importing(), file: s.cfg.MaxRepo,
		in: text("+refs/heads/*:refs/heads/*\n+refs/tags/*:refs/tags/*\n"),
		onLine: func(line string) {
			if p, ok := progressOf(line); ok && tell != nil {
				tell(p)
			}
		},
	})
	if n, _ := s.size(); n >= s.cfg.MaxRepo {
		return ErrFull
	}
	if err == nil {
		err = s.run(job{args: []string{"pack-refs", "--all"}})
	}
	if err == nil {
		_, err = s.tip(schemas.RefOf(name))
	}
	if err != nil {
		return err
	}
	return s.setHead(schemas.RefOf(name))
}

// percent is how git says how far it is, or has the other side say it.
var percent = regexp.MustCompile(`^(remote: )?(Counting|Compressing|Receiving|Unpacking|Resolving) (?:objects|deltas): +[0-9]{1,3}% \(([0-9]{1,10})/([0-9]{1,10})\)`)

// phases are what git calls them. One that the other side says is not to be taken for one of this side's.
func phases() map[string]schemas.RepoPhase {
	return map[string]schemas.RepoPhase{
		"remote: Counting": schemas.RepoCounting, "remote: Compressing": schemas.RepoCompressing,
		"Receiving": schemas.RepoReceiving, "Unpacking": schemas.RepoReceiving, "Resolving": schemas.RepoResolving,
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
