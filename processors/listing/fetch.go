package listing

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"

	"github.com/google/uuid"

	"weir/internal/ledger"
	"weir/processors/call"
	"weir/processors/settle"
	"weir/schemas"
)

const (
	methodGet = "GET"
	statusOK  = 200
	// anthropicVersion is the version of the Messages API whose list is read. Others ignore it.
	anthropicVersion = "2023-06-01"
	maxPages         = 5
	pageSize         = "1000"
)

// failedError is why a list could not be read: a code, or another word. status is that of an answer.
type failedError struct {
	kind   string
	status int
}

func (e *failedError) Error() string { return e.kind }

func failed(code schemas.Code) error { return &failedError{kind: string(code)} }

// failureOf is why a list could not be read, where err is of the log or the node too.
func failureOf(err error) *failedError {
	if e, ok := errors.AsType[*failedError](err); ok {
		return e
	}
	if _, ok := errors.AsType[*call.Deferral](err); ok {
		return &failedError{kind: "held_back"}
	}
	return &failedError{kind: "unavailable"}
}

// ask reads the list of an upstream, in pages where it has them.
func (r *Refresher) ask(ctx context.Context, up schemas.ModelUpstream) ([]schemas.ListedModel, error) {
	now := r.cfg.Now()
	id := "models-" + uuid.NewString()
	st := &ledger.State{
		Ref:    schemas.Ref{Tenant: schemas.Operator, Kind: schemas.KindChat, ID: id},
		Action: schemas.Action{ID: id, Tenant: schemas.Operator, Kind: schemas.KindChat, AcceptedAt: now, Deadline: now.Add(patience)},
	}
	all := []schemas.ListedModel{}
	for n, after := 0, ""; n < maxPages; n++ {
		p, err := r.page(ctx, st, n, up, after)
		if err != nil {
			return nil, err
		}
		more, full := join(all, p.models)
		if all = more; full || p.next == "" || p.next == after {
			break
		}
		after = p.next
	}
	return all, nil
}

// page asks for one page. Each call, and each denial, leaves evidence.
func (r *Refresher) page(ctx context.Context, st *ledger.State, n int, up schemas.ModelUpstream, after string) (page, error) {
	entry := schemas.ModelEntry(up.Name)
	at := up.URL + schemas.RouteModels
	if after != "" {
		at += "?" + url.Values{"after_id": {after}, "limit": {pageSize}}.Encode()
	}
	t := &call.Task{
		State: st, Step: n, Attempts: 1, KeyRequired: true, Agent: true, Abort: true, Stop: call.Stop{Context: context.WithoutCancel(ctx)}, Timeout: patience,
		Via: r.cfg.Adapter,
		Call: schemas.HTTPCall{
			Method: methodGet, URL: at, AllowlistKey: entry,
			Headers: []schemas.Header{{Name: "accept", Value: "application/json"}, {Name: "anthropic-version", Value: anthropicVersion}},
		},
		Record: func(ctx context.Context, t ledger.Attempt) error {
			made, err := settle.Made(st, t)
			return r.storeEvidence(ctx, err, made...)
		},
	}
	res, err := r.cfg.Caller.Run(ctx, t)
	switch {
	case err != nil:
		return page{}, err
	case res.Denied:
		denial, err := settle.Denial(st, n, methodGet, t.Target(), res.Decision, len(st.AttemptsOf(n)))
		if err := r.storeEvidence(ctx, err, denial); err != nil {
			return page{}, err
		}
		return page{}, failed(res.Decision.Code)
	case !res.Answered:
		return page{}, failed(code(res))
	case res.Last.Result.Status != statusOK:
		return page{}, &failedError{"status", res.Last.Result.Status}
	}
	if a := res.Last.Result.Answer; a != nil && a.JSON {
		p, isList := parse(a.Body)
		a.Body, a.Snippet = json.RawMessage("null"), "" // the attempt is kept until the refresh ends
		if isList {
			return p, nil
		}
	}
	return page{}, &failedError{kind: "not_a_list"}
}

// code is why a call brought no answer.
func code(res call.Result) schemas.Code {
	if res.Last != nil && res.Last.Result != nil && res.Last.Result.Code != "" {
		return res.Last.Result.Code
	}
	return schemas.Canceled
}

func (r *Refresher) storeEvidence(ctx context.Context, err error, records ...schemas.Evidence) error {
	if err != nil {
		return err
	}
	for _, e := range records {
		if err := r.cfg.Record(ctx, e); err != nil {
			return err
		}
	}
	return nil
}
