//go:build e2e

package canary_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"weir/internal/weirtest/agent"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// remote is a task type of an agent elsewhere: what the configuration says of it,
// what its agent says, with canaries from say in every place of it, and the words
// that its runs may end with.
type remote struct {
	at   string // the host of its URL; none: the agent's
	more string // of its configuration
	say  func(h *house, x *agent.Exchange, of func(place string) string)
	// ends are words that the answer to a run has.
	ends []string
}

// tiers are the tiers that its runs have: of one that fails, few enough for it
// not to be left alone for a while.
func (r remote) tiers() []string {
	if r.ends[0] == endedOK {
		return tiers()
	}
	return []string{schemas.RiskNonSensitive, schemas.RiskPHI}
}

const (
	endedOK  = `"status":"ok"`
	endedBad = `"status":"error"`
)

// remotes are the remote task types. One that fails is a type by itself: an agent
// that fails again and again is left alone for a while.
func remotes() map[string]remote {
	failed := []string{endedBad, string(schemas.TaskFailed)}
	unavailable := []string{endedBad, string(schemas.AgentUnavailable)}
	return map[string]remote{
		"RUN.ECHO":      {say: echoed, ends: []string{endedOK}},
		"RUN.FULL":      {say: full, ends: []string{endedOK}},
		"RUN.DATA":      {say: inData, ends: []string{endedOK}},
		"RUN.SYNC":      {say: document(http.StatusOK, fullEnd), more: "mode: sync", ends: []string{endedOK}},
		"RUN.JSON":      {say: document(http.StatusOK, fullEnd), ends: []string{endedOK}},
		"RUN.FALLBACK":  {say: fallback, ends: []string{endedOK}},
		"RUN.LARGE":     {say: large, ends: []string{endedOK}},
		"RUN.FAILED":    {say: document(http.StatusOK, failure), ends: []string{endedBad}},
		"RUN.ERROR":     {say: errorEvent, ends: failed},
		"RUN.TEXT":      {say: document(http.StatusOK, errorText), ends: []string{endedBad}},
		"RUN.STATUS":    {say: document(http.StatusOK, oddStatus), ends: failed},
		"RUN.OTHER":     {say: document(http.StatusOK, otherID), ends: failed},
		"RUN.REFUSED":   {say: document(http.StatusBadRequest, failure), ends: []string{endedBad}},
		"RUN.WRONG":     {say: document(http.StatusUnprocessableEntity, failure), ends: []string{endedBad}},
		"RUN.DENIED":    {say: document(http.StatusForbidden, failure), ends: []string{endedBad}},
		"RUN.BROKEN":    {say: document(http.StatusInternalServerError, failure), ends: []string{endedBad}},
		"RUN.BUSY":      {say: document(http.StatusServiceUnavailable, failure), ends: unavailable},
		"RUN.NO.END":    {say: noEnd, ends: failed},
		"RUN.CUT":       {say: cutOff, ends: failed},
		"RUN.TWICE":     {say: twice, ends: failed},
		"RUN.GARBAGE":   {say: garbage, ends: failed},
		"RUN.TOO.LARGE": {say: tooLarge, ends: failed},
		"RUN.LOST":      {say: lost, ends: []string{endedBad, string(schemas.OutcomeUnknownCode)}},
		"RUN.HANGS":     {say: hangs, ends: []string{endedBad}},
		"RUN.REPEATS":   {say: repeats, ends: []string{endedBad}},
		// What HTTP itself has room for, from a server that writes its own.
		"RUN.WIRE":      {at: "http://plain.example/wire", ends: []string{endedOK}},
		"RUN.WIRE.BAD":  {at: "http://plain.example/wire/bad", ends: []string{endedBad}},
		"RUN.WIRE.AWAY": {at: "http://plain.example/wire/away", ends: []string{endedBad}},
		"RUN.WIRE.TALK": {at: "http://plain.example/wire/talk", ends: []string{endedBad}},
		// That are not come to.
		"RUN.NOBODY":  {at: "http://refused.example", ends: unavailable},
		"RUN.FORGED":  {at: "https://bad.example", ends: unavailable},
		"RUN.INSIDE":  {at: "http://private.example", ends: []string{endedBad, string(schemas.DenyAddress)}},
		"RUN.MISSING": {more: `token: "${secret:NOT_THERE}"`, ends: []string{endedBad}},
	}
}

func taskTypes() []string { return slices.Sorted(maps.Keys(remotes())) }

