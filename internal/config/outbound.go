package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"weir/internal/completion"
	"weir/internal/models"
	"weir/internal/policy"
	"weir/internal/policy/placeholder"
	"weir/internal/redact"
	"weir/schemas"
)

const (
	maxBudgets      = 100
	maxBudgetName   = 64
	maxUpstreams    = 16 // of one model
	maxUpstreamName = 100
)

// checkOutbound checks a place where Weir itself calls, a remote agent or an upstream of a model: its
// URL, and by policy its entry. Secret is the key of its credential, noun what each call of it is, and
// routes are added to the URL, the first by the call that is tried here.
func (r *reader) checkOutbound(c *Config, key, raw string, e policy.Entry, secret, noun string, routes ...string) {
	at, call := key+".url", strings.TrimSuffix(raw, "/")+routes[0]
	if r.checkURL(at, raw, "put the credential in "+secret, routes...) {
		names := map[string]string{"url_prefix": "url", "headers": secret, "network": "", "name": ""}
		r.noteProblems(key, policy.Config{Entries: []policy.Entry{e}}, names)
	}
	plain := strings.HasPrefix(strings.ToLower(raw), "http:") && e.Network != policy.NetworkLoopback
	r.warn(plain && exposed(e.Headers), at, "is plain http to another machine: it exposes the credential in %s; use https", secret)
	denied := fmt.Sprintf("every %s of it will be denied with %s", noun, schemas.DenyAddress)
	if c.own(raw) {
		r.warn(true, at, "is an address of this node, which is never a target: %s", denied)
		return
	}
	r.checkReach(at, call, denied, e)
}

// checkReach warns if a URL names an address that the network of its entry does not have, so that each call is denied.
func (r *reader) checkReach(at, call, denied string, e policy.Entry) {
	name := e.Name[strings.Index(e.Name, ":")+1:] // policy explains only what callers may ask for
	alike := policy.Entry{Name: name, URLPrefix: call, Network: e.Network, CIDRs: e.CIDRs}
	p, err := policy.Compile(policy.Config{Entries: []policy.Entry{alike}})
	if err != nil {
		return // another check reports it
	}
	x := p.Explain(policy.Request{Method: "GET", URL: call})
	r.warn(x.Check == policy.CheckAddress.String(), at, "names an address that network: %s does not reach: %s; %s",
		cmp.Or(e.Network, policy.NetworkPublic), denied, cmp.Or(x.Remedy, "no network reaches it"))
}

// exposed reports whether headers hold a credential.
func exposed(headers map[string]string) bool {
	for name, value := range headers {
		pieces, err := placeholder.Parse(value)
		secret := err != nil || slices.ContainsFunc(pieces, func(p placeholder.Piece) bool { return p.Name != "" })
		if !policy.IsTrace(name, value) && (secret || value != "" && redact.Credential(name)) {
			return true
		}
	}
	return false
}

// own reports whether a URL names a port that this node listens on, as far as the configuration says.
func (c Config) own(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	return slices.ContainsFunc([]string{c.Listen, c.NATS.Listen, c.Proxy.Listen}, func(address string) bool {
		host, its, err := net.SplitHostPort(address)
		return err == nil && its == port && (local(raw) || strings.EqualFold(host, u.Hostname()))
	})
}

func (r *reader) checkAgents(c *Config) {
	for _, taskType := range slices.Sorted(maps.Keys(c.Agents)) {
		a, key := c.Agents[taskType], join("agents", taskType)
		if r.refuse(slices.Contains(schemas.BuiltinTasks(), taskType), key, "is served by Weir itself; give the agent another task type") ||
			r.refuse(!schemas.ValidTaskType(taskType), key,
				"is not a task type; write at most %d letters, digits, dots, underscores, colons and hyphens", schemas.MaxAgentTask) {
			continue
		}
		if r.refuse(strings.ContainsAny(a.Token, " \t"), key+".token", "holds a space; write the token alone, Bearer is added to it") {
			a.Token = "" // policy would refuse it again
		}
		r.checkLiterals(key, map[string]string{"token": a.Token})
		r.checkOutbound(c, key, a.URL, a.entry(taskType), "token", "run",
			schemas.RouteRunSync, schemas.RouteRunStream, strings.TrimSuffix(schemas.RouteRuns, "/"))
		r.warn(a.Concurrency >= c.Workers.Slots, key+".concurrency",
			"is not below workers.slots, %d: its runs may take every slot that there is for runs", c.Workers.Slots)
	}
}

