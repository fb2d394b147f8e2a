package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/policy"
	"weir/schemas"
)

// Model is a model, a pattern of models, or another name for one.
type Model struct {
	// Name of the model that this is another name for. It is written alone.
	Alias string `yaml:"alias,omitempty"`
	// Where its only upstream is: scheme://host[:port][/path], such as
	// https://openrouter.ai/api/v1. /chat/completions is added to it.
	URL string `yaml:"url,omitempty"`
	// Headers that are added to what goes there; they may hold ${secret:NAME}.
	// Callers can neither see nor set them.
	Headers map[string]string `yaml:"headers,omitempty"`
	// The model's name there. A * in it is what the pattern's * stands for. Default
	// the name that it was asked for by.
	Model string `yaml:"model,omitempty"`
	// Where its addresses may lie: public, loopback or private. Default loopback
	// where the URL names this machine, else public.
	Network string `yaml:"network,omitempty" jsonschema:"enum=public,enum=loopback,enum=private"`
	// What a private one may reach.
	CIDRs []string `yaml:"cidrs,omitempty"`
	// Whether it is asked for the usage of a stream: true or false. Default true.
	Usage bool `yaml:"usage"`
	// Members of a request, and types of tools, that it gets beyond those that every
	// upstream gets, such as [plugins, web_search]; docs/chat.md lists those. "*" stands for
	// all: callers then choose providers, accounts and stored objects there. Default none.
	Pass Pass `yaml:"pass,omitempty"`
	// Several upstreams, in the order in which they are asked, in place of url and
	// the keys that belong to it.
	Upstreams []Upstream `yaml:"upstreams,omitempty"`
	// What it costs. Default unknown; a budget of money then refuses it.
	Price *Price `yaml:"price,omitempty"`
	// Tokens that prompt and answer may have together, 1 to 1000000000. Default
	// unknown.
	Context int64 `yaml:"context,omitempty"`
	// Tokens that an answer may have, 1 to 1000000000. Default unknown.
	MaxOutput int64 `yaml:"max_output,omitempty"`
	// Tokens that one image in a prompt is at most, 1 to 1000000000: so much is held for
	// it, and charged where the provider does not tell. Default 49152 and 2048.
	ImageTokens int64 `yaml:"image_tokens,omitempty"`
	// How long its upstreams are waited for.
	Timeouts ModelTimeouts `yaml:"timeouts"`
}

// Upstream is a place where a model can be asked.
type Upstream struct {
	// What it is called: at most 100 letters, digits, dots, underscores, colons and
	// hyphens. No other has this name. Its policy entry is model: and it.
	Name string `yaml:"name" jsonschema:"required"`
	// Where it is: scheme://host[:port][/path], such as https://api.openai.com/v1.
	// /chat/completions is added to it.
	URL string `yaml:"url" jsonschema:"required"`
	// Headers that are added to what goes there; they may hold ${secret:NAME}.
	// Callers can neither see nor set them.
	Headers map[string]string `yaml:"headers,omitempty"`
	// The model's name there. A * in it is what the pattern's * stands for. Default
	// the name that it was asked for by.
	Model string `yaml:"model,omitempty"`
	// Where its addresses may lie: public, loopback or private. Default loopback
	// where the URL names this machine, else public.
	Network string `yaml:"network,omitempty" jsonschema:"enum=public,enum=loopback,enum=private"`
	// What a private one may reach.
	CIDRs []string `yaml:"cidrs,omitempty"`
	// Its share of the load among those beside it that have one, 1 to 1000. Default
	// none: it is asked where those before it did not answer.
	Weight int `yaml:"weight,omitempty"`
	// Whether it is asked for the usage of a stream: true or false. Default true.
	Usage bool `yaml:"usage"`
	// Members of a request, and types of tools, that it gets beyond those that every
	// upstream gets, such as [plugins, web_search]; docs/chat.md lists those. "*" stands for
	// all: callers then choose providers, accounts and stored objects there. Default none.
	Pass Pass `yaml:"pass,omitempty"`
}

// Pass are names of members of a request. One name may be written without a list.
type Pass []string

// Price is what a model costs, in US dollars.
type Price struct {
	// A million tokens of a prompt, 0 to 1000000.
	Input USD `yaml:"input" jsonschema:"required"`
	// A million tokens of an answer, 0 to 1000000.
	Output USD `yaml:"output" jsonschema:"required"`
	// A million tokens of a prompt that the provider had kept. Default that of input.
	Cached USD `yaml:"cached,omitempty"`
	// A request, 0 to 1000000. Default 0.
	Request USD `yaml:"request,omitempty"`
}

