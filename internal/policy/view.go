package policy

import (
	"maps"
	"slices"
	"strings"
	"time"

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
		return schemas.EntryView{Name: e.Name, Methods: e.methods.names(), Mode: e.mode(), Agent: true}
	}
	v := schemas.EntryView{
		Name: e.Name, URLPrefix: e.urlPrefix(), Methods: e.methods.names(), Network: e.Network,
		Redirects: e.Redirects, Mode: e.mode(), Agent: e.Agent, Routes: e.Routes, Pass: e.Extra,
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
	t := target{Parts: Parts{Scheme: e.Scheme, Host: e.Host, Port: e.Port, Path: e.Path}, addr: e.addr}
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
