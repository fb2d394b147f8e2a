package config

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"weir/internal/policy"
	"weir/schemas"
)

// Agent is a remote agent: a service that speaks the run contract.
type Agent struct {
	schemas.Agent
	Token string `yaml:"token"` // Bearer token to send; it may be ${secret:NAME}. Default none.
	// Where its addresses may lie: public, loopback or private. Default loopback where the URL
	// names this machine, else public.
	Network string   `yaml:"network" jsonschema:"enum=public,enum=loopback,enum=private"`
	CIDRs   []string `yaml:"cidrs"` // Networks that a private one may reach.
	// Whether each call has its span, in the header traceparent. Default false.
	Trace bool `yaml:"trace"`
	opaque
}

// base is the URL without a slash at its end.
func (a Agent) base() string { return strings.TrimSuffix(a.URL, "/") }

func (a Agent) entry(taskType string) policy.Entry {
	e := policy.Entry{
		Name: schemas.AgentEntry(taskType), Agent: true, URLPrefix: a.base() + schemas.RouteRuns, Methods: []string{"POST"},
		Network: a.Network, CIDRs: a.CIDRs, Headers: map[string]string{},
	}
	if a.Token != "" {
		e.Headers["Authorization"] = "Bearer " + a.Token
	}
	if a.Trace {
		e.Headers["Traceparent"] = policy.TracePlaceholder
	}
	return e
}

// RunAgents are the remote agents by task type, in the form that the runs use.
func (c Config) RunAgents() map[string]schemas.Agent {
	agents := make(map[string]schemas.Agent, len(c.Agents))
	for taskType, a := range c.Agents {
		a.TaskType, a.URL = taskType, a.base()
		agents[taskType] = a.Agent
	}
	return agents
}

// entries are the policy entries of the agents and then of the models, in the order of their names.
func (c Config) entries() []policy.Entry {
	var all []policy.Entry
	for _, taskType := range slices.Sorted(maps.Keys(c.Agents)) {
		all = append(all, c.Agents[taskType].entry(taskType))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		for _, u := range c.Models[name].upstreams(name) {
			all = append(all, u.entry())
		}
	}
	return all
}

// Compile makes the policy that the configuration describes, for a node that listens at these addresses;
// an empty one is none. Their ports, and the ports in the configuration's addresses, are no targets on loopback.
// If other machines reach one of these, they are no targets on the addresses either that own returns.
func (c Config) Compile(own func() ([]netip.Addr, error), at ...string) (*policy.Policy, error) {
	cfg := policy.Config{
		Entries:      slices.Concat(c.Policy.Allowlist, c.entries()),
		AllowedHosts: c.Policy.AllowedHosts, MaxBody: int(c.Limits.Body), MaxUpload: int(c.Limits.Upload),
	}
	for _, address := range append([]string{c.Listen, c.NATS.Listen}, at...) {
		_, port, err := net.SplitHostPort(address)
		if n, bad := strconv.ParseUint(port, 10, 16); err == nil && bad == nil && n != 0 {
			cfg.SelfPorts = append(cfg.SelfPorts, uint16(n))
		}
	}
	if own != nil && slices.ContainsFunc(at, func(address string) bool { return address != "" && !Loopback(address) }) {
		var err error
		if cfg.SelfAddrs, err = own(); err != nil {
			return nil, fmt.Errorf("the addresses of this machine: %w", err)
		}
	}
	return policy.Compile(cfg)
}

// Model is a model, a pattern of models, or another name for one.
type Model struct {
	ModelKeys
	Target
	// Several upstreams, in the order in which they are asked, in place of url and the keys that
	// belong to it.
	Upstreams []Upstream `yaml:"upstreams"`
	Price     *Price     `yaml:"price"` // Its price. Default unknown; a budget of money then refuses it.
}

// ModelKeys are the keys that completions use as they are written.
type ModelKeys = schemas.Model

// Upstream is a place where a model can be asked.
type Upstream struct {
	// Name, unique, at most 100 letters, digits, dots, underscores, colons and hyphens. Its policy
	// entry is the name with the prefix model:.
	Name string `yaml:"name" jsonschema:"required"`
	Target
	// Its share of the load among those beside it that have one. Default none: it is asked where
	// those before it did not answer.
	Weight int `yaml:"weight" bounds:"1 to 1000"`
}