// agentsText is their part of the configuration. All get the same secret.
func agentsText() string {
	var b strings.Builder
	b.WriteString("agents:\n")
	for _, task := range taskTypes() {
		r := remotes()[task]
		if r.at == "" {
			r.at = "http://agent.example"
		}
		if !strings.Contains(r.more, "token:") {
			r.more = strings.TrimPrefix(r.more+`, token: "${secret:AGENT}"`, ", ")
		}
		fmt.Fprintf(&b, "  %s: {url: %q, network: public, %s}\n", task, r.at, r.more)
	}
	return b.String()
}

// speak answers a run as its task type says, with canaries of that type and of
// the tier that the run has.
func (h *house) speak(x *agent.Exchange) {
	class := "agent " + x.Run.TaskType + " " + x.Run.RiskTier + " "
	remotes()[x.Run.TaskType].say(h, x, func(place string) string { return h.g.plant(class + place) })
}

// wires sets what the agents say that are no more than wire.
func (h *house) wires() {
	for _, route := range []string{schemas.RouteRunStream, schemas.RouteRunSync} {
		h.plain.Handle("/wire"+route, upstream.Raw(fullAnswer(h.g, "agent wire", http.StatusOK)))
		h.plain.Handle("/wire/bad"+route, upstream.Raw(fullAnswer(h.g, "agent wire bad", http.StatusInternalServerError)))
		h.plain.Handle("/wire/away"+route, upstream.Redirect(http.StatusTemporaryRedirect, "http://elsewhere.example/"+h.g.plant("agent location")))
		h.plain.Handle("/wire/talk"+route, upstream.Raw("SPEAKS "+h.g.plant("agent talk")+"\r\n\r\n"))
	}
}

// fullEnd is an end with a canary in every place that the contract has, and in
// places that it does not have.
func fullEnd(x *agent.Exchange, of func(string) string) object {
	return object{
		"type": "final", "request_id": x.Run.RequestID, "task_type": x.Run.TaskType, "status": "ok", "success": true,
		"outputs":   object{of("output key"): of("output"), "deep": []any{object{of("deep output key"): of("deep output")}}},
		"artifacts": []any{of("artifact"), "https://artifacts.example/" + of("artifact path")}, "provenance": object{of("provenance key"): of("provenance")},
		"usage": object{"duration_ms": 1, of("usage key"): of("usage")}, "grounding": []any{of("grounding")}, "warnings": []any{of("warning")},
		of("unknown member"): of("unknown value"),
	}
}

// failure is the end of a run that failed.
func failure(x *agent.Exchange, of func(string) string) object {
	return object{
		"type": "final", "request_id": x.Run.RequestID, "task_type": x.Run.TaskType, "status": "error", "ok": false, "outputs": object{of("failed output key"): of("failed output")},
		"warnings": []any{of("failed warning")}, "error": object{"code": of("error code"), "message": of("error message"), "details": object{of("details key"): of("details"), "n": 1}},
	}
}

func errorText(x *agent.Exchange, of func(string) string) object {
	return object{"request_id": x.Run.RequestID, "status": "error", "error": of("error text"), "detail": of("detail")}
}

func oddStatus(x *agent.Exchange, of func(string) string) object {
	return object{"request_id": x.Run.RequestID, "status": of("status word"), "outputs": of("outputs that are none"), "error": []any{of("error in a list")}}
}

func otherID(x *agent.Exchange, of func(string) string) object {
	end := fullEnd(x, of)
	end["request_id"] = of("other request id")
	return end
}

// document answers with a document, whichever route was asked for.
func document(status int, doc func(*agent.Exchange, func(string) string) object) func(*house, *agent.Exchange, func(string) string) {
	return func(_ *house, x *agent.Exchange, of func(string) string) {
		x.Begin(status, "application/json; profile="+of("media type"))
		x.Write(jsonText(doc(x, of)))
	}
}

// full is a stream with a canary wherever the format lets one stand.
func full(_ *house, x *agent.Exchange, of func(string) string) {
	x.Begin(http.StatusOK, "text/event-stream; name="+of("stream type"))
	x.Write(": " + of("comment") + "\nretry: " + of("retry") + "\n\n")
	x.Event("started", jsonText(object{"request_id": x.Run.RequestID, "task_type": x.Run.TaskType, of("started key"): of("started")}))
	x.Event(of("event name"), jsonText(object{of("progress key"): of("progress"), "type": of("progress type"), "task_type": of("progress task type"), "request_id": of("progress id")}))
	x.Event("progress", of("progress that is text"))
	x.Write("id: " + of("id of an event") + "\n" + of("unknown field") + ": " + of("value of a field") + "\nevent: progress\ndata: {\"a\":\ndata:\"" + of("data over lines") + "\"}\n\n")
	x.Event("complete", jsonText(fullEnd(x, of)))
}

