package problem

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"

	"weir/schemas"
)

// WriteFor returns the function that writes the errors of a dialect.
func WriteFor(d schemas.Dialect) func(w http.ResponseWriter, r *http.Request, err error) {
	if d.Family() == schemas.DialectMessages {
		return WriteMessages
	}
	return WriteChat
}

// WriteMessages is WriteChat in the format of the Messages protocol.
func WriteMessages(w http.ResponseWriter, r *http.Request, err error) {
	e := Of(err)
	ReportOf(r.Context()).Code = e.Code
	e.Status = chatStatus(e, err)
	Limits(w.Header(), e.Limits)
	e.answer(w, "application/json", e.messages(RequestID(r.Context())))
}

// Messages is WriteMessages' body, for a stream that has begun.
func Messages(err error, requestID string) schemas.MessagesRefusal {
	e := Of(err)
	e.Status = chatStatus(e, err)
	return e.messages(requestID)
}

func (e *Error) messages(requestID string) schemas.MessagesRefusal {
	requestID = cmp.Or(e.RequestID, requestID)
	return schemas.MessagesRefusal{
		Type: "error", RequestID: requestID,
		Error: schemas.MessagesRefused{Type: e.class(), Message: cmp.Or(e.Detail, e.Title), Metadata: e.metadata(requestID)},
	}
}

// class is the type of an error in the Messages protocol: the provider's own where it answered with one,
// else by the status.
func (e *Error) class() string {
	var provider struct {
		Type string `json:"provider_type"`
	}
	if json.Unmarshal(e.Details, &provider) == nil && slices.Contains(schemas.MessagesErrors(), provider.Type) {
		return provider.Type
	}
	return schemas.MessagesError(e.Status)
}
