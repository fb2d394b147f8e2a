package check

import (
	"net/http"
	"strings"

	"weir/schemas"
)

const (
	tokenHint   = "name a file with a token that may do this with --token-file"
	inputsHint  = "give the inputs that the task type needs with --inputs"
	typeHint    = "name a task type that it serves after the = of the target"
	agentHint   = "start the agent that serves this task type, or correct its URL in the configuration"
	deniedHint  = "its policy denies the run's call: change the policy, or the configuration of the agent"
	failedHint  = "read the message of the run; if it needs inputs to succeed, give them with --inputs"
	busyHint    = "it says that it is busy or not ready; try again when it is neither"
	slowHint    = "answer, and in time; --timeout and --first-event give it longer"
	movedHint   = "name the address that it redirects to: redirects are not followed"
	refusedHint = "look at what the refusal says; if it is about the inputs, give others with --inputs"
)

// fix returns the hint for a broken rule: by the answer's own error, else the rule's hint.
func (r rule) fix(s *seen) string {
	if r.answered == nil {
		return r.hint
	}
	h, doc := r.answered(s)
	if hint := h.hint(doc.fault()); hint != "" {
		return hint
	}
	return r.hint
}

// hint is empty where neither the code nor the status says more than a rule does.
func (h head) hint(f fault) string {
	code := schemas.Code(f.Code)
	switch {
	case h.status == http.StatusTooManyRequests, h.status == http.StatusServiceUnavailable: // whatever the code is
		return busyHint
	case code == schemas.AgentUnavailable:
		return agentHint
	case code == schemas.UnsupportedTaskType:
		return typeHint
	case strings.HasPrefix(f.Details.Code, "DENY_"):
		return deniedHint
	case code == schemas.ValidationError && h.status == http.StatusOK:
		return inputsHint
	case code != "" && h.status == http.StatusOK:
		return failedHint
	case h.none != "":
		return slowHint
	case h.status == http.StatusUnauthorized, h.status == http.StatusForbidden:
		return tokenHint
	case h.status == http.StatusBadRequest, h.status == http.StatusUnprocessableEntity:
		return refusedHint
	case h.status >= 300 && h.status < 400:
		return movedHint
	default:
		return ""
	}
}
