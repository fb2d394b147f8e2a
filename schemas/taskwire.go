package schemas

import "time"

// TaskRequest is the body of POST /v1/tasks.
type TaskRequest struct {
	// RequestID is the task's id; default a new UUIDv7. A repeat joins the task,
	// and does not show its token again.
	RequestID string `json:"request_id,omitempty" jsonschema:"pattern=^[A-Za-z0-9._:-]{1\\,128}$"`
	// Description is what the agent is to do, in natural language.
	Description string `json:"description" jsonschema:"minLength=1"`
	// Repo names a repository of the tenant, see POST /v1/repos.
	Repo string `json:"repo" jsonschema:"pattern=^[a-z0-9][a-z0-9._-]{0\\,99}$"`
	// BaseRef is the branch that the task's own begins at; default the repository's.
	BaseRef string `json:"base_ref,omitempty" jsonschema:"maxLength=200"`
	// Branch is the task's own branch, which is made for it and must not exist;
	// default the task's UUID.
	Branch string `json:"branch,omitempty" jsonschema:"maxLength=200"`
	// Model is the model that the agent prefers. Without models it is the only one that the task's
	// holder may use; default the agent's own choice.
	Model string `json:"model,omitempty" jsonschema:"maxLength=256"`
	// Entries are the only entries of the policy that the task's holder may use, those of models'
	// upstreams among them; default those of the token that files the task, which must have them.
	Entries []string `json:"entries,omitempty" jsonschema:"minItems=1,maxItems=64"`
	// Models are patterns of the only models that the holder may use; default those of the token.
	Models []string `json:"models,omitempty" jsonschema:"minItems=1,maxItems=64"`
	// Deadline is when the task expires: an RFC 3339 time, or a duration such as
	// "2h" from its beginning. Default the node's deadline.task.
	Deadline string `json:"deadline,omitempty"`
	// Budget is what the task may use.
	Budget *TaskBudget `json:"budget,omitempty"`
	// ForcePush lets the agent replace what it has pushed to its own branch.
	ForcePush bool `json:"force_push,omitempty"`
	// Pool is the pool whose agents may lease the task; default "default". A task in "none" is not
	// leased, and waits for an agent with its token.
	Pool string `json:"pool,omitempty" jsonschema:"pattern=^[A-Za-z0-9._:-]{1\\,128}$"`
	// Metadata is kept and shown, and not looked at: up to 64 texts of up to 1,024
	// characters.
	Metadata map[string]string `json:"metadata,omitempty" jsonschema:"maxProperties=64"`
}

