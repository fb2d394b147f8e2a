package executor

import (
	"encoding/json"
	"net/http"

	"weir/egress"
	"weir/egress/stream"
	"weir/internal/redact"
	"weir/schemas"
)

// Surface answers for kind http.
func Surface() egress.Surface {
	return egress.Surface{Name: "executor", Views: []egress.View{{
		Kind: schemas.KindHTTP, Result: Result, Payload: egress.Shown(Hide),
		Answer: func(w http.ResponseWriter, _ *http.Request, ref schemas.Ref, s *schemas.Settled, doc json.RawMessage) error {
			status, body, err := Render(ref, s, doc)
			if err == nil {
				stream.WriteBody(w, status, "application/json", body)
			}
			return err
		},
	}}}
}

// Hide hides the values of a call's headers that carry credentials.
func Hide(r *redact.Redactor, call *schemas.HTTPCall) { call.Headers = r.Headers(call.Headers) }
