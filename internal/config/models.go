package config

import (
	"maps"
	"slices"
	"strings"
	"time"

	"weir/internal/policy"
	"weir/schemas"
)

// Model is a model, a pattern of models, or another name for one.
type Model struct {
	// Name of the model that this is another name for. It is written alone.
	Alias string `yaml:"alias"`
	Target
	// Several upstreams, in the order in which they are asked, in place of url and the keys that
	// belong to it.
	Upstreams []Upstream `yaml:"upstreams"`
	// What it costs. Default unknown; a budget of money then refuses it.
	Price *Price `yaml:"price"`
	// Tokens that prompt and answer may have together, 1 to 1000000000. Default unknown.
	Context int64 `yaml:"context" bounds:"1 to 1000000000"`
	// Tokens that an answer may have, 1 to 1000000000. Default unknown.
	MaxOutput int64 `yaml:"max_output" bounds:"1 to 1000000000"`
	// Tokens that one image in a prompt is at most, 1 to 1000000000: so much is held for it, and
	// charged where the provider does not tell. Default 49152 and 2048.
	ImageTokens int64 `yaml:"image_tokens" bounds:"1 to 1000000000"`
	// How long its upstreams are waited for.
	Timeouts ModelTimeouts `yaml:"timeouts"`
}

// Upstream is a place where a model can be asked.
type Upstream struct {
	// What it is called: at most 100 letters, digits, dots, underscores, colons and hyphens. No
	// other has this name. Its policy entry is model: and it.
	Name string `yaml:"name" jsonschema:"required"`
	Target
	// Its share of the load among those beside it that have one, 1 to 1000. Default none: it is
	// asked where those before it did not answer.
	Weight int `yaml:"weight" bounds:"1 to 1000"`
}

// Target is where a model can be asked, and how.
type Target struct {
	// Where it is: scheme://host[:port][/path], such as https://openrouter.ai/api/v1.
	// /chat/completions is added to it.
	URL string `yaml:"url"`
	// Headers that are added to what goes there; they may hold ${secret:NAME}. Callers can neither
	// see nor set them.
	Headers map[string]string `yaml:"headers"`
	// The model's name there. A * in it is what the pattern's * stands for. Default the name that
	// it was asked for by.
	Model string `yaml:"model"`
	// Where its addresses may lie: public, loopback or private. Default loopback where the URL
	// names this machine, else public.
	Network string `yaml:"network" jsonschema:"enum=public,enum=loopback,enum=private"`
	// What a private one may reach.
	CIDRs []string `yaml:"cidrs"`
	// Whether it is asked for the usage of a stream: true or false. Default true.
	Usage bool `yaml:"usage" default:"true"`
	// Members of a request, and types of tools, that it gets beyond those that every upstream gets,
	// such as [plugins, web_search]; docs/chat.md lists those. "*" stands for all: callers then
	// choose providers, accounts and stored objects there. Default none.
	Pass Pass `yaml:"pass"`
	opaque
}

// Pass are names of members of a request. One name may be written without a list.
type Pass []string

// Price is what a model costs, in US dollars.
type Price struct {
	// A million tokens of a prompt, 0 to 1000000.
	Input USD `yaml:"input" jsonschema:"required" bounds:"0 to 1000000"`
	// A million tokens of an answer, 0 to 1000000.
	Output USD `yaml:"output" jsonschema:"required" bounds:"0 to 1000000"`
	// A million tokens of a prompt that the provider had kept. Default that of input.
	Cached USD `yaml:"cached" bounds:"0 to 1000000"`
	// A request, 0 to 1000000. Default 0.
	Request USD `yaml:"request" bounds:"0 to 1000000"`
}

// ModelTimeouts is how long a model's upstreams are waited for.
type ModelTimeouts struct {
	// Until a connection stands, 100ms to 1m. Default 5s.
	Connect time.Duration `yaml:"connect" default:"5s" bounds:"100ms to 1m"`
	// From there until the answer begins, 100ms to 1h. Default 2m.
	FirstByte time.Duration `yaml:"first_byte" default:"2m" bounds:"100ms to 1h"`
	// Until anything more of the answer comes, 100ms to 1h. Default 1m.
	Idle time.Duration `yaml:"idle" default:"1m" bounds:"100ms to 1h"`
}

