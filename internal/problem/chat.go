package problem

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"weir/schemas"
)

// WriteChat is Write in the words of the chat completions protocol. What is wrong
// with a body is 400 there; an *Error that names a status has its own.
func WriteChat(w http.ResponseWriter, r *http.Request, err error) {
	e := Of(err)
	e.Status = chatStatus(e, err)
	Limits(w.Header(), e.Limits)
	e.answer(w, "application/json", schemas.ChatRefusal{Error: e.chat(RequestID(r.Context()))})
}

// Chat is the error of WriteChat's body, for a stream that has begun.
func Chat(err error, requestID string) schemas.ChatRefused {
	e := Of(err)
	e.Status = chatStatus(e, err)
	return e.chat(requestID)
}

func chatStatus(e Error, err error) int {
	if own, _ := errors.AsType[*Error](err); e.Code == schemas.ValidationError && (own == nil || own.Status == 0) {
		return http.StatusBadRequest
	}
	return e.Status
}

func (e *Error) chat(requestID string) schemas.ChatRefused {
	return schemas.ChatRefused{Code: e.Status, Message: cmp.Or(e.Detail, e.Title), Metadata: e.metadata(cmp.Or(e.RequestID, requestID))}
}

// metadata are the members of Details, which must be an object to count, and Weir's own
// words. Those are never another's.
func (e *Error) metadata(requestID string) json.RawMessage {
	all := map[string]json.RawMessage{}
	if json.Unmarshal(e.Details, &all) != nil || all == nil {
		all = map[string]json.RawMessage{}
	}
	for name, word := range map[string]string{
		"code": string(e.Code), "request_id": requestID, "rule": e.Rule, "reason": e.Reason, "earliest_id": e.EarliestID,
	} {
		if word != "" {
			all[name], _ = json.Marshal(word) //nolint:errchkjson // a string: cannot fail
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(all) //nolint:errchkjson // members that were read as JSON: cannot fail
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Limits sets the x-ratelimit headers by what budgets leave: of requests and of tokens,
// each by the budget that leaves the least. Money has none.
func Limits(h http.Header, limits []schemas.ChatLimit) {
	for _, what := range []string{schemas.BudgetRequests, schemas.BudgetTokens} {
		least := tightest(limits, what)
		if least == nil {
			continue
		}
		h.Set("X-Ratelimit-Limit-"+what, strconv.FormatInt(least.Limit, 10))
		h.Set("X-Ratelimit-Remaining-"+what, strconv.FormatInt(max(0, least.Remaining), 10))
		if least.ResetMS > 0 {
			h.Set("X-Ratelimit-Reset-"+what, seconds(time.Duration(least.ResetMS)*time.Millisecond)+"s")
		}
	}
}

// tightest is the limit that leaves the least; of two the one that lasts longer.
func tightest(limits []schemas.ChatLimit, what string) *schemas.ChatLimit {
	var least *schemas.ChatLimit
	for i := range limits {
		l := &limits[i]
		if l.What != what {
			continue
		}
		if least == nil || cmp.Or(cmp.Compare(l.Remaining, least.Remaining), -longer(l, least)) < 0 {
			least = l
		}
	}
	return least
}

// longer compares how long two limits last; one without a window lasts for ever.
func longer(a, b *schemas.ChatLimit) int {
	switch {
	case a.ResetMS == b.ResetMS:
		return 0
	case a.ResetMS == 0:
		return 1
	case b.ResetMS == 0:
		return -1
	default:
		return cmp.Compare(a.ResetMS, b.ResetMS)
	}
}
