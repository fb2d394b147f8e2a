package schemas

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The task types that Weir serves by itself.
const (
	TaskHTTPExecute = "HTTP_EXECUTE" // inputs are an executor's action
	TaskHTTPPlan    = "HTTP_PLAN"    // inputs are a snapshot and a plan
	TaskEcho        = "ECHO"         // answers its inputs, with progress events
)

// BuiltinTasks lists them.
func BuiltinTasks() []string { return []string{TaskHTTPExecute, TaskHTTPPlan, TaskEcho} }

// The risk tiers. For a run of any tier but RiskNonSensitive, evidence contains only keyed hashes
// of inputs and outputs; a missing tier counts as sensitive.
const (
	RiskNonSensitive = "NON_SENSITIVE"
	RiskSensitive    = "SENSITIVE"
	RiskPHI          = "PHI"
)

// RiskTiers lists every risk tier.
func RiskTiers() []string { return []string{RiskNonSensitive, RiskSensitive, RiskPHI} }

// RunRequest is the body of POST /agents/run/sync and POST /agents/run/stream.
type RunRequest struct {
	// RequestID becomes the action's id. The same id with the same body joins the
	// run that exists; with another body it is a conflict.
	RequestID string `json:"request_id" jsonschema:"pattern=^[A-Za-z0-9._:-]{1\\,128}$"`
	RunOrder
}

// RunOrder is what a run is to do: a RunRequest without its id. It goes on to
// the agent as it is.
type RunOrder struct {
	// TaskType names the agent.
	TaskType   string `json:"task_type" jsonschema:"pattern=^[A-Za-z0-9._:-]{1\\,122}$"`
	WorkflowID string `json:"workflow_id,omitempty" jsonschema:"maxLength=256"`
	StageID    string `json:"stage_id,omitempty" jsonschema:"maxLength=256"`
	UserID     string `json:"user_id,omitempty" jsonschema:"maxLength=256"`
	// Mode is the orchestrator's own, such as DEMO or LIVE.
	Mode string `json:"mode,omitempty" jsonschema:"maxLength=64"`
	// RiskTier says how much of the run evidence may hold; absent: the least.
	RiskTier string `json:"risk_tier,omitempty" jsonschema:"enum=NON_SENSITIVE,enum=SENSITIVE,enum=PHI"`
	DomainID string `json:"domain_id,omitempty" jsonschema:"maxLength=256"`
	// Inputs are the task's own, an object; absent: an empty one.
	Inputs  json.RawMessage `json:"inputs,omitempty" jsonschema:"type=object"`
	Budgets *RunBudgets     `json:"budgets,omitempty"`
}

// Sensitive reports whether evidence must hold nothing that could be guessed back
// to the run's content.
func (r RunOrder) Sensitive() bool { return r.RiskTier != RiskNonSensitive }

// Timeout is how long the run may take by its own budget; zero: it names none.
func (r RunOrder) Timeout() time.Duration {
	if r.Budgets == nil {
		return 0
	}
	if ms := cmp.Or(r.Budgets.TimeoutMS, r.Budgets.MaxTimeMS); ms != nil {
		return time.Duration(*ms) * time.Millisecond
	}
	return 0
}

// RunBudgets bound a run. Weir enforces timeout_ms, or max_time_ms where that is absent. All
// members go on to the agent as they came, those that Weir does not know too.
type RunBudgets struct {
	MaxOutputTokens  *int64 `json:"max_output_tokens,omitempty" jsonschema:"minimum=0"`
	MaxContextTokens *int64 `json:"max_context_tokens,omitempty" jsonschema:"minimum=0"`
	MaxEscalations   *int64 `json:"max_escalations,omitempty" jsonschema:"minimum=0"`
	// TimeoutMS is how long the run may take, from its acceptance to its end, in
	// milliseconds.
	TimeoutMS *int64 `json:"timeout_ms,omitempty" jsonschema:"minimum=1,maximum=86400000,default=600000"`
	// MaxTimeMS counts as timeout_ms where that is absent.
	MaxTimeMS *int64 `json:"max_time_ms,omitempty" jsonschema:"minimum=1,maximum=86400000"`

	// own is the object as its caller wrote it; empty: none did.
	own json.RawMessage
}

// known are the members without the methods.
type known RunBudgets

// UnmarshalJSON keeps the object as it came, beside its known members.
func (b *RunBudgets) UnmarshalJSON(doc []byte) error {
	*b = RunBudgets{}
	if err := json.Unmarshal(doc, (*known)(b)); err != nil {
		return err
	}
	b.own = append(b.own, doc...)
	return nil
}

