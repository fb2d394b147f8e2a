package schemas

import "time"

// The routes of an agent that works on a task, each also under RouteAPI. Every one
// of them, and every route of git, asks for a token, in open mode as well.
const (
	RouteAgentTask     = "/agent/task"
	RouteAgentComplete = "/agent/task/complete"
	RouteAgentFail     = "/agent/task/fail"
	RouteAgentInquiry  = "/agent/inquiry"
	// RouteAgentSubtokens makes a token for a child of the holder.
	RouteAgentSubtokens = "/agent/task/subtokens" //nolint:gosec // a route
	RouteAgentOutput    = "/agent/output"
	// RouteAPI is the optional prefix of the routes of agents and models, for clients with a base
	// URL that ends in it.
	RouteAPI = "/api"
)

// The routes of the people whose tasks they are.
const (
	RouteTasks     = "/v1/tasks"
	RouteTaskLease = "/v1/tasks/lease"
	// RouteTaskRelease is asked with the lease's token.
	RouteTaskRelease = "/v1/tasks/lease/release"
)

// HeaderTaskToken is the header of an answer that holds the token of the lease which
// it gives out. Who sends that one is held to this lease and no other.
const HeaderTaskToken = "Weir-Task-Token" //nolint:gosec // the name of a header

// TaskStatus is a task's state in the words of its protocol.
type TaskStatus string

// The states of a task. The last four are final.
const (
	TaskStatusQueued    TaskStatus = "Queued"
	TaskStatusRunning   TaskStatus = "Running"
	TaskStatusCompleted TaskStatus = "Completed"
	TaskStatusFailed    TaskStatus = "Failed"
	TaskStatusCanceled  TaskStatus = "Canceled"
	TaskStatusExpired   TaskStatus = "Expired"
)

// TaskStatuses lists them.
func TaskStatuses() []TaskStatus {
	return []TaskStatus{TaskStatusQueued, TaskStatusRunning, TaskStatusCompleted, TaskStatusFailed, TaskStatusCanceled, TaskStatusExpired}
}

// Final reports whether a task in this state never changes again.
func (s TaskStatus) Final() bool { return s != TaskStatusQueued && s != TaskStatusRunning }

// Limits of a task.
const (
	MaxTaskDescription = 256 << 10 // bytes of a description
	MaxTaskReport      = 64 << 10  // bytes of the description in a complete or a fail
	MaxTaskInquiry     = 32 << 10  // bytes of a question, and of its answer
	MaxTaskMetadata    = 64        // members of metadata
	MaxTaskInquiries   = 100       // questions of one task
	MaxTaskLeases      = 1_000     // times that agents of a pool may take it
	MaxTaskReissues    = 1_000     // tokens of its own, after the first
	MaxTaskPushes      = 10_000    // updates of its branch
	MaxTaskSubtokens   = 1_000     // tokens for children of its holders
	MaxBranch          = 200       // bytes of a branch's name
	MaxTaskOutput      = 32 << 10  // bytes of one piece of output
	MaxTaskOutputs     = 2_000     // pieces of output
	MaxTaskLog         = 4 << 20   // bytes of all pieces
)

// LeaseShare is how many times a lease is written down while it lasts, at most.
const LeaseShare = 4

// The pools of tasks.
const (
	PoolDefault = "default"
	// PoolNone is the pool of tasks without leases: only their own token gives access to them.
	PoolNone = "none"
)

// TaskBudget is what a task may use of models. It is kept with the task for the
// surface that calls them.
type TaskBudget struct {
	Requests int64   `json:"requests,omitempty" jsonschema:"minimum=0"`
	Tokens   int64   `json:"tokens,omitempty" jsonschema:"minimum=0"`
	USD      float64 `json:"usd,omitempty" jsonschema:"minimum=0"`
}

// TaskOrder is the payload of an action of kind task. Its deadline is the action's.
type TaskOrder struct {
	Description string `json:"description"`
	Repo        string `json:"repo"`
	BaseRef     string `json:"base_ref,omitempty"` // empty: the repository's default branch
	Branch      string `json:"branch,omitempty"`   // empty: see task.Branch
	Model       string `json:"model,omitempty"`
	// Entries and Models are what its filer limited the task to; empty: what the filer may use. The
	// action's Entries and Models are what its holders may use.
	Entries   []string          `json:"entries,omitempty"`
	Models    []string          `json:"models,omitempty"`
	Budget    *TaskBudget       `json:"budget,omitempty"`
	ForcePush bool              `json:"force_push,omitempty"`
	Pool      string            `json:"pool"`
	Metadata  map[string]string `json:"metadata,omitempty"`
}

// TaskWhat is what happened to a task.
type TaskWhat string

