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

// Suffix stands behind the positions in a run's stream, as ids of its events: positions of two
// actions of a request are not comparable, so that those of a successor name it, as its id does.
func Suffix(ref schemas.Ref) string {
	if _, n := schemas.Generation(ref.ID); n > 1 {
		return schemas.Successor("", n)
	}
	return ""
}
