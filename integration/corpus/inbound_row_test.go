//go:build e2e

package corpus_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"

	"weir/schemas"
)

// inboundRow is one line of the inbound corpus.
type inboundRow struct {
	ID       string                     `json:"id"`
	Surface  string                     `json:"surface"`
	Method   string                     `json:"method"`
	Path     string                     `json:"path"`
	Headers  map[string]json.RawMessage `json:"headers"` // texts, or described ones
	Body     json.RawMessage            `json:"body"`    // a text, or a described one
	Class    string                     `json:"expected_status_class"`
	Code     string                     `json:"expected_error_code"`
	Level    string                     `json:"level"`
	Why      string                     `json:"why"`
	Raw      string                     `json:"raw"`
	Gen      map[string]any             `json:"gen"`
	Setup    string                     `json:"setup"`
	Repeat   int                        `json:"repeat"`
	Pace     json.RawMessage            `json:"pace"` // the request stops after what the row has
	PaceRead int                        `json:"pace_read"`
	Assert   string                     `json:"assert"`
	With     *struct {
		Method string `json:"method"`
		Path   string `json:"path"`
		Body   string `json:"body"`
	} `json:"concurrent_with"` // a request that is sent at the same time
	Disconnect int64           `json:"disconnect_after_bytes"`
	Upstream   json.RawMessage `json:"upstream"` // of completions: the provider is always hostile
	Stdlib     json.RawMessage `json:"stdlib"`   // the answer of net/http alone; nothing is checked against it

	via     route
	clauses []clause
}

// The surfaces whose rows need more than one request and an answer.
const (
	rulesSurface = "rules-etag"
	taskSurface  = "agent-task"
	gitSurface   = "git-smart-http"
	chatSurface  = "chat-completions"
)

// surfaces are all that rows may name.
var surfaces = []string{
	"http-protocol", "auth", "json-body", "content-type-encoding", "limits", "slow-clients", "routing-and-paths", "idempotency", "sse",
	"ops-surfaces", "envelope-and-ids", "approvals", "webhook-registration", rulesSurface, taskSurface, gitSurface, chatSurface,
}

// corrected are the rows that are answered with 2xx: a later page of the protocols corrects them.
var corrected = map[string]string{
	"IN-AUTH-007": "the token of a task that has ended may read how it ended",
	"IN-AUTH-025": "the token of a task that has ended may read how it ended",
	"IN-PATH-005": "agents join paths with a slash at the end",
}

// unserved reports whether the row is about a surface that Weir does not have: approvals and
// webhooks. Its route is answered with 404.
func (r *inboundRow) unserved() bool {
	return strings.HasPrefix(r.Path, "/v1/approvals/") || strings.HasPrefix(r.Path, "/v1/webhooks")
}

// slow rows wait; they run side by side.
func (r *inboundRow) slow() bool {
	return r.Pace != nil || r.PaceRead > 0 || r.Assert == "heartbeat" || r.Setup == "nats_down" || r.Raw == "{slow_read}"
}

// onTask says that the row has a task of its own, and is sent as it is written.
func (r *inboundRow) onTask() bool { return r.via == viaTask || r.via == viaAPI || r.via == viaSlashes }

var classes = regexp.MustCompile(`^([1-5]xx|[1-5]\d\d|close)(\|([1-5]xx|[1-5]\d\d|close))*$`)

