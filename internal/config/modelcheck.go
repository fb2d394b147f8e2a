package config

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/completion"
	"weir/internal/models"
	"weir/internal/policy"
	"weir/internal/policy/placeholder"
	"weir/internal/redact"
	"weir/schemas"
)

const (
	maxUpstreamName = 100
	maxUpstreams    = 16 // of one model
	maxWeight       = 1000
	maxTokens       = 1_000_000_000
	maxPrice        = 1_000_000 * dollar
)

// checkModels judges each model by itself, lets policy judge the entries of its
// upstreams, and then looks at what models say of each other.
func (r *reader) checkModels(c *Config) {
	before := len(r.problems)
	owner := map[string]string{} // of an upstream's name: the key that gave it
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		m, key := c.Models[name], join("models", name)
		switch {
		case !models.ValidPattern(name):
			r.wrong(key, "is not the name of a model; write at most %d letters, digits and . _ : @ + - in parts with a slash between, "+
				"or a pattern: such parts with /* behind them, or * alone", schemas.MaxModel)
		case m.Alias != "":
			r.checkAlias(key, c.Models, m)
		default:
			r.checkModel(c, key, m)
			r.checkUpstreams(c, key, name, m, owner)
		}
	}
	if len(r.problems) > before {
		return
	}
	if _, err := models.Compile(c.ChatModels()); err != nil {
		r.wrong("models", "%s", err)
	}
}

// checkAlias takes what stands beside an alias for a mistake: it would mean nothing.
func (r *reader) checkAlias(key string, all map[string]Model, m Model) {
	if !schemas.ValidModel(m.Alias) {
		r.wrong(join(key, "alias"), "is not the name of a model; patterns have no aliases")
		return
	}
	for _, beside := range []string{"url", "headers", "model", "network", "cidrs", "usage", "pass", "upstreams", "price", "context", "max_output", "image_tokens", "timeouts"} {
		inner := join(key, beside)
		// A configuration that is printed says of an alias what is so without a word.
		silent := beside == "usage" && m.Usage || beside == "timeouts" && m.Timeouts == newModel().Timeouts
		if r.given.has(inner) && !silent {
			r.wrong(inner, "is written beside alias, which stands alone; remove one of the two")
		}
	}
	by, known := models.NewNames(maps.Keys(all)).Match(m.Alias)
	switch of := all[by]; {
	case !known:
		r.wrong(join(key, "alias"), "names no model; write the name of one that is under models, or that one of its patterns fits")
	case of.Alias != "":
		r.wrong(join(key, "alias"), "names an alias; write the name of the model itself")
	}
}

func (r *reader) checkModel(c *Config, key string, m Model) {
	for _, count := range []struct {
		key   string
		value int64
	}{{"context", m.Context}, {"max_output", m.MaxOutput}, {"image_tokens", m.ImageTokens}} {
		if inner := join(key, count.key); r.given.has(inner) {
			between(r, inner, count.value, 1, maxTokens)
		}
	}
	if m.Context > 0 && m.MaxOutput > m.Context {
		r.wrong(join(key, "max_output"), "is more than context, which holds the prompt too")
	}
	at := join(key, "timeouts")
	const least, most = duration(100 * time.Millisecond), duration(time.Hour)
	between(r, join(at, "connect"), duration(m.Timeouts.Connect), least, duration(time.Minute))
	between(r, join(at, "first_byte"), duration(m.Timeouts.FirstByte), least, most)
	between(r, join(at, "idle"), duration(m.Timeouts.Idle), least, most)
	if m.Price != nil {
		r.checkPrice(join(key, "price"), *m.Price)
	}
	if m.Timeouts.FirstByte > c.Deadline.Chat {
		c.warnings = append(c.warnings, join(at, "first_byte")+": is longer than deadline.chat, "+duration(c.Deadline.Chat).String()+", which comes first")
	}
}

