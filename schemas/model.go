package schemas

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// MaxModel is the longest name of a model, in bytes.
const MaxModel = 256

// ModelEntryPrefix begins the names of the policy entries of models' upstreams, and
// of no others.
const ModelEntryPrefix = "model:"

// PassAll stands for every member. It is alone in an upstream's pass.
const PassAll = "*"

// ModelEntry is the name of the policy entry that the calls of an upstream go by.
func ModelEntry(upstream string) string { return ModelEntryPrefix + upstream }

// ValidModel reports whether a text can name a model in a request: letters, digits and . _ : @ + -
// , in parts separated by slashes, each non-empty and not only dots. A leading ~ is allowed. A # is
// not: providers read their own deployments after it.
func ValidModel(s string) bool {
	if s == "" || len(s) > MaxModel {
		return false
	}
	dots := true // of this part
	for i := range len(s) {
		switch c := s[i]; {
		case c == '~' && i == 0:
		case c == '/':
			if dots {
				return false
			}
			dots = true
		case c == '.':
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == ':', c == '@', c == '+', c == '-':
			dots = false
		default:
			return false
		}
	}
	return !dots
}

// Model is a model, or a pattern of models, as the configuration in force describes it.
type Model struct {
	// Name is what it is asked for by: an exact name, or a pattern that ends in *.
	Name  string `yaml:"-"`
	Alias string `yaml:"alias"` // Name of the model that this is another name for. It is written alone.
	// Upstreams are asked in turn; those that stand together in weight share the load.
	Upstreams []ModelUpstream `yaml:"-"`
	Price     *ModelPrice     `yaml:"-"`
	Context   int64           `yaml:"context" bounds:"1 to 1000000000"`    // Tokens that prompt and answer may have together. Default unknown.
	MaxOutput int64           `yaml:"max_output" bounds:"1 to 1000000000"` // Tokens that an answer may have. Default unknown.
	// Tokens that one image in a prompt is at most: so much is held for it, and charged where the
	// provider does not tell. Default 49152 and 2048.
	ImageTokens int64         `yaml:"image_tokens" bounds:"1 to 1000000000"`
	Timeouts    ModelTimeouts `yaml:"timeouts"` // How long its upstreams are waited for.
}

// ModelTimeouts is how long a model's upstreams are waited for.
type ModelTimeouts struct {
	Connect   time.Duration `yaml:"connect" default:"5s" bounds:"100ms to 1m"`    // Until a connection stands.
	FirstByte time.Duration `yaml:"first_byte" default:"2m" bounds:"100ms to 1h"` // From there until the answer begins.
	Idle      time.Duration `yaml:"idle" default:"1m" bounds:"100ms to 1h"`       // Until anything more of the answer comes.
}

// ModelUpstream is one place where a model can be asked.
type ModelUpstream struct {
	Name string // unique among all upstreams
	URL  string // a dialect's Route is added to it; no slash at its end
	// Dialects are those that it speaks; none: all. See Speaks.
	Dialects []Dialect
	// Model is the model's name there. Empty: the name that was asked for. A * in it is
	// what the pattern's * stood for.
	Model string
	// Weight is its share of the load among neighbours that have one; 0: it is asked in
	// its turn.
	Weight int
	// Usage: it is asked for the usage of a stream.
	Usage bool
	// Pass are the members of a request, and the types of tools, that it gets beyond those
	// that every upstream gets; PassAll alone: all.
	Pass []string
	// Key is where the configuration describes it.
	Key string
}

// ModelPrice is a price in billionths of a US dollar.
type ModelPrice struct {
	Input, Output, Cached int64 // a thousand tokens of each
	// CacheWrite is that of prompt tokens that the provider stores in its cache; 0: Input.
	CacheWrite int64
	Request    int64
}

// ModelView is a model as GET /models shows it: to clients of OpenAI's protocols and to those of
// Anthropic's at once.
type ModelView struct {
	ID      string `json:"id"`
	Object  string `json:"object"` // model
	Type    string `json:"type"`   // model
	Created int64  `json:"created"`
	// CreatedAt is Created as a text; both are the provider's, or 1970 where it says nothing.
	CreatedAt   time.Time `json:"created_at"`
	OwnedBy     string    `json:"owned_by"`
	DisplayName string    `json:"display_name"` // the provider's, or the id
	// AliasOf is the model that the id is another name for; absent: it is none.
	AliasOf string `json:"alias_of,omitempty"`
	// ContextLength and Pricing are absent if they are unknown.
	ContextLength int64         `json:"context_length,omitempty"`
	Pricing       *ModelPricing `json:"pricing,omitempty"`
}

// ModelPricing is what a model costs, in US dollars a token and a request, as decimal
// texts.
type ModelPricing struct {
	Prompt     string `json:"prompt"`
	Completion string `json:"completion"`
	Request    string `json:"request"`
}

// ModelList answers GET /models.
type ModelList struct {
	Object string      `json:"object"` // list
	Data   []ModelView `json:"data"`
	// HasMore, FirstID and LastID are for readers that ask for pages with limit, after_id and
	// before_id. Without them the list is whole.
	HasMore bool    `json:"has_more"`
	FirstID *string `json:"first_id" jsonschema:"nullable"`
	LastID  *string `json:"last_id" jsonschema:"nullable"`
}

