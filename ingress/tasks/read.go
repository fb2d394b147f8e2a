package tasks

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"weir/ingress/strict"
	"weir/internal/fault"
	"weir/internal/gitwire"
	"weir/internal/task"
	"weir/schemas"
)

// Request is a body of POST /v1/tasks.
type Request struct {
	// ID is the caller's own name for it; may be empty.
	ID    string
	Order schemas.TaskOrder
	// deadline is as it was written; it is no part of what a repeat must have in common.
	deadline string
}

// The longest of what is kept of a task beside its description, in characters.
const (
	maxModel       = 256
	maxMetadatum   = 1024
	maxMetadataKey = 256
)

const idForm = "must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -"

// Read reads a body that strict.Check has passed. Its errors are *fault.Error with
// VALIDATION_ERROR, or INVALID_REQUEST for a body that is no object, and show no value of it.
func Read(body []byte) (Request, error) {
	var doc schemas.TaskRequest
	if err := strict.Decode(body, &doc); err != nil {
		return Request{}, err
	}
	if doc.Pool == "" {
		doc.Pool = schemas.PoolDefault
	}
	for _, m := range []struct {
		name string
		ok   bool
		what string
	}{
		{"request_id", doc.RequestID == "" || schemas.ValidID(doc.RequestID), idForm},
		{"description", doc.Description != "", "is missing; say what the agent is to do"},
		{"description", len(doc.Description) <= schemas.MaxTaskDescription, atMost(schemas.MaxTaskDescription)},
		{"repo", doc.Repo != "", "is missing; name a repository, see GET /v1/repos"},
		{"repo", schemas.ValidRepoName(doc.Repo), "can be the name of no repository; GET /v1/repos shows those there are"},
		{"base_ref", doc.BaseRef == "" || validBranch(doc.BaseRef), "must be the name of a branch, without refs/heads/"},
		{"branch", doc.Branch == "" || schemas.ValidBranch(doc.Branch), "must be 1 to 200 of the characters A-Z a-z 0-9 . _ - /, as git takes them for a branch"},
		{"model", plain(doc.Model, maxModel), "must be at most " + strconv.Itoa(maxModel) + " characters, none of them a control character"},
		{"pool", schemas.ValidID(doc.Pool), idForm},
	} {
		if !m.ok {
			return Request{}, refuse(m.name, m.what)
		}
	}
	if err := extras(doc); err != nil {
		return Request{}, err
	}
	if err := (task.Bounds{Entries: doc.Entries, Models: doc.Models}).Check(doc.Entries != nil, doc.Models != nil); err != nil {
		return Request{}, err
	}
	req := Request{ID: doc.RequestID, deadline: doc.Deadline, Order: schemas.TaskOrder{
		Description: doc.Description, Repo: doc.Repo, BaseRef: doc.BaseRef, Branch: doc.Branch, Model: doc.Model, Entries: doc.Entries, Models: doc.Models,
		Budget: doc.Budget, ForcePush: doc.ForcePush, Pool: doc.Pool, Metadata: doc.Metadata,
	}}
	_, _, err := req.end()
	return req, err
}

func extras(doc schemas.TaskRequest) error {
	if err := checkBudget(doc.Budget); err != nil {
		return err
	}
	if len(doc.Metadata) > schemas.MaxTaskMetadata {
		return refuse("metadata", "must have at most "+strconv.Itoa(schemas.MaxTaskMetadata)+" members")
	}
	for name, value := range doc.Metadata {
		if utf8.RuneCountInString(name) > maxMetadataKey || utf8.RuneCountInString(value) > maxMetadatum {
			return refuse("metadata", "must have names of at most "+strconv.Itoa(maxMetadataKey)+" characters and texts of at most "+strconv.Itoa(maxMetadatum))
		}
	}
	return nil
}

func checkBudget(b *schemas.TaskBudget) error {
	switch {
	case b == nil:
		return nil
	case b.Requests < 0:
		return refuse("budget/requests", "must not be negative")
	case b.Tokens < 0:
		return refuse("budget/tokens", "must not be negative")
	case b.USD < 0:
		return refuse("budget/usd", "must not be negative")
	default:
		return nil
	}
}

// end reads the deadline: a time, or how long from now.
func (r Request) end() (at time.Time, in time.Duration, err error) {
	if r.deadline == "" {
		return at, 0, nil
	}
	if in, err = time.ParseDuration(r.deadline); err == nil && in > 0 {
		return at, in, nil
	}
	if at, err = time.Parse(time.RFC3339, r.deadline); err == nil {
		return at, 0, nil
	}
	return at, 0, refuse("deadline", `must be a time to come, such as 2036-01-02T15:04:05Z, or a duration of at least a second, such as "2h" or "90m"`)
}

// shortest is the least time that a task may ask for.
const shortest = time.Second

// Timeout is how long the task may take, and until when at the latest; 0: it does not say. A duration
// counts from the task's beginning. VALIDATION_ERROR where that is no time at all, or longer than it
// may be: then it can only be joined.
func (r Request) Timeout(now time.Time, longest time.Duration) (timeout time.Duration, until time.Time, err error) {
	until, timeout, err = r.end()
	if err != nil || r.deadline == "" {
		return 0, time.Time{}, err
	}
	if !until.IsZero() {
		timeout = until.Sub(now)
	}
	if timeout < shortest || timeout > longest {
		return 0, time.Time{}, refuse("deadline", "must be at least "+shortest.String()+" from now, and at most "+longest.String())
	}
	return timeout, until, nil
}