// inData names its events in their data.
func inData(_ *house, x *agent.Exchange, of func(string) string) {
	x.Stream()
	for _, doc := range []object{
		{"event": "started", "request_id": x.Run.RequestID},
		{"event": of("event in data"), "message": of("message in data")},
		{"type": of("type in data"), "data": object{of("data key"): of("data")}},
	} {
		x.Write("data:" + jsonText(doc) + "\r\n\r\n")
	}
	end := fullEnd(x, of)
	end["event"] = "final"
	x.Write("data:" + jsonText(end)) // and no line end
}

// fallback has no stream.
func fallback(_ *house, x *agent.Exchange, of func(string) string) {
	if x.Route == schemas.RouteRunStream {
		x.Begin(http.StatusMethodNotAllowed, "application/json")
		x.Write(jsonText(object{"detail": of("no stream here")}))
		return
	}
	document(http.StatusOK, fullEnd)(nil, x, of)
}

// echoed tells everything that it was sent, the token too.
func echoed(_ *house, x *agent.Exchange, _ func(string) string) {
	var headers bytes.Buffer
	_ = x.Header.Write(&headers) // to memory: cannot fail
	told := object{"headers": headers.String(), "authorization": x.Header.Get("Authorization"), "body": string(x.Body), "inputs": x.Run.Inputs}
	x.Stream()
	x.Event("progress", jsonText(told))
	x.Event("token "+x.Header.Get("Authorization"), jsonText(told))
	for _, room := range []int{90, 100, 110} { // a name is cut, and the secret in it must be out by then
		long := strings.Repeat("n", room) + x.Header.Get("Authorization")
		x.Event(long, jsonText(object{"room": room}))
		x.Write("data: " + jsonText(object{"type": long}) + "\n\n")
	}
	x.Event("complete", jsonText(object{"request_id": x.Run.RequestID, "status": "ok", "outputs": told, "warnings": []any{x.Header.Get("Authorization")}}))
}

// large sends an event that is too large to be kept.
func large(_ *house, x *agent.Exchange, of func(string) string) {
	x.Stream()
	x.Event("progress", jsonText(object{"text": strings.Repeat(of("large progress")+" ", schemas.InlineLimit/30)}))
	x.Event("complete", jsonText(object{"request_id": x.Run.RequestID, "status": "ok", "outputs": object{}}))
}

func tooLarge(_ *house, x *agent.Exchange, of func(string) string) {
	x.Stream()
	x.Event("complete", jsonText(object{"request_id": x.Run.RequestID, "status": "ok", "outputs": object{"text": strings.Repeat(of("too large an end")+" ", 1<<14)}}))
}

func errorEvent(_ *house, x *agent.Exchange, of func(string) string) {
	x.Stream()
	x.Event("progress", jsonText(object{"text": of("before the error")}))
	x.Event("error", of("text of an error"))
}

func noEnd(_ *house, x *agent.Exchange, of func(string) string) {
	x.Stream()
	x.Event("progress", jsonText(object{of("key before the end"): of("before the end")}))
}

func cutOff(_ *house, x *agent.Exchange, of func(string) string) {
	x.Stream()
	x.Event("progress", jsonText(object{"text": of("before the cut")}))
	x.Write("event: complete\ndata: {\"" + of("half an end"))
	x.Die()
}

func twice(_ *house, x *agent.Exchange, of func(string) string) {
	x.Stream()
	x.Event("complete", jsonText(fullEnd(x, of)))
	x.Event("complete", jsonText(failure(x, of)))
}

func garbage(_ *house, x *agent.Exchange, of func(string) string) {
	x.Stream()
	x.Write("<html>" + of("garbage") + "\xff\x00\n<p>" + of("more garbage") + "</p>\n\n")
}

func lost(_ *house, x *agent.Exchange, _ func(string) string) { x.Die() }

// hangs says a little and waits until the caller leaves.
func hangs(h *house, x *agent.Exchange, of func(string) string) {
	x.Stream()
	x.Event("progress", jsonText(object{"text": of("before it hangs")}))
	h.hung <- x.Request
	x.Await()
}

func jsonText(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // made of texts
	}
	return string(raw)
}

// heard is all that came to the agent.
func heard(a *agent.Agent) string {
	var b bytes.Buffer
	for _, r := range a.Ledger() {
		fmt.Fprintf(&b, "POST %s\n", r.Route)
		_ = r.Header.Write(&b) // to memory: cannot fail
		b.Write(r.Body)
		b.WriteByte('\n')
	}
	return b.String()
}
