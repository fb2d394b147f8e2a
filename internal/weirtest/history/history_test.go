package history_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/history"
	"weir/internal/weirtest/table"
	"weir/schemas"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func digest(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// life is a run with the action a in it, before its records are written.
type life struct {
	history.Run

	events   []schemas.Event // of a
	evidence []schemas.Evidence
	after    time.Duration // from the acceptance of a to its end
}

func record(seq uint64, kind schemas.Kind, id string, ev schemas.Event) schemas.Record {
	layout := schemas.Layout{Partitions: 1}
	subject := layout.Subject(schemas.Ref{Tenant: "t", Kind: kind, ID: id}, schemas.SectionOf(ev.Type))
	return schemas.Record{Stream: "S", Subject: subject, Seq: seq, Time: epoch, Data: encode(ev)}
}

func accepted(kind schemas.Kind, id, payload string) schemas.Event {
	return schemas.Event{V: 1, N: 1, Type: schemas.EventAccepted, Action: &schemas.Action{
		ID: id, Tenant: "t", Kind: kind, Class: schemas.ClassKeyed, Deadline: epoch.Add(time.Minute), Payload: encode(map[string]string{"url": "http://127.0.0.1:1/" + payload}),
	}}
}

func settled(outcome schemas.Outcome) schemas.Event {
	return schemas.Event{V: 1, N: 2, Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: outcome}}
}

func (l *life) left(action, id string) {
	l.evidence = append(l.evidence, schemas.Evidence{ID: id, Tenant: "t", ActionID: action, Kind: schemas.EvidenceAttempt})
}

// other adds an action that is denied.
func (l *life) other(kind schemas.Kind, id, payload string) {
	l.Log = append(l.Log, record(11, kind, id, accepted(kind, id, payload)), record(12, kind, id, settled(schemas.OutcomeDenied)))
	if kind == schemas.KindHTTP {
		l.left(id, id+".denial.0.0")
	}
}

// check writes the records of a before the others, and returns what is wrong with the run.
func (l *life) check() []history.Violation {
	var log []schemas.Record
	for i, ev := range l.events {
		if ev.V = 1; ev.N == 0 {
			ev.N = i + 1
		}
		r := record(uint64(i+1), schemas.KindHTTP, "a", ev)
		if ev.Type == schemas.EventSettled {
			r.Time = epoch.Add(l.after)
		}
		log = append(log, r)
	}
	l.Log = append(log, l.Log...)
	for i, e := range l.evidence {
		l.Evidence = append(l.Evidence, schemas.Record{Stream: "E", Subject: schemas.EvidenceSubject(e), Seq: uint64(i + 1), Data: encode(e)})
	}
	return history.Check(l.Run, history.Bounds{})
}

// called is a call of class keyed that was made once and answered, with its client and a reader.
func called() *life {
	answer := &schemas.Answer{Status: 200, Hash: digest("answer")}
	end := settled(schemas.OutcomeSucceeded)
	end.N, end.Settled.Result = 0, encode(schemas.HTTPResult{Answer: answer})
	l := &life{
		events: []schemas.Event{
			accepted(schemas.KindHTTP, "a", "a"),
			{Type: schemas.EventAttempt, Attempt: &schemas.Attempt{Number: 1, Class: schemas.ClassKeyed}},
			{Type: schemas.EventAttempted, Attempted: &schemas.Attempted{Number: 1, Sent: true, Status: 200, Answer: answer}},
			end,
		},
		Run: history.Run{
			Asked:   []history.Asked{{Tenant: "t", Name: "a", ID: "a", Answer: history.Accepted, Status: 200, Outcome: schemas.OutcomeSucceeded, Digest: answer.Hash}},
			Hits:    []history.Hit{{Tenant: "t", Mark: "a", Method: http.MethodPost, Key: "k", Sum: digest("body"), Whole: true, Status: 200, Digest: answer.Hash}},
			Watched: []history.Watched{{Tenant: "t", ID: "a", IDs: []uint64{1, 2, 3, 4}, Ended: true}},
		},
	}
	l.left("a", "a.attempt.0.1.0")
	return l
}

// twice is called where a first request was heard and its answer lost.
func (l *life) twice() {
	lost := []schemas.Event{l.events[1], {Type: schemas.EventAttempted, Attempted: &schemas.Attempted{Number: 1, Sent: true, Code: schemas.Interrupted}}}
	again := *l.events[1].Attempt
	again.Number = 2
	l.events = slices.Concat(l.events[:1], lost, []schemas.Event{{Type: schemas.EventAttempt, Attempt: &again}}, l.events[2:])
	l.events[4].Attempted.Number = 2
	first := l.Hits[0]
	first.Digest, first.Status = "", 0
	l.Hits, l.Watched[0].IDs = append([]history.Hit{first}, l.Hits...), []uint64{1, 2, 3, 4, 5, 6}
	l.left("a", "a.attempt.0.2.0")
}