// The events of a task between its acceptance and its end. Events from outside are signals, Weir's
// own are statuses.
const (
	TaskOpened   TaskWhat = "opened"   // status: its branch is there
	TaskClaimed  TaskWhat = "claimed"  // signal: an agent has taken it; it is Running
	TaskReleased TaskWhat = "released" // signal: its holder gave it back; it is Queued
	TaskLost     TaskWhat = "lost"     // status: its holder was not heard of for too long; it is Queued
	TaskReissued TaskWhat = "reissued" // signal: it has another token of its own, and the one before is dead
	TaskSubtoken TaskWhat = "subtoken" // signal: its holder has made a token for a child
	TaskAsked    TaskWhat = "asked"    // signal: the agent asks a person
	TaskAnswered TaskWhat = "answered" // signal
	TaskReported TaskWhat = "reported" // signal: the agent says how it ended; nothing can change that any more
	TaskPushed   TaskWhat = "pushed"   // status: the agent has pushed to its branch; it may come after the end
	// TaskClosed is a status: Weir ends the task, for its time is up, it was asked to
	// stop, its branch cannot be made, or it was leased as often as it may be. Nothing can
	// change that any more.
	TaskClosed TaskWhat = "closed"
)

// TaskEvent is one thing that happened to a task: the document of the event types
// signal and status.
type TaskEvent struct {
	What TaskWhat `json:"what"`
	// Status is the task's state behind this event, as its writer saw it.
	Status TaskStatus `json:"status"`
	// Lease numbers the times that a pool's agent has taken the task, from 1; 0 is
	// the holder of the task's own token.
	Lease int `json:"lease,omitempty"`
	// Holder is the id of the pool token that took it.
	Holder string `json:"holder,omitempty"`
	// Agent is the name of that token.
	Agent string `json:"agent,omitempty"`
	// TokenHash is the hex SHA-256 of the lease's or the task's new token.
	TokenHash string `json:"token_sha256,omitempty"`
	// Subtoken is what a new token for a child permits; TokenHash is that token's.
	Subtoken *Subtoken `json:"subtoken,omitempty"`
	// Base is the object that the branch began at: opened.
	Base string `json:"base,omitempty"`
	// Head is the object that the branch is at now, and Push the action that put it
	// there: pushed.
	Head string `json:"head,omitempty"`
	Push string `json:"push,omitempty"`
	// Inquiry is a question, or the answer to it.
	Inquiry *TaskInquiry `json:"inquiry,omitempty"`
	Report  *TaskReport  `json:"report,omitempty"`
	// Code and Message are why Weir ends the task: closed.
	Code    Code   `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// The rights of a subtoken on the repository of its task.
const (
	RepoRead  = "read"
	RepoWrite = "write"
)

// Subtoken is what a token permits that a holder made for a child. It has no secret in it.
type Subtoken struct {
	// N numbers a task's subtokens from 1, and Parent is the number of the one that this one was made
	// with; 0: the holder made it.
	N      int `json:"n"`
	Parent int `json:"parent,omitempty"`
	// Entries and Models are the only ones that it may use; empty: all.
	Entries []string `json:"entries,omitempty"`
	Models  []string `json:"models,omitempty"`
	// Repo is RepoRead or RepoWrite; empty: it has no rights on the repository.
	Repo string `json:"repo,omitempty"`
	// Budget is what it may use of models, as a part of the budgets of its parents.
	Budget *TaskBudget `json:"budget,omitempty"`
	// ExpiresAt is when it ends at the latest. It also ends with the holder's token.
	ExpiresAt time.Time `json:"expires_at"`
}

// SubtokenBudget is the budget of one subtoken.
type SubtokenBudget struct {
	N int `json:"n"`
	TaskBudget
}

// TaskWhatOutput marks an update that has a piece of output: an event of type progress,
// with a TaskOutput as its document. It changes no state.
const TaskWhatOutput = "output"

// TaskOutput is a piece of the output of a task's command. Pieces can be missing, and after an
// error they can overlap.
type TaskOutput struct {
	// Lease numbers the lease of the command, as in TaskEvent.
	Lease int `json:"lease,omitempty"`
	// At counts the bytes of output before this piece.
	At   int64  `json:"at"`
	Text string `json:"text"`
}

// TaskInquiry is a question of an agent's.
type TaskInquiry struct {
	// N numbers a task's inquiries from 1.
	N int `json:"n"`
	// Key tells a repeat from another question with the same text.
	Key string `json:"key,omitempty"`
	// Text is the question, or in an answer the answer.
	Text string `json:"text"`
	// By names whose token answered.
	By string `json:"by,omitempty"`
}

// The reasons that an agent may give for a failure.
const (
	ReasonTechnicalIssues = "TechnicalIssues"
	ReasonTaskIssues      = "TaskIssues"
	ReasonProblemSolving  = "ProblemSolving"
)

// TaskReport is an agent's word on how its task ended.
type TaskReport struct {
	Completed   bool   `json:"completed"`
	Description string `json:"description"`
	// Reason is one of the three reasons of a failure; empty: none was given.
	Reason string `json:"reason,omitempty"`
}

// TaskResult is the result document of an action of kind task.
type TaskResult struct {
	Status      TaskStatus `json:"status"`
	Description string     `json:"description,omitempty"`
	Reason      string     `json:"reason,omitempty"`
	Branch      string     `json:"branch"`
	Base        string     `json:"base,omitempty"`
	Head        string     `json:"head,omitempty"`
}