func (r *reader) checkModels(c *Config) {
	owner := map[string]string{} // of the name of an upstream: the key that gave it
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		m, key := c.Models[name], join("models", name)
		switch {
		case r.refuse(!models.ValidPattern(name), key, "is not the name of a model; write at most %d letters, digits and "+
			". _ : @ + - in parts with a slash between, or a pattern: the beginning of names with * after it, such as openai/*, or * alone", schemas.MaxModel):
		case m.Alias != "":
			r.checkAlias(c, key, m)
		case r.refuse(len(m.Upstreams) == 0 && m.URL == "", key, "has no place; write its url, its upstreams, or the alias that it is"):
		case r.refuse(len(m.Upstreams) > maxUpstreams, key+".upstreams", "are %d; write at most %d", len(m.Upstreams), maxUpstreams):
		default:
			r.checkModel(c, key, m)
			for i, u := range m.upstreams(name) {
				r.checkUpstream(c, m.at(key, i), name, u, owner)
			}
		}
	}
}

func (r *reader) checkAlias(c *Config, key string, m Model) {
	r.alone(key, m, keys(reflect.TypeFor[Model]())[1:], "cannot be combined with alias; remove one of the two")
	by, known := models.NewNames(maps.Keys(c.Models)).Match(m.Alias)
	_ = r.refuse(!schemas.ValidModel(m.Alias), key+".alias", "is not the name of a model; patterns have no aliases") ||
		r.refuse(!known, key+".alias", "names no model; write the name of one under models, or one that matches one of its patterns") ||
		r.refuse(c.Models[by].Alias != "", key+".alias", "names an alias; write the name of the model itself")
}

// alone refuses keys of a model that mean nothing beside another. Keys with their default values are
// not refused.
func (r *reader) alone(key string, m Model, names []string, what string) {
	timeouts := standard[schemas.ModelTimeouts]()
	for _, name := range names {
		silent := name == "usage" && m.Usage || name == "timeouts" && m.Timeouts == timeouts
		r.refuse(r.has(join(key, name)) && !silent, join(key, name), "%s", what)
	}
}

func (r *reader) checkModel(c *Config, key string, m Model) {
	if len(m.Upstreams) > 0 {
		r.alone(key, m, keys(reflect.TypeFor[Target]()), "cannot be combined with upstreams; write it with each of them")
	}
	r.refuse(m.Context > 0 && m.MaxOutput > m.Context, key+".max_output", "is more than context, which holds the prompt too")
	r.warn(m.Timeouts.FirstByte > c.Deadline.Chat, key+".timeouts.first_byte",
		"is longer than deadline.chat, %s, which comes first", short(c.Deadline.Chat))
	if m.Price != nil {
		for _, f := range members(key+".price", reflect.ValueOf(*m.Price)) {
			r.refuse(f.key != "request" && f.value.Int()%1000 != 0, f.path, "has more than six digits after the point")
			r.refuse(f.tag.Get("jsonschema") == "required" && !r.has(f.path), f.path,
				"is missing; write what a million tokens cost, 0 if nothing")
		}
	}
}

// checkUpstream checks one. The name of a model's only upstream is made from the model's.
func (r *reader) checkUpstream(c *Config, key, model string, u Upstream, owner map[string]string) {
	named := key
	if strings.HasSuffix(key, "]") {
		named = key + ".name"
	}
	_ = r.refuse(u.Name == "", named, "is missing; give the upstream a name of its own") ||
		r.refuse(!schemas.ValidID(u.Name) || len(u.Name) > maxUpstreamName, named,
			"makes no name of an upstream; write upstreams, each with a name of at most %d letters, digits, dots, underscores, colons and hyphens",
			maxUpstreamName) ||
		r.refuse(owner[u.Name] != "", named,
			"names the upstream %s, as %s does; write upstreams, each with a name of its own", u.Name, owner[u.Name])
	owner[u.Name] = named
	valid := schemas.ValidModel(strings.Replace(u.Model, "*", "x", 1))
	_ = r.refuse(u.Model != "" && (strings.Count(u.Model, "*") > 1 || !valid), key+".model",
		"is not the name of a model; write letters, digits and . _ : @ + - in parts with a slash between, one * at most") ||
		r.refuse(strings.Contains(u.Model, "*") && !strings.HasSuffix(model, "*"), key+".model", "holds a *, and the model is no pattern")
	r.checkPass(key+".pass", u.Pass)
	for _, name := range slices.Sorted(maps.Keys(u.Headers)) {
		at, own := join(key+".headers", name), strings.ToLower(name)
		r.refuse(slices.Contains([]string{"content-type", "accept"}, own), at, "is what Weir sets itself; leave it out")
		r.refuse(own == "anthropic-version", at, "is set by each request; leave it out")
		r.warn(slices.Contains([]string{"anthropic-beta", "openai-beta"}, own), at, "keeps callers from setting it: requests with it are denied")
	}
	r.checkLiterals(key+".headers", u.Headers)
	r.checkDialects(key+".dialects", u.Dialects)
	call := u.entry()
	call.URLPrefix += schemas.RouteChat // which shows what is wrong with the URL
	r.checkOutbound(c, key, u.URL, call, "headers", "completion", schemas.RouteChat, schemas.RouteResponses,
		schemas.RouteCount, schemas.RouteMessages, schemas.RouteEmbeddings)
}

