package policy

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"weir/internal/jsonschema"
	"weir/internal/policy/reconcile"
	"weir/schemas"
)

// hostEntryPrefix begins the names of the entries made of allowed hosts. No
// named entry may begin with it, and no key selects one.
const hostEntryPrefix = "host:"

// entry is a compiled Entry or allowed-host item.
type entry struct {
	canonical

	item    bool       // made of an allowed host; no key selects it
	addr    netip.Addr // valid where the host is a literal address
	methods []string   // sorted
	cidrs   []netip.Prefix
	owned   []string // the names of headers, folded
	params  []string // the names of query, folded
	members []string // the names of body
	// injects: the worker adds something to the calls, beside the trace.
	injects bool
	// keyName is the folded name of the header for keys, where it is not Idempotency-Key.
	keyName string
	// probe is compiled from the contract's Reconcile; nil: there is none.
	probe *reconcile.Probe
	// schema is compiled from its ResponseSchema; nil: there is none.
	schema *jsonschema.Schema
	// callerHeaders, folded, and callerParams are patterns of what callers may set anyway.
	callerHeaders, callerParams []string
	// credential: callers send none of their own. It holds for what adds anything, and for
	// agents and models.
	credential bool
}

// fits reports what keeps a question from matching the entry, in the order of
// checks from scheme to path.
func (e *entry) fits(q *question) denial {
	switch {
	case q.connect:
		return e.connects(q)
	case e.Scheme != "" && e.Scheme != q.url.Scheme:
		return deniedScheme
	case q.url.userinfo:
		return deniedUserinfo
	case q.url.hostForm != nil:
		return q.url.hostForm
	case !e.coversHost(q.url.Host):
		return deniedHost
	case e.Any && q.url.Port != 80 && q.url.Port != 443:
		return deniedPortAny
	case e.Port != 0 && e.Port != q.url.Port:
		return deniedPort
	case q.method == "":
		return deniedMethodUnknown
	case !slices.Contains(e.methods, q.method):
		return deniedMethod
	case q.pathForm != nil && (q.pathForm != deniedPathSlash || !e.EncodedSlashes):
		return q.pathForm
	case !covers(e.Path, q.url.Path), q.pathForm != nil && !covers(e.Path, Slashed(q.url.Path)), !e.hasRoute(q):
		return deniedPath
	}
	return nil
}

// hasRoute reports whether one of the entry's routes is the call of a question, or it has none.
func (e *entry) hasRoute(q *question) bool {
	return len(e.Routes) == 0 || slices.ContainsFunc(e.Routes, func(route string) bool {
		method, path, _ := strings.Cut(route, " ")
		return method == q.method && strings.TrimSuffix(e.Path, "/")+path == q.url.Path
	})
}

func (e *entry) coversHost(host string) bool {
	switch {
	case e.Any:
		return true
	case e.Host[0] == '.':
		return len(host) > len(e.Host) && strings.HasSuffix(host, e.Host)
	default:
		return e.Host == host
	}
}

// compileEntry turns what was written into what is matched. Its errors name the
// key; the caller adds the entry.
func compileEntry(in Entry) (*entry, error) {
	e := &entry{canonical: canonical{
		Name: in.Name, Agent: in.Agent, Extra: slices.Sorted(slices.Values(in.Pass)),
		Routes: slices.Sorted(slices.Values(in.Routes)), Redirects: in.Redirects, EncodedSlashes: in.EncodedSlashes, Limits: in.Limits,
		Headers: maps.Clone(in.Headers), Query: maps.Clone(in.Query), Body: maps.Clone(in.Body),
	}}
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
	for name, value := range e.Headers {
		e.injects = e.injects || !IsTrace(name, value)
	}
	err = errors.Join(err, e.setIdempotency(in.UpstreamIdempotency), e.setContract(in.Contract),
		e.setCaller(in.CallerHeaders, in.CallerParams), e.setConnect(in.Connect))
	if in.Redirects < 0 || in.Redirects > MaxRedirects {
		err = errors.Join(err, fmt.Errorf("redirects: %d is not in 0 to %d", in.Redirects, MaxRedirects))
	}
	if err != nil {
		return nil, err
	}
	e.credential = e.Agent || e.injects
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
		e.Any = true
		return nil
	}
	u, err := parsePrefix(s)
	if err != nil {
		return fmt.Errorf("url_prefix: %w", err)
	}
	e.Scheme, e.Host, e.addr, e.Port, e.Path = u.Scheme, u.Host, u.addr, u.Port, u.Path
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
		e.methods = []string{"GET"}
		return nil
	}
	if len(list) == 0 {
		return errors.New("methods: empty; leave it out for GET alone")
	}
	for _, s := range list {
		method := parseMethod(s)
		if method == "" && !equalLower(s, "connect") && !equalLower(s, "trace") { // it lists those in vain
			return fmt.Errorf("methods: %q is no method that is sent; use some of %s", s, strings.Join(schemas.Methods(), ", "))
		}
		if method != "" && !slices.Contains(e.methods, method) {
			e.methods = append(e.methods, method)
		}
	}
	slices.Sort(e.methods)
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
	e.Network = network
	switch {
	case network == NetworkPrivate && len(cidrs) == 0:
		return errors.New("cidrs: missing; a private entry reaches the ranges it names")
	case network != NetworkPrivate && len(cidrs) > 0:
		return errors.New("cidrs: only a private entry has them; set network to private")
	case network != NetworkPublic && e.Any:
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
		if e.Agent {
			return errors.New("mode: an agent's entry is never a shadow")
		}
		e.Shadow = true
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
