package problem

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/schemas"
)

// WriteChat is Write in the format of a dialect's protocol. An invalid body is 400 there; an *Error
// with a status keeps its own.
func WriteChat(w http.ResponseWriter, r *http.Request, d schemas.Dialect, err error) {
	e := Of(err)
	ReportOf(r.Context()).Code = e.Code
	e.Status = chatStatus(e, err)
	Limits(w.Header(), e.Limits)
	e.answer(w, "application/json", append(schemas.Encoded(ChatBody(d, err, RequestID(r.Context()))), '\n'))
}

// ChatBody is the body of an error in the format of a dialect's protocol.
func ChatBody(d schemas.Dialect, err error, requestID string) any {
	if d.Family() == schemas.DialectMessages {
		return Messages(err, requestID)
	}
	return schemas.ChatRefusal{Error: Chat(err, requestID)}
}

func chatStatus(e Error, err error) int {
	if own, _ := errors.AsType[*Error](err); e.Code == schemas.ValidationError && (own == nil || own.Status == 0) {
		return http.StatusBadRequest
	}
	return e.Status
}

// ChatStatus is the status of a code for the clients of models.
func ChatStatus(c schemas.Code) int {
	switch c {
	case schemas.Canceled:
		return schemas.ChatCanceled
	case schemas.Interrupted, schemas.OutcomeUnknownCode, schemas.SecretUnavailable:
		return http.StatusBadGateway
	case schemas.ValidationError:
		return http.StatusBadRequest
	default:
		return Status(c)
	}
}

// Chat is the error of a chat completion's body, for a stream that has begun, too.
func Chat(err error, requestID string) schemas.ChatRefused {
	e := Of(err)
	e.Status = chatStatus(e, err)
	// The provider's own words count, where the error is one that it answered with.
	var provider struct {
		Code  string `json:"provider_code"`
		Type  string `json:"provider_type"`
		Param string `json:"provider_param"`
	}
	_ = json.Unmarshal(e.Details, &provider) // metadata that is no object names no words
	code, class := chatCode(e.Code, e.Status)
	refused := schemas.ChatRefused{
		Message: cmp.Or(e.Detail, e.Title), Type: cmp.Or(provider.Type, class), Code: cmp.Or(provider.Code, e.Word, code),
		Metadata: e.metadata(cmp.Or(e.RequestID, requestID)),
	}
	if param := cmp.Or(provider.Param, chatParam(e.Code, e.Detail)); param != "" {
		refused.Param = &param
	}
	return refused
}

// chatCode returns the protocol's code and type of an error. Its clients retry by these and
// by the status. A code that the protocol lacks is Weir's own in lower case.
func chatCode(c schemas.Code, status int) (code, class string) {
	switch c {
	case schemas.ModelNotFound:
		return "model_not_found", "invalid_request_error"
	case schemas.BudgetExhausted:
		return "insufficient_quota", "insufficient_quota"
	case schemas.Unauthorized:
		return "invalid_api_key", "authentication_error"
	default:
	}
	code = strings.ToLower(string(c))
	switch {
	case status == http.StatusTooManyRequests:
		return "rate_limit_exceeded", "rate_limit_error"
	case status == http.StatusForbidden:
		return code, "permission_error"
	case status >= http.StatusInternalServerError:
		return code, "server_error"
	}
	return code, "invalid_request_error"
}

// chatParam returns the member that a detail of the form "at POINTER: text" names, written
// as the protocol does: messages[0].role. It returns "" where the detail names none.
func chatParam(c schemas.Code, detail string) (param string) {
	if rest, ok := strings.CutPrefix(detail, "at /"); ok {
		pointer, _, _ := strings.Cut(rest, ": ")
		for part := range strings.SplitSeq(pointer, "/") {
			if _, err := strconv.ParseUint(part, 10, 32); err == nil && param != "" {
				param += "[" + part + "]"
				continue
			}
			if param != "" {
				param += "."
			}
			param += strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		}
	} else if c == schemas.ModelNotFound {
		param = "model"
	}
	return param
}

// metadata are the members of Details, which must be an object to count, and Weir's own
// words. Those are never another's.
func (e *Error) metadata(requestID string) json.RawMessage {
	all := map[string]json.RawMessage{}
	if json.Unmarshal(e.Details, &all) != nil || all == nil {
		all = map[string]json.RawMessage{}
	}
	all["status"] = json.RawMessage(strconv.Itoa(e.Status))
	for name, word := range map[string]string{
		"code": string(e.Code), "request_id": requestID, "rule": e.Rule, "reason": e.Reason, "earliest_id": e.EarliestID,
	} {
		if word != "" {
			all[name], _ = json.Marshal(word) //nolint:errchkjson // a string: cannot fail
		}
	}
	return schemas.Encoded(all)
}

// Messages is the body of an error in the Messages protocol, for a stream that has begun, too. Its
// type is the provider's own where it answered with one, else the status decides.
func Messages(err error, requestID string) schemas.MessagesRefusal {
	e := Of(err)
	e.Status = chatStatus(e, err)
	requestID = cmp.Or(e.RequestID, requestID)
	class := schemas.MessagesError(e.Status)
	var provider struct {
		Type string `json:"provider_type"`
	}
	if json.Unmarshal(e.Details, &provider) == nil && slices.Contains(schemas.MessagesErrors(), provider.Type) {
		class = provider.Type
	}
	return schemas.MessagesRefusal{
		Type: "error", RequestID: requestID,
		Error: schemas.MessagesRefused{Type: class, Message: cmp.Or(e.Detail, e.Title), Metadata: e.metadata(requestID)},
	}
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
