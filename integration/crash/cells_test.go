//go:build e2e

package crash_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"weir/internal/failpoint"
	"weir/internal/weirtest/callers"
	"weir/schemas"
)

// The classes of actions, as their names have them.
const (
	get    = callers.Get
	put    = callers.Put
	post   = callers.Post
	keyed  = callers.Keyed
	mocked = "mock" // a POST
	denied = callers.Denied
)

// cell is one fault, and the classes of which an action can come to it.
type cell struct {
	row, title string
	// point is where the program acts on itself; without one the test kills it.
	point failpoint.Point
	act   string
	// appends: the point is reached once for each of an action's records: the second is that
	// of the attempt, and in the long form chance says which one it is.
	appends bool
	// hold: the upstream answers no first request.
	hold bool
	// once is how a POST ends that must not be repeated, and heard how often the upstream
	// has it then; other classes end as if nothing had happened. Empty: a worker may have
	// come to any point of it.
	once    schemas.Outcome
	heard   int
	classes []string
	// only are the classes that the point is for, where it is not for all.
	only []string
	// drive brings the fault about; nil: one class after the other comes to the point.
	drive func(ctx context.Context, r *trial)
}

// cells are the rows of the fault matrix.
func cells() []cell {
	// The POST comes last: what it is at is not cut short by the fault of another.
	all := []string{get, put, keyed, mocked, denied, post}
	made := []string{get, put, keyed, mocked, post} // somebody answers
	sent := []string{get, put, keyed, post}         // the upstream does
	const known, unknown = schemas.OutcomeSucceeded, schemas.OutcomeUnknown
	return []cell{
		{row: "F1", title: "before the claim", point: failpoint.Claiming, act: "kill", classes: all, once: known, heard: 1},
		{row: "F2", title: "claimed, client not told", point: failpoint.Claimed, act: "kill", classes: all},
		// Those that the upstream never hears of are held at the word of their end.
		{row: "F3", title: "open streams", point: failpoint.Settling, act: "hold", only: []string{mocked, denied}, hold: true, classes: all, once: unknown, heard: 1, drive: killStreams},
		{row: "F4", title: "message fetched", point: failpoint.Fetched, act: "kill", classes: all, once: known, heard: 1},
		{row: "F5", title: "decided, not dialled", point: failpoint.Decided, act: "kill", classes: all, once: known, heard: 1},
		{row: "F6", title: "dialled, not declared", point: failpoint.Dialled, act: "kill", classes: made, once: known, heard: 1},
		{row: "F7", title: "declared, no byte sent", point: failpoint.Declared, act: "kill", classes: sent, once: unknown, heard: 0},
		{row: "F8", title: "an ack lost", point: failpoint.Appended, appends: true, act: "lose", classes: all, once: known, heard: 1},
		{row: "F8", title: "an ack heard by nobody", point: failpoint.Appended, appends: true, act: "kill", classes: all, once: unknown, heard: 0},
		{row: "F9", title: "half of the body sent", point: failpoint.MidBody, act: "kill", classes: []string{put, keyed, post}, once: unknown, heard: 1},
		{row: "F10", title: "sent, no answer begun", hold: true, classes: sent, once: unknown, heard: 1, drive: killUnanswered},
		{row: "F10", title: "answer begun", point: failpoint.Begun, act: "kill", classes: sent, once: unknown, heard: 1},
		{row: "F11", title: "answered, not on the log", point: failpoint.Answered, act: "kill", classes: made, once: unknown, heard: 1},
		{row: "F12", title: "judged, not settled", point: failpoint.Settling, act: "kill", classes: all, once: unknown, heard: 1},
		{row: "F13", title: "settled, not acknowledged", point: failpoint.Acking, act: "kill", classes: all, once: known, heard: 1},
	}
}

// theAttempt is which of its records an attempt is: accepted comes before it.
const theAttempt = 2

// records is how many an action of a class has that nothing befalls.
func records(class string) int {
	switch class {
	case denied:
		return 2
	default: // what is not sent is not declared, and its result has a record of its own
		return 3
	}
}

// slug is the cell's part in the names of its actions.
func (c cell) slug() string {
	return strings.ToLower(c.row) + "-" + strings.NewReplacer(" ", "-", ",", "").Replace(c.title)
}

// arms are the faults that are still to come about, for the environment.
func (r *trial) arms() string {
	if r.cell.point == "" {
		return ""
	}
	var specs []string
	for _, class := range r.cell.classes {
		if name := r.name(class); r.cell.pointFor(class) && r.node.reached(name) < r.times[class] {
			specs = append(specs, fmt.Sprintf("%s@%s#%d=%s", r.cell.point, name, max(r.nth[class], 1), r.cell.act))
		}
	}
	return strings.Join(specs, ";")
}

// pointFor reports whether a class is to come to the cell's point.
func (c cell) pointFor(class string) bool { return len(c.only) == 0 || slices.Contains(c.only, class) }

func (r *trial) name(class string) string { return r.cell.slug() + "-" + class }

// passThrough has each class come to the cell's point in its turn, and die of it.
func passThrough(ctx context.Context, r *trial) {
	for _, class := range r.cell.classes {
		before, _ := r.node.deaths()
		r.begin(ctx, class)
		r.comesTo(ctx, class)
		r.until(ctx, "its death", func() bool {
			kills, _ := r.node.deaths()
			return kills > before || r.cell.act == "lose" // nobody dies of that
		})
	}
	for _, class := range r.cell.classes {
		if r.times[class] > 1 { // it comes to the point again, unless its next attempt is not made
			continue
		}
		r.fired[class] = r.node.reached(r.name(class))
	}
}

// comesTo waits until a class has come to the cell's point.
func (r *trial) comesTo(ctx context.Context, class string) {
	r.until(ctx, fmt.Sprintf("%s never came to %s", class, r.cell.point), func() bool { return r.node.reached(r.name(class)) > 0 })
}

// killUnanswered kills the program each time that the upstream has the whole of a request.
func killUnanswered(ctx context.Context, r *trial) {
	for _, class := range r.cell.classes {
		r.begin(ctx, class)
		for heard := ""; heard != r.name(class); {
			heard = r.heard(ctx)
		}
		r.must(r.node.kill(), "kill")
		r.fired[class]++
	}
}

// killStreams kills the program once, while many streams of each class's action are open.
func killStreams(ctx context.Context, r *trial) {
	opened := make(chan string, len(r.cell.classes)**streams)
	for _, class := range r.cell.classes {
		r.begin(ctx, class)
		for range *streams {
			r.party.Watch(ctx, r.name(class), func() { opened <- class })
		}
	}
	for range cap(opened) {
		select {
		case class := <-opened:
			r.fired[class]++
		case <-ctx.Done():
			r.t.Fatal("not every stream opened")
		}
	}
	waiting := slices.DeleteFunc(slices.Clone(r.cell.classes), func(class string) bool { return slices.Contains(r.cell.only, class) })
	for _, class := range r.cell.only {
		r.comesTo(ctx, class)
	}
	for len(waiting) > 0 {
		name := r.heard(ctx)
		waiting = slices.DeleteFunc(waiting, func(class string) bool { return r.name(class) == name })
	}
	r.must(r.node.kill(), "kill")
}

// heard is the next request that the upstream holds.
func (r *trial) heard(ctx context.Context) string {
	select {
	case name := <-r.upstream.Heard():
		return name
	case <-ctx.Done():
		r.t.Fatal("a request did not arrive")
		return ""
	}
}
