package policy

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"weir/schemas"
)

// hostEntryPrefix begins the names of the entries made of allowed hosts. No
// named entry may begin with it, and no key selects one.
const hostEntryPrefix = "host:"

// entry is a compiled Entry or allowed-host item.
type entry struct {
	name      string
	shadow    bool       // rehearsed, and permits nothing
	item      bool       // made of an allowed host; no key selects it
	agent     bool       // a remote agent's or a model's, in a table of their own
	pass      []string   // of a model's, in order; see Entry
	any       bool       // every host on 80 and 443
	scheme    string     // empty: either
	host      string     // exact, or a suffix with its leading dot
	addr      netip.Addr // valid where the host is a literal address
	port      uint16     // 0: every port
	prefix    string     // of the path, as it was written
	methods   methods
	network   string
	cidrs     []netip.Prefix
	redirects int
	ttl       time.Duration // 0: the target does not honour keys
	headers   map[string]string
	query     map[string]string
	body      map[string]string
	owned     []string // the names of headers, folded
	params    []string // the names of query, folded
	members   []string // the names of body
	// injects: the worker adds something to the calls, beside the trace.
	injects bool
	// callerHeaders, folded, and callerParams are patterns of what callers may set all the same.
	callerHeaders, callerParams []string
	// credential: callers send none of their own. It holds for what adds anything, and for
	// agents and models.
	credential bool
	limits     Limits
}

// fits reports what keeps a question from matching the entry, in the order of
// checks from scheme to path.
func (e *entry) fits(q *question) flaw {
	switch {
	case e.scheme != "" && e.scheme != q.url.Scheme:
		return flawScheme
	case q.url.userinfo:
		return flawUserinfo
	case q.url.hostForm != nil:
		return q.url.hostForm
	case !e.coversHost(q.url.Host):
		return flawHost
	case e.any && q.url.Port != 80 && q.url.Port != 443:
		return flawPortAny
	case e.port != 0 && e.port != q.url.Port:
		return flawPort
	case q.bit == 0:
		return flawMethodUnknown
	case e.methods&q.bit == 0:
		return flawMethod
	case q.pathForm != nil:
		return q.pathForm
	case !covers(e.prefix, q.url.Path):
		return flawPath
	}
	return nil
}

func (e *entry) coversHost(host string) bool {
	switch {
	case e.any:
		return true
	case e.host[0] == '.':
		return len(host) > len(e.host) && strings.HasSuffix(host, e.host)
	default:
		return e.host == host
	}
}

// compileEntry turns what was written into what is matched. Its errors name the
// key; the caller adds the entry.
func compileEntry(in Entry) (*entry, error) {
	e := &entry{
		name: in.Name, agent: in.Agent, pass: slices.Sorted(slices.Values(in.Pass)), redirects: in.Redirects, limits: in.Limits,
		headers: maps.Clone(in.Headers), query: maps.Clone(in.Query), body: maps.Clone(in.Body),
	}
	err := errors.Join(
		e.setPrefix(in.URLPrefix),
		e.setMethods(in.Methods),
		e.setNetwork(in.Network, in.CIDRs),
		e.setHeaders(in.Headers),
		e.setQuery(in.Query),
		e.setBody(in.Body),
		e.setMode(in.Mode),
		checkLimits(in.Limits),
	)
	e.injects = len(e.params)+len(e.members) > 0
	for name, value := range e.headers {
		e.injects = e.injects || !IsTrace(name, value)
	}
	err = errors.Join(err, e.setCaller(in.CallerHeaders, in.CallerParams))
	if in.Redirects < 0 || in.Redirects > MaxRedirects {
		err = errors.Join(err, fmt.Errorf("redirects: %d is not in 0 to %d", in.Redirects, MaxRedirects))
	}
	if i := in.UpstreamIdempotency; i != nil {
		if e.ttl = i.TTL; e.ttl <= 0 {
			err = errors.Join(err, errors.New("upstream_idempotency: ttl must be positive"))
		}
	}
	if err != nil {
		return nil, err
	}
	e.credential = e.agent || e.injects
	return e, nil
}

