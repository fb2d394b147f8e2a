package chat

import (
	"context"
	"slices"

	"weir/internal/models"
	"weir/internal/problem"
	"weir/processors/call"
	"weir/processors/call/model"
	"weir/schemas"
)

// completionEnd is the end of a completion.
type completionEnd struct {
	outcome schemas.Outcome
	code    schemas.Code
	message string // written by Weir, without content
	result  schemas.ChatResult
	// unheld: no budget has reserved anything for it.
	unheld bool
}

// evaluate derives the end of a completion from its newest step; over is false if another step may
// follow.
func (w *work) evaluate(o *outcome) (e completionEnd, over bool) {
	switch response := o.response; {
	case response != nil && succeeded(o.Last.Result.Status, response):
		return completionEnd{outcome: schemas.OutcomeSucceeded, result: schemas.ChatResult{Completion: response.Completion, ProviderID: response.ProviderID}}, true
	case o.Canceled, o.Expired:
		return w.stopped(o.Canceled), true
	case !w.given() && follows(o.Last, response):
		return completionEnd{}, false
	default:
		return w.failed(o), true
	}
}

func succeeded(status int, response *model.Response) bool {
	return status/100 == 2 && response.Fault == nil && len(response.Completion) > 0
}

// given reports whether a reader has the first of an answer: no other is asked for then.
func (w *work) given() bool { return w.st.Progress > 0 }

// shown reports whether that answer is an attempt's.
func (w *work) shown(at int) bool { return w.given() && at == len(w.st.Attempts)-1 }

// exhausted is the end of a completion that has no upstream left.
func (w *work) exhausted(set *models.Set, last *outcome) completionEnd {
	switch {
	case last != nil:
		return w.failed(last)
	case len(w.denied) > 0:
		return w.refused(w.refusal)
	case w.order.Previous != "" && len(w.serving(set)) > 0 && len(w.served(set)) == 0:
		return w.discontinued()
	case len(w.served(set)) == 0 && len(w.places(set)) > 0:
		return bad(schemas.OutcomeFailed, schemas.ValidationError, "no upstream of the model speaks "+
			protocolName(w.order.Dialect)+"; ask for another model, or list "+string(w.order.Dialect.Family())+" in dialects of one of its upstreams")
	case len(w.served(set)) > 0:
		return bad(schemas.OutcomeFailed, schemas.ValidationError, "no upstream of the model passes all members of the request any more")
	default:
		return w.unknown(set)
	}
}

// discontinued is a completion whose previous answer no upstream can be asked to continue.
func (w *work) discontinued() completionEnd {
	message := "the previous response cannot be continued: the upstream that made it does not serve this request any more; "
	whole := "send the whole conversation without previous_response_id"
	switch {
	case w.order.PreviousUpstream == "":
		message, whole = "the request was accepted by an older version, which did not store who made the previous response; ", "send the request again"
	case w.order.PreviousBy != w.st.Action.Principal:
		message = "the previous response does not exist, or its result cannot be read; "
	}
	return bad(schemas.OutcomeFailed, schemas.ValidationError, message+whole).
		with(map[string]any{"provider_code": "previous_response_not_found", "provider_param": "previous_response_id"})
}

// refused is a completion that policy allows no upstream for. If traffic rules caused that, it
// names them, because their owner can change them.
func (w *work) refused(d schemas.Decision) completionEnd {
	rules := rulesBehind(d)
	if len(rules) == 0 {
		return bad(w.unanswered(), d.Code, "policy does not let the call to the model pass")
	}
	message := "policy does not let pass what traffic rules make of the call to the model"
	return bad(w.unanswered(), d.Code, message).with(map[string]any{"rules": rules})
}

// rulesBehind are the traffic rules that a denial is for, as its evidence names them.
func rulesBehind(d schemas.Decision) []string {
	switch t := d.Traffic; {
	case t == nil:
		return nil
	case d.Code == schemas.DenyRule:
		return t.Rules
	case t.Redirected != "":
		return []string{t.Redirected}
	default:
		return nil
	}
}

// unanswered is the outcome of a completion that is refused. Denied promises that nothing
// was sent.
func (w *work) unanswered() schemas.Outcome {
	for _, t := range w.st.Attempts {
		if t.Result.Sent {
			return schemas.OutcomeFailed
		}
	}
	return schemas.OutcomeDenied
}

// unknown is a completion of models that the configuration in force does not have, or
// that the token may not use: ingress knew others.
func (w *work) unknown(set *models.Set) completionEnd {
	message := "no model of this name is configured any more"
	if slices.ContainsFunc(w.names(), func(name string) bool { return set.Usable(name, nil) }) {
		message = "the token may not use this model"
	}
	return bad(schemas.OutcomeFailed, schemas.ModelNotFound, message)
}