// ListedModel is a model in the list of a provider's own.
type ListedModel struct {
	ID          string `json:"id"`
	DisplayName string `json:"display_name,omitempty"`
	Created     int64  `json:"created,omitempty"` // Unix time; 0: unknown
	Context     int64  `json:"context,omitempty"` // tokens; 0: unknown
}

// ProviderModels is the record of an upstream in ModelBucket: its own list of models, and when it
// is due to be read again.
type ProviderModels struct {
	V        int    `json:"v"`
	Upstream string `json:"upstream"`
	// Source tells two URLs of the upstream apart.
	Source string `json:"source"`
	// Due is when the list is read next. A worker that reads it now has moved Due on.
	Due time.Time `json:"due"`
	// Read is when Models was read; zero: never. Failures counts the attempts since then that
	// failed, and Reason is why the last one did.
	Read     time.Time     `json:"read,omitzero"`
	Failures int           `json:"failures,omitempty"`
	Reason   string        `json:"reason,omitempty"`
	Models   []ListedModel `json:"models"`
}

// The resources that a budget counts.
const (
	BudgetRequests = "requests"
	BudgetTokens   = "tokens"
	BudgetUSD      = "usd"
)

// The properties for whose values a budget has separate accounts.
const (
	PerTenant = "tenant"
	PerToken  = "token"
	PerTask   = "task"
	PerModel  = "model"
)

// BudgetOfTask is the name of the budget that a task itself brings.
const BudgetOfTask = "task"

// SubtokenAccount is the task of the account of a subtoken's own budget, as BudgetView has it.
func SubtokenAccount(task string, n int) string { return task + "/" + strconv.Itoa(n) }

// Budget bounds the use of models, by the keys that it has.
type Budget struct {
	Name string `yaml:"-"` // the key of weir.yaml; the others describe those below it, of which a count of 0 bounds nothing
	// What each has an account of its own: tenant, token, task, model, or several together, such as
	// [token, model] for each pair. Accounts are each tenant's own in any case. With task it bounds
	// the completions of tasks and no others. Default tenant.
	Per []string `yaml:"per" jsonschema:"enum=tenant,enum=token,enum=task,enum=model"`
	// Names or patterns of the counted models, such as openai/*; for aliases, the names that they
	// stand for. Default all.
	Models  []string `yaml:"models"`
	Tenants []string `yaml:"tenants"` // Names of the tenants that it bounds. Default all.
	// Length of a window: windows begin at whole multiples of it in UTC. Default 0: a single window
	// without end.
	Window   time.Duration `yaml:"window" bounds:"0 or 1s to 8760h"`
	Requests int64         `yaml:"requests" bounds:"1 to 1000000000000000"` // Completions.
	Tokens   int64         `yaml:"tokens" bounds:"1 to 1000000000000000"`   // Tokens of prompts and answers together.
	// Money by the models' prices, in US dollars. Models without a price are refused.
	Nanos USD `yaml:"usd" bounds:"0.000000001 to 999999999.999999999"`
}

// USD is an amount of US dollars, in billionths of one. In text it is a decimal number without a
// sign, such as 12.5, with at most nine digits after the point.
type USD int64

var errUSD = errors.New("is not an amount of US dollars")

// UnmarshalText implements encoding.TextUnmarshaler.
func (u *USD) UnmarshalText(text []byte) error {
	whole, fraction, point := strings.Cut(string(text), ".")
	if whole == "" || len(whole) > 9 || point && fraction == "" || len(fraction) > 9 {
		return errUSD
	}
	n, err := strconv.ParseUint(whole+fraction+strings.Repeat("0", 9-len(fraction)), 10, 63)
	*u = USD(n)
	return err
}

// BudgetView is one account, as GET /v1/budgets shows it.
type BudgetView struct {
	Budget string `json:"budget"`
	// Token, Task and Model are whose it is, as far as the budget tells them apart. The account of a
	// task's subtoken has the number of that after the task, such as ID/3.
	Token string `json:"token,omitempty"`
	Task  string `json:"task,omitempty"`
	Model string `json:"model,omitempty"`
	// Requests, Tokens and USD are absent where the budget does not bound them.
	Requests *BudgetCount `json:"requests,omitempty"`
	Tokens   *BudgetCount `json:"tokens,omitempty"`
	USD      *BudgetCount `json:"usd,omitempty"`
	// Open is how many completions hold a part of it just now.
	Open int `json:"open"`
	// Resets is when the window ends.
	Resets time.Time `json:"resets,omitzero"`
}

// BudgetCount is one count of an account. Of money it is in US dollars.
type BudgetCount struct {
	Limit float64 `json:"limit"`
	Used  float64 `json:"used"`
	// Held is reserved for running completions.
	Held float64 `json:"held"`
}

// RouteBudgets is where the accounts of a tenant are read.
const RouteBudgets = "/v1/budgets"