// validBranch is what git takes for a branch. It need not be one that a task may have.
func validBranch(name string) bool {
	return len(name) <= schemas.MaxBranch && gitwire.ValidRef(schemas.RefOf(name))
}

func plain(s string, most int) bool {
	return utf8.RuneCountInString(s) <= most && !strings.ContainsFunc(s, unicode.IsControl)
}

func atMost(bytes int) string { return "must be at most " + strconv.Itoa(bytes) + " bytes" }

func refuse(member, what string) error {
	return fault.New(schemas.ValidationError, "at /"+member+": "+what)
}

// MayLease refuses a pool that a token does not list; an empty list allows all.
func MayLease(pool string, pools []string) error {
	if pool == "" || len(pools) == 0 || slices.Contains(pools, pool) {
		return nil
	}
	return fault.New(schemas.Forbidden, "the token may not lease tasks of this pool")
}

// ReadComplete reads a checked body of POST /agent/task/complete. Unknown members are ignored.
func ReadComplete(body []byte) (schemas.TaskReport, error) {
	var doc struct {
		Description *string `json:"description"`
	}
	if err := strict.Open("", body, &doc); err != nil {
		return schemas.TaskReport{}, err
	}
	text, err := words("description", doc.Description, schemas.MaxTaskReport)
	return schemas.TaskReport{Completed: true, Description: text}, err
}

// ReadFail reads a checked body of POST /agent/task/fail. Unknown members are ignored.
func ReadFail(body []byte) (schemas.TaskReport, error) {
	var doc struct {
		Reason      jsontext.Value `json:"reason"`
		Description *string        `json:"description"`
	}
	if err := strict.Open("", body, &doc); err != nil {
		return schemas.TaskReport{}, err
	}
	text, err := words("description", doc.Description, schemas.MaxTaskReport)
	r := schemas.TaskReport{Description: text}
	if err != nil || strict.Absent(doc.Reason) {
		return r, err
	}
	var ok bool
	reasons := []string{schemas.ReasonTechnicalIssues, schemas.ReasonTaskIssues, schemas.ReasonProblemSolving}
	if r.Reason, ok = strict.String(doc.Reason); !ok || !slices.Contains(reasons, r.Reason) {
		return schemas.TaskReport{}, refuse("reason", "must be one of "+strings.Join(reasons, ", "))
	}
	return r, nil
}

// ReadInquiry reads a checked body of POST /agent/inquiry.
func ReadInquiry(body []byte) (string, error) {
	var doc struct {
		Inquiry *string `json:"inquiry"`
	}
	if err := strict.Decode(body, &doc); err != nil {
		return "", err
	}
	text, err := words("inquiry", doc.Inquiry, schemas.MaxTaskInquiry)
	if err == nil && text == "" {
		err = refuse("inquiry", "must not be empty; ask something")
	}
	return text, err
}

// ReadOutput reads a checked body of POST /agent/output.
func ReadOutput(body []byte) (schemas.OutputRequest, error) {
	var doc struct {
		Text *string `json:"text"`
		At   int64   `json:"at"`
	}
	if err := strict.Decode(body, &doc); err != nil {
		return schemas.OutputRequest{}, err
	}
	text, err := words("text", doc.Text, schemas.MaxTaskOutput)
	if err == nil && doc.At < 0 {
		err = refuse("at", "must be the number of bytes of output before the text, from 0")
	}
	return schemas.OutputRequest{Text: text, At: doc.At}, err
}

// ReadAnswer reads a checked body of POST /v1/tasks/{id}/answer.
func ReadAnswer(body []byte) (schemas.AnswerRequest, error) {
	var doc struct {
		Answer  *string `json:"answer"`
		Inquiry *int    `json:"inquiry"`
	}
	if err := strict.Decode(body, &doc); err != nil {
		return schemas.AnswerRequest{}, err
	}
	text, err := words("answer", doc.Answer, schemas.MaxTaskInquiry)
	req := schemas.AnswerRequest{Answer: text}
	if err != nil || doc.Inquiry == nil {
		return req, err
	}
	if req.Inquiry = *doc.Inquiry; req.Inquiry < 1 {
		return req, refuse("inquiry", "must be the number of a question, from 1")
	}
	return req, nil
}

// MaxLeaseWait is the longest that a request for a lease may wait.
const MaxLeaseWait = 30 * time.Second

// ReadLease reads a checked body of POST /v1/tasks/lease.
func ReadLease(body []byte) (schemas.LeaseRequest, error) {
	var req schemas.LeaseRequest
	if err := strict.Decode(body, &req); err != nil {
		return req, err
	}
	if req.Pool != "" && !schemas.ValidID(req.Pool) {
		return req, refuse("pool", idForm)
	}
	if req.WaitMS < 0 || req.WaitMS > int(MaxLeaseWait.Milliseconds()) {
		return req, refuse("wait_ms", "must be a whole number from 0 to 30000")
	}
	return req, nil
}

// words is a member that must be there, with no more than most bytes.
func words(name string, text *string, most int) (string, error) {
	if text == nil {
		return "", refuse(name, "is missing")
	}
	if len(*text) > most {
		return "", refuse(name, atMost(most))
	}
	return *text, nil
}
