package executor

import (
	"encoding/json"
	"net/http"

	"weir/egress"
	"weir/egress/stream"
	"weir/schemas"
)

// Surface answers for kind http.
func Surface() egress.Surface {
	return egress.Surface{Name: "executor", Views: []egress.View{{
		Kind: schemas.KindHTTP, Result: Result,
		Answer: func(w http.ResponseWriter, _ *http.Request, ref schemas.Ref, s *schemas.Settled, doc json.RawMessage) error {
			status, body, err := Render(ref, s, doc)
			if err == nil {
				stream.WriteBody(w, status, "application/json", body)
			}
			return err
		},
	}}}
}