// TaskView is a task as its people see it.
type TaskView struct {
	ID          string     `json:"id"`
	Status      TaskStatus `json:"status"`
	Description string     `json:"description"`
	Repo        string     `json:"repo"`
	RepoURL     string     `json:"repo_url"`
	BaseRef     string     `json:"base_ref,omitempty"`
	Branch      string     `json:"branch"`
	// Base is the object that the branch began at, Head the one that it is at by what
	// was pushed, and Moved whether those differ. They are absent until the branch is there.
	Base      string            `json:"base,omitempty"`
	Head      string            `json:"head,omitempty"`
	Moved     bool              `json:"moved"`
	Pushes    int               `json:"pushes"`
	Model     string            `json:"model,omitempty"`
	Entries   []string          `json:"entries,omitempty"`
	Models    []string          `json:"models,omitempty"`
	Budget    *TaskBudget       `json:"budget,omitempty"`
	ForcePush bool              `json:"force_push,omitempty"`
	Pool      string            `json:"pool"`
	Metadata  map[string]string `json:"metadata,omitempty"`
	Created   time.Time         `json:"created"`
	Started   time.Time         `json:"started,omitzero"` // of the holder that it has or had last
	Deadline  time.Time         `json:"deadline"`
	Ended     time.Time         `json:"ended,omitzero"`
	// Lease numbers the leases, and Holder is the id of the token that has it.
	Lease  int    `json:"lease,omitempty"`
	Holder string `json:"holder,omitempty"`
	// Inquiries are the agent's questions, with their answers.
	Inquiries []TaskInquiryView `json:"inquiries,omitempty"`
	// CancelRequested: a stop was requested, and the task has not ended yet.
	CancelRequested bool `json:"cancel_requested,omitempty"`
	// Result is what the agent said, and Reason why it failed.
	Result    string `json:"result,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Code      Code   `json:"code,omitempty"`
	Message   string `json:"message,omitempty"`
	EventsURL string `json:"events_url"`
}

// TaskInquiryView is a question and its answer.
type TaskInquiryView struct {
	N        int       `json:"n"`
	Question string    `json:"question"`
	Asked    time.Time `json:"asked"`
	Answer   *string   `json:"answer,omitempty"`
	Answered time.Time `json:"answered,omitzero"`
	By       string    `json:"by,omitempty"`
}

// NewTask answers POST /v1/tasks and POST /v1/tasks/{id}/token.
type NewTask struct {
	TaskView
	// Token is all that the agent needs. It is shown this once, and only its hash is
	// kept; absent where the request joined a task that exists.
	Token string `json:"token,omitempty"`
}

// LeasedTask answers POST /v1/tasks/lease.
type LeasedTask struct {
	Task AgentTask `json:"task"`
	ID   string    `json:"id"`
	// Lease numbers the task's leases, and Token is this one's.
	Lease int    `json:"lease"`
	Token string `json:"token"`
	// Timeout is after how many milliseconds without a call the lease is lost.
	Timeout  int64     `json:"timeout_ms"`
	Deadline time.Time `json:"deadline"`
	// Remaining is how many milliseconds it was to the deadline when this was written,
	// for those whose clocks go otherwise.
	Remaining int64  `json:"remaining_ms"`
	Model     string `json:"model,omitempty"`
	// Base is the commit at which the task's branch begins.
	Base string `json:"base,omitempty"`
}

// LeaseRequest is the body of POST /v1/tasks/lease.
type LeaseRequest struct {
	// Pool is the only pool to look at; default every pool that the token has.
	Pool string `json:"pool,omitempty" jsonschema:"pattern=^[A-Za-z0-9._:-]{1\\,128}$"`
	// WaitMS is how long to wait for a task, up to 30,000. Default 0.
	WaitMS int `json:"wait_ms,omitempty" jsonschema:"minimum=0,maximum=30000"`
}

// AgentTask answers GET /agent/task. Its members follow the protocol, and all are texts.
type AgentTask struct {
	Status       TaskStatus `json:"status"`
	Description  string     `json:"description"`
	GitUserName  string     `json:"git_user_name"`
	GitUserEmail string     `json:"git_user_email"`
	GitRepoURL   string     `json:"git_repo_url"`
	GitBranch    string     `json:"git_branch"`
}

// Who commits of Weir's own and of its tasks' agents are by.
const (
	GitUserName  = "weir[bot]"
	GitUserEmail = "weir[bot]@users.noreply.weir.invalid"
)

// CompleteRequest is the body of POST /agent/task/complete. A description has at most
// MaxTaskReport bytes. Other members are ignored.
type CompleteRequest struct {
	Description string `json:"description"`
}

// FailRequest is the body of POST /agent/task/fail, likewise. A reason that is null is none.
type FailRequest struct {
	Reason      *string `json:"reason,omitempty" jsonschema:"enum=TechnicalIssues,enum=TaskIssues,enum=ProblemSolving"`
	Description string  `json:"description"`
}

// SubtokenRequest is the body of POST /agent/task/subtokens. Each member that is left out stands for what
// the token that asks has, but for repo.
type SubtokenRequest struct {
	Entries []string `json:"entries,omitempty" jsonschema:"minItems=1,maxItems=64"`
	Models  []string `json:"models,omitempty" jsonschema:"minItems=1,maxItems=64"`
	// TTL is how long it lasts, such as "30m"; at most as long as the token that asks.
	TTL string `json:"ttl,omitempty"`
	// Repo is read or write; default no rights on the repository.
	Repo   string      `json:"repo,omitempty" jsonschema:"enum=read,enum=write"`
	Budget *TaskBudget `json:"budget,omitempty"`
}

// NewSubtoken answers POST /agent/task/subtokens.
type NewSubtoken struct {
	Subtoken
	// Token is shown this once, and only its hash is kept.
	Token string `json:"token"`
}

// InquiryRequest is the body of POST /agent/inquiry, whose answer is a JSON string.
type InquiryRequest struct {
	Inquiry string `json:"inquiry" jsonschema:"minLength=1"`
}

// OutputRequest is the body of POST /agent/output. An empty text only keeps the lease.
type OutputRequest struct {
	Text string `json:"text" jsonschema:"maxLength=32768"`
	// At counts the bytes of output before the text. If pieces are left out, it is larger than the
	// end of the piece before.
	At int64 `json:"at,omitempty" jsonschema:"minimum=0"`
}

// AnswerRequest is the body of POST /v1/tasks/{id}/answer.
type AnswerRequest struct {
	Answer string `json:"answer"`
	// Inquiry is the number of the question; it may be left out where one is open.
	Inquiry int `json:"inquiry,omitempty" jsonschema:"minimum=1"`
}

// TaskUpdate is one change of a task's state, as it is published on StatusSubject and streamed by
// GET /v1/tasks/{id}/events. It holds no content, except for a piece of output: that is streamed,
// and not published.
type TaskUpdate struct {
	TaskID string     `json:"task_id"`
	Status TaskStatus `json:"status"`
	// The event: accepted, one of the TaskWhats, cancel, settled or output.
	What string    `json:"what"`
	Time time.Time `json:"time"`
	// N is the ordinal of the underlying event in the task's log.
	N       int    `json:"n"`
	Lease   int    `json:"lease,omitempty"`
	Inquiry int    `json:"inquiry,omitempty"`
	Head    string `json:"head,omitempty"`
	Push    string `json:"push,omitempty"`
	Code    Code   `json:"code,omitempty"`
	Reason  string `json:"reason,omitempty"`
	// At and Text are a piece of output, as in TaskOutput.
	At   int64  `json:"at,omitempty"`
	Text string `json:"text,omitempty"`
}

// TaskAudit is the payload of the evidence of kind task.status: like TaskUpdate, but permanent and
// with the author. It holds no content.
type TaskAudit struct {
	TaskUpdate
	Repo   string `json:"repo"`
	Branch string `json:"branch"`
	// Holder is the token of the pool's agent that held it.
	Holder string `json:"holder,omitempty"`
}
