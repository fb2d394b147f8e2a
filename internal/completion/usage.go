package completion

import (
	"math"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"weir/schemas"
)

// maxTokens is about a hundred times the largest context. A count above it is a mistake, and would
// exhaust a budget permanently.
const maxTokens = 1 << 30

// The counts of a usage.
const (
	prompt = iota
	output
	total
	cached
	cacheWrites
	reasoning
	counts
)

// count is what a member of a usage counts: by itself, or by its own members.
type count struct {
	is int
	in string
}

// usages are the members of a usage, with all names that providers have for them.
var usages = map[schemas.Dialect]map[string]count{ //nolint:gochecknoglobals // a constant
	schemas.DialectChat: {
		"prompt_tokens": {is: prompt}, "input_tokens": {is: prompt},
		"completion_tokens": {is: output}, "output_tokens": {is: output},
		"total_tokens":  {is: total},
		"cached_tokens": {is: cached}, "prompt_cache_hit_tokens": {is: cached}, "cache_read_input_tokens": {is: cached},
		"reasoning_tokens":          {is: reasoning},
		"prompt_tokens_details":     {cached, "cached_tokens"},
		"input_tokens_details":      {cached, "cached_tokens"},
		"completion_tokens_details": {reasoning, "reasoning_tokens"},
		"output_tokens_details":     {reasoning, "reasoning_tokens"},
	},
	schemas.DialectMessages: {
		"input_tokens": {is: prompt}, "output_tokens": {is: output},
		"cache_read_input_tokens": {is: cached}, "cache_creation_input_tokens": {is: cacheWrites},
		"output_tokens_details": {reasoning, "thinking_tokens"},
	},
	schemas.DialectEmbeddings: {"prompt_tokens": {is: total}, "input_tokens": {is: total}, "total_tokens": {is: total}},
}

// readUsage reads a usage object; nil if it is missing or implausible. It is accepted as a whole or
// not at all: each count must be a whole number of tokens or null, and both prompt and output
// tokens must be given, or follow from the total in DialectChat. All zeros count as missing: no
// prompt is empty, and some providers write zeros when they do not count. A total that is less than
// its parts is raised.
func readUsage(d schemas.Dialect, usage gjson.Result) *schemas.ChatUsage {
	n := [counts]int64{prompt: -1, output: -1, total: -1} // missing, and below zero unless others imply them
	known := usages[d]
	for name, v := range object(usage).All() {
		c, ok := known[name.Str]
		if c.in != "" {
			v = object(v).Get(c.in)
		}
		if !ok || v.Type == gjson.Null {
			continue
		}
		tokens, ok := tokens(v)
		if !ok {
			return nil
		}
		n[c.is] = max(n[c.is], tokens)
	}
	switch {
	case d == schemas.DialectEmbeddings: // they have no output
		n[prompt], n[output] = n[total], 0
	case d == schemas.DialectMessages: // the protocol counts the input tokens of the cache separately
		if n[prompt] >= 0 {
			n[prompt] += n[cached] + n[cacheWrites]
		}
	case n[prompt] >= 0 && (n[output] < 0 || n[output] == 0 && n[total] > n[prompt]):
		n[output] = n[total] - n[prompt]
	case n[output] >= 0 && n[prompt] < 0:
		n[prompt] = n[total] - n[output]
	}
	if n[prompt] < 0 || n[prompt] > maxTokens || n[output] < 0 || n[prompt]+n[output] == 0 {
		return nil
	}
	return &schemas.ChatUsage{
		Prompt: n[prompt], Completion: n[output], Total: max(n[total], n[prompt]+n[output]),
		Cached: n[cached], CacheWrites: n[cacheWrites], Reasoning: n[reasoning],
	}
}

// tokens reads a number of tokens, which some write with a point or an exponent.
func tokens(v gjson.Result) (int64, bool) {
	if v.Type != gjson.Number || !(v.Num >= 0 && v.Num <= maxTokens) || v.Num != math.Trunc(v.Num) {
		return 0, false
	}
	return int64(v.Num), true
}

// Tokens is an estimate of the tokens of a text with so many bytes.
func Tokens(bytes int64) int64 { return max(0, bytes+bytesPerToken-1) / bytesPerToken }

// bytesPerToken is what a token has in English text.
const bytesPerToken = 4

// length is how many bytes the text between quotes has at most.
func length(in string) int64 {
	n := int64(len(in))
	for i := strings.IndexByte(in, '\\'); i >= 0 && i+1 < len(in); i++ {
		if in[i] != '\\' {
			continue
		}
		if i++; in[i] == 'u' {
			n -= 3 // six of them for one of at most three bytes
		} else {
			n--
		}
	}
	return n
}

// tally counts the tokens and the text of an answer. It has what most answers do.
type tally struct {
	options Options
	usage   *schemas.ChatUsage
	text    int64 // bytes
	before  int64 // bytes of text that preceded the usage
}

// report records a usage. The last one counts, unless it is smaller: usage never decreases.
func (t *tally) report(u *schemas.ChatUsage) (counts bool) {
	if counts = u != nil && (t.usage == nil || u.Total >= t.usage.Total); counts {
		t.usage, t.before = u, t.text
	}
	return counts
}

func (t *tally) Usage() *schemas.ChatUsage { return t.usage }

func (t *tally) Spent() *schemas.ChatUsage {
	if t.usage == nil {
		return nil
	}
	u := *t.usage
	if late := Tokens(t.text - t.before); late > 0 {
		u.Completion, u.Total, u.Estimated = u.Completion+late, u.Total+late, true
	}
	return &u
}

func (t *tally) Output() int64 { return Tokens(t.text) }

func (t *tally) Finished() bool { return false }

// ProviderID is empty: the caller receives the provider's own id.
func (t *tally) ProviderID() string { return "" }

// textOfMembers counts the bytes of the texts of an object's members with these names.
func textOfMembers(v gjson.Result, names ...string) (text int64) {
	for name, m := range object(v).All() {
		switch {
		case !slices.Contains(names, name.Str) || hollow(m):
		case m.Type == gjson.String:
			text += length(inner(m))
		case m.Type == gjson.JSON:
			text += int64(len(m.Raw))
		}
	}
	return text
}
