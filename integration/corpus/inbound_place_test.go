//go:build e2e

package corpus_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"weir/schemas"
)

// route is where a row goes that the corpus sends to a run. What holds for one
// writing route holds for all of them, each in its own words.
type route string

const (
	viaExecute route = ""       // the executor
	viaSync    route = "sync"   // the run's own route
	viaStream  route = "stream" // the run's other route
	viaTask    route = "task"   // the agent's route of a task, as it is written
	viaAPI     route = "api"    // the same below the other base URL
	viaSlashes route = "slashes"
)

// routes are all that a row takes. Answers that are a refusal are the same on
// both routes of runs, which a stream of events is not. What only a run has is
// not asked of the executor. The agent's route of a task is its own, and what it stands
// for in the corpus beside it is /v1/actions.
func (r *inboundRow) routes() []route {
	switch {
	case r.Surface == taskSurface && r.Method != methodRaw && strings.HasPrefix(r.Path, "/agent/"), r.Surface == chatSurface:
		return []route{viaTask, viaAPI, viaSlashes}
	case r.Surface == taskSurface, r.Surface == gitSurface:
		return []route{viaTask}
	case !r.slow() && agentTask.MatchString(r.Path+r.Raw):
		return []route{viaExecute, viaTask}
	}
	sync := strings.HasPrefix(r.Path, schemas.RouteRunSync) || strings.Contains(r.Raw, " "+schemas.RouteRunSync)
	var all []route
	switch {
	case strings.HasPrefix(r.Path, schemas.RouteRunStream), strings.Contains(r.Raw, " "+schemas.RouteRunStream):
		return []route{viaStream}
	case !sync:
		return []route{viaExecute}
	case r.Surface != "envelope-and-ids" && !strings.Contains(r.Class, "2xx"): // the executor takes no envelope
		all = append(all, viaExecute)
	}
	all = append(all, viaSync)
	if !strings.Contains(r.Class, "2xx") {
		all = append(all, viaStream)
	}
	return all
}

const methodRaw = "RAW"

// agentTask finds the rows that the corpus sends to an agent's task.
var agentTask = regexp.MustCompile(`/(a|%61)gent(/|%2f|\\|/\./)task`)

// onTask says that the row goes to a route of tasks, of git or of models, with a task of
// its own.
func (r *inboundRow) onTask() bool {
	return r.via == viaTask || r.via == viaAPI || r.via == viaSlashes
}

// on is the row on one of its routes.
func (r *inboundRow) on(v route) *inboundRow {
	other := *r
	other.via = v
	return &other
}

// name tells the row and the route.
func (r *inboundRow) name() string {
	if r.via == viaExecute || r.via == viaTask && (r.Surface == taskSurface || r.Surface == gitSurface || r.Surface == chatSurface) {
		return r.ID
	}
	return r.ID + "." + string(r.via)
}

// place puts a path of the corpus where Weir has the same thing: what makes an
// action is the row's route, and what is read is /v1/actions. The encodings
// that a row is about stay.
func (r *inboundRow) place(method, path string) string {
	switch r.via {
	case viaTask:
		return path
	case viaAPI:
		return schemas.RouteAPI + path
	case viaSlashes:
		if r.Surface == chatSurface {
			return schemas.RouteAPI + "/" + path
		}
		return schemas.RouteAPI + "/" + strings.Replace(path, "/agent/", "/agent//", 1)
	case viaExecute, viaSync, viaStream:
	}
	if strings.HasPrefix(path, schemas.RouteRunStream) {
		return path
	}
	if method == http.MethodPost && path == "/v1/rules" {
		return routeAgentAPI
	}
	if method == http.MethodPost && strings.HasPrefix(path, "/v1/actions") && !strings.HasPrefix(path, "/v1/actions/") {
		return "/v1/execute" + strings.TrimPrefix(path, "/v1/actions")
	}
	if rest, ok := strings.CutPrefix(path, schemas.RouteRunSync); ok {
		return map[route]string{viaExecute: "/v1/execute", viaSync: schemas.RouteRunSync, viaStream: schemas.RouteRunStream}[r.via] + rest
	}
	for _, p := range [][2]string{{"%61gent/", "%761/"}, {"agent/", "v1/"}} {
		if rest, ok := strings.CutPrefix(path, "/"+p[0]); ok {
			return "/" + p[1] + strings.Replace(rest, "task", "actions", 1)
		}
	}
	return path
}

// placeRaw does the same in the request line of exact bytes. A body needs its
// media type to be read as one.
func (r *inboundRow) placeRaw(raw string) string {
	parts := strings.SplitN(raw, " ", 3)
	if len(parts) < 3 {
		return raw
	}
	parts[1] = r.place(parts[0], parts[1])
	return strings.Join(parts, " ")
}

// corpusTask is the task type of the corpus. An agent of the fixture serves it.
const corpusTask = "http.action"

// adapt is the one translation of a body: /v1/actions stands for the executor's route,
// which takes an action without the envelope of a run. The executor gets the inputs of
// the envelope as they are, but for the host, which is the fixture's.
func (r *inboundRow) adapt(body, upstream string) string {
	if !strings.HasPrefix(r.Path, "/v1/actions") {
		return body
	}
	target := upstream + "/v1/x?row=" + r.name()
	if body == `{"different":"body"}` { // another action, to be one at all
		return fmt.Sprintf(`{"method":"GET","url":"%s&different=1","allowlist_key":"api"}`, target)
	}
	var doc struct {
		TaskType string          `json:"task_type"`
		Inputs   json.RawMessage `json:"inputs"`
	}
	if json.Unmarshal([]byte(body), &doc) != nil || doc.TaskType != corpusTask {
		return body
	}
	return strings.Replace(string(doc.Inputs), "https://api.example.com/v1/x", target, 1)
}