// Budget bounds what is used of models. What it does not name it does not bound.
type Budget struct {
	// What each has an account of its own: tenant, token, task, model, or several together, such as
	// [token, model] for each pair. Accounts are each tenant's own in any case. With task it bounds
	// the completions of tasks and no others. Default tenant.
	Per []string `yaml:"per" jsonschema:"enum=tenant,enum=token,enum=task,enum=model"`
	// Names or patterns of the models that it counts, such as openai/*; of aliases the names behind
	// them. Default all.
	Models []string `yaml:"models"`
	// Names of the tenants that it bounds. Default all.
	Tenants []string `yaml:"tenants"`
	// After how long it begins anew, 1s to 8760h: windows begin at whole multiples of it in UTC.
	// Default 0: never.
	Window time.Duration `yaml:"window" bounds:"0 or 1s to 8760h"`
	// Completions, at least 1.
	Requests int64 `yaml:"requests" bounds:"1 to 1000000000000000"`
	// Tokens of prompts and answers together, at least 1.
	Tokens int64 `yaml:"tokens" bounds:"1 to 1000000000000000"`
	// Money by the models' prices, in US dollars. Models without a price are refused.
	USD USD `yaml:"usd"`
}

// upstreams are those of the model of this name. The name of an only one is made from the model's.
func (m Model) upstreams(name string) []Upstream {
	if m.Alias == "" && len(m.Upstreams) == 0 {
		entry := strings.NewReplacer("/", ":", "*", "any", "@", "-", "+", "-").Replace(name)
		return []Upstream{{Name: entry, Target: m.Target}}
	}
	return m.Upstreams
}

// at is the key of the n-th upstream of the model at a key.
func (m Model) at(key string, n int) string {
	if len(m.Upstreams) == 0 {
		return key
	}
	return item(key+".upstreams", n)
}

// base is the URL without a slash at its end.
func (t Target) base() string { return strings.TrimSuffix(t.URL, "/") }

func (u Upstream) entry() policy.Entry {
	return policy.Entry{
		Name: schemas.ModelEntry(u.Name), Agent: true, URLPrefix: u.base() + schemas.RouteChat, Methods: []string{"POST"},
		Network: u.Network, CIDRs: u.CIDRs, Headers: u.Headers, Pass: u.Pass,
	}
}

// ChatModels are the models by name, in the form that the completions use.
func (c Config) ChatModels() []schemas.Model {
	list := make([]schemas.Model, 0, len(c.Models))
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		m := c.Models[name]
		if m.Alias != "" {
			list = append(list, schemas.Model{Name: name, Alias: m.Alias})
			continue
		}
		s := schemas.Model{
			Name: name, Context: m.Context, MaxOutput: m.MaxOutput, ImageTokens: m.ImageTokens,
			Connect: m.Timeouts.Connect, FirstByte: m.Timeouts.FirstByte, Idle: m.Timeouts.Idle,
		}
		if p := m.Price; p != nil { // a thousand tokens of each
			s.Price = &schemas.ModelPrice{
				Input: int64(p.Input / 1000), Output: int64(p.Output / 1000), Cached: int64(p.Cached / 1000), Request: int64(p.Request),
			}
		}
		for i, u := range m.upstreams(name) {
			s.Upstreams = append(s.Upstreams, schemas.ModelUpstream{
				Name: u.Name, URL: u.base(), Model: u.Model, Weight: u.Weight, Usage: u.Usage, Pass: u.Pass,
				Key: m.at(join("models", name), i),
			})
		}
		list = append(list, s)
	}
	return list
}

// ModelBudgets are the budgets by name, in the form that the completions use.
func (c Config) ModelBudgets() []schemas.Budget {
	list := make([]schemas.Budget, 0, len(c.Budgets))
	for _, name := range slices.Sorted(maps.Keys(c.Budgets)) {
		b := c.Budgets[name]
		list = append(list, schemas.Budget{
			Name: name, Per: b.Per, Models: b.Models, Tenants: b.Tenants, Window: b.Window,
			Requests: b.Requests, Tokens: b.Tokens, Nanos: int64(b.USD),
		})
	}
	return list
}
