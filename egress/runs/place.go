package runs

import (
	"net/http"

	"weir/egress/stream"
	"weir/schemas"
)

// Resume reads Last-Event-ID as the place in a run's stream that it names; without one it is
// the zero place.
func Resume(r *http.Request) (schemas.RunPlace, error) {
	values := r.Header.Values("Last-Event-ID")
	if len(values) == 0 || len(values) == 1 && values[0] == "" {
		return schemas.RunPlace{}, nil
	}
	if len(values) == 1 {
		if p, ok := place(values[0]); ok {
			return p, nil
		}
	}
	return schemas.RunPlace{}, stream.Invalid("the Last-Event-ID header must be the id of an event")
}

// place reads the id of an event.
func place(id string) (p schemas.RunPlace, ok bool) {
	at, generation := schemas.Generation(id)
	seq, ok := stream.Position(at)
	return schemas.RunPlace{Seq: seq, Generation: generation}, ok
}

// Suffix is appended to a position to make an event's id. Positions of two actions of one
// request are not comparable, so the event ids of a successor name its generation.
func Suffix(ref schemas.Ref) string {
	if _, n := schemas.Generation(ref.ID); n > 1 {
		return schemas.Successor("", n)
	}
	return ""
}
