package agent

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"weir/internal/weirtest/doubles"
	"weir/schemas"
)

// Exchange is one run and the answer to it.
type Exchange struct {
	*Request
	doubles.Exchange
}

// Stream is Begin for a stream of events.
func (x *Exchange) Stream() { x.Begin(http.StatusOK, "text/event-stream") }

// Event writes one event in the plain form; false: nobody takes it any more.
func (x *Exchange) Event(name, data string) bool {
	return x.Exchange.Event(fmt.Sprintf("event: %s\ndata: %s\n\n", name, strings.ReplaceAll(data, "\n", "\ndata: ")))
}

// run serves both routes.
func (a *Agent) run(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	record := &Request{Call: doubles.NewCall(), Route: r.URL.Path, Header: r.Header.Clone(), Body: body}
	if !a.admit(w, record) {
		a.refused.Add(1)
		return
	}
	act := a.cfg.Script[min(a.Enter(record), len(a.cfg.Script))-1]
	defer a.Remove(record.Call)
	x := &Exchange{Request: record, Exchange: doubles.NewExchange(record.Call, w, r)}
	if !x.Wait(act.Begin) {
		return
	}
	if act.Answer != nil {
		act.Answer(x)
		record.Answered(!x.Ended())
		return
	}
	if act.Steps == 0 {
		act.Steps = a.cfg.Steps
	}
	p := newPlan(record, act)
	if change := faults()[act.Fault]; change != nil {
		change(p)
	}
	record.Answered(p.play(x))
}

// admit refuses what is no run that this agent serves.
func (a *Agent) admit(w http.ResponseWriter, r *Request) bool {
	if a.cfg.Token != "" && r.Header.Get("Authorization") != "Bearer "+a.cfg.Token {
		w.Header().Set("WWW-Authenticate", "Bearer")
		refusal(w, http.StatusUnauthorized, "", "UNAUTHORIZED", "a token is needed")
		return false
	}
	err := json.Unmarshal(r.Body, &r.Run)
	switch {
	case a.cfg.Fault == MalformedAccepted:
	case err != nil:
		refusal(w, http.StatusUnprocessableEntity, "", "VALIDATION_ERROR", "the body is no request")
		return false
	case r.Run.RequestID == "" || r.Run.TaskType == "":
		refusal(w, http.StatusUnprocessableEntity, r.Run.RequestID, "VALIDATION_ERROR", "request_id and task_type are needed")
		return false
	}
	switch {
	case slices.Contains(a.cfg.TaskTypes, r.Run.TaskType) || a.cfg.Fault == UnknownAccepted:
		return true
	case a.cfg.Fault == UnknownStatus:
		refusal(w, http.StatusInternalServerError, r.Run.RequestID, "UNSUPPORTED_TASK_TYPE", "no such task type here")
	case a.cfg.Fault == UnknownShape:
		answer(w, http.StatusBadRequest, map[string]any{"detail": "no such task type here"})
	case a.cfg.Fault == UnknownOtherID:
		refusal(w, http.StatusBadRequest, "another", "UNSUPPORTED_TASK_TYPE", "no such task type here")
	default:
		refusal(w, http.StatusBadRequest, r.Run.RequestID, "UNSUPPORTED_TASK_TYPE", "no such task type here")
	}
	return false
}

// refusal answers with an error in the contract's shape.
func refusal(w http.ResponseWriter, status int, id, code, message string) {
	doc := map[string]any{
		"ok": false, "status": schemas.RunFault, "outputs": map[string]any{}, "warnings": []string{},
		"error": schemas.RunError{Code: code, Message: message},
	}
	if id != "" {
		doc["request_id"] = id
	}
	answer(w, status, doc)
}

func answer(w http.ResponseWriter, status int, doc any) {
	body := doubles.Encode(doc)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}
