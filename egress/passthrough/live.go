package passthrough

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"weir/egress"
	"weir/egress/stream"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/schemas"
)

// reading is an answer in parts that is written as they come.
type reading struct {
	w    http.ResponseWriter
	r    *http.Request
	out  *stream.Writer
	head bool // it was written
	// whole: the answer is complete. code says why it is not.
	whole bool
	code  schemas.Code
}

// live answers with an answer that arrives in parts, or did. If it breaks off, so does the connection
// to the client.
func live(s *egress.Server, w http.ResponseWriter, r *http.Request, ref schemas.Ref, left func()) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // it would end a long answer
	a := &reading{w: w, r: r, out: s.Feed().Writer(w)}
	after, err := begun(r.Context(), s, ref)
	if err == nil {
		err = s.Feed().Each(r.Context(), ref, after, left, a.event)
	}
	switch {
	case r.Context().Err() != nil, err == nil && a.whole:
		a.out.End()
	case a.head:
		problem.ReportOf(r.Context()).Code = a.code
		panic(http.ErrAbortHandler) // so that the client does not take a part for the whole
	case errors.Is(err, stream.ErrClosed):
		fail(w, r, ref, fault.New(schemas.Unavailable, "this node is stopping, and the call goes on; read its answer at "+stream.ActionURL(ref.ID)+"/response on another node"))
	case err == nil: // another attempt was made, and its answer came as a whole, or none did
		s.Reply(w, r, ref, schemas.Receipt{Duplicate: true}, -1)
	default:
		fail(w, r, ref, err)
	}
}

// begun is the position right before the answer of the last attempt, or where that is awaited.
func begun(ctx context.Context, s *egress.Server, ref schemas.Ref) (after uint64, err error) {
	st, err := s.Actions().Load(ctx, ref)
	switch {
	case err != nil:
		return 0, err
	case len(st.Attempts) > 0 && st.Attempts[len(st.Attempts)-1].Shown > 0:
		return st.Attempts[len(st.Attempts)-1].Shown - 1, nil
	case st.Settled != nil:
		return 0, fault.New(schemas.Poison, "the stored answer is missing")
	default:
		return st.Seq, nil
	}
}

// errAgain ends an answer whose call is made again: its reader has the beginning of another one.
var errAgain = errors.New("the call is made again")

// event takes the next event of the action, until the end of its answer.
func (a *reading) event(it *stream.Item) (more bool, err error) {
	switch ev := it.Event; ev.Type { //nolint:exhaustive // the others say nothing of the answer
	case schemas.EventDelta:
		var part schemas.AnswerPart
		if err := json.Unmarshal(ev.Data, &part); err != nil {
			return false, err
		}
		return true, a.part(part)
	case schemas.EventAttempted, schemas.EventSettled:
		if ev.Attempted != nil {
			a.code, a.whole = ev.Attempted.Code, ev.Attempted.Code == ""
		} else if ev.Settled != nil && !a.whole {
			a.code = ev.Settled.Code
		}
		return false, nil
	}
	return true, nil
}

func (a *reading) part(p schemas.AnswerPart) error {
	if p.Status != 0 {
		if a.head {
			a.code = schemas.Interrupted
			return errAgain
		}
		a.head = true
		head(a.w.Header(), a.r, p.Headers, p.Hidden, false)
		a.w.WriteHeader(p.Status)
	}
	if piece := p.Piece(); len(piece) > 0 {
		if err := a.out.Write(piece); err != nil {
			return err
		}
	}
	return a.out.Flush()
}
