//go:build e2e

package canary_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stretchr/testify/assert"

	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// sensitiveRun begins the id of every run of a sensitive tier: of these evidence
// may hold nothing at all.
const sensitiveRun = "sensitive."

// tiers are the words that a run says how sensitive it is with; "" for none.
func tiers() []string { return append(schemas.RiskTiers(), "") }

// order is a run of a tier, under an id that tells whether it is sensitive.
func (h *house) order(task, tier string, inputs object) object {
	id := fmt.Sprintf("run.%d", h.runs.Add(1))
	run := object{"task_type": task, "inputs": inputs}
	if tier != "" {
		run["risk_tier"] = tier
	}
	if tier != schemas.RiskNonSensitive {
		id = sensitiveRun + id
	}
	run["request_id"] = id
	return run
}

// counter numbers the runs of a house.
type counter struct{ atomic.Int64 }

func routes() []string { return []string{schemas.RouteRunSync, schemas.RouteRunStream} }

// run has runs of a task as the owner, in tiers and on every route, with what is
// made for each, and looks for the words in the answers.
func (h *house) run(task string, tiers []string, inputs func(tier, route string) object, ends ...string) {
	h.t.Helper()
	for _, tier := range tiers {
		for _, route := range routes() {
			_, answer := h.owner.ask(http.MethodPost, route, h.jsonOf(h.order(task, tier, inputs(tier, route))))
			for _, end := range ends {
				assert.Contains(h.t, answer, end, "%s %s %s", task, tier, route)
			}
		}
	}
}

// agents has every agent do what it does.
func (h *house) agents() {
	h.wires()
	var group sync.WaitGroup
	for task, r := range remotes() {
		if task == "RUN.HANGS" || task == "RUN.REPEATS" {
			continue
		}
		group.Go(func() {
			h.run(task, r.tiers(), func(tier, route string) object {
				return object{h.g.plant(task + tier + route + " input key"): h.g.plant(task + tier + route + " input")}
			}, r.ends...)
		})
	}
	group.Wait()
}

// builtins are the runs that Weir performs by itself.
func (h *house) builtins() {
	h.plain.Handle("/run", upstream.Raw(fullAnswer(h.g, "run", http.StatusOK)))
	h.plain.Handle("/run/bare", upstream.Respond(http.StatusOK, h.g.plant("run bare body")))
	planted := func(class string) string { return h.g.plant("run " + class) }
	h.run(schemas.TaskEcho, tiers(), func(tier, route string) object {
		return object{"steps": 3, planted("echo key " + tier + route): planted("echo " + tier + route)}
	}, endedOK)
	for target, end := range map[string]string{
		"http://plain.example/run": endedOK, "http://plain.example/run/bare": endedOK, "http://plain.example/status/500": endedBad, "http://plain.example/close": endedBad,
		"http://private.example/": endedBad, "http://narrow.example/": endedBad, "http://" + strings.ToLower(planted("unknown host")) + ".example/": endedBad, "http://hop.example/hop": endedOK,
		"http://" + strings.ToLower(tidy(planted("subdomain"))) + ".open.example/": endedBad,
	} {
		method := http.MethodPost
		if strings.Contains(target, "hop.example") {
			method = http.MethodGet
		}
		h.run(schemas.TaskHTTPExecute, tiers(), func(string, string) object {
			args := object{"method": method, "url": target + "?q=" + planted("query"), "headers": object{planted("header name"): planted("header")}}
			if method == http.MethodPost {
				args["body"] = object{planted("body key"): planted("body")}
			}
			return object{"type": "Http", "idempotency_key": planted("idempotency key"), "args": args}
		}, end)
		h.run(schemas.TaskHTTPPlan, tiers(), func(string, string) object {
			state := object{"url": target + "?" + planted("plan parameter") + "=1", "method": method, "allowlist_key": "plain", "idempotency_key": planted("plan key"), "params": object{planted("plan param"): planted("plan param value")}}
			if method == http.MethodPost {
				state["body"] = planted("plan body")
			}
			return object{
				"state:env.snapshot": object{"snapshot_id": planted("snapshot")},
				"artifact:proposed.plan": object{"plan_id": planted("plan"), "decisions": []any{
					object{"effect_ref": planted("effect"), "idempotency_key": planted("decision key"), "target_state": state},
					object{"effect_ref": planted("unread effect"), "target_state": object{"headers": planted("unread headers")}},
				}},
			}
		})
	}
}

// proved is a run whose evidence can be told by its key's hash.
func (h *house) proved() {
	status, answer := h.owner.ask(http.MethodPost, schemas.RouteRunSync, h.jsonOf(h.order(schemas.TaskHTTPPlan, schemas.RiskPHI, object{
		"state:env.snapshot": object{}, "artifact:proposed.plan": object{"decisions": []any{object{
			"effect_ref":   "e",
			"target_state": object{"url": "http://plain.example/ok", "method": "POST", "allowlist_key": "plain", "idempotency_key": h.g.plant(provedKey)},
		}}},
	})))
	assert.Equal(h.t, http.StatusOK, status, answer)
	assert.Contains(h.t, answer, endedOK)
}

// runPlaces sends runs with a canary in one place of the published schema and
// nowhere else, and one that has them in all places that take any text.
func (h *house) runPlaces(places []place) {
	var group sync.WaitGroup
	for _, task := range []string{schemas.TaskEcho, schemas.TaskHTTPExecute, schemas.TaskHTTPPlan, "RUN.ECHO", "RUN.FULL"} {
		group.Go(func() {
			for _, p := range places {
				h.runPlace(task, p)
			}
		})
	}
	group.Wait()
	for _, tier := range tiers() {
		for _, route := range routes() {
			run := h.order("RUN.ECHO", tier, object{})
			for _, p := range places {
				if !p.bounded && !identifier(p) && p.path[0] != "*" && p.path[0] != "budgets" && len(p.path) < 3 {
					run = p.put(run, h.g.plant("run with all "+p.String()))
				}
			}
			status, answer := h.owner.ask(http.MethodPost, route, h.jsonOf(run), "X-Request-ID", h.g.plant("X-Request-ID of a run")+" b")
			assert.Equal(h.t, http.StatusOK, status, answer)
			user, _ := run["user_id"].(string)
			assert.Contains(h.t, answer, user)
		}
	}
}

func (h *house) runPlace(task string, p place) {
	inputs := map[string]object{
		schemas.TaskHTTPExecute: {"method": "GET", "url": "http://plain.example/ok"},
		schemas.TaskHTTPPlan:    {"state:env.snapshot": object{}, "artifact:proposed.plan": object{"decisions": []any{}}},
	}[task]
	for _, tier := range []string{schemas.RiskNonSensitive, schemas.RiskPHI} {
		for _, route := range routes() {
			text := h.g.plant("RunRequest " + task + " " + p.String())
			if identifier(p) {
				text += " b"
			}
			if inputs == nil {
				inputs = object{}
			}
			status, answer := h.owner.ask(http.MethodPost, route, h.jsonOf(p.put(h.order(task, tier, maps.Clone(inputs)), text)))
			assert.NotEqual(h.t, http.StatusUnauthorized, status)
			if p.bounded {
				assert.GreaterOrEqual(h.t, status, http.StatusBadRequest, "%s %s: %s", task, p, answer)
			}
		}
	}
}
