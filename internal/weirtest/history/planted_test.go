package history_test

import (
	"net/http"
	"slices"
	"time"

	"weir/internal/weirtest/history"
	"weir/schemas"
)

func plantedAccepted() []planted {
	return []planted{
		{"accepted and not on the log", "I1", func(b *book) {
			b.run.Asked = append(b.run.Asked, history.Asked{Tenant: "t", Name: "lost", ID: "lost", Answer: history.Accepted, Status: 202})
		}},
		{"accepted without an id", "I1", func(b *book) {
			b.run.Asked = append(b.run.Asked, history.Asked{Tenant: "t", Name: get, Answer: history.Accepted, Status: 202})
		}},
		{"refused and stored", "I1", func(b *book) {
			b.run.Asked = append(b.run.Asked, history.Asked{Tenant: "t", Name: "no", Answer: history.Refused, Status: 503})
			b.accept(schemas.KindHTTP, "no", schemas.ClassSafe)
			b.run.Asked = b.run.Asked[:len(b.run.Asked)-1]
			b.leave("no", "no.denial.0.0")
			b.event(schemas.KindHTTP, "no", schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeDenied}})
		}},
		{"the accepted record is gone", "I1", func(b *book) {
			b.accept(schemas.KindHTTP, "x", schemas.ClassSafe)
			b.edit("x", func(ev *schemas.Event) bool { return ev.Type != schemas.EventAccepted })
		}},
		{"a record is garbage", "I1", func(b *book) {
			b.run.Log = append(b.run.Log, schemas.Record{Subject: subject(schemas.KindHTTP, get, schemas.SectionEvent), Seq: 999, Data: []byte("\x00\x00")})
		}},
		{"one id, two kinds", "I9", func(b *book) {
			other := schemas.KindRun
			b.event(other, get+"x", schemas.Event{Type: schemas.EventAccepted, Action: &schemas.Action{ID: get + "x", Tenant: "t", Kind: other}})
			b.event(other, get+"x", schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeFailed}})
			b.n[get+"x"] = 0
			b.event(schemas.KindChat, get+"x", schemas.Event{Type: schemas.EventAccepted, Action: &schemas.Action{ID: get + "x", Tenant: "t", Kind: schemas.KindChat}})
			b.event(schemas.KindChat, get+"x", schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeFailed}})
		}},
		{"accepted twice", "I9", func(b *book) {
			var twice schemas.Record
			for _, r := range b.run.Log {
				if r.Subject == subject(schemas.KindHTTP, mocked, schemas.SectionAccepted) {
					twice = r
				}
			}
			i := slices.IndexFunc(b.run.Log, func(r schemas.Record) bool { return r.Seq == twice.Seq })
			b.run.Log = slices.Insert(b.run.Log, i, twice)
			for k := range b.run.Watched {
				if w := &b.run.Watched[k]; w.ID == mocked {
					w.IDs = slices.Insert(slices.Clone(w.IDs), 0, twice.Seq)
				}
			}
		}},
		{"one name, two ids told", "I9", func(b *book) {
			b.run.Asked = append(b.run.Asked, history.Asked{Tenant: "t", Name: get, ID: mocked, Answer: history.Accepted, Status: 200})
		}},
		{"one name, two actions made", "I9", func(b *book) {
			b.event(schemas.KindHTTP, "uuid", schemas.Event{Type: schemas.EventAccepted, Action: &schemas.Action{
				ID: "uuid", Tenant: "t", Kind: schemas.KindHTTP, Payload: encode(map[string]string{"url": "http://127.0.0.1:1/" + denied}),
			}})
			b.leave("uuid", "uuid.denial.0.0")
			b.event(schemas.KindHTTP, "uuid", schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeDenied}})
		}},
	}
}