// denied is called where policy lets nothing be sent.
func (l *life) denied() {
	l.events = []schemas.Event{l.events[0], settled(schemas.OutcomeDenied)}
	l.Run, l.evidence = history.Run{}, nil
	l.left("a", "a.denial.0.0")
}

// mocked is called where a traffic rule answers.
func (l *life) mocked() {
	l.events[2].Attempt = &schemas.Attempt{Number: 1, Class: schemas.ClassKeyed, Decision: schemas.Decision{Traffic: &schemas.Traffic{Mocked: "r"}}}
	l.events[2].Attempted.Sent = false
	l.events = append(l.events[:1], l.events[2:]...)
	l.Hits, l.Watched = nil, nil
}

// again is a second request for a that has an answer.
func (l *life) again(a history.Asked) {
	a.Tenant, a.Answer, a.Status = "t", history.Accepted, 202
	l.Asked = append(l.Asked, a)
}

func TestClean(t *testing.T) {
	t.Parallel()
	require.Empty(t, history.Check(history.Run{}, history.Bounds{}))
	table.Run(t, map[string]func(l *life){
		"as it should be":         func(*life) {},
		"a denial":                (*life).denied,
		"a mock":                  (*life).mocked,
		"a request that was lost": (*life).twice,
		"half a body":             func(l *life) { l.twice(); l.Hits[0].Sum, l.Hits[0].Whole = digest("bo"), false },
		"made from another": func(l *life) {
			made := accepted(schemas.KindHTTP, "b", "a")
			made.Action.Supersedes = "a"
			l.Log = append(l.Log, record(11, schemas.KindHTTP, "b", made), record(12, schemas.KindHTTP, "b", settled(schemas.OutcomeDenied)))
			l.left("b", "b.denial.0.0")
		},
		"a reader that left early":                            func(l *life) { l.Watched[0].IDs, l.Watched[0].Ended = []uint64{1, 2}, false },
		"a reader from the middle":                            func(l *life) { l.Watched[0].IDs, l.Watched[0].After = []uint64{3, 4}, 2 },
		"a denial's record of a call that was let pass later": func(l *life) { l.left("a", "a.denial.0.0") },
		"an ask that nobody heard of": func(l *life) {
			l.Asked = append(l.Asked, history.Asked{Tenant: "t", Name: "never", Answer: history.Unheard})
		},
	}, func(t *testing.T, plant func(l *life)) {
		l := called()
		plant(l)
		require.Empty(t, l.check())
	})
}

