package passthrough

import (
	"encoding/json"

	"weir/egress"
	"weir/egress/executor"
	"weir/schemas"
)

// Surface answers for kind passthrough.
func Surface() egress.Surface {
	return egress.Surface{Name: "passthrough", Views: []egress.View{{
		Kind: schemas.KindPassthrough, Answer: answer, Fail: fail, Payload: egress.Shown(executor.Hide),
		Result: func(ref schemas.Ref, s *schemas.Settled, doc json.RawMessage) json.RawMessage {
			return executor.Result(ref, s, doc)
		},
	}}}
}