func (r *reader) checkPrice(key string, p Price) {
	for _, amount := range []struct {
		key   string
		value USD
		unit  USD // what is kept of it
	}{{"input", p.Input, 1000}, {"output", p.Output, 1000}, {"cached", p.Cached, 1000}, {"request", p.Request, 1}} {
		inner := join(key, amount.key)
		switch {
		case amount.value > maxPrice:
			r.wrong(inner, "is more than %s", maxPrice)
		case amount.value%amount.unit != 0:
			r.wrong(inner, "has more than six digits behind the point")
		}
	}
	for _, needed := range []string{"input", "output"} {
		if inner := join(key, needed); !r.given.has(inner) {
			r.wrong(inner, "is missing; write what a million tokens cost, 0 if nothing")
		}
	}
	if inner := join(key, "cached"); r.given.has(inner) && p.Cached == 0 {
		r.wrong(inner, "is 0; write more, or leave it out where it is the price of input")
	}
}

// checkUpstreams judges the places of one model.
func (r *reader) checkUpstreams(c *Config, key, name string, m Model, owner map[string]string) {
	switch {
	case len(m.Upstreams) == 0 && m.URL == "":
		r.wrong(key, "says nowhere where the model is; write its url, its upstreams, or the alias that it is")
		return
	case len(m.Upstreams) == 0:
		r.checkUpstream(c, key, key, name, m.only(name), owner)
		return
	case len(m.Upstreams) > maxUpstreams:
		r.wrong(join(key, "upstreams"), "are %d; write at most %d", len(m.Upstreams), maxUpstreams)
		return
	}
	for _, beside := range []string{"url", "headers", "model", "network", "cidrs", "pass"} {
		if inner := join(key, beside); r.given.has(inner) {
			r.wrong(inner, "is written beside upstreams; write it with each of them")
		}
	}
	if !m.Usage {
		r.wrong(join(key, "usage"), "is written beside upstreams; write it with each of them")
	}
	for i, u := range m.Upstreams {
		at := upstreamKey(key, i)
		r.checkUpstream(c, at, join(at, "name"), name, u, owner)
	}
}

// checkUpstream judges one. named is the key that its name comes from.
func (r *reader) checkUpstream(c *Config, key, named, model string, u Upstream, owner map[string]string) {
	generated := key == named
	switch other, taken := owner[u.Name]; {
	case u.Name == "":
		r.wrong(named, "is missing; give the upstream a name of its own")
	case (!schemas.ValidID(u.Name) || len(u.Name) > maxUpstreamName) && generated:
		r.wrong(key, "has a name that is too long to call its upstream by; write upstreams, with a name of at most %d characters", maxUpstreamName)
	case !schemas.ValidID(u.Name) || len(u.Name) > maxUpstreamName:
		r.wrong(named, "is not at most %d letters, digits, dots, underscores, colons and hyphens", maxUpstreamName)
	case taken && generated:
		r.wrong(key, "calls its upstream %s, as %s does; write upstreams, with a name of its own", u.Name, other)
	case taken:
		r.wrong(named, "is that of %s too; each upstream has a name of its own", other)
	default:
		owner[u.Name] = named
	}
	if at := join(key, "weight"); r.given.has(at) {
		between(r, at, u.Weight, 1, maxWeight)
	}
	r.checkSent(join(key, "model"), model, u.Model)
	r.checkPass(c, join(key, "pass"), u.Pass)
	if r.checkModelURL(join(key, "url"), u.URL) && r.checkModelHeaders(join(key, "headers"), u.Headers) {
		for at, what := range verdicts(u.entry()) {
			switch at {
			case "url_prefix":
				r.wrong(join(key, "url"), "%s", what)
			case "headers", "network", "cidrs":
				r.wrong(join(key, at), "%s", what)
			case "name": // it was judged here
			default:
				r.wrong(key, "%s", what)
			}
		}
		c.warnings = append(c.warnings, c.doubts(join(key, "url"), u)...)
	}
}