// MarshalJSON gives the object as it came.
func (b RunBudgets) MarshalJSON() ([]byte, error) {
	if len(b.own) > 0 {
		return b.own, nil
	}
	return json.Marshal(known(b))
}

// MaxRunTimeout is the longest that a run may ask for.
const MaxRunTimeout = 24 * time.Hour

// Run is the payload of kind run.
type Run struct {
	RunOrder
	// Call and Plan are the inputs of HTTP_EXECUTE and HTTP_PLAN, translated;
	// Inputs is then empty.
	Call *HTTPCall    `json:"call,omitempty"`
	Plan *PlanRequest `json:"plan,omitempty"`
}

// RunResult is the result document of kind run, for every outcome.
type RunResult struct {
	// Outputs is an object; absent where HTTP stands, and where the run failed with an error
	// object of the agent's.
	Outputs json.RawMessage `json:"outputs,omitempty"`
	// HTTP is what came of the call of HTTP_EXECUTE.
	HTTP *HTTPResult `json:"http,omitempty"`
	// Answer is that of HTTP where it is large and kept aside; see Settled.AnswerBlob.
	Answer *Answer `json:"answer,omitempty"`
	RunExtras
	Error *RunError `json:"error,omitempty"`
}

// RunExtras is what an agent may tell beside its outputs. No member is null.
type RunExtras struct {
	Artifacts  []string        `json:"artifacts,omitempty"`
	Provenance json.RawMessage `json:"provenance,omitempty" jsonschema:"type=object"`
	Usage      json.RawMessage `json:"usage,omitempty" jsonschema:"type=object"`
	Grounding  json.RawMessage `json:"grounding,omitempty"`
	Warnings   []string        `json:"warnings,omitempty"`
}

// RunError says why a run failed.
type RunError struct {
	// Code is VALIDATION_ERROR, TASK_FAILED, UNSUPPORTED_TASK_TYPE,
	// AGENT_UNAVAILABLE, or the agent's own word.
	Code    string          `json:"code"`
	Message string          `json:"message"`
	Details json.RawMessage `json:"details,omitempty" jsonschema:"type=object"`
}

// The statuses of a response.
const (
	RunOK    = "ok"
	RunFault = "error"
)

// RunResponse answers POST /agents/run/sync, whatever came of the run.
type RunResponse struct {
	Status    string          `json:"status" jsonschema:"enum=ok,enum=error"`
	RequestID string          `json:"request_id"`
	Outputs   json.RawMessage `json:"outputs" jsonschema:"type=object"`
	RunExtras
	Error *RunError `json:"error,omitempty"`
}

// RunRefusal answers a run that was not accepted.
type RunRefusal struct {
	RequestID string          `json:"request_id,omitempty"`
	OK        bool            `json:"ok" jsonschema:"enum=false"`
	Status    string          `json:"status" jsonschema:"enum=error"`
	Outputs   json.RawMessage `json:"outputs" jsonschema:"type=object"`
	Warnings  []string        `json:"warnings"`
	Error     RunError        `json:"error"`
	// Code is the code that every other route of Weir would answer with.
	Code      Code `json:"code"`
	Retryable bool `json:"retryable"`
}

// RunEvent is the data of one event of a run's stream: started, progress or, as
// the last, complete with the type final.
type RunEvent struct {
	Type      string `json:"type" jsonschema:"description=started, final, or the name of a progress event"`
	RequestID string `json:"request_id"`
	TaskType  string `json:"task_type"`
	// What follows is set where Type is final.
	Status  string          `json:"status,omitempty" jsonschema:"enum=ok,enum=error"`
	Success *bool           `json:"success,omitempty"`
	Outputs json.RawMessage `json:"outputs,omitempty" jsonschema:"type=object"`
	RunExtras
	Error *RunError `json:"error,omitempty"`
}

// The names of a run's events.
const (
	RunEventStarted  = "started"
	RunEventProgress = "progress"
	RunEventComplete = "complete"
	RunTypeFinal     = "final" // the type of the data of complete
)

// EndsRun reports whether the keyword of an event, as its name or as the event or type in its data,
// ends the stream of a run in any dialect.
func EndsRun(word string) bool {
	switch strings.ToLower(strings.TrimSpace(word)) {
	case RunTypeFinal, RunEventComplete, "completed", "done", "error", "failed":
		return true
	default:
		return false
	}
}

