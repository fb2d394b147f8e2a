//go:build nightly

package faults_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"

	"weir/internal/weirtest/history"
	"weir/schemas"
)

// poisons are messages that no worker can do anything with.
func poisons() map[string][]byte {
	return map[string][]byte{
		"not-json":        []byte(`{`),
		"no-action":       []byte(`{"v":1,"n":1,"type":"accepted"}`),
		"unknown-version": []byte(`{"v":99,"n":1,"type":"accepted","action":{}}`),
		"not-a-call":      []byte(`{"v":1,"n":1,"type":"accepted","action":{"id":"poison-not-a-call","tenant":"default","kind":"http","payload":[1]}}`),
		"empty":           {},
		"large":           bytes.Repeat([]byte("["), 900<<10),
	}
}

// poison puts messages on the log, past every door, that are no actions. Each is put aside,
// no node dies of one, and the work behind them goes on.
func poison(ctx context.Context, s *scene) {
	before, err := s.log.count(ctx, schemas.DeadStream)
	s.must(err)
	var refs []schemas.Ref
	for name, data := range poisons() {
		for _, kind := range []schemas.Kind{schemas.KindHTTP, schemas.KindPlan} {
			ref := schemas.Ref{Tenant: "default", Kind: kind, ID: fmt.Sprintf("poison-%s-%s-%d", kind, name, s.chance.Uint64())}
			_, err = s.log.JS.Publish(ctx, s.layout.Subject(ref, schemas.SectionAccepted), data)
			s.must(err)
			refs = append(refs, ref)
		}
	}
	s.omit = func(r schemas.Record) bool {
		ref, _, err := schemas.ParseSubject(r.Subject)
		return err == nil && slices.Contains(refs, ref)
	}
	err = until(ctx, "the poison to be put aside", func() bool {
		n, err := s.log.count(ctx, schemas.DeadStream)
		return err == nil && n >= before+uint64(len(refs))
	})
	s.must(err)
	s.bite("put aside", len(refs))
	for _, n := range s.nodes {
		if n.ended() {
			s.t.Fatalf("%s died of it", n.name)
		}
	}
}

// sameKey has fifty clients ask for the same thing at the same moment, at every node, and as
// many change the rules on the same etag: there is one winner.
func sameKey(ctx context.Context, s *scene) {
	const crowd = 50
	for range s.times(1, 5) {
		o := s.crowd.Order("post")
		o.Async = true
		answers := make(chan history.Answer, crowd)
		for range crowd {
			go func() {
				a, _ := s.crowd.Ask(ctx, s.somewhere(func(r role) bool { return r.write }), o)
				answers <- a.Answer
			}()
		}
		accepted := 0
		for range crowd {
			if <-answers == history.Accepted {
				accepted++
			}
		}
		s.bite("of one name accepted", accepted)
		s.crowd.Send(ctx, o) // its end is told too
		s.oneWriter(ctx, crowd)
	}
}

func (s *scene) oneWriter(ctx context.Context, crowd int) {
	operate := func(name, args string) (int, string) {
		body := fmt.Sprintf(`{"request_id":"rules","operation":%q,"args":%s}`, name, args)
		return fetch(ctx, http.MethodPost, s.somewhere(func(r role) bool { return r.write })+"/v1/agent-api", body)
	}
	_, text := operate(schemas.OpStatus, "{}")
	etag := member(text, "rules_etag")
	statuses := make(chan int, crowd)
	round := s.chance.Uint32()
	for i := range crowd {
		go func() {
			status, _ := operate(schemas.OpRulesCreate, fmt.Sprintf(`{"if_match":%q,"rule":{"id":"r%d-%d","type":"delay","match":{"url_pattern":"http://nowhere.invalid/*"},"action":{"delay_ms":1}}}`, etag, round, i))
			statuses <- status
		}()
	}
	won := 0
	for range crowd {
		if <-statuses == http.StatusOK {
			won++
		}
	}
	if won != 1 {
		s.t.Fatalf("of %d writers with the etag %q %d won: %s", crowd, etag, won, text)
	}
	s.bite("of one etag won", won)
}
