package passthrough

import (
	"encoding/json"
	"net/http"

	jsonv1 "github.com/go-json-experiment/json/v1" // encoding/json in a third of the time

	"weir/egress"
	"weir/egress/executor"
	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/schemas"
)

// Surface answers for kind passthrough, and shows the answers of calls.
func Surface(s *egress.Server) egress.Surface {
	view := egress.View{
		Kind: schemas.KindPassthrough, Fail: fail, Payload: egress.Shown(executor.Hide), Result: result, Part: shown,
		Answer: func(w http.ResponseWriter, r *http.Request, ref schemas.Ref, end *schemas.Settled, doc json.RawMessage) error {
			return answer(s, w, r, ref, end, doc)
		},
		Live: func(w http.ResponseWriter, r *http.Request, ref schemas.Ref, left func()) { live(s, w, r, ref, left) },
	}
	return egress.Surface{Name: "passthrough", Views: []egress.View{view}, Routes: s.ReadAction("/v1/actions/:id/response", func(r *egress.Request) error {
		return response(s, r)
	})}
}

// response is GET /v1/actions/{id}/response.
func response(s *egress.Server, r *egress.Request) error {
	r.Writer.Header().Set(policyHeader, "sandbox")
	const absent = "there is no such action, or it is of a kind whose calls are not answered to its caller"
	st, err := s.Find(r.Request.Context(), r.Reader.Tenant, r.Param("id"), absent)
	switch {
	case err != nil:
		return err
	case st.Kind != schemas.KindHTTP && st.Kind != schemas.KindPassthrough:
		return fault.New(schemas.NotFound, absent)
	}
	if n := len(st.Attempts); n > 0 && st.Attempts[n-1].Shown > 0 {
		held, release, err := s.AcquireSlot(r.Request)
		if err != nil {
			return err
		}
		defer release()
		live(s, r.Writer, held, st.Ref, nil)
		return nil
	}
	if st.Settled == nil {
		return fault.New(schemas.Conflict, "the action has no answer yet, its status is "+st.Status()+"; try again later")
	}
	doc, release, err := s.Document(r.Request.Context(), st.Tenant, st.Settled)
	if err != nil {
		return err
	}
	defer release()
	res, err := read(doc)
	if err != nil {
		return err
	}
	if res.Answer == nil {
		text := "the action ended without an answer, as " + string(st.Settled.Outcome)
		if st.Settled.Code != "" {
			text += " (" + string(st.Settled.Code) + ")"
		}
		return fault.New(schemas.NotFound, text)
	}
	return write(r.Writer, r.Request, res)
}

// read reads a stored result, which may be empty.
func read(doc json.RawMessage) (res schemas.HTTPResult, err error) {
	if len(doc) > 0 {
		err = jsonv1.Unmarshal(doc, &res)
	}
	return res, err
}

// result is the public form of a result: as that of kind http, and a body that is JSON as JSON.
func result(ref schemas.Ref, s *schemas.Settled, doc json.RawMessage) json.RawMessage {
	res, err := read(doc)
	if err != nil {
		return nil
	}
	if a := res.Answer; a != nil && !a.Base64 {
		if body, ok := a.Bytes(); ok && json.Valid(body) {
			a.Body, a.JSON = body, true
		}
		if doc, err = ledger.Encode(res); err != nil {
			return nil
		}
	}
	_, doc, err = executor.Render(ref, s, doc)
	if err != nil {
		return nil
	}
	return doc
}

// shown is a part without the values that are hidden in its headers.
func shown(data json.RawMessage) json.RawMessage {
	var part schemas.AnswerPart
	if json.Unmarshal(data, &part) != nil {
		return nil
	}
	if part.Hidden == nil {
		return data
	}
	part.Hidden = nil
	doc, err := ledger.Encode(part)
	if err != nil {
		return nil
	}
	return doc
}
