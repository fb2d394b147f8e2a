package schemas

import "time"

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
	Name string
	// Alias is the name of the model that it stands for; its other members are empty then.
	Alias string
	// Upstreams are asked in turn; those that stand together in weight share the load.
	Upstreams []ModelUpstream
	Price     *ModelPrice
	// Context is the maximum number of tokens of prompt and answer together, and MaxOutput that of
	// the answer; 0: unknown.
	Context, MaxOutput int64
	// ImageTokens is the maximum number of prompt tokens for one image; 0: unknown.
	ImageTokens int64
	// Connect, FirstByte and Idle bound the time to connect, then until the answer begins, and then
	// between its parts.
	Connect, FirstByte, Idle time.Duration
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
