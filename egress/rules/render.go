// Package rules renders the rules surface: the agent API's answers, the list of the rules, and the
// rules recorded from an action's answers.
package rules

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"

	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/internal/rules"
	"weir/schemas"
)

// Request is what an answer repeats of its request.
type Request struct{ RequestID, Operation string }

// Answer is the envelope of something that went well.
func Answer(asked Request, data json.RawMessage) ([]byte, error) {
	return ledger.Encode(schemas.AgentResponse{OK: true, RequestID: asked.RequestID, Operation: asked.Operation, Data: data})
}

// Render returns the status and the body for the end of a write. doc is the result
// document, whose own words go before those of asked; it may be empty. The same end
// always gives the same bytes.
func Render(asked Request, s *schemas.Settled, doc json.RawMessage) (int, []byte, error) {
	var res schemas.RuleResult
	if len(doc) > 0 {
		if err := json.Unmarshal(doc, &res); err != nil {
			return 0, nil, err
		}
		asked = Request{RequestID: cmp.Or(res.RequestID, asked.RequestID), Operation: cmp.Or(res.Operation, asked.Operation)}
	}
	if s.Outcome == schemas.OutcomeSucceeded {
		data, err := ledger.Encode(one{Rule: res.Rule, RulesEtag: res.RulesEtag})
		if err != nil {
			return 0, nil, err
		}
		body, err := Answer(asked, data)
		return http.StatusOK, body, err
	}
	e := failed(s, res)
	body, err := ledger.Encode(schemas.AgentResponse{RequestID: asked.RequestID, Operation: asked.Operation, Error: e})
	return statusOf(s, e), body, err
}

// Result is the body that Render gives, for the places that show an end beside
// other things; nil where the document cannot be read.
func Result(s *schemas.Settled, doc json.RawMessage) json.RawMessage {
	_, body, err := Render(Request{}, s, doc)
	if err != nil {
		return nil
	}
	return body
}

// failed is the error of a write that was not made: the stored one if there is one.
func failed(s *schemas.Settled, res schemas.RuleResult) *schemas.AgentError {
	if res.Error != nil {
		return res.Error
	}
	code, detail := problem.AgentCode(codeOf(s))
	return &schemas.AgentError{Code: code, Message: messageOf(s), Detail: detail}
}

// codeOf is one of Weir's words for an end.
func codeOf(s *schemas.Settled) schemas.Code {
	if code := s.Outcome.Code(); code != schemas.Internal {
		return code
	}
	return cmp.Or(s.Code, schemas.Internal)
}

// messageOf says what to do next. Unlike a call, a write of the rules is safe to
// send again: its etag holds for one set alone.
func messageOf(s *schemas.Settled) string {
	switch s.Outcome {
	case schemas.OutcomeUnknown:
		return "it is unknown whether the write was made: read the rules, and send it under a new request_id if it is not there"
	case schemas.OutcomeCanceled:
		return "the write was canceled: read the rules, and send it under a new request_id if it is still wanted"
	case schemas.OutcomeExpired:
		return "the time for the write is over: read the rules, and send it under a new request_id if it is not there"
	case schemas.OutcomeSucceeded, schemas.OutcomeFailed, schemas.OutcomeDenied:
	}
	if s.Message != "" {
		return s.Message
	}
	return "the write could not be made"
}

// statusOf is the HTTP status of an end that is no success.
func statusOf(s *schemas.Settled, e *schemas.AgentError) int {
	switch s.Outcome {
	case schemas.OutcomeCanceled, schemas.OutcomeExpired, schemas.OutcomeUnknown:
		return problem.Status(codeOf(s))
	case schemas.OutcomeSucceeded, schemas.OutcomeFailed, schemas.OutcomeDenied:
	}
	return problem.Status(e.Code)
}

type status struct {
	GlobalActive bool   `json:"global_active"`
	RuleCount    int    `json:"rule_count"`
	RulesEtag    string `json:"rules_etag"`
}

type list struct {
	Rules     []schemas.Rule `json:"rules"`
	RulesEtag string         `json:"rules_etag"`
}

// one answers rules.get, and every write.
type one struct {
	Rule      *schemas.Rule `json:"rule,omitempty"`
	RulesEtag string        `json:"rules_etag"`
}

// Read is the data of an operation that changes nothing. A ping looks at nothing:
// newest is not asked for it.
func Read(req schemas.AgentRequest, newest func() (rules.Snapshot, error)) (json.RawMessage, error) {
	if req.Operation == schemas.OpPing {
		return json.RawMessage(schemas.AgentPong), nil
	}
	now, err := newest()
	if err != nil {
		return nil, err
	}
	var args struct {
		Group string `json:"group"`
		ID    string `json:"id"`
	}
	if len(req.Args) > 0 {
		if err := json.Unmarshal(req.Args, &args); err != nil {
			return nil, &fault.Error{Code: schemas.InvalidRequest, Message: "the arguments cannot be read", Cause: err}
		}
	}
	switch req.Operation {
	case schemas.OpStatus:
		return ledger.Encode(status{GlobalActive: now.Doc.GlobalActive, RuleCount: len(now.Doc.Rules), RulesEtag: now.Etag})
	case schemas.OpRulesList:
		return ledger.Encode(list{Rules: inGroup(now.Doc.Rules, args.Group), RulesEtag: now.Etag})
	case schemas.OpRulesGet:
		i := slices.IndexFunc(now.Doc.Rules, func(r schemas.Rule) bool { return r.ID == args.ID })
		if i < 0 {
			return nil, fault.New(schemas.NotFound, "there is no rule with this id")
		}
		return ledger.Encode(one{Rule: &now.Doc.Rules[i], RulesEtag: now.Etag})
	default:
		return nil, fault.New(schemas.InvalidRequest, "there is no such operation that reads")
	}
}

// inGroup are the rules of a group; of all, if none is named. It is never nil.
func inGroup(all []schemas.Rule, group string) []schemas.Rule {
	out := make([]schemas.Rule, 0, len(all))
	for _, r := range all {
		if group == "" || r.Group == group {
			out = append(out, r)
		}
	}
	return out
}

// pageSize is how many rules a page has, unless the request says otherwise.
const pageSize = 100

// Page is the page of the rules that the parameters ask for, in the order they were
// made in. A cursor is the id of the last rule of the page before: rules that were
// made meanwhile come last, and one that has been dropped ends the walk.
func Page(q url.Values, now rules.Snapshot) (schemas.RulePage, error) {
	p := stream.NewParams(q, "group", "limit", "cursor")
	limit := p.Limit(pageSize)
	group, _ := p.One("group")
	rest := now.Doc.Rules
	if cursor, ok := p.One("cursor"); ok {
		i := slices.IndexFunc(rest, func(r schemas.Rule) bool { return r.ID == cursor })
		if i < 0 {
			p.Refuse("cursor", "must be the next of an earlier page, whose last rule is still there; begin again without it")
		}
		rest = rest[i+1:]
	}
	if p.Err != nil {
		return schemas.RulePage{}, p.Err
	}
	page := schemas.RulePage{Items: inGroup(rest, group), GlobalActive: now.Doc.GlobalActive, RulesEtag: now.Etag}
	if len(page.Items) > limit {
		page.Items = page.Items[:limit]
		page.Next = page.Items[limit-1].ID
	}
	return page, nil
}
