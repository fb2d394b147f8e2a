package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"weir/schemas"
)

// longestCall is the number of characters of a call in a line.
const longestCall = 60

// callText is a call for a person: its method, host and path, or the kind of an action that has no
// call of its own, with a name such as an agent's or a model's.
func callText(kind schemas.Kind, c schemas.Called, name string) string {
	switch {
	case c.Host == "":
		return joined(" ", string(kind), name)
	case c.Calls > 1:
		return fmt.Sprintf("%s %s%s (+%d)", c.Method, c.Host, c.Path, c.Calls-1)
	default:
		return joined(" ", c.Method, c.Host+c.Path)
	}
}

// entryCall is the call of an action in a list.
func entryCall(e schemas.ActionEntry) string {
	return callText(e.Kind, e.Called, joined("", e.Model, e.Agent))
}

// viewCall is the call of an action.
func viewCall(v schemas.ActionView) string {
	var result struct {
		Dialect string `json:"dialect"`
		Model   string `json:"model"`
	}
	if v.Kind == schemas.KindChat {
		_ = json.Unmarshal(v.Result, &result) // a completion that has not ended has no result
	}
	return callText(v.Kind, v.Called, joined(" ", result.Dialect, result.Model, v.Agent))
}

// httpStatus is a status in a table.
func httpStatus(status int) string {
	if status == 0 {
		return "-"
	}
	return strconv.Itoa(status)
}

// evidenceText is the payload of a record of evidence: what was called, the answer and the duration.
func evidenceText(payload json.RawMessage) string {
	var p struct {
		Method      string          `json:"method"`
		Fingerprint string          `json:"request_fingerprint"`
		Target      string          `json:"target"`
		URL         string          `json:"url"`
		Model       string          `json:"model"`
		Repo        string          `json:"repo"`
		Ref         string          `json:"ref"`
		Status      json.RawMessage `json:"status"`
		Reason      string          `json:"reason"`
		DurationMS  *float64        `json:"duration_ms"`
	}
	if json.Unmarshal(payload, &p) != nil {
		return ""
	}
	call := joined(" ", p.Method, placeOf(p.Fingerprint, p.Target, p.URL), p.Model, p.Repo, p.Ref)
	duration := ""
	if p.DurationMS != nil {
		duration = took(p.DurationMS)
	}
	return joined("  ", call, strings.Trim(string(p.Status), `"`), duration, p.Reason)
}

// placeOf is the host and the path in the first of some texts that name a URL, maybe after a method.
// A text that is sealed names none.
func placeOf(texts ...string) string {
	for _, text := range texts {
		if _, rest, ok := strings.Cut(text, "://"); ok {
			place, _, _ := strings.Cut(rest, "?")
			place, _, _ = strings.Cut(place, "#")
			return place
		}
	}
	return ""
}

// tailLine is an action as `weir tail actions` shows it.
func tailLine(e schemas.ActionEntry) string {
	duration := ""
	if e.DurationMS != nil {
		duration = took(e.DurationMS)
	}
	at := e.Created.Local().Format("15:04:05.000")
	status := ""
	if e.HTTPStatus != 0 {
		status = httpStatus(e.HTTPStatus)
	}
	return joined("  ", at, e.ID, fmt.Sprintf("%-9s", e.Status), cut(entryCall(e), longestCall), status, string(e.Code), duration, e.Caller)
}

// listTime is an instant in a list: without the day if that is today.
func listTime(at, now time.Time) string {
	at, now = at.Local(), now.Local()
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}