// checkDialects checks the protocols that an upstream is said to speak.
func (r *reader) checkDialects(key string, list []schemas.Dialect) {
	r.refuse(r.has(key) && len(list) == 0, key, "is empty; name the protocols that the upstream speaks, or leave it out for all")
	for i, d := range list {
		r.refuse(slices.Contains(list[:i], d), item(key, i), "names %s a second time; remove it", d)
	}
}

// checkPass checks the members that an upstream gets beyond those that all get.
func (r *reader) checkPass(key string, pass Pass) {
	for i, name := range pass {
		at := item(key, i)
		if !r.has(at) { // written without a list
			at = key
		}
		all := name == schemas.PassAll
		r.warn(all, key, "is *: callers choose providers, accounts, other models and stored objects at this upstream, "+
			"and all tenants share its account; name the members that they need")
		_ = r.refuse(all && len(pass) > 1, at, `is * beside names; write pass: "*" for every member, or only the names`) ||
			r.refuse(slices.Contains(pass[:i], name), at, "names %s a second time; remove it", name) ||
			r.refuse(!all && !completion.ValidMember(name), at,
				"is not the name of a member; write at most %d letters, digits and _ - . : $, such as plugins", completion.MaxMember) ||
			r.refuse(!all && completion.Refused(name), at, "names a member that is always refused: "+
				"it would choose where a request goes, with which key, or who is called back; remove it")
		r.warn(completion.Stored(completion.Fold(name)), at, "%s names objects that are stored in the provider's account, "+
			"which all tenants of this upstream share: each tenant could use the others' data", name)
	}
}

func (r *reader) checkBudgets(c *Config) {
	r.refuse(len(c.Budgets) > maxBudgets, "budgets",
		"has %d budgets; every completion is counted in each that is about it, so write at most %d", len(c.Budgets), maxBudgets)
	for _, name := range slices.Sorted(maps.Keys(c.Budgets)) {
		key := join("budgets", name)
		if !r.refuse(name == schemas.BudgetOfTask, key,
			"is what the budget is called that a task brings itself; give this one another name") &&
			!r.refuse(!schemas.ValidID(name) || len(name) > maxBudgetName, key,
				"is not the name of a budget; write at most %d letters, digits, dots, underscores, colons and hyphens", maxBudgetName) {
			r.checkBudget(c, key, c.Budgets[name])
		}
	}
}

func (r *reader) checkBudget(c *Config, key string, b schemas.Budget) {
	for i, per := range b.Per {
		r.refuse(slices.Contains(b.Per[:i], per), item(key+".per", i), "appears twice; remove one")
	}
	for i, name := range b.Models {
		at, of := item(key+".models", i), c.Models[name].Alias
		r.refuse(!models.ValidPattern(name), at, "is neither the name of a model nor a pattern, such as openai/* or *")
		r.warn(of != "", at, "is another name for %s, whose use is counted; write that", of)
		r.warn(of == "" && len(c.Models) > 0 && !c.serves(name), at, "fits no model that is configured, so that nothing is counted by it")
	}
	for i, tenant := range b.Tenants {
		r.refuse(!schemas.ValidID(tenant), item(key+".tenants", i),
			"is not the name of a tenant; write at most 128 letters, digits, dots, underscores, colons and hyphens")
	}
	usd := key + ".usd"
	r.refuse(!r.has(key+".requests") && !r.has(key+".tokens") && !r.has(usd), key, "bounds nothing; give it requests, tokens or usd")
	var free []string
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		if m := c.Models[name]; b.Nanos > 0 && m.Alias == "" && m.Price == nil && models.May(b.Models, name) {
			free = append(free, name)
		}
	}
	r.warn(len(free) > 0, usd, "refuses every request for %s, without a price; give one, if it is 0", strings.Join(free, ", "))
}

// serves reports whether a name or a pattern fits a model that there is, or some names of a pattern.
func (c Config) serves(pattern string) bool {
	for name, m := range c.Models {
		if m.Alias == "" && (models.May([]string{pattern}, name) || models.May([]string{name}, pattern)) {
			return true
		}
	}
	return false
}
