package config

import (
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"time"
)

// GitDir is where repositories lie. Empty: none can live on this node.
func (c Config) GitDir() string {
	if c.Git.Dir == "" && c.Embedded() {
		return filepath.Join(c.Data, "git")
	}
	return c.Git.Dir
}

// BaseURL is where others reach this node, without a slash at its end: public_url, or
// the address that it listens on. An address that stands for every one of the machine
// names none; this machine's own is taken for it.
func (c Config) BaseURL(listening string) string {
	if c.PublicURL != "" {
		return strings.TrimSuffix(c.PublicURL, "/")
	}
	host, port, err := net.SplitHostPort(listening)
	if err != nil {
		return "http://" + listening
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// checkPublicURL does not repeat the text: it may hold a password by mistake.
func (r *reader) checkPublicURL(raw string) {
	if raw == "" {
		return
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "":
		r.wrong("public_url", "is not a URL that begins with http:// or https:// and a host, such as https://weir.example.com")
	case u.User != nil:
		r.wrong("public_url", "holds a user name or a password; everybody who has a repository's URL would see it, leave it out")
	case strings.ContainsAny(raw, "?#"):
		r.wrong("public_url", "has a query or a fragment; leave it out")
	case u.Path != "" && u.Path != "/":
		r.wrong("public_url", "has a path; Weir is served at the root of a host, so leave it out")
	}
}

// LongestAction is how long an action may take at most. Its worker must still find its
// beginning on the log when the deadline has come, so that it is settled: it comes to that
// a little later, and much later where it was down.
func (c Config) LongestAction() time.Duration {
	return c.Log.History - max(c.Log.History/8, leastMargin)
}

// leastMargin is between the longest deadline and the history at least.
const leastMargin = 10 * time.Minute

// longest is the longest of all.
func (d Deadline) longest() time.Duration {
	return max(d.HTTP, d.Plan, d.Run, d.Task, d.Push, d.Repo, d.Chat)
}

// mostDeadline is how long an action may take at most, and mostTask a task.
const (
	mostDeadline = 24 * time.Hour
	mostTask     = 30 * 24 * time.Hour
)

func (r *reader) checkDeadlines(c *Config) {
	for _, d := range []struct {
		key         string
		value, most time.Duration
	}{
		{"deadline.http", c.Deadline.HTTP, mostDeadline},
		{"deadline.plan", c.Deadline.Plan, mostDeadline},
		{"deadline.run", c.Deadline.Run, mostDeadline},
		{"deadline.task", c.Deadline.Task, mostTask},
		{"deadline.push", c.Deadline.Push, mostDeadline},
		{"deadline.repo", c.Deadline.Repo, mostDeadline},
		{"deadline.chat", c.Deadline.Chat, mostDeadline},
	} {
		between(r, d.key, duration(d.value), duration(time.Second), duration(d.most))
	}
}

func (r *reader) checkGit(c *Config) {
	between(r, "tasks.lease", duration(c.Tasks.Lease), duration(10*time.Second), duration(24*time.Hour))
	if c.Git.Program == "" {
		r.wrong("git.program", "is empty; name git, or its path")
	}
	between(r, "git.max_pack", c.Git.MaxPack, 1<<10, 1<<40)
	between(r, "git.max_repo", c.Git.MaxRepo, 1<<20, 16<<40)
	between(r, "git.timeout", duration(c.Git.Timeout), duration(time.Second), duration(mostDeadline))
	between(r, "git.memory", c.Git.Memory, 64<<20, 1<<40)
	between(r, "git.processes", c.Git.Processes, 1, 10_000)
}