// checkSent judges the name that an upstream is asked for, in which a pattern's * may stand.
func (r *reader) checkSent(key, model, sent string) {
	switch {
	case sent == "":
	case strings.Count(sent, "*") > 1 || !schemas.ValidModel(strings.Replace(sent, "*", "x", 1)):
		r.wrong(key, "is not the name of a model; write letters, digits and . _ : @ + - in parts with a slash between, one * at most")
	case strings.Contains(sent, "*") && !strings.HasSuffix(model, "*"):
		r.wrong(key, "holds a *, and the model is no pattern")
	}
}

// checkPass judges the members that an upstream gets beyond those that all get.
func (r *reader) checkPass(c *Config, key string, pass Pass) {
	for i, name := range pass {
		at := key + "[" + strconv.Itoa(i) + "]"
		if !r.given.has(at) { // written without a list
			at = key
		}
		switch {
		case name == schemas.PassAll && len(pass) > 1:
			r.wrong(at, "is * beside names; write pass: \"*\" for every member, or only the names")
		case name == schemas.PassAll:
			c.warnings = append(c.warnings, key+": is *: callers choose providers, accounts, other models and stored objects at this upstream, and all tenants share its account; name the members that they need")
		case slices.Contains(pass[:i], name):
			r.wrong(at, "names %s a second time; remove it", name)
		case !completion.ValidMember(name):
			r.wrong(at, "is not the name of a member; write at most %d letters, digits and _ - . : $, such as plugins", completion.MaxMember)
		case completion.Refused(name):
			r.wrong(at, "names a member that is always refused: it would choose where a request goes, with which key, or who is called back; remove it")
		case completion.Stored(completion.Fold(name)):
			c.warnings = append(c.warnings, at+": "+name+" names objects that are stored in the provider's account, which all tenants of this upstream share: each can use those of the others")
		}
	}
}

// checkModelURL tells what policy would say in words that do not fit here. The text is
// not repeated: a URL may hold a key by mistake.
func (r *reader) checkModelURL(key, raw string) bool {
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		r.wrong(key, "is missing; write where the upstream is, such as https://openrouter.ai/api/v1")
	case err != nil:
		r.wrong(key, "is not a URL; write scheme://host[:port][/path]")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "": // without a host, what is added would become it
		r.wrong(key, "is not a URL that begins with http:// or https:// and a host")
	case u.User != nil:
		r.wrong(key, "holds a user name or a password; put the credential in headers")
	case strings.ContainsAny(raw, "?#"):
		r.wrong(key, "has a query or a fragment; the route is added to its end")
	case strings.HasSuffix(strings.TrimRight(raw, "/"), schemas.RouteChat):
		r.wrong(key, "ends in the route that is added to it; leave out %s", schemas.RouteChat)
	default:
		return true
	}
	return false
}

// checkModelHeaders refuses those that Weir sets by what it sends.
func (r *reader) checkModelHeaders(key string, headers map[string]string) bool {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		switch strings.ToLower(name) {
		case "content-type", "accept":
			r.wrong(join(key, name), "is what Weir sets itself; leave it out")
			return false
		}
	}
	return true
}

// doubts are what looks wrong with an upstream and can still be meant.
func (c Config) doubts(key string, u Upstream) (all []string) {
	if u.Network != policy.NetworkLoopback && strings.HasPrefix(strings.ToLower(u.URL), "http:") && credentials(u.Headers) {
		all = append(all, key+": is plain http to another machine: whoever is on the way reads the key in headers; use https")
	}
	if c.own(u.URL) {
		return append(all, key+": is an address of this node, which is never a target: every completion of it will be denied with "+string(schemas.DenyAddress))
	}
	if wrong := unreached(u.entry(), u.base()+schemas.RouteChat, "completion"); wrong != "" {
		all = append(all, key+": "+wrong)
	}
	return all
}

// credentials reports whether headers hold something that nobody else is to read.
func credentials(headers map[string]string) bool {
	for name, value := range headers {
		pieces, err := placeholder.Parse(value)
		secret := err != nil || slices.ContainsFunc(pieces, func(p placeholder.Piece) bool { return p.Name != "" })
		if secret || value != "" && redact.Credential(name) {
			return true
		}
	}
	return false
}
