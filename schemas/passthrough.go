package schemas

import "encoding/json"

// RoutePassthrough is the path before the name of an entry and the path of its target.
const RoutePassthrough = "/via/"

// HeaderRefused is set on the answers of passthrough that are Weir's own, to their code. Those of
// the target do not have it.
const HeaderRefused = "Weir-Refused"

// AnswerPart is the data of a delta of kind passthrough: a piece of an answer that arrives in
// several. The first one has the status and the headers.
type AnswerPart struct {
	Status  int      `json:"status,omitempty"`
	Headers []Header `json:"headers,omitempty"`
	// Hidden are those of Headers whose values are hidden there, as they came: see Answer.
	Hidden []Header `json:"hidden,omitempty"`
	// Text is the piece if it is valid UTF-8, otherwise Base64 is.
	Text   string `json:"text,omitempty"`
	Base64 []byte `json:"base64,omitempty"`
}

// Piece is what the part adds to the body.
func (p AnswerPart) Piece() []byte {
	if p.Base64 != nil {
		return p.Base64
	}
	return []byte(p.Text)
}

// Bytes are the bytes of an answer's body. It is false for a body that cannot be read.
func (a Answer) Bytes() (body []byte, ok bool) {
	switch {
	case a.JSON:
		return a.Body, true
	case len(a.Body) == 0, string(a.Body) == "null":
		return nil, true
	case a.Base64:
		return body, json.Unmarshal(a.Body, &body) == nil
	default:
		var text string
		err := json.Unmarshal(a.Body, &text)
		return []byte(text), err == nil
	}
}