// RunProgress is the data of a progress event of kind run: one event of the
// agent, as it came.
type RunProgress struct {
	// Name is the agent's own word for the event.
	Name string `json:"name"`
	// Data is its JSON, or its text as a JSON string.
	Data json.RawMessage `json:"data,omitempty"`
	// Omitted is the size of data that was too large for an event, in bytes.
	Omitted int `json:"omitted,omitempty"`
}

// The ways to call an agent.
const (
	AgentAuto   = "auto"   // the route that the run's caller used first
	AgentStream = "stream" // the streaming route first
	AgentSync   = "sync"   // the synchronous route first
)

// Agent is how a remote agent is called. Its fields describe keys of weir.yaml; in force, URL has no slash at
// its end.
type Agent struct {
	TaskType string `yaml:"-"`
	// Where its routes begin: scheme://host[:port][/path]. /agents/run/stream and /agents/run/sync
	// are added to it.
	URL string `yaml:"url" jsonschema:"required"`
	// Which of its routes is asked first: auto, that which the run's caller used, stream or sync.
	// The other one is asked where it does not serve the first.
	Mode string `yaml:"mode" jsonschema:"enum=auto,enum=stream,enum=sync" default:"auto"`
	// Time for one call. Default 0: the remaining time of the run.
	Timeout     time.Duration `yaml:"timeout" bounds:"0 or 100ms to 24h"`
	Concurrency int           `yaml:"concurrency" default:"32" bounds:"1 to 10000"` // Runs that one node gives it at a time; more wait.
}

// The routes of the run contract, behind an agent's URL.
const (
	RouteRuns      = "/agents/run/" // where all of them begin
	RouteRunSync   = RouteRuns + "sync"
	RouteRunStream = RouteRuns + "stream"
)

// RunRoute is the route that a URL ends in where its service's base is asked for
// and the routes are added to it; empty: none.
func RunRoute(url string) string {
	url = strings.TrimRight(url, "/")
	for _, route := range []string{RouteRunSync, RouteRunStream, strings.TrimSuffix(RouteRuns, "/")} {
		if strings.HasSuffix(url, route) {
			return route
		}
	}
	return ""
}

// MaxAgentTask is the longest task type: the name of the policy entry of an agent
// that serves it is a valid id too.
const MaxAgentTask = 122

// ValidTaskType reports whether there may be an agent for a task type.
func ValidTaskType(s string) bool { return len(s) <= MaxAgentTask && ValidID(s) }

// AgentEntryPrefix begins the names of the policy entries of agents, and of no
// others.
const AgentEntryPrefix = "agent:"

// AgentEntry is the name of the policy entry that an agent's calls go by. A token
// that is limited to entries may run the task types whose entries it has.
func AgentEntry(taskType string) string { return AgentEntryPrefix + taskType }

// The most that ECHO takes of each of its own inputs.
const (
	MaxEchoSteps    = 1000
	MaxEchoInterval = time.Minute
)

// Echo is what ECHO goes by among its inputs. All others are only answered.
type Echo struct {
	// Steps is how many progress events come before the answer: 1 to
	// MaxEchoSteps, by the member steps; default 1.
	Steps int
	// Interval is the time before each of them: 0 to MaxEchoInterval, by the member
	// interval_ms; default 0.
	Interval time.Duration
}

// EchoError says which of ECHO's own inputs it does not take.
type EchoError struct {
	Member   string
	From, To int
}

func (e *EchoError) Error() string {
	return fmt.Sprintf("must be a whole number from %d to %d", e.From, e.To)
}

// ReadEcho reads ECHO's own inputs, by these very names. A number counts as whole
// where it is written as one: 1.0 and 1e3 are not. Its errors are *EchoError where
// the inputs are an object.
func ReadEcho(inputs json.RawMessage) (Echo, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(inputs, &members); err != nil {
		return Echo{}, errors.New("the inputs are no object")
	}
	e, interval := Echo{Steps: 1}, 0
	for _, m := range []struct {
		EchoError
		into *int
	}{
		{EchoError{"steps", 1, MaxEchoSteps}, &e.Steps},
		{EchoError{"interval_ms", 0, int(MaxEchoInterval.Milliseconds())}, &interval},
	} {
		text := strings.Trim(string(members[m.Member]), " \t\r\n")
		if text == "" || text == "null" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < m.From || n > m.To {
			return Echo{}, &m.EchoError
		}
		*m.into = n
	}
	e.Interval = time.Duration(interval) * time.Millisecond
	return e, nil
}
