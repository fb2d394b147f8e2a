package config

import (
	"iter"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/policy"
	"weir/schemas"
)

// checkAgents judges each agent by itself and lets policy judge its entry.
func (r *reader) checkAgents(c *Config) {
	for _, taskType := range slices.Sorted(maps.Keys(c.Agents)) {
		a, key := c.Agents[taskType], join("agents", taskType)
		switch {
		case slices.Contains(schemas.BuiltinTasks(), taskType):
			r.wrong(key, "is served by Weir itself; give the agent another task type")
			continue
		case !schemas.ValidTaskType(taskType):
			r.wrong(key, "is not a task type; write at most %d letters, digits, dots, underscores, colons and hyphens", schemas.MaxAgentTask)
			continue
		}
		r.oneOf(join(key, "mode"), a.Mode, schemas.AgentAuto, schemas.AgentStream, schemas.AgentSync)
		if a.Timeout != 0 {
			between(r, join(key, "timeout"), duration(a.Timeout), duration(100*time.Millisecond), duration(schemas.MaxRunTimeout))
		}
		between(r, join(key, "concurrency"), a.Concurrency, 1, 10_000)
		if r.checkAgentURL(join(key, "url"), a.URL) && r.checkAgentToken(join(key, "token"), a.Token) {
			r.checkAgentEntry(key, a.entry(taskType))
		}
		if a.Token != "" && a.Network != policy.NetworkLoopback && strings.HasPrefix(strings.ToLower(a.URL), "http:") {
			c.warnings = append(c.warnings, join(key, "url")+": is plain http to another machine: whoever is on the way reads the token; use https")
		}
		if c.own(a.URL) {
			c.warnings = append(c.warnings, join(key, "url")+": is an address of this node, which is never a target: every run of it will be denied with DENY_ADDRESS")
		} else if wrong := unreached(a.entry("T"), a.base()+schemas.RouteRunSync, "run"); wrong != "" {
			c.warnings = append(c.warnings, join(key, "url")+": "+wrong)
		}
		if a.Concurrency >= c.Workers.Slots {
			c.warnings = append(c.warnings, join(key, "concurrency")+": is not below workers.slots, "+strconv.Itoa(c.Workers.Slots)+": its runs may take every slot that there is for runs")
		}
	}
}

// own reports whether a URL names a port that this node listens on, as far as the
// configuration tells.
func (c Config) own(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	for _, address := range []string{c.Listen, c.NATS.Listen} {
		host, its, err := net.SplitHostPort(address)
		if err == nil && its == port && (local(raw) || strings.EqualFold(host, u.Hostname())) {
			return true
		}
	}
	return false
}

// checkAgentURL tells what policy would say in words that do not fit here. The
// text is not repeated: a URL may hold a password by mistake.
func (r *reader) checkAgentURL(key, raw string) bool {
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		r.wrong(key, "is missing; write where the agent's routes begin, such as https://agent.example.com")
	case err != nil:
		r.wrong(key, "is not a URL; write scheme://host[:port][/path]")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "": // without a host, what is added would become it
		r.wrong(key, "is not a URL that begins with http:// or https:// and a host")
	case u.User != nil:
		r.wrong(key, "holds a user name or a password; put the credential in token")
	case strings.ContainsAny(raw, "?#"):
		r.wrong(key, "has a query or a fragment; the routes are added to its end")
	case schemas.RunRoute(raw) != "":
		r.wrong(key, "ends in a route that is added to it; leave out %s", schemas.RunRoute(raw))
	default:
		return true
	}
	return false
}

func (r *reader) checkAgentToken(key, token string) bool {
	if strings.ContainsAny(token, " \t") {
		r.wrong(key, "holds a space; write the token alone, Bearer is added to it")
		return false
	}
	return true
}

// checkAgentEntry notes what policy says of an agent's entry under the keys that
// the operator wrote.
func (r *reader) checkAgentEntry(key string, e policy.Entry) {
	for at, what := range verdicts(e) {
		switch at {
		case "url_prefix":
			r.wrong(join(key, "url"), "%s", what)
		case "headers":
			r.wrong(join(key, "token"), "is not printable ASCII without spaces in which every ${ begins a ${secret:NAME}")
		case "network", "cidrs":
			r.wrong(join(key, at), "%s", what)
		default:
			r.wrong(key, "%s", what)
		}
	}
}

// verdicts are what policy says of one entry, by the entry's keys; where it names
// none, the key is empty.
func verdicts(e policy.Entry) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		_, err := policy.Compile(policy.Config{Entries: []policy.Entry{e}})
		if err == nil {
			return
		}
		for line := range strings.SplitSeq(strings.TrimPrefix(err.Error(), "policy: "), "\n") {
			rest, _ := cutLabel(line)
			at, what, ok := strings.Cut(rest, ": ")
			if !ok || !isKey(at) {
				at, what = "", rest
			}
			if !yield(at, what) {
				return
			}
		}
	}
}