// failed is a completion that an attempt has failed, and that is over.
func (w *work) failed(o *outcome) completionEnd {
	res := o.Last.Result
	switch code := res.Code; {
	case o.response != nil:
		return w.rejected(o)
	case code.Denied():
		d := o.Last.LastWord()
		d.Code = code
		return w.refused(d)
	case code == schemas.Canceled:
		return w.stopped(true)
	case code == schemas.BudgetExhausted:
		return w.cut()
	}
	e := bad(schemas.OutcomeFailed, w.brokenOff(res.Code), w.describe(o))
	e.result.Error.Status = problem.ChatStatus(res.Code)
	return w.by(e, o, 0)
}

// brokenOff is the code of a completion whose call failed with a code: a reader who has the
// beginning of an answer learns that it was interrupted. The call's own evidence has the cause.
func (w *work) brokenOff(code schemas.Code) schemas.Code {
	if w.given() && (code == schemas.UpstreamTruncated || code == schemas.UpstreamTimeout || code == schemas.UpstreamReset) {
		return schemas.Interrupted
	}
	return code
}

// describe says how an attempt failed.
func (w *work) describe(o *outcome) string {
	res := o.Last.Result
	what := call.Describe(*o.Last)
	switch {
	case res.Code == schemas.UpstreamProtocol && res.Status != 0:
		what = "the model's provider did not answer in the protocol of " + protocolName(w.order.Dialect)
		what += w.unspoken()
	case res.Code == schemas.Interrupted && !w.given() && w.interruptions() > maxInterrupted:
		what = "the workers that made the calls are gone, several in a row; the request may be what ends them"
	}
	if o.Last.Mocked() {
		what += "; a traffic rule answered in the model's place"
	}
	if w.given() {
		what = "the answer broke off: " + what
	}
	return what
}

// unspoken says what to do about an upstream that does not speak the dialect.
func (w *work) unspoken() string {
	d := w.order.Dialect.Family()
	if d == schemas.DialectChat {
		return ""
	}
	return "; if the upstream does not speak " + protocolName(d) + ", leave " + string(d) + " out of the upstream's dialects"
}

// rejected is the end that a provider has reported.
func (w *work) rejected(o *outcome) completionEnd {
	res, response := o.Last.Result, o.response
	status, words := res.Status, ""
	if response.Fault != nil {
		words = response.Fault.Message
		if res.Status/100 == 2 {
			status = response.Fault.Status
		}
	}
	e := bad(schemas.OutcomeFailed, schemas.ModelFailed, rejectionText(status))
	e.result.Error.Status = rejection(status)
	if a := res.Answer; a != nil {
		e.result.Error.RetryAfterMS = a.RetryAfter.Milliseconds()
	}
	switch own := e.result.Error; {
	case words == "" || credential(status): // the caller may not read errors about Weir's own credential
	case own.Status == status:
		own.Message = words
	default:
		own.Message += ": " + words
	}
	if f := response.Fault; status == 404 && (f == nil || f.Code == "" && f.Type == "") {
		e.result.Error.Message += w.unspoken()
	}
	return w.by(e, o, status)
}

// by adds whose fault an error is, as far as the configuration names it, and the provider's
// words for it, by which a client tells one from another.
func (w *work) by(e completionEnd, o *outcome, status int) completionEnd {
	more := map[string]any{"provider_name": w.candidate(len(w.st.Attempts) - 1).Upstream.Name}
	if status != 0 {
		more["provider_status"] = status
	}
	if o.response != nil && o.response.Fault != nil && !credential(status) {
		f := o.response.Fault
		for name, word := range map[string]string{"provider_code": f.Code, "provider_type": f.Type, "provider_param": f.Param} {
			if word != "" {
				more[name] = word
			}
		}
	}
	return e.with(more)
}

// cut is a completion whose answer was larger than what was held for it.
func (w *work) cut() completionEnd {
	message := "the answer is larger than what was held for it of a budget, and was cut off"
	return bad(schemas.OutcomeFailed, schemas.BudgetExhausted, message).with(limited(w.grant.Cap, schemas.BudgetTokens))
}

// finish adds to an end the usage, the upstream that answered, and the received part of a broken
// answer.
func (w *work) finish(ctx context.Context, e *completionEnd) error {
	r := &e.result
	r.Dialect = w.order.Dialect
	if e.outcome != schemas.OutcomeSucceeded && w.given() {
		p, err := w.transcript(ctx)
		if err != nil {
			return err
		}
		r.Completion, r.Partial = p.Completion, true
	}
	n := len(w.st.Attempts)
	if n == 0 {
		return nil
	}
	c := w.candidate(n - 1)
	r.Model, r.Sent, r.Upstream = c.Name, c.Send, c.Upstream.Name
	response, err := w.response(ctx, n-1)
	if err != nil {
		return err
	}
	if response != nil {
		r.FirstMS = float64(response.First.Microseconds()) / 1000
	}
	r.Usage, err = w.used(ctx)
	return err
}