// TestBreaches: each is found, and by its own invariant alone. TestMutants of integration/sim has a Weir break the
// others.
func TestBreaches(t *testing.T) {
	t.Parallel()
	for invariant, rows := range map[string]map[string]func(l *life){
		"I1": {
			"accepted and not on the log": func(l *life) { l.again(history.Asked{Name: "lost", ID: "lost"}) },
			"accepted without an id":      func(l *life) { l.again(history.Asked{Name: "a"}) },
			"refused and stored": func(l *life) {
				l.Asked = []history.Asked{{Tenant: "t", Name: "a", Answer: history.Refused, Status: 503}}
			},
			"the accepted record is gone": func(l *life) { l.events, l.evidence, l.Run = l.events[3:], nil, history.Run{} },
			"a record is garbage": func(l *life) {
				garbage := record(9, schemas.KindHTTP, "a", l.events[0])
				garbage.Data = []byte("\x00\x00")
				l.Log = append(l.Log, garbage)
			},
		},
		"I9": {
			"one id, two kinds":          func(l *life) { l.other(schemas.KindRun, "a", "x"); l.Asked = nil },
			"one name, two ids told":     func(l *life) { l.other(schemas.KindHTTP, "b", "x"); l.again(history.Asked{Name: "a", ID: "b"}) },
			"one name, two actions made": func(l *life) { l.other(schemas.KindHTTP, "b", "a") },
		},
		"I2": {
			"never ended":              func(l *life) { l.events = l.events[:3]; l.Watched = nil },
			"ended twice":              func(l *life) { l.events = append(l.events, l.events[3]) },
			"worked on behind its end": func(l *life) { l.events = append(l.events, schemas.Event{Type: schemas.EventWaiting}) },
			"ended far too late":       func(l *life) { l.after = 3 * time.Minute },
		},
		"I3": {
			"a denied call heard": func(l *life) { hits := l.Hits; l.denied(); l.Hits = hits },
			"a mocked call heard": func(l *life) { hits := l.Hits; l.mocked(); l.Hits = hits },
			"no key":              func(l *life) { l.Hits[0].Key = "" },
			"another body":        func(l *life) { l.twice(); l.Hits[1].Sum = digest("other") },
			"another key":         func(l *life) { l.twice(); l.Hits[1].Key = "other" },
			"once, and declared again": func(l *life) {
				l.twice()
				l.events[0].Action.Class, l.events[1].Attempt.Class, l.events[3].Attempt.Class = schemas.ClassOnce, schemas.ClassOnce, schemas.ClassOnce
				l.Hits = l.Hits[1:]
			},
			"heard more often than it may be": func(l *life) {
				for range 9 {
					l.Hits = append(l.Hits, l.Hits[0])
				}
			},
		},
		"I4": {
			"heard without an attempt": func(l *life) { l.Hits = append(l.Hits, l.Hits[0]) },
			"heard of nobody's":        func(l *life) { l.Hits = append(l.Hits, history.Hit{Tenant: "t", Mark: "nobody"}) },
			"a result without an attempt": func(l *life) {
				l.events[2].Attempted.Number, l.events[3].Settled = 7, &schemas.Settled{Outcome: schemas.OutcomeFailed}
				l.Run, l.evidence = history.Run{}, nil
			},
		},
		"I5": {
			"heard, and called not sent":    func(l *life) { l.events[2].Attempted.Sent = false },
			"another answer than was given": func(l *life) { l.Hits[0].Digest = digest("other") },
			"another status than was given": func(l *life) { l.Hits[0].Status = 500 },
			"a client shown another answer": func(l *life) { l.Asked[0].Digest = digest("other") },
			"a client told another end":     func(l *life) { l.Asked[0].Outcome = schemas.OutcomeFailed },
			"an end that shows another answer": func(l *life) {
				l.events[3].Settled.Result = encode(schemas.HTTPResult{Answer: &schemas.Answer{Status: 200, Hash: digest("other")}})
			},
			"an end that shows no answer": func(l *life) { l.events[3].Settled.Result = nil },
			"a success without an answer": func(l *life) { l.events[2].Attempted.Code = schemas.Interrupted; l.Asked = nil },
			"a doubt about nothing":       func(l *life) { l.denied(); l.events[1].Settled.Outcome = schemas.OutcomeUnknown },
		},
		"I6": {
			"an attempt without its record":     func(l *life) { l.evidence = nil },
			"a plan without its closing record": func(l *life) { l.other(schemas.KindPlan, "p", "p") },
			"a denial without its record":       func(l *life) { l.denied(); l.evidence = nil },
			"a refusal on the way without its record": func(l *life) {
				l.events[2].Attempted = &schemas.Attempted{Number: 1, Code: schemas.DenyAddress}
				l.events[3].Settled, l.Run = &schemas.Settled{Outcome: schemas.OutcomeFailed}, history.Run{}
			},
			"a record twice":              func(l *life) { l.left("a", "a.attempt.0.1.0") },
			"a record of nobody's":        func(l *life) { l.left("nobody", "nobody.attempt.0.1.0") },
			"a record of no attempt":      func(l *life) { l.left("a", "a.attempt.0.3.0") },
			"a record under another's id": func(l *life) { l.left("a", "b.attempt.0.1.0") },
			"a record that is garbage":    func(l *life) { l.Evidence = append(l.Evidence, schemas.Record{Seq: 9, Data: []byte("{")}) },
		},
		"I7": {
			"an event twice":                func(l *life) { l.Watched[0].IDs = []uint64{1, 2, 2, 3, 4} },
			"an event left out":             func(l *life) { l.Watched[0].IDs = []uint64{1, 2, 4} },
			"out of order":                  func(l *life) { l.Watched[0].IDs = []uint64{1, 3, 2, 4} },
			"another action's event":        func(l *life) { l.Watched[0].IDs = []uint64{1, 2, 3, 4, 9} },
			"ended early":                   func(l *life) { l.Watched[0].IDs = []uint64{1, 2, 3} },
			"what lies before its position": func(l *life) { l.Watched[0].After = 1 },
			"ordinals with a gap":           func(l *life) { l.events[3].N = 5 },
		},
		"I11": {
			"a backlog":  func(l *life) { l.Left.Backlog = 1 },
			"a consumer": func(l *life) { l.Left.Consumers = 1 },
		},
	} {
		table.Run(t, rows, func(t *testing.T, plant func(l *life)) {
			l := called()
			plant(l)
			all := l.check()
			require.NotEmpty(t, all)
			for _, v := range all {
				require.Equal(t, invariant, v.Invariant, v.String())
			}
		})
	}
}
