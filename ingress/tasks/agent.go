package tasks

import (
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"weir/ingress/strict"
	"weir/schemas"
)

// ReadComplete reads a checked body of POST /agent/task/complete. Unknown members are ignored.
func ReadComplete(body []byte) (schemas.TaskReport, error) {
	var doc struct {
		Description jsontext.Value `json:"description"`
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
		Description jsontext.Value `json:"description"`
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
		Inquiry jsontext.Value `json:"inquiry"`
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
		Text jsontext.Value `json:"text"`
		At   int64          `json:"at"`
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
		Answer  jsontext.Value `json:"answer"`
		Inquiry *int           `json:"inquiry"`
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

// words is a member that must be a string of no more than most bytes.
func words(name string, v jsontext.Value, most int) (string, error) {
	if strict.Absent(v) {
		return "", refuse(name, "is missing")
	}
	s, ok := strict.String(v)
	if !ok {
		return "", refuse(name, "must be a string")
	}
	if len(s) > most {
		return "", refuse(name, atMost(most))
	}
	return s, nil
}