// check returns an error for a value that the harness does not know. Placeholders fail when
// they are filled in.
func (r *inboundRow) check() (err error) {
	var body, pace struct {
		Gen  string `json:"gen"`
		Rate int    `json:"bytes_per_s"`
	}
	_ = json.Unmarshal(r.Body, &body) // most bodies are texts
	_ = json.Unmarshal(r.Pace, &pace)
	switch {
	case r.unserved():
		return nil
	case !slices.Contains(surfaces, r.Surface):
		return fmt.Errorf("surface %q is not known", r.Surface)
	case !classes.MatchString(r.Class) || r.Level != "must" && r.Level != "strict":
		return fmt.Errorf("class %q or level %q is not known", r.Class, r.Level)
	case r.Setup != "" && setups[r.Setup] == nil:
		return fmt.Errorf("setup %q is not known", r.Setup)
	case body.Gen != "" && generators[body.Gen] == nil && (r.Surface != gitSurface || gitBodies[body.Gen] == nil):
		return fmt.Errorf("generator %q is not known", body.Gen)
	case body.Gen != "" && r.Surface == gitSurface && generators[body.Gen] == nil:
		err = readStrictly(r.Body, new(gitSpec))
	case pace.Rate != 0,
		r.With != nil && r.Surface != taskSurface,
		r.Disconnect > 0 && r.Surface != gitSurface,
		r.Repeat > 1 && (r.Surface == gitSurface || r.Surface == chatSurface),
		r.Upstream != nil && r.Surface != chatSurface:
		return fmt.Errorf("surface %q has no such requests", r.Surface)
	}
	if err == nil {
		r.clauses, err = parseClauses(r.Assert)
	}
	return err
}

// route is where a row is sent. What holds for one writing route holds for the others.
type route string

const (
	viaWeir    route = "weir"   // POST /v1/execute, or another route of Weir's own
	viaSync    route = "sync"   // the route of runs that is answered with a document
	viaStream  route = "stream" // the route of runs that is answered with events
	viaTask    route = "task"   // as it is written, with a task of its own
	viaAPI     route = "api"    // the same below the other base URL
	viaSlashes route = "slashes"
)

var agentTask = regexp.MustCompile(`/(a|%61)gent(/|%2f|\\|/\./)task`)

// routes are those that a row is sent to: rows about limits and credentials to all that fit,
// the others to one.
func (r *inboundRow) routes() []route {
	all := r.Surface == "limits" || r.Surface == "auth" || r.Code == string(schemas.Unauthorized)
	text, refused := r.Path+r.Raw, !strings.Contains(r.Class, "2xx")
	switch {
	case r.Surface == gitSurface, r.Surface == taskSurface && r.Method == methodRaw:
		return []route{viaTask}
	case r.Surface == chatSurface, r.Surface == taskSurface && strings.HasPrefix(r.Path, "/agent/"):
		return some(all, viaTask, viaAPI, viaSlashes)
	case r.Surface == taskSurface:
		return []route{viaTask}
	case !r.slow() && agentTask.MatchString(text):
		return some(all, viaTask, viaWeir)
	case strings.HasPrefix(r.Path, schemas.RouteRunStream), strings.Contains(r.Raw, " "+schemas.RouteRunStream):
		return []route{viaStream}
	case strings.HasPrefix(r.Path, schemas.RouteRunSync), strings.Contains(r.Raw, " "+schemas.RouteRunSync):
		return some(all && refused, viaSync, viaStream, viaWeir)
	}
	return []route{viaWeir}
}

// some are all routes, or the first.
func some(all bool, routes ...route) []route {
	if all {
		return routes
	}
	return routes[:1]
}

const (
	methodRaw     = "RAW" // the row has the bytes of the request
	routeAgentAPI = "/v1/agent-api"
)

// place maps a path of the corpus to the row's route. The encodings that a row is about stay.
func (r *inboundRow) place(method, path string) string {
	switch r.via {
	case viaTask:
		return path
	case viaAPI:
		return schemas.RouteAPI + path
	case viaSlashes:
		return schemas.RouteAPI + "/" + strings.Replace(path, "/agent/", "/agent//", 1)
	case viaSync, viaStream, viaWeir:
	}
	if rest, ok := strings.CutPrefix(path, schemas.RouteRunSync); ok {
		return map[route]string{viaWeir: "/v1/execute", viaSync: schemas.RouteRunSync, viaStream: schemas.RouteRunStream}[r.via] + rest
	}
	if method == http.MethodPost && path == "/v1/rules" {
		return routeAgentAPI
	}
	if rest, ok := strings.CutPrefix(path, "/v1/actions"); ok && method == http.MethodPost && !strings.HasPrefix(rest, "/") {
		return "/v1/execute" + rest
	}
	for from, to := range map[string]string{"/%61gent/": "/%761/", "/agent/": "/v1/"} {
		if rest, ok := strings.CutPrefix(path, from); ok {
			return to + strings.Replace(rest, "task", "actions", 1)
		}
	}
	return path
}

