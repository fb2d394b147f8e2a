package call

import (
	"context"
	"encoding/json"
	"errors"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/schemas"
)

// Blobs reads what was too large to lie on the log.
type Blobs interface {
	Blob(ctx context.Context, inline json.RawMessage, name string) (json.RawMessage, error)
}

// Answers reads the answers of attempts.
type Answers struct{ Blobs Blobs }

// Answer is the answer that an attempt brought, wherever it is kept; nil where
// it brought none.
func (a Answers) Answer(ctx context.Context, t *ledger.Try) (*schemas.Answer, error) {
	switch {
	case t == nil || t.Result == nil:
		return nil, nil //nolint:nilnil // no attempt, no answer
	case t.Result.AnswerBlob == "":
		return t.Result.Answer, nil
	}
	doc, err := a.Blobs.Blob(ctx, nil, t.Result.AnswerBlob)
	if errors.Is(err, fault.ErrNotFound) {
		return nil, &fault.Parked{Code: schemas.Poison, Reason: "the stored answer is missing", Cause: err}
	}
	if err != nil {
		return nil, err
	}
	var answer schemas.Answer
	if err := json.Unmarshal(doc, &answer); err != nil {
		return nil, &fault.Parked{Code: schemas.Poison, Reason: "the stored answer cannot be read", Cause: err}
	}
	return &answer, nil
}
