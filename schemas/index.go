package schemas

import (
	"strings"
	"time"
)

// ActionEntry is one action in a list.
type ActionEntry struct {
	ID string `json:"id"`
	// Tenant is there where another tenant, or all of them, were asked for.
	Tenant string `json:"tenant,omitempty"`
	Kind   Kind   `json:"kind"`
	Called
	// HTTPStatus is the status of the target's last answer.
	HTTPStatus int `json:"http_status,omitempty"`
	// Agent is the task type of a run, or the name of the token that leased a task last.
	Agent string `json:"agent,omitempty"`
	// Caller is the name of the token that sent the action; absent without tokens.
	Caller string `json:"caller,omitempty"`
	// TaskType says which agent a run is for.
	TaskType string    `json:"task_type,omitempty"`
	Status   Status    `json:"status"`
	Class    Class     `json:"class,omitempty"`
	Created  time.Time `json:"created"`
	Deadline time.Time `json:"deadline,omitzero"`
	Settled  time.Time `json:"settled,omitzero"`
	// DurationMS is from its acceptance to its end.
	DurationMS *float64 `json:"duration_ms,omitempty"`
	// Entry is the policy's entry that its last call was decided by.
	Entry string `json:"entry,omitempty"`
	// Task is the id of the task that it is, or was made for.
	Task     string `json:"task,omitempty"`
	Code     Code   `json:"code,omitempty"`
	Attempts int    `json:"attempts,omitempty"`
	// Resolution is what a person found of an unknown outcome: applied or not_applied.
	Resolution string `json:"resolution,omitempty"`
	URL        string `json:"url"`
	EventsURL  string `json:"events_url"`
	ModelUse
}

// Called is the call of an action: of a plan its first call. A sensitive run has none.
type Called struct {
	Method string `json:"method,omitempty"`
	// Host has the port, unless it is the scheme's default.
	Host string `json:"host,omitempty"`
	// Path is the path without query and fragment, at most 512 bytes of it; then of a push the repository and, if
	// it may be pushed to, the ref, and of a repository its name.
	Path string `json:"path,omitempty"`
	// Calls is the number of a plan's calls.
	Calls int `json:"calls,omitempty"`
}

// For is a call to an upstream for a repository that an action names.
func (c Called) For(named Called) Called {
	if c.Host == "" {
		return named
	}
	c.Path = strings.TrimSpace(c.Path + " " + named.Path)
	return c
}

// ModelUse is the use of a model by a completion.
type ModelUse struct {
	// Model is the model that answered, or before that the requested one.
	Model     string `json:"model,omitempty"`
	TokensIn  int64  `json:"tokens_in,omitempty"`
	TokensOut int64  `json:"tokens_out,omitempty"`
	// CostUSD is the cost by the prices of the configuration.
	CostUSD float64 `json:"cost_usd,omitempty"`
	// TTFTMS is the time from the call to the first token, in milliseconds.
	TTFTMS float64 `json:"ttft_ms,omitempty"`
}

// Usage is what completions have used of models in a stretch of time, by the day, task or model.
type Usage struct {
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until"`
	By    string    `json:"by" jsonschema:"enum=day,enum=task,enum=model"`
	Freshness
	Total  UsageSum     `json:"total"`
	Groups []UsageGroup `json:"groups"`
	// More is how many groups are not shown.
	More int `json:"more,omitempty"`
}

// UsageSum adds up the completions that have ended.
type UsageSum struct {
	Completions uint64 `json:"completions"`
	TokensIn    int64  `json:"tokens_in"`
	TokensOut   int64  `json:"tokens_out"`
	// CostUSD is the cost by the prices of the configuration at the time of each completion.
	CostUSD float64 `json:"cost_usd"`
}

// UsageGroup is the use of one day, such as 2026-11-27 in UTC, of one task, or of one model. Without a name
// it is the use of completions that no task's holder sent.
type UsageGroup struct {
	Name string `json:"name"`
	UsageSum
}

// Freshness is how far an answer is behind the log.
type Freshness struct {
	// AsOf: the answer includes everything on the log up to this time. Absent if a part of the log
	// was not read yet.
	AsOf time.Time `json:"as_of,omitzero"`
	// Behind is about how many records of the log are not; absent: none.
	Behind uint64 `json:"behind,omitempty"`
}

// ActionPage is one page of a list of actions, newest first. Without next it is the last.
type ActionPage struct {
	Items []ActionEntry `json:"items"`
	Next  string        `json:"next,omitempty"`
	Freshness
	Count *ActionCount `json:"count,omitempty"`
}

// TaskPage is one page of a list of tasks, newest first. Without next it is the last.
type TaskPage struct {
	Items []TaskView `json:"items"`
	Next  string     `json:"next,omitempty"`
	Freshness
}

// ActionCount is how many actions a list's filters mean.
type ActionCount struct {
	Total uint64 `json:"total"`
	// By has the outcomes, and open for those that have not ended.
	By map[string]uint64 `json:"by"`
}

// Stats are figures of a stretch of time.
type Stats struct {
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// StepS is the length of a step, in seconds.
	StepS int `json:"step_s"`
	Freshness
	Total  StatsSum     `json:"total"`
	Open   StatsOpen    `json:"open"`
	Groups []StatsGroup `json:"groups,omitempty"`
	Points StatsPoints  `json:"points"`
}

// StatsSum sums a stretch of time up.
type StatsSum struct {
	// Accepted came in it, Settled ended in it.
	Accepted uint64 `json:"accepted"`
	Settled  uint64 `json:"settled"`
	// Rate is how many ended a second.
	Rate float64 `json:"rate"`
	// P50MS and P99MS are of the time from acceptance to end, right to about five in a
	// hundred; absent where nothing ended.
	P50MS    *float64          `json:"p50_ms,omitempty"`
	P99MS    *float64          `json:"p99_ms,omitempty"`
	Outcomes map[string]uint64 `json:"outcomes"`
}

// StatsOpen is what has not ended, now.
type StatsOpen struct {
	Count  uint64    `json:"count"`
	Oldest time.Time `json:"oldest,omitzero"` // when the one was accepted that is open for longest
}

// StatsGroup are the figures of one kind, entry or outcome.
type StatsGroup struct {
	Name string `json:"name"`
	StatsSum
	Points StatsGroupPoints `json:"points"`
}

// StatsGroupPoints has one number a step.
type StatsGroupPoints struct {
	Settled []uint64  `json:"settled"`
	P50MS   Latencies `json:"p50_ms"`
	P99MS   Latencies `json:"p99_ms"`
}

// Latencies are milliseconds, and null where nothing ended.
type Latencies []*float64

// StatsPoints has one number a step, and when each begins.
type StatsPoints struct {
	Time     []time.Time         `json:"time"`
	Accepted []uint64            `json:"accepted"`
	Settled  []uint64            `json:"settled"`
	P50MS    Latencies           `json:"p50_ms"`
	P99MS    Latencies           `json:"p99_ms"`
	Outcomes map[string][]uint64 `json:"outcomes"`
}