func plantedSettled() []planted {
	return []planted{
		{"never ended", "I2", func(b *book) { b.drop(get, schemas.EventSettled) }},
		{"ended twice", "I2", func(b *book) {
			b.event(schemas.KindHTTP, get, schemas.Event{Type: schemas.EventSettled, Settled: &schemas.Settled{Outcome: schemas.OutcomeSucceeded}})
		}},
		{"worked on behind its end", "I2", func(b *book) {
			b.event(schemas.KindHTTP, get, schemas.Event{Type: schemas.EventWaiting, Waiting: &schemas.Waiting{For: schemas.WaitDelay}})
		}},
		{"ended far too late", "I2", func(b *book) {
			for i := range b.run.Log {
				if r := &b.run.Log[i]; r.Subject == subject(schemas.KindHTTP, get, schemas.SectionEvent) && r.Ends() {
					r.Time = epoch.Add(3 * time.Minute)
				}
			}
		}},
	}
}

func plantedSent() []planted {
	one := schemas.KindHTTP
	return []planted{
		{"a call heard four times", "I3", func(b *book) {
			b.reopen(put, func() {
				b.declare(one, put, 0, 4, schemas.ClassIdempotent)
				b.hear(put, http.MethodPut, 503)
				b.result(one, put, put, 0, 4, 503)
			})
		}},
		{"a once call heard twice", "I3", func(b *book) { b.hear(post, http.MethodPost, 0) }},
		{"a once call declared again", "I3", func(b *book) {
			b.reopen(post, func() {
				b.declare(one, post, 0, 2, schemas.ClassOnce)
				b.result(one, post, post, 0, 2, 0)
			})
		}},
		{"a once call of a plan heard twice", "I3", func(b *book) { b.hear(plan+"/0", http.MethodPost, 200) }},
		{"a denied call heard", "I3", func(b *book) { b.hear(denied, http.MethodPost, 200) }},
		{"a mocked call heard", "I3", func(b *book) { b.hear(mocked, http.MethodPost, 200) }},
		{"another key", "I3", func(b *book) { b.hits(keyed)[1].Key = "other" }},
		{"no key", "I3", func(b *book) { b.hits(keyed)[0].Key = "" }},
		{"another body under the key", "I3", func(b *book) { b.hits(keyed)[1].Sum = digest("other") }},
		{"heard without an attempt", "I4", func(b *book) { b.hear(get, http.MethodGet, 200) }},
		{"heard of nobody's", "I4", func(b *book) { b.hear("nobody", http.MethodGet, 200) }},
		{"heard, and the attempt is lost", "I4", func(b *book) {
			b.edit(post, func(ev *schemas.Event) bool {
				return ev.Type != schemas.EventAttempt && ev.Type != schemas.EventAttempted
			})
			b.renumber(post)
			b.forget(post + ".attempt.0.1.0")
			b.settleAs(post, schemas.OutcomeFailed)
		}},
		{"a result without its attempt", "I4", func(b *book) {
			b.reopen(mocked, func() {
				b.event(one, mocked, schemas.Event{Type: schemas.EventAttempted, Attempted: &schemas.Attempted{Number: 7}})
			})
		}},
	}
}