// placeRaw does the same in the request line of exact bytes.
func (r *inboundRow) placeRaw(raw string) string {
	parts := strings.SplitN(raw, " ", 3)
	if len(parts) == 3 {
		parts[1] = r.place(parts[0], parts[1])
	}
	return strings.Join(parts, " ")
}

// corpusTask is the task type of the corpus. An agent of the fixture serves it.
const corpusTask = "http.action"

// adapt is the one change of a body: POST /v1/execute takes an action without the envelope of a
// run, and the host is the fixture's.
func (r *inboundRow) adapt(body, upstream string) string {
	if !strings.HasPrefix(r.Path, "/v1/actions") {
		return body
	}
	target := upstream + "/v1/x?row=" + r.ID
	if body == `{"different":"body"}` { // of an action that is well-formed otherwise
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

// text is a value of a row: a text, bytes in base64, or what a generator makes.
func (c *call) text(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || string(raw) == "null" || json.Unmarshal(raw, &s) == nil {
		return s
	}
	var spec map[string]any
	require.NoError(c.t, json.Unmarshal(raw, &spec))
	if b64, ok := spec["b64"].(string); ok {
		data, err := base64.StdEncoding.DecodeString(b64)
		require.NoError(c.t, err)
		return string(data)
	}
	require.Contains(c.t, generators, spec["gen"])
	return generators[member(spec, "gen")](spec)
}

// bytes are the request as it goes over the wire.
func (c *call) bytes() string {
	if c.Method == methodRaw {
		return c.placeRaw(c.fill(c.Raw))
	}
	body := c.body()
	return c.head(int64(len(body))) + body
}

// body is the row's, byte for byte, with its placeholders filled in. Bytes in base64 and
// generated ones have no placeholders, except a template.
func (c *call) body() string {
	body := c.text(c.Body)
	if strings.HasPrefix(string(c.Body), `"`) || strings.Contains(string(c.Body), `"template"`) {
		body = c.fill(body)
	}
	return c.adapt(body, c.g.upstream.URL)
}

// head is the request line and the headers.
func (c *call) head(size int64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: gw.test\r\n", c.Method, c.place(c.Method, c.fill(c.Path)))
	sized := false
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		value := c.fill(c.text(c.Headers[name]))
		// A line break can be part of a value only as a folded line.
		value = strings.ReplaceAll(value, "\r\n", "\r\n ")
		fmt.Fprintf(&b, "%s: %s\r\n", name, value)
		sized = sized || strings.EqualFold(name, "Content-Length") || strings.EqualFold(name, "Transfer-Encoding")
	}
	if !sized && (size > 0 || c.Method == http.MethodPost) {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", size)
	}
	return b.String() + "\r\n"
}

var placeholder = regexp.MustCompile(`\{([A-Za-z_][A-Za-z0-9_.-]*)(?:\*(\d+))?\}`)

// fill replaces the placeholders of a text. A text of the row's gen is repeated: {name*count}.
func (c *call) fill(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(m string) string {
		parts := placeholder.FindStringSubmatch(m)
		if parts[2] == "" {
			return c.value(parts[1])
		}
		n, err := strconv.Atoi(parts[2])
		require.NoError(c.t, err)
		require.Contains(c.t, c.Gen, parts[1], "the row has no gen for the placeholder %s", m)
		return strings.Repeat(member(c.Gen, parts[1]), n)
	})
}
