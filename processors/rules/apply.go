package rules

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"weir/internal/ledger"
	"weir/internal/traffic"
	"weir/schemas"
)

// keepExpired is how long a rule is kept that has expired. The next write drops it
// then, and it does not count any more.
const keepExpired = 24 * time.Hour

// apply is the set that the order makes of one, or why it makes none. The set that
// was is not changed.
func (w *write) apply(was schemas.RuleSet, now time.Time) (schemas.RuleSet, *schemas.AgentError) {
	doc := schemas.RuleSet{GlobalActive: was.GlobalActive, Groups: append([]string{}, was.Groups...), Rules: []schemas.Rule{}}
	for _, r := range was.Rules {
		// The rule that the write concerns is not dropped meanwhile.
		if r.ExpiresAt.IsZero() || now.Sub(r.ExpiresAt) <= keepExpired || w.order.Operation != schemas.OpRulesCreate && r.ID == w.order.ID {
			doc.Rules = append(doc.Rules, r)
		}
	}
	switch w.order.Operation {
	case schemas.OpGlobalOn, schemas.OpGlobalOff:
		doc.GlobalActive = w.order.Operation == schemas.OpGlobalOn
		return doc, nil
	case schemas.OpRulesCreate:
		return w.create(doc, now)
	default:
		return w.change(doc, now)
	}
}

// create adds a rule, and its group if that is wanted. The rule itself may name the
// group as well.
func (w *write) create(doc schemas.RuleSet, now time.Time) (schemas.RuleSet, *schemas.AgentError) {
	own := member(w.order.Rule, "group")
	group := cmp.Or(w.order.Group, own, schemas.DefaultGroup)
	known := group == schemas.DefaultGroup || slices.Contains(doc.Groups, group)
	switch {
	case !known && !w.order.CreateGroup:
		return doc, missing("there is no such group; name one that rules have, or send create_group_if_missing with true")
	case own != "" && own != group:
		return doc, invalid("", "at /rule/group: is another group than the argument group; leave one of them out")
	case !schemas.ValidID(group):
		return doc, invalid("", "at /group: must be 1 to 128 letters, digits, dots, underscores, colons and hyphens")
	case find(doc.Rules, member(w.order.Rule, "id")) >= 0:
		return doc, invalid(schemas.DetailRuleExists, "at /id: a rule has this id already; patch that one, or take another id")
	}
	r, err := traffic.Read(w.order.Rule, now)
	if err != nil {
		return doc, flawed(err)
	}
	r.Group = group
	doc.Rules = append(doc.Rules, r)
	if refusal := w.checkRedirect(nil, r); refusal != nil {
		return doc, refusal
	}
	if !known {
		doc.Groups = append(doc.Groups, group)
		slices.Sort(doc.Groups)
	}
	switch limit := strconv.Itoa(w.cfg.Limit); {
	case len(doc.Rules) > w.cfg.Limit:
		return doc, exceeded("the tenant has reached the limit of " + limit + " rules; patch an unused one, or give rules expires_at: one that expired a day ago does not count")
	case !known && len(doc.Groups) > w.cfg.Limit:
		return doc, exceeded("the tenant has " + limit + " groups, which is as many as it may have; use one of them")
	}
	return doc, nil
}

// change puts another rule in the place of the one with its id.
func (w *write) change(doc schemas.RuleSet, now time.Time) (schemas.RuleSet, *schemas.AgentError) {
	i := find(doc.Rules, w.order.ID)
	if i < 0 {
		return doc, missing("no rule has this id; rules.list shows those that there are")
	}
	was := doc.Rules[i]
	r := was
	switch w.order.Operation {
	case schemas.OpRulesEnable:
		r.Enabled = true
	case schemas.OpRulesDisable:
		r.Enabled = false
	default:
		var err error
		if r, err = traffic.Patch(was, w.order.Patch, now); err != nil {
			return doc, flawed(err)
		}
	}
	doc.Rules[i] = r
	return doc, w.checkRedirect(&was, r)
}

// toggleReserve is what a new rule leaves free of schemas.MaxRuleSet, so that rules can
// be turned on and off whatever their number.
const toggleReserve = 8 << 10

// fits refuses a set that a rule has made larger than is stored.
func (w *write) fits(doc schemas.RuleSet) *schemas.AgentError {
	if w.order.Operation != schemas.OpRulesCreate && w.order.Operation != schemas.OpRulesPatch {
		return nil
	}
	data, err := ledger.Encode(doc)
	if err != nil { // a rule holds JSON that is none: ingress accepts no such rule
		return invalid("", "the rule cannot be stored; send it as JSON")
	}
	if len(data) > schemas.MaxRuleSet-toggleReserve {
		return tooLarge()
	}
	return nil
}

// find is where the rule with an id stands; -1 for nowhere.
func find(list []schemas.Rule, id string) int {
	return slices.IndexFunc(list, func(r schemas.Rule) bool { return r.ID == id })
}

// member is a text in a rule as a caller gives it; empty where there is none.
func member(raw json.RawMessage, name string) string {
	if v := gjson.GetBytes(raw, name); v.Type == gjson.String {
		return v.Str
	}
	return ""
}

func missing(message string) *schemas.AgentError {
	return &schemas.AgentError{Code: schemas.NotFound, Message: message}
}

func invalid(detail, message string) *schemas.AgentError {
	return &schemas.AgentError{Code: schemas.ValidationError, Message: message, Detail: detail}
}

// flawed is what is wrong in a rule or a patch.
func flawed(err error) *schemas.AgentError {
	if flaw, ok := errors.AsType[*traffic.Invalid](err); ok {
		return invalid("", flaw.Error())
	}
	return invalid("", "the rule cannot be read; send it as the protocol has it")
}

func exceeded(message string) *schemas.AgentError {
	return &schemas.AgentError{Code: schemas.RuleLimitExceeded, Message: message}
}

func tooLarge() *schemas.AgentError {
	return exceeded("the rules would be larger than " + strconv.Itoa(schemas.MaxRuleSet) + " bytes together, which is all that a tenant may have; make the bodies of mocks smaller")
}
