package call

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"weir/internal/fault"
	"weir/internal/jsonschema"
	"weir/internal/ledger"
	"weir/internal/policy"
	"weir/processors/guard"
	"weir/schemas"
)

// Blobs reads bodies that are too large for the log.
type Blobs interface {
	Blob(ctx context.Context, inline json.RawMessage, name string) (json.RawMessage, error)
}

// Answers reads the answers of attempts.
type Answers struct {
	Blobs Blobs
	// Reserve waits until there is memory for the objects with these names; nil: nothing is
	// reserved.
	Reserve func(ctx context.Context, tenant string, blobs ...string) (release func(), err error)
}

// patience is how long an action waits for memory in its worker's slot at a stretch.
const patience = 10 * time.Second

// Reserved is Answer with the memory of a large answer reserved for a tenant until release, which is never nil. Where
// there is none for a while the error is *fault.RetryAfter.
func (a Answers) Reserved(ctx context.Context, tenant string, t *ledger.Attempt) (answer *schemas.Answer, release func(), err error) {
	release = func() {}
	if a.Reserve != nil && t != nil && t.Result != nil && t.Result.AnswerBlob != "" {
		limited, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if release, err = a.Reserve(limited, tenant, t.Result.AnswerBlob); err != nil {
			if limited.Err() != nil && ctx.Err() == nil {
				err = &fault.RetryAfter{Cause: err}
			}
			return nil, func() {}, missing(err)
		}
	}
	if answer, err = a.Answer(ctx, t); err != nil {
		release()
	}
	return answer, release, err
}

// missing is err, or the error for an attempt whose stored answer was dropped.
func missing(err error) error {
	if errors.Is(err, fault.ErrNotFound) {
		return &fault.Terminal{Code: schemas.Poison, Reason: "the stored answer is missing", Cause: err}
	}
	return err
}

// Answer is the answer that an attempt brought, wherever it is kept; nil where
// it brought none.
func (a Answers) Answer(ctx context.Context, t *ledger.Attempt) (*schemas.Answer, error) {
	switch {
	case t == nil || t.Result == nil:
		return nil, nil //nolint:nilnil // no attempt, no answer
	case t.Result.AnswerBlob == "":
		return t.Result.Answer, nil
	}
	doc, err := a.Blobs.Blob(ctx, nil, t.Result.AnswerBlob)
	if err != nil {
		return nil, missing(err)
	}
	var answer schemas.Answer
	if err := json.Unmarshal(doc, &answer); err != nil {
		return nil, &fault.Terminal{Code: schemas.Poison, Reason: "the stored answer cannot be read", Cause: err}
	}
	return &answer, nil
}

// Shallow reports whether a text is nested no deeper than limit, were it JSON.
// Every reader of JSON has a limit of its own, and what lies inside a record must
// stay below all of them.
func Shallow(raw []byte, limit int) bool {
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > limit {
				return false
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return true
}

// Describe is a failed attempt in a sentence that names no address and nothing
// that the upstream said.
func Describe(t ledger.Attempt) string {
	code := t.Result.Code
	if code == "" {
		return ""
	}
	if code == schemas.SecretUnavailable {
		secret := "a secret"
		if t.Result.Secret != "" {
			secret = "the secret " + t.Result.Secret
		}
		return fmt.Sprintf("%s that the entry %q adds could not be read, and nothing was sent; ask the operator to provide it", secret, t.LastWord().Entry)
	}
	return cmp.Or(map[schemas.Code]string{
		schemas.UpstreamDNS:             "the target's name could not be resolved",
		schemas.UpstreamConnect:         "the target could not be connected to",
		schemas.UpstreamTLS:             "the TLS handshake with the target failed",
		schemas.UpstreamTimeout:         "the target did not answer in time",
		schemas.UpstreamReset:           "the target closed the connection before it answered",
		schemas.UpstreamProtocol:        "the target's answer is not valid HTTP",
		schemas.UpstreamTruncated:       "the target's answer ended before it was complete",
		schemas.UpstreamTooLarge:        "the target's answer is larger than is allowed",
		schemas.UpstreamHeadersTooLarge: "the headers of the target's answer are larger than is allowed",
		schemas.UpstreamEncoding:        "the content coding of the target's answer was not requested, or is damaged",
		schemas.Interrupted:             "the worker that made the call is gone, or could not read the stored body of the request",
		schemas.Canceled:                "it was abandoned before an answer arrived",
		schemas.DenyAddress:             "an address that the target's name resolves to is not permitted for its entry",
		schemas.DenyRedirect:            "the target answered with a redirect that its entry does not allow",
		schemas.DenyRule:                "policy denies what the tenant's traffic rules make of the call",
	}[code], string(code))
}

// Unlogged is the ledger of calls that belong to no action: it stores nothing.
type Unlogged struct{}

// Append folds an event into the state alone.
func (Unlogged) Append(_ context.Context, st *ledger.State, ev schemas.Event) error {
	ev.Time = time.Now().UTC()
	st.Add(ev)
	return nil
}

// Hold is Append.
func (u Unlogged) Hold(ctx context.Context, st *ledger.State, ev schemas.Event) error {
	return u.Append(ctx, st, ev)
}

// PutBlob keeps a body where it is, for it is read at once.
func (Unlogged) PutBlob(_ context.Context, _ string, doc json.RawMessage) (inline json.RawMessage, name string, err error) {
	return doc, "", nil
}

// inspect holds a successful answer against the response schema of its entry, before the answer is
// stored. With the mode redact it removes what the schema does not name. The shape of a probe's
// answer is not the schema's subject, but nothing unnamed is stored of it either.
func (c *Caller) inspect(t *Task, p guard.Pass, schema *jsonschema.Schema, mode string, res *schemas.Attempted, a *schemas.Answer) {
	bodiless := a.Hash == "" && (p.Permit().Method() == "HEAD" || a.Status == 204 || a.Status == 205)
	if bodiless { // the protocol has no body there
		return
	}
	found := schemas.SchemaFinding{Mode: mode, Code: schemas.ResponseSchemaInvalid}
	doc, isJSON := document(a)
	if mode == policy.SchemaRedact {
		doc, isJSON = redacted(schema, a, doc, isJSON)
	}
	if isJSON {
		found.Violations = schema.Validate(doc)
	} else {
		found.Code, found.Violations = schemas.ResponseNotJSON, []string{"the response body is not JSON"}
	}
	if t.probe != nil || len(found.Violations) == 0 {
		return
	}
	res.Schema = &found
	if c.cfg.Metrics != nil {
		c.cfg.Metrics.SchemaViolated(p.Permit().Entry(), mode)
	}
}

// document is the JSON of an answer. An answer that is passed on as it came has it as a text.
func document(a *schemas.Answer) (doc json.RawMessage, ok bool) {
	if a.JSON || a.Base64 {
		return a.Body, a.JSON
	}
	text, ok := a.Bytes()
	return text, ok && json.Valid(text)
}

// redacted removes from an answer what the schema does not name, and returns the rest of its JSON. A
// body that is not JSON is removed as a whole.
func redacted(schema *jsonschema.Schema, a *schemas.Answer, doc json.RawMessage, ok bool) (rest json.RawMessage, isJSON bool) {
	text := !a.JSON
	a.Body, a.JSON, a.Base64, a.Snippet = json.RawMessage("null"), false, false, ""
	if !ok {
		return nil, false
	}
	rest, err := schema.Prune(doc)
	body := rest
	if err == nil && text {
		body, err = jsontext.AppendQuote(nil, rest)
	}
	if err != nil {
		return nil, false
	}
	a.Body, a.JSON = body, !text
	return rest, true
}