func plantedEnded() []planted {
	return []planted{
		{"heard, and called not sent", "I5", func(b *book) {
			b.edit(post, func(ev *schemas.Event) bool {
				if ev.Type == schemas.EventAttempted {
					ev.Attempted.Sent = false
				}
				return true
			})
			b.settleAs(post, schemas.OutcomeFailed)
		}},
		{"a success that nobody answered", "I5", func(b *book) { b.hits(get)[1].Status, b.hits(get)[1].Digest = 0, "" }},
		{"another answer than was given", "I5", func(b *book) { b.hits(get)[1].Digest = digest("other") }},
		{"another status than was given", "I5", func(b *book) { b.hits(put)[0].Status, b.hits(put)[1].Status, b.hits(put)[2].Status = 500, 500, 500 }},
		{"a client shown another answer", "I5", func(b *book) { b.say(get, func(a *history.Asked) { a.Digest = digest("other") }) }},
		{"a client told another end", "I5", func(b *book) { b.say(post, func(a *history.Asked) { a.Outcome = schemas.OutcomeFailed }) }},
		{"an end that shows another answer", "I5", func(b *book) {
			b.edit(get, func(ev *schemas.Event) bool {
				if ev.Type == schemas.EventSettled {
					ev.Settled.Result = encode(schemas.HTTPResult{Answer: &schemas.Answer{Status: 200, Hash: digest("other")}})
				}
				return true
			})
		}},
		{"a success without an answer", "I5", func(b *book) { b.settleAs(post, schemas.OutcomeSucceeded) }},
		{"a doubt about nothing", "I5", func(b *book) { b.settleAs(denied, schemas.OutcomeUnknown) }},
	}
}

func plantedEvidence() []planted {
	return []planted{
		{"an attempt without its record", "I6", func(b *book) { b.forget(get + ".attempt.0.1.0") }},
		{"a denial without its record", "I6", func(b *book) { b.forget(denied + ".denial.0.0") }},
		{"a plan without its closing record", "I6", func(b *book) { b.forget(plan + ".closing") }},
		{"a record twice", "I6", func(b *book) { b.leave(get, get+".attempt.0.1.0") }},
		{"a record of nobody's action", "I6", func(b *book) { b.leave("nobody", "nobody.attempt.0.1.0") }},
		{"a record of no attempt", "I6", func(b *book) { b.leave(get, get+".attempt.0.3.0") }},
		{"a record under another's id", "I6", func(b *book) { b.leave(get, put+".attempt.0.1.0") }},
		{"a refusal on the way without its record", "I6", func(b *book) {
			b.edit(post, func(ev *schemas.Event) bool {
				if ev.Type == schemas.EventAttempted {
					ev.Attempted.Code, ev.Attempted.Sent = schemas.DenyAddress, false
				}
				return true
			})
			b.run.Hits = slices.DeleteFunc(b.run.Hits, func(h history.Hit) bool { return h.Mark == post })
			b.settleAs(post, schemas.OutcomeFailed)
		}},
		{"a record that is garbage", "I6", func(b *book) {
			b.run.Evidence = append(b.run.Evidence, schemas.Record{Seq: 999, Data: []byte("{")})
		}},
	}
}

func plantedWatched() []planted {
	watch := func(fn func(ids []uint64) []uint64) func(b *book) {
		return func(b *book) { b.run.Watched[0].IDs = fn(slices.Clone(b.run.Watched[0].IDs)) }
	}
	return []planted{
		{"an event twice", "I7", watch(func(ids []uint64) []uint64 { return slices.Insert(ids, 2, ids[1]) })},
		{"an event left out", "I7", watch(func(ids []uint64) []uint64 { return slices.Delete(ids, 2, 3) })},
		{"out of order", "I7", watch(func(ids []uint64) []uint64 { ids[1], ids[2] = ids[2], ids[1]; return ids })},
		{"another action's event", "I7", watch(func(ids []uint64) []uint64 { return append(ids, ids[len(ids)-1]+5) })},
		{"ended early", "I7", watch(func(ids []uint64) []uint64 { return ids[:len(ids)-1] })},
		{"what lies before its position", "I7", func(b *book) { b.run.Watched[0].After = b.run.Watched[0].IDs[0] }},
		{"ordinals with a gap", "I7", func(b *book) {
			b.edit(mocked, func(ev *schemas.Event) bool {
				if ev.Type == schemas.EventSettled {
					ev.N++
				}
				return true
			})
		}},
	}
}

func plantedLeft() []planted {
	return []planted{
		{"a backlog", "I11", func(b *book) { b.run.Left.Backlog = 1 }},
		{"a consumer", "I11", func(b *book) { b.run.Left.Consumers = 1 }},
	}
}
