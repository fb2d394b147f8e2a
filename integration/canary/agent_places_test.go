//go:build e2e

package canary_test

import (
	"encoding/json"
	"maps"
	"net/http"

	"github.com/stretchr/testify/assert"

	"weir/internal/weirtest/agent"
)

// The ways in which repeats says what it is given.
const (
	asResponse = "response"
	asProgress = "progress"
	asEnd      = "end"
	asRefusal  = "refusal"
)

// repeats says the document that its inputs hold, in the way that they name.
func repeats(_ *house, x *agent.Exchange, _ func(string) string) {
	var in struct {
		As  string          `json:"as"`
		Doc json.RawMessage `json:"doc"`
	}
	if err := json.Unmarshal(x.Run.Inputs, &in); err != nil {
		panic(err) // nobody asks for that
	}
	switch in.As {
	case asRefusal:
		x.Begin(http.StatusUnprocessableEntity, "application/json")
		x.Write(string(in.Doc))
	case asResponse:
		x.Begin(http.StatusOK, "application/json")
		x.Write(string(in.Doc))
	case asProgress:
		x.Stream()
		x.Event("progress", string(in.Doc))
		x.Event("complete", jsonText(object{"request_id": x.Run.RequestID, "status": "ok", "outputs": object{}}))
	default:
		x.Stream()
		x.Event("complete", string(in.Doc))
	}
}

// agentPlaces has an agent say every document of the contract with a canary in one
// place of it, as an answer, as an event and as the last one.
func (h *house) agentPlaces() {
	ended := object{"status": "ok", "success": true, "outputs": object{}, "type": "final", "task_type": "RUN.REPEATS"}
	refused := object{"ok": false, "status": "error", "outputs": object{}, "warnings": []any{}, "error": object{"code": "VALIDATION_ERROR", "message": "m"}}
	for _, d := range []struct {
		schema, form string
		base         object
		as           []string
	}{
		{"run.response", "RunResponse", ended, []string{asResponse, asEnd}},
		{"run.event", "RunEvent", ended, []string{asProgress, asEnd}},
		{"run.refusal", "RunRefusal", refused, []string{asRefusal, asEnd}},
	} {
		for i, p := range placesOf(h.t, d.schema)[d.form] {
			for _, as := range d.as {
				tier := tiers()[i%len(tiers())]
				run := h.order("RUN.REPEATS", tier, object{"as": as})
				doc := maps.Clone(d.base)
				doc["request_id"] = run["request_id"]
				run["inputs"] = object{"as": as, "doc": p.put(doc, h.g.plant("agent says "+d.form+" "+p.String()+" as "+as))}
				route := routes()[i%2]
				status, answer := h.owner.ask(http.MethodPost, route, h.jsonOf(run))
				assert.Equal(h.t, http.StatusOK, status, answer)
			}
		}
	}
	_, text := h.owner.ask(http.MethodGet, "/v1/actions?limit=1000", "")
	assert.Contains(h.t, text, "RUN.REPEATS")
}
