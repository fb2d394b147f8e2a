package evidence

import (
	"encoding/json"
	"net/http"

	"weir/egress/stream"
	"weir/internal/ledger"
	"weir/internal/problem"
	"weir/schemas"
)

// ServeDead answers GET /v1/dead-letters for a tenant, oldest first.
func (e *Records) ServeDead(w http.ResponseWriter, r *http.Request, tenant string) {
	q := r.URL.Query()
	err := stream.Only(q, "limit", "cursor")
	var limit int
	if err == nil {
		limit, err = stream.Limit(q, 100)
	}
	var after uint64
	if err == nil {
		after, err = stream.CursorParam(q)
	}
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	filter := schemas.DeadRoot + "." + schemas.EscapeToken(tenant) + ".>"
	page, err := newCursor(e, schemas.DeadStream, filter, after).page(r.Context(), limit, deadLetter)
	if err != nil {
		problem.Write(w, r, err)
		return
	}
	stream.WriteJSON(w, r, http.StatusOK, page)
}

// deadLetter shows the reason of a dead letter without its message, whose content is unchecked.
func deadLetter(rec schemas.Record) (json.RawMessage, error) {
	var d schemas.DeadLetter
	if err := json.Unmarshal(rec.Data, &d); err != nil {
		return nil, err
	}
	return ledger.Encode(schemas.DeadLetterView{
		Seq: rec.Seq, Time: d.Time, Kind: d.Kind, ActionID: d.ActionID, Called: d.Called, Agent: d.Agent,
		Code: d.Code, Reason: d.Reason, ActionURL: stream.ActionURL(d.ActionID),
	})
}

// refuse says that a stream cannot be opened just now.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	problem.Write(w, r, &problem.Error{
		Problem: schemas.Problem{Code: schemas.Unavailable, Detail: "the live feed cannot be reached; try again"}, Cause: err,
	})
}