// Target is where a model can be asked, and how.
type Target struct {
	// Where it is: scheme://host[:port][/path], such as https://openrouter.ai/api/v1. The routes of its
	// dialects are added to it, such as /chat/completions, /responses, /messages and /embeddings.
	URL string `yaml:"url"`
	// Protocols that it speaks: chat for chat completions, responses, messages, embeddings. A request
	// of another protocol goes to other upstreams of the model. Default all.
	Dialects []schemas.Dialect `yaml:"dialects" jsonschema:"enum=chat,enum=responses,enum=messages,enum=embeddings"`
	// Headers that are added to what goes there; they may hold ${secret:NAME}. Callers can neither
	// see nor set them.
	Headers map[string]string `yaml:"headers"`
	// The model's name there. A * in it is what the pattern's * stands for. Default the name that
	// it was asked for by.
	Model string `yaml:"model"`
	// Where its addresses may lie: public, loopback or private. Default loopback where the URL
	// names this machine, else public.
	Network string   `yaml:"network" jsonschema:"enum=public,enum=loopback,enum=private"`
	CIDRs   []string `yaml:"cidrs"`                // Networks that a private one may reach.
	Usage   bool     `yaml:"usage" default:"true"` // Whether it is asked for the usage of a stream: true or false.
	// Members of a request, and types of tools, that it gets beyond those that every upstream gets,
	// such as [plugins, web_search]; docs/reference/chat.md lists those. "*" stands for all: callers then
	// choose providers, accounts and stored objects there. Default none.
	Pass Pass `yaml:"pass"`
	opaque
}

// Pass are names of members of a request. One name may be written without a list.
type Pass []string

// Price is what a model costs, in US dollars.
type Price struct {
	Input  schemas.USD `yaml:"input" jsonschema:"required" bounds:"0 to 1000000"`  // A million tokens of a prompt.
	Output schemas.USD `yaml:"output" jsonschema:"required" bounds:"0 to 1000000"` // A million tokens of an answer.
	// A million tokens of a prompt that the provider had kept. Default that of input.
	Cached schemas.USD `yaml:"cached" bounds:"0.000001 to 1000000"`
	// A million tokens of a prompt that the provider stores in its cache. Default that of input.
	CacheWrite schemas.USD `yaml:"cache_write" bounds:"0.000001 to 1000000"`
	Request    schemas.USD `yaml:"request" bounds:"0 to 1000000"` // A request. Default 0.
}

// upstreams are the places of the model with this name. If url is the only one, its name is made from
// the model's.
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

// routes are the calls that Weir makes of it: its dialects, and its list of models.
func (t Target) routes() []string {
	all := []string{"GET " + schemas.RouteModels}
	for _, d := range schemas.AllDialects() {
		if (schemas.ModelUpstream{Dialects: t.Dialects}).Speaks(d) {
			all = append(all, "POST "+d.Route())
		}
	}
	return all
}

func (u Upstream) entry() policy.Entry {
	var params []string
	if len(u.Headers) > 0 { // an entry that adds nothing leaves all of them to its caller, which is Weir
		params = []string{"after_id", "limit"} // of a list in pages
	}
	return policy.Entry{
		Name: schemas.ModelEntry(u.Name), Agent: true, URLPrefix: u.base(), Methods: []string{"GET", "POST"}, Routes: u.routes(),
		Network: u.Network, CIDRs: u.CIDRs, Headers: u.Headers, CallerParams: params, Pass: u.Pass,
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
		s := m.ModelKeys
		s.Name = name
		if p := m.Price; p != nil { // a thousand tokens of each
			s.Price = &schemas.ModelPrice{
				Input: int64(p.Input / 1000), Output: int64(p.Output / 1000), Cached: int64(p.Cached / 1000),
				CacheWrite: int64(p.CacheWrite / 1000), Request: int64(p.Request),
			}
		}
		for i, u := range m.upstreams(name) {
			s.Upstreams = append(s.Upstreams, schemas.ModelUpstream{
				Name: u.Name, URL: u.base(), Dialects: u.Dialects, Model: u.Model, Weight: u.Weight, Usage: u.Usage, Pass: u.Pass,
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
		b.Name = name
		list = append(list, b)
	}
	return list
}
