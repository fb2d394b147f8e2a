// Package agent is a double of an agent service that speaks the run contract:
// correctly, in one of the dialects that agents speak, or with one fault. It is
// an ordinary HTTP server on loopback and keeps a ledger of the runs it was
// asked for.
//
// By default it is correct: GET /health and /health/ready answer an object with
// a status, POST /agents/run/sync answers at once, POST /agents/run/stream sends
// started, some progress and one complete. A body that is no request gets 422, a
// task type it does not know 400, a wrong token 401.
//
//	a := agent.New(t, agent.Config{TaskTypes: []string{"SUMMARY"}})
//	hold := make(chan struct{})
//	b := agent.New(t, agent.Config{Script: []agent.Act{
//		{Fault: agent.Status503},          // the first run
//		{Steps: 5, Hold: hold},            // the second and all that follow
//	}})
//	run := b.WaitRun(2)                    // blocks until the second has come
//	close(hold)                            // lets it end
//	<-run.Closed()                         // over, for whatever reason
//	run.Cut()                              // whether the caller left before the end
//
// An Act waits at its channels (Begin, Step, Hold), so that a test waits on
// signals alone; Act.Answer writes whatever a test wants to the wire. Faults
// lists every fault; what each one does stands beside its name.
package agent

import (
	"net/http"
	"sync/atomic"
	"testing"

	"weir/internal/weirtest/doubles"
	"weir/schemas"
)

// TaskType is what an agent serves that was given no task types.
const TaskType = "DOUBLE"

// Config says what an agent is like. Its zero value is correct.
type Config struct {
	// TaskTypes are what it serves; none: TaskType.
	TaskTypes []string
	// Token is asked of runs as a bearer token; empty: nobody is asked.
	Token string
	// Steps is how many progress events a run sends; zero: 2, negative: none.
	Steps int
	// Fault is what is wrong with all its answers.
	Fault Fault
	// Script gives the n-th run the n-th act, and the last one to all that
	// follow. Without it every run is Act{Fault: Config.Fault}. A refusal takes
	// no step of it.
	Script []Act
}

// Act is what the agent does with one run.
type Act struct {
	Fault Fault
	// Steps is Config.Steps for this run; zero: as there.
	Steps int
	// Outputs is JSON; empty: {"echo": <the inputs>}.
	Outputs string
	// Progress is the JSON of the n-th progress event, from 0; nil: its step and
	// percent.
	Progress func(n int) string
	// Error makes the run fail: status 200, "status":"error".
	Error *schemas.RunError
	// Extras are members beside those of a correct end.
	Extras map[string]any
	// Begin is waited for before a byte of answer, Step once before each progress
	// event, Hold before the last event or the synchronous answer. A closed
	// channel holds nothing up; nil: no wait.
	Begin, Step, Hold <-chan struct{}
	// Answer, if set, is all that happens.
	Answer func(*Exchange)
}

// Request is one run that the agent was asked for, those it refused left out.
type Request struct {
	*doubles.Call

	// Route is schemas.RouteRunSync or schemas.RouteRunStream.
	Route  string
	Header http.Header
	Body   []byte
	// Run is Body, decoded.
	Run schemas.RunRequest
}

// Agent is a running double. It stops with its test.
type Agent struct {
	*doubles.Server[*Request]

	cfg     Config
	refused atomic.Int64
}

// New starts an agent.
func New(tb testing.TB, cfg Config) *Agent {
	tb.Helper()
	if len(cfg.TaskTypes) == 0 {
		cfg.TaskTypes = []string{TaskType}
	}
	if cfg.Steps == 0 {
		cfg.Steps = 2
	}
	if len(cfg.Script) == 0 {
		cfg.Script = []Act{{Fault: cfg.Fault}}
	}
	a := &Agent{cfg: cfg}
	a.Server = doubles.Serve[*Request](a.routes(), tb.Fatalf)
	tb.Cleanup(a.Close)
	return a
}

// WaitRun blocks until the n-th run, counted from 1, has come, and returns it.
func (a *Agent) WaitRun(n int) *Request { return a.WaitFor(n) }

// Refused counts the requests that were refused: no token, no request, a task
// type that is not served.
func (a *Agent) Refused() int { return int(a.refused.Load()) }

// URL is the agent's base, without a slash at the end.
func (a *Agent) URL() string { return "http://" + a.Addr() }

func (a *Agent) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", a.health(HealthStatus, HealthBody, `{"status":"ok"}`))
	mux.HandleFunc("GET /health/ready", a.health(ReadyStatus, ReadyBody, `{"status":"ready"}`))
	mux.HandleFunc("POST "+schemas.RouteRunSync, a.run)
	mux.HandleFunc("POST "+schemas.RouteRunStream, a.run)
	return mux
}

func (a *Agent) health(status, body Fault, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		code := http.StatusOK
		switch a.cfg.Fault {
		case status:
			code = http.StatusServiceUnavailable
		case body:
			text = `{"status":1}`
		default:
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(text))
	}
}
