package runs

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"weir/ingress/strict"
	"weir/schemas"
)

// The longest labels, in code points.
const (
	maxLabel = 256
	maxMode  = 64
)

// labels reads the strings that are the caller's own, and the risk tier.
func labels(o *schemas.RunOrder, doc document) error {
	for _, l := range []struct {
		name  string
		value jsontext.Value
		most  int
		into  *string
	}{
		{"workflow_id", doc.WorkflowID, maxLabel, &o.WorkflowID},
		{"stage_id", doc.StageID, maxLabel, &o.StageID},
		{"user_id", doc.UserID, maxLabel, &o.UserID},
		{"mode", doc.Mode, maxMode, &o.Mode},
		{"domain_id", doc.DomainID, maxLabel, &o.DomainID},
	} {
		if strict.Absent(l.value) {
			continue
		}
		s, ok := strict.String(l.value)
		if !ok || utf8.RuneCountInString(s) > l.most || strings.ContainsFunc(s, unseen) {
			return refuse(l.name, "must be a string of at most "+strconv.Itoa(l.most)+" characters, without control or formatting characters")
		}
		*l.into = s
	}
	if strict.Absent(doc.RiskTier) {
		return nil
	}
	tier, ok := strict.String(doc.RiskTier)
	if !ok || !slices.Contains(schemas.RiskTiers(), tier) {
		return refuse("risk_tier", "must be one of "+strings.Join(schemas.RiskTiers(), ", "))
	}
	o.RiskTier = tier
	return nil
}

// unseen reports a character that a reader of a log or a page does not see, or
// that changes what the reader sees of others.
func unseen(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }

// budgets checks the members that Weir knows. All members go on to the agent as they came.
func budgets(o *schemas.RunOrder, v jsontext.Value, longest time.Duration) error {
	if strict.Absent(v) {
		return nil
	}
	var raw struct {
		MaxOutputTokens  jsontext.Value `json:"max_output_tokens"`
		MaxContextTokens jsontext.Value `json:"max_context_tokens"`
		MaxEscalations   jsontext.Value `json:"max_escalations"`
		TimeoutMS        jsontext.Value `json:"timeout_ms"`
		MaxTimeMS        jsontext.Value `json:"max_time_ms"`
	}
	if err := strict.Open("/budgets", v, &raw); err != nil {
		return err
	}
	amount, duration := bounds{0, math.MaxInt64}, bounds{1, longest.Milliseconds()}
	for _, m := range []struct {
		name  string
		value jsontext.Value
		bounds
	}{
		{"max_output_tokens", raw.MaxOutputTokens, amount},
		{"max_context_tokens", raw.MaxContextTokens, amount},
		{"max_escalations", raw.MaxEscalations, amount},
		{"timeout_ms", raw.TimeoutMS, duration},
		{"max_time_ms", raw.MaxTimeMS, duration},
	} {
		if !strict.Absent(m.value) && !m.accepts(m.value) {
			return refuse("budgets/"+m.name, "must be "+m.String())
		}
	}
	o.Budgets = &schemas.RunBudgets{}
	return o.Budgets.UnmarshalJSON(v)
}

// bounds are of a whole number, both included.
type bounds struct{ from, to int64 }

func (b bounds) String() string {
	if b.to == math.MaxInt64 {
		return "a whole number of at least " + strconv.FormatInt(b.from, 10)
	}
	return "a whole number from " + strconv.FormatInt(b.from, 10) + " to " + strconv.FormatInt(b.to, 10)
}

// accepts takes a number that is written as a whole one: 1.0 and 1e3 are not.
func (b bounds) accepts(v []byte) bool {
	n, err := strconv.ParseInt(strings.Trim(string(v), " \t\r\n"), 10, 64)
	return err == nil && n >= b.from && n <= b.to
}

// echo checks the two inputs that ECHO uses. All other inputs are free.
func echo(inputs []byte) error {
	_, err := schemas.ReadEcho(given(inputs))
	if own, ok := errors.AsType[*schemas.EchoError](err); ok {
		return refuse("inputs/"+own.Member, own.Error())
	}
	if err != nil {
		return refuse("inputs", "must be an object")
	}
	return nil
}
