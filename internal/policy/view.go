package policy

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/retry"
	"weir/schemas"
)

// View is the public form of the policy: the named entries in order, including shadow entries, then
// those of agents, then the allowed hosts. Only the names of values that the worker adds are
// included. Only are the entries that the caller may use, and then only those are shown; empty:
// everything. For anyone but an operator the entries of agents and models show neither their
// location nor what is added to a call.
func (p *Policy) View(since time.Time, only []string, operator bool) schemas.PolicyView {
	v := schemas.PolicyView{Version: p.Version(), Since: since, Entries: []schemas.EntryView{}, AllowedHosts: p.AllowedHosts()}
	if len(only) > 0 {
		v.AllowedHosts = []string{}
	}
	if p == nil {
		return v
	}
	r := Request{Only: only}
	for _, e := range slices.Concat(p.all, p.agents.entries) {
		if !e.item && r.usable(e) {
			v.Entries = append(v.Entries, e.view(operator))
		}
	}
	return v
}

// EntryNames are the names that decisions may bear: of entries, of allowed hosts, and of
// the entries of agents and models. Shadow entries decide nothing.
func (p *Policy) EntryNames() []string {
	if p == nil {
		return nil
	}
	var all []string
	for _, e := range slices.Concat(p.all, p.agents.entries) {
		if !e.Shadow {
			all = append(all, e.Name)
		}
	}
	return all
}

// Hosts are the hosts that entries and allowed hosts name, those of agents and models last, each once. A
// pattern names none.
func (p *Policy) Hosts() (all []string) {
	for _, e := range slices.Concat(p.all, p.agents.entries) {
		if !e.Any && !strings.HasPrefix(e.Host, ".") && !slices.Contains(all, e.Host) {
			all = append(all, e.Host)
		}
	}
	return all
}

func (e *entry) view(operator bool) schemas.EntryView {
	if e.Agent && !operator {
		return schemas.EntryView{Name: e.Name, Methods: slices.Clone(e.methods), Mode: e.mode(), Agent: true}
	}
	v := schemas.EntryView{
		Name: e.Name, URLPrefix: e.urlPrefix(), Methods: slices.Clone(e.methods), Network: e.Network,
		Redirects: e.Redirects, EncodedSlashes: e.EncodedSlashes, Mode: e.mode(), Agent: e.Agent, Routes: e.Routes, Pass: e.Extra,
		Headers: names(e.Headers), Query: names(e.Query), Body: names(e.Body),
		CallerHeaders: e.callerHeaders, CallerParams: e.callerParams, Connect: e.Connect,
	}
	if v.Methods == nil {
		v.Methods = []string{}
	}
	for _, p := range e.cidrs {
		v.CIDRs = append(v.CIDRs, p.String())
	}
	if e.TTL > 0 {
		v.UpstreamIdempotencyTTL, v.IdempotencyHeader, v.DerivesKey = e.TTL.String(), e.KeyHeader, e.Derive
	}
	if e.Limits != (Limits{}) {
		v.Limits = &schemas.EntryLimits{Rate: e.Limits.Rate, Concurrency: e.Limits.Concurrency}
	}
	e.Contract.view(&v)
	return v
}

// view adds a contract to the view of its entry.
func (c Contract) view(v *schemas.EntryView) {
	v.RequiresKey, v.NeverRetry = c.RequiresKey, c.NeverRetry.view()
	if r := c.Retry; r != nil {
		v.Retry = &schemas.EntryRetry{Attempts: r.Attempts, Base: r.Base.String(), Cap: r.Cap.String(), On: r.On}
	}
	if r := c.Reconcile; r != nil {
		v.Reconcile = &schemas.EntryReconcile{Method: r.Method, URL: r.URL, Applied: r.Applied, NotApplied: r.NotApplied, Within: r.Within.String()}
	}
	if s := c.ResponseSchema; s != nil {
		v.ResponseSchema = &schemas.EntrySchema{Mode: s.Mode, Schema: s.Schema}
	}
}

func (n *NeverRetry) view() *schemas.EntryNeverRetry {
	if n == nil {
		return nil
	}
	return &schemas.EntryNeverRetry{Status: n.Status, Header: n.Header}
}

func (e *entry) urlPrefix() string {
	if e.Any {
		return AnyHost
	}
	t := target{Parts: Parts{Scheme: e.Scheme, Host: e.Host, Port: e.Port, Target: e.Path}, addr: e.addr}
	return t.String()
}

func names(added map[string]string) []string { return slices.Sorted(maps.Keys(added)) }