// ModelTimeouts is how long a model's upstreams are waited for.
type ModelTimeouts struct {
	// Until a connection stands, 100ms to 1m. Default 5s.
	Connect time.Duration `yaml:"connect"`
	// From there until the answer begins, 100ms to 1h. Default 2m.
	FirstByte time.Duration `yaml:"first_byte"`
	// Until anything more of the answer comes, 100ms to 1h. Default 1m.
	Idle time.Duration `yaml:"idle"`
}

// newModel and newUpstream are what they are before the file says anything of them.
func newModel() Model {
	return Model{Usage: true, Timeouts: ModelTimeouts{Connect: 5 * time.Second, FirstByte: 2 * time.Minute, Idle: time.Minute}}
}

func newUpstream() Upstream { return Upstream{Usage: true} }

// only is what the model says of its one upstream; its name is made from the model's.
func (m Model) only(name string) Upstream {
	return Upstream{
		Name: upstreamName(name), URL: m.URL, Headers: m.Headers, Model: m.Model, Network: m.Network, CIDRs: m.CIDRs, Usage: m.Usage, Pass: m.Pass,
	}
}

// upstreams are those of the model of this name.
func (m Model) upstreams(name string) []Upstream {
	switch {
	case m.Alias != "":
		return nil
	case len(m.Upstreams) > 0:
		return m.Upstreams
	default:
		return []Upstream{m.only(name)}
	}
}

// upstreamKey is where the n-th upstream of the model at a key stands.
func upstreamKey(key string, n int) string {
	return join(key, "upstreams") + "[" + strconv.Itoa(n) + "]"
}

// upstreamName makes the name of a model or pattern one that a policy entry can have.
func upstreamName(model string) string {
	return strings.NewReplacer("/", ":", "*", "any", "@", "-", "+", "-").Replace(model)
}

// base is the URL as the route is added to it.
func (u Upstream) base() string { return strings.TrimSuffix(u.URL, "/") }

func (u Upstream) entry() policy.Entry {
	return policy.Entry{
		Name: schemas.ModelEntry(u.Name), Agent: true, URLPrefix: u.base() + schemas.RouteChat, Methods: []string{"POST"},
		Network: u.Network, CIDRs: u.CIDRs, Headers: u.Headers, Pass: u.Pass,
	}
}

// ChatModels are the models by name, as those who ask them see them.
func (c Config) ChatModels() []schemas.Model {
	list := make([]schemas.Model, 0, len(c.Models))
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		m := c.Models[name]
		if m.Alias != "" {
			list = append(list, schemas.Model{Name: name, Alias: m.Alias})
			continue
		}
		s := schemas.Model{
			Name: name, Price: m.Price.perThousand(), Context: m.Context, MaxOutput: m.MaxOutput, ImageTokens: m.ImageTokens,
			Connect: m.Timeouts.Connect, FirstByte: m.Timeouts.FirstByte, Idle: m.Timeouts.Idle,
		}
		key := join("models", name)
		for i, u := range m.upstreams(name) {
			at := key
			if len(m.Upstreams) > 0 {
				at = upstreamKey(key, i)
			}
			s.Upstreams = append(s.Upstreams, schemas.ModelUpstream{
				Name: u.Name, URL: u.base(), Model: u.Model, Weight: u.Weight, Usage: u.Usage, Pass: u.Pass, Key: at,
			})
		}
		list = append(list, s)
	}
	return list
}

// perThousand is the price in the units that are counted with.
func (p *Price) perThousand() *schemas.ModelPrice {
	if p == nil {
		return nil
	}
	const thousands = 1000 // in a million
	return &schemas.ModelPrice{
		Input: int64(p.Input / thousands), Output: int64(p.Output / thousands), Cached: int64(p.Cached / thousands), Request: int64(p.Request),
	}
}

// modelEntries are the policy entries of the models' upstreams.
func (c Config) modelEntries() []policy.Entry {
	var entries []policy.Entry
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		for _, u := range c.Models[name].upstreams(name) {
			entries = append(entries, u.entry())
		}
	}
	return entries
}

// deriveModels says where an upstream lies whose URL tells it.
func deriveModels(c *Config) {
	for name, m := range c.Models {
		m.Network = networkOf(m.URL, m.Network)
		m.Upstreams = slices.Clone(m.Upstreams)
		for i := range m.Upstreams {
			m.Upstreams[i].Network = networkOf(m.Upstreams[i].URL, m.Upstreams[i].Network)
		}
		c.Models[name] = m
	}
}

// networkOf is what is said, or else what a URL tells.
func networkOf(url, said string) string {
	switch {
	case said != "" || url == "":
		return said
	case local(url):
		return policy.NetworkLoopback
	default:
		return policy.NetworkPublic
	}
}
