package broker

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"

	"weir/schemas"
)

// addAll adds messages, a letter each: the tenant, and a capital is urgent. It returns those that
// start, in their order, and those that had to leave.
func (s *kindSlots) addAll(tenants string) (started, excess []*delivery) {
	for _, r := range tenants {
		who := strings.ToLower(string(r))
		if m := s.add(&delivery{tenant: who, urgent: who != string(r)}); m != nil {
			excess = append(excess, m)
		}
		started = append(started, s.startAll()...)
	}
	return started, excess
}

func (s *kindSlots) startAll() (started []*delivery) {
	for m := s.next(); m != nil; m = s.next() {
		started = append(started, m)
	}
	return started
}

func letters(all []*delivery) string {
	var text strings.Builder
	for _, m := range all {
		who := m.tenant
		if m.urgent {
			who = strings.ToUpper(who)
		}
		text.WriteString(who)
	}
	return text.String()
}

// TestSlotsAreShared: a tenant leaves slots for the next one, and the tenant with the fewest
// running is first.
func TestSlotsAreShared(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 16, SubscriberConfig{Slots: 4, Alone: true}.withDefaults().Backlog, "no other worker could begin them")
	for name, tt := range map[string]struct {
		slots, room int
		alone       bool
		add         string
		start       string // at once
		then        string // as one slot after the other gets free, the oldest first
		excess      string
	}{
		"one slot":                 {slots: 1, room: 1, add: "aaa", start: "a", then: "a", excess: "a"},
		"two slots":                {slots: 2, room: 4, add: "aab", start: "ab", then: "a"},
		"one tenant has all":       {slots: 8, room: 8, alone: true, add: "aaaaaaaa", start: "aaaaaaaa"},
		"an eighth is left":        {slots: 16, room: 32, add: strings.Repeat("a", 16) + "bc", start: strings.Repeat("a", 14) + "bc", then: "aa"},
		"and some of that":         {slots: 64, room: 64, add: strings.Repeat("a", 57) + "bbbbbc", start: strings.Repeat("a", 56) + "bbbbc", then: "ba"},
		"in turns":                 {slots: 2, room: 12, alone: true, add: "aaaabbbccc", start: "aa", then: "bacbacbc"},
		"high priority first":      {slots: 1, room: 8, alone: true, add: "aabAB", start: "a", then: "ABab"},
		"and not always":           {slots: 1, room: 24, alone: true, add: "aaaAAAAAAAAAA", start: "a", then: "AAAAAAAaAAAa"},
		"who has least finds room": {slots: 1, room: 4, add: "aaaaaabb", start: "a", then: "abab", excess: "aaa"},
		"and has half of it":       {slots: 1, room: 4, add: "aaaaabbbbb", start: "a", then: "abab", excess: "aabbb"},
		"high priority stays":      {slots: 1, room: 2, add: "aaaAAA", start: "a", then: "AA", excess: "aaA"},
		"urgent is a tenant's own": {slots: 1, room: 8, add: "aAAAbb", start: "a", then: "AbAbA"},
		"no room":                  {slots: 1, room: 2, alone: true, add: "aaaa", start: "a", then: "aa", excess: "a"},
		"no room, but a slot":      {slots: 2, room: 1, add: "aaab", start: "ab", then: "a", excess: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &kindSlots{slots: tt.slots, room: tt.room, shared: !tt.alone}
			started, excess := s.addAll(tt.add)
			assert.Equal(t, tt.start, letters(started))
			assert.Equal(t, tt.excess, letters(excess))
			for i := 0; i < len(started); i++ {
				s.release(started[i])
				started = append(started, s.startAll()...)
			}
			assert.Equal(t, tt.start+tt.then, letters(started))
			assert.Equal(t, &kindSlots{slots: tt.slots, room: tt.room, shared: !tt.alone, tenants: s.tenants}, s)
			assert.Empty(t, s.tenants)
		})
	}
}

// TestKeptMessagesStay: what came from an overflow queue takes no room, and does not move again.
func TestKeptMessagesStay(t *testing.T) {
	t.Parallel()
	s := &kindSlots{slots: 1, room: 1}
	s.addAll("a")
	for range 2 {
		m := &delivery{tenant: "a", kept: true, raw: &nats.Msg{}, record: schemas.Record{Data: []byte("x")}}
		assert.Nil(t, s.add(m))
		assert.True(t, m.bare && m.record.Data == nil, "there may be many")
	}
	_, excess := s.addAll("ab")
	assert.Equal(t, "a", letters(excess), "the one of a that is not kept")
	_, excess = s.addAll("c")
	assert.Equal(t, "c", letters(excess), "there is no other that may go but b, who has as little")
}

// TestRedeliveredMessagesAreBounded: so many stay beside the others. One that is from an overflow
// queue is not one of them.
func TestRedeliveredMessagesAreBounded(t *testing.T) {
	t.Parallel()
	s := &kindSlots{slots: 1, room: 2}
	s.addAll("a")
	moved := 0
	for range 2 * maxKept {
		if s.add(&delivery{tenant: "b", count: 2, raw: &nats.Msg{}}) != nil {
			moved++
		}
	}
	assert.Equal(t, maxKept-s.room, moved)
	assert.Equal(t, maxKept, s.kept)
	s.release(&delivery{tenant: "a"})
	assert.Len(t, s.startAll(), 1)
	for range maxKept {
		assert.Nil(t, s.add(&delivery{tenant: "c", kept: true, raw: &nats.Msg{}}))
	}
	assert.Nil(t, s.add(&delivery{tenant: "b", count: 2, raw: &nats.Msg{}}), "there is room for one again")
}