// Origin is scheme://host[:port] of the enforced entry of a name that has one exact host, for a
// caller who may use the entries only; empty: all. ok is false if there is no such entry.
func (p *Policy) Origin(name string, only []string) (origin string, ok bool) {
	if p == nil {
		return "", false
	}
	e := p.enforced.byName[name]
	if e == nil || !(&Request{Only: only}).usable(e) || !e.exact() {
		return "", false
	}
	t := target{Parts: Parts{Scheme: e.Scheme, Host: e.Host, Port: e.Port}, addr: e.addr}
	return t.Scheme + "://" + t.Authority(), true
}

// WithOrigin are the names of the entries that Origin knows for such a caller, in their order.
func (p *Policy) WithOrigin(only []string) (names []string) {
	if p == nil {
		return nil
	}
	r := Request{Only: only}
	for _, e := range p.enforced.entries {
		if !e.item && r.usable(e) && e.exact() {
			names = append(names, e.Name)
		}
	}
	return names
}

// exact reports whether an entry is of one scheme and one host.
func (e *entry) exact() bool { return e.Scheme != "" && !e.Any && !strings.HasPrefix(e.Host, ".") }

// Explain decides and explains a request, which is a CONNECT if its method says so: which check denied, what would make the request pass, and the
// verdict of every entry, including shadow entries. An entry's verdict is the one it would give if
// the request named it. Entries that the caller may not use and agents' entries are omitted, and so
// are the allowed hosts if the request has a key. A request to an agent is explained as an ordinary
// one. Like Decide it makes no DNS request.
//
// The hint may repeat the request's host, method and header names, so it is for the caller and
// not for a log. It never contains values that the worker adds.
func (p *Policy) Explain(r Request) schemas.Explanation {
	r.Agent, r.Connect = false, equalLower(r.Method, "connect")
	d := p.Decide(r)
	x := schemas.Explanation{Decision: d.Decision, Entries: []schemas.EntryVerdict{}}
	if !d.Allowed {
		x.Check = d.Check.String()
	}
	if p == nil {
		return x
	}
	if permit, ok := d.Permit(); ok && !r.Connect {
		x.Class = Class(permit.Method(), r.IdempotencyKey != "" || permit.DerivesKey(), permit)
		x.Contract = permit.explain(x.Class, r.IdempotencyKey != "")
	}
	q := ask(&r)
	for _, e := range p.all {
		if !r.usable(e) || (e.item && r.keyed()) {
			continue
		}
		v := schemas.EntryVerdict{Entry: e.Name, Mode: e.mode(), Fits: true}
		if f := p.checkEntry(e, &q, &r); f != nil {
			v.Fits, v.Check, v.Reason = false, f.Check.String(), f.Reason
		}
		x.Entries = append(x.Entries, v)
	}
	if !d.Allowed {
		e, f := p.evaluate(&p.enforced, &q, &r)
		x.Remedy = (&hint{policy: p, entry: e, q: &q, r: &r}).of(f)
	}
	return x
}

// explain is the contract of a call of a class, with or without a key of its caller's.
func (p *Permit) explain(class schemas.Class, keyed bool) *schemas.Contract {
	c, standard := p.Contract(), retry.Default()
	x := &schemas.Contract{
		Attempts: standard.Attempts, Base: standard.Base.String(), Cap: standard.Cap.String(), RetryOn: []string{},
		NeverRetry: c.NeverRetry.view(), Key: schemas.KeyNone, Probe: c.Reconcile != nil && class != schemas.ClassSafe && class != schemas.ClassIdempotent,
	}
	if c.Retry != nil {
		x.Attempts, x.Base, x.Cap = c.Retry.Attempts, c.Retry.Base.String(), c.Retry.Cap.String()
	}
	switch {
	case !class.Repeatable():
	case c.Retry == nil || c.Retry.On == nil:
		x.RetryOn = []string{"429", "5xx"}
	default:
		for _, status := range c.Retry.On {
			x.RetryOn = append(x.RetryOn, strconv.Itoa(status))
		}
	}
	switch {
	case keyed:
		x.Key = schemas.KeyCaller
	case p.DerivesKey():
		x.Key = schemas.KeyDerived
	}
	if ttl, honoured := p.IdempotencyTTL(); x.Key != schemas.KeyNone {
		x.KeyHeader = p.KeyHeader()
		if honoured {
			x.KeyTTL = ttl.String()
		}
	}
	x.RequiresKey = c.RequiresKey && once(p.method)
	if c.ResponseSchema != nil {
		x.ResponseSchema = c.ResponseSchema.Mode
	}
	return x
}

// keyed reports whether the request names one entry.
func (r *Request) keyed() bool { return r.Key != "" || r.KeyRequired || r.Agent }

func (e *entry) mode() string {
	if e.Shadow {
		return ModeShadow
	}
	return ModeEnforce
}
