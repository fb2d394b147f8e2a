package runs

import (
	"weir/processors/call/agent"
	"weir/schemas"
)

// mayHaveBegun is for statuses that a proxy in front of an agent may send after it has forwarded
// the run.
const mayHaveBegun = "the agent, or a proxy in front of it, answered with status %d; the agent may have begun: look at it before the run is sent again"

// statusDetails are the details of an answer that is known by its status.
type statusDetails struct {
	Status int `json:"status"`
	// RetryAfterMS is the agent's own wish.
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
	Told         *quote `json:"agent_error,omitempty"`
}

// quote is what an agent says of its own error.
type quote struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// quoting is an answer's status with what else came with it.
func quoting(a *schemas.Answer, told schemas.RunResult) statusDetails {
	d := statusDetails{Status: a.Status, RetryAfterMS: a.RetryAfter.Milliseconds()}
	if e := told.Error; e != nil && e.Message != agent.NoWords {
		d.Told = &quote{Code: e.Code, Message: bounded(e.Message)}
	} else if e != nil && e.Code != string(schemas.TaskFailed) {
		d.Told = &quote{Code: e.Code}
	}
	return d
}

// maxQuote is how much is quoted of an agent, in code points.
const maxQuote = 512

func bounded(s string) string {
	n := 0
	for i := range s {
		if n == maxQuote {
			return s[:i]
		}
		n++
	}
	return s
}