func checkName(name string, agent bool) error {
	switch {
	case name == "":
		return errors.New("name: missing")
	case !schemas.ValidID(name):
		return errors.New("name: must be at most 128 letters, digits, dots, underscores, colons and hyphens")
	case strings.HasPrefix(name, hostEntryPrefix):
		return fmt.Errorf("name: %q is kept for allowed hosts", hostEntryPrefix)
	case !agent && strings.HasPrefix(name, schemas.AgentEntryPrefix):
		return fmt.Errorf("name: %q is kept for agents", schemas.AgentEntryPrefix)
	case !agent && strings.HasPrefix(name, schemas.ModelEntryPrefix):
		return fmt.Errorf("name: %q is kept for models", schemas.ModelEntryPrefix)
	case agent && name == schemas.ModelEntryPrefix:
		return fmt.Errorf("name: a model's is %q and its upstream", schemas.ModelEntryPrefix)
	case agent && strings.HasPrefix(name, schemas.ModelEntryPrefix):
	case agent && (!strings.HasPrefix(name, schemas.AgentEntryPrefix) || name == schemas.AgentEntryPrefix):
		return fmt.Errorf("name: an agent's is %q and its task type", schemas.AgentEntryPrefix)
	}
	return nil
}

func (e *entry) setPrefix(s string) error {
	if s == "" {
		return errors.New("url_prefix: missing")
	}
	if s == AnyHost {
		e.any = true
		return nil
	}
	u, err := parsePrefix(s)
	if err != nil {
		return fmt.Errorf("url_prefix: %w", err)
	}
	e.scheme, e.host, e.addr, e.port, e.prefix = u.Scheme, u.Host, u.addr, u.Port, u.Path
	return nil
}

// parsePrefix reads a URL prefix by the grammar of URLs, and by the rules that
// a URL under it must pass.
func parsePrefix(s string) (target, error) {
	u, f := parseURL(s, false)
	if f == nil {
		f = u.hostForm
	}
	if f == nil {
		f = checkPath(u.Path)
	}
	switch {
	case f != nil:
		return target{}, errors.New(f.Reason)
	case u.userinfo:
		return target{}, errors.New("it carries a user or password; use headers")
	case u.HasQuery:
		return target{}, errors.New("it has a query; only scheme, host, port and path are matched")
	}
	return u.target, nil
}

func (e *entry) setMethods(list []string) error {
	if list == nil {
		e.methods = methodGET
		return nil
	}
	if len(list) == 0 {
		return errors.New("methods: empty; leave it out for GET alone")
	}
	for _, s := range list {
		_, bit := parseMethod(s)
		if bit == 0 && !refusedMethod(s) {
			return fmt.Errorf("methods: %q is not a method that is ever sent", s)
		}
		e.methods |= bit
	}
	return nil
}

func (e *entry) setNetwork(network string, cidrs []string) error {
	switch network {
	case "":
		network = NetworkPublic
	case NetworkPublic, NetworkLoopback, NetworkPrivate:
	default:
		return fmt.Errorf("network: %q is not public, loopback or private", network)
	}
	e.network = network
	switch {
	case network == NetworkPrivate && len(cidrs) == 0:
		return errors.New("cidrs: missing; a private entry reaches the ranges it names")
	case network != NetworkPrivate && len(cidrs) > 0:
		return errors.New("cidrs: only a private entry has them; set network to private")
	case network != NetworkPublic && e.any:
		return errors.New("network: an entry for any host is public")
	}
	for _, s := range cidrs {
		p, err := netip.ParsePrefix(s)
		if err != nil || p != p.Masked() {
			return fmt.Errorf("cidrs: %q is not a range; write its first address and a length, such as 10.0.0.0/8", s)
		}
		e.cidrs = append(e.cidrs, p)
	}
	return nil
}

func (e *entry) setMode(mode string) error {
	switch mode {
	case "", ModeEnforce:
	case ModeShadow:
		if e.agent {
			return errors.New("mode: an agent's entry is never a shadow")
		}
		e.shadow = true
	default:
		return fmt.Errorf("mode: %q is not enforce or shadow", mode)
	}
	return nil
}

func checkLimits(l Limits) error {
	if l.Concurrency < 0 {
		return errors.New("limits: concurrency must not be negative")
	}
	if _, _, ok := schemas.ParseRate(l.Rate); l.Rate != "" && !ok {
		return fmt.Errorf("limits: rate %q is not a count a second, minute or hour, such as 10/s", l.Rate)
	}
	return nil
}
