package broker

import (
	"slices"
	"sync"

	"weir/schemas"
)

// slotPool has the worker slots of one partition. Each kind has slots of its own, and as many again
// for actions that were woken, so that neither waits for the other.
type slotPool struct {
	mu    sync.Mutex
	cfg   SubscriberConfig
	kinds map[slotKey]*kindSlots
}

type slotKey struct {
	kind  schemas.Kind
	woken bool
}

// kindSlots are the slots of one kind, and the messages that wait for one. If too many wait, the
// tenant with the most of them has its last moved to an overflow queue. So no message waits here
// behind one that cannot start, and a tenant with few messages has room for them.
type kindSlots struct {
	slots, busy int
	// room is how many messages may wait that may move to an overflow queue, movable how many do, and
	// kept how many redelivered ones wait beside them.
	room, movable, kept int
	shared              bool           // between tenants
	tenants             []*tenantQueue // in the order of their next turns
}

// tenantQueue has one tenant's waiting messages of a kind, and counts its running ones. It is
// dropped when it has neither.
type tenantQueue struct {
	tenant         string // as in subjects
	running        int
	urgent, normal []*delivery
	movable        int
	urgentRow      int // how many urgent messages were taken in a row
}

const (
	// spareShare: a tenant leaves as many slots free as it has running, up to one in spareShare and
	// at least one. So another tenant's next message finds a slot even if all calls of the first
	// hang.
	spareShare = 8
	// maxUrgentRow is how many urgent messages are taken before one that is not.
	maxUrgentRow = 7
	// maxKept is how many redelivered messages of a kind wait here in any case. One more than these is
	// given back for a while, and not moved: its redelivery may prove that the worker of its attempt is
	// dead, which a copy in another queue does not.
	maxKept = 1024
)

// of returns the slots of a kind. The caller holds mu.
func (p *slotPool) of(kind schemas.Kind, woken bool) *kindSlots {
	key := slotKey{kind, woken}
	s := p.kinds[key]
	if s == nil {
		s = &kindSlots{slots: p.cfg.Slots, room: p.cfg.Backlog, shared: p.cfg.Shared}
		if own := p.cfg.SlotsOf[kind]; own > 0 {
			s.slots, s.room = own, max(1, own/backlogShare)
		}
		p.kinds[key] = s
	}
	return s
}

// remove takes the waiting messages of a feed out. The caller holds mu.
func (p *slotPool) remove(f *feed) (removed []*delivery) {
	for _, s := range p.kinds {
		for _, t := range slices.Clone(s.tenants) {
			for _, queue := range []*[]*delivery{&t.urgent, &t.normal} {
				*queue = slices.DeleteFunc(*queue, func(m *delivery) bool {
					if m.feed == f {
						removed = append(removed, m)
						s.left(t, m)
					}
					return m.feed == f
				})
			}
			s.drop(t)
		}
	}
	return removed
}

// fill passes messages to handlers in free slots. The caller holds mu.
func (p *slotPool) fill(s *kindSlots) {
	for m := s.next(); m != nil; m = s.next() {
		f := m.feed
		f.waiting--
		f.pull()
		f.running.Go(func() {
			reply, ok := f.handle(m)
			p.mu.Lock()
			defer p.mu.Unlock()
			if ok {
				m.reply(reply)
			}
			delete(f.held, m)
			s.release(m)
			f.pull()
			p.fill(s)
		})
	}
}

func (s *kindSlots) queueOf(tenant string) *tenantQueue {
	for _, t := range s.tenants {
		if t.tenant == tenant {
			return t
		}
	}
	t := &tenantQueue{tenant: tenant}
	s.tenants = append(s.tenants, t)
	return t
}

func (t *tenantQueue) waiting() int { return len(t.urgent) + len(t.normal) }

// add has a message wait for a slot. If that is one too many, add returns the message that has to
// leave: the last one that may of the tenant with the most waiting. Those that are kept do not
// count, and stay.
func (s *kindSlots) add(m *delivery) (excess *delivery) {
	t := s.queueOf(m.tenant)
	starts := t.waiting() == 0 && s.mayStart(t)
	m.again = !m.kept && m.count > 1 && s.kept < maxKept
	m.kept = m.kept || m.again
	if m.urgent {
		t.urgent = append(t.urgent, m)
	} else {
		t.normal = append(t.normal, m)
	}
	if !starts {
		m.shed()
	}
	if m.again {
		s.kept++
	}
	if m.kept {
		return nil
	}
	s.movable++
	t.movable++
	if starts || s.movable <= s.room {
		return nil
	}
	for _, o := range s.tenants {
		if o.movable > 0 && o.waiting() > t.waiting() {
			t = o
		}
	}
	for _, queue := range []*[]*delivery{&t.normal, &t.urgent} {
		for i, m := range slices.Backward(*queue) {
			if !m.kept {
				*queue = slices.Delete(*queue, i, i+1)
				s.left(t, m)
				return m
			}
		}
	}
	return nil
}

// left notes that a message of a tenant does not wait any more.
func (s *kindSlots) left(t *tenantQueue, m *delivery) {
	if m.again {
		s.kept--
	}
	if !m.kept {
		s.movable--
		t.movable--
	}
	s.drop(t)
}

// mayStart reports whether a tenant may take a free slot.
func (s *kindSlots) mayStart(t *tenantQueue) bool {
	free := s.slots - s.busy
	if !s.shared {
		return free > 0
	}
	return free > min(t.running, max(1, s.slots/spareShare))
}

// next takes the message to start now; nil if there is none, or no free slot. It serves the tenant
// with the fewest running messages. Of that tenant urgent ones are first, up to maxUrgentRow times
// in a row.
func (s *kindSlots) next() *delivery {
	var t *tenantQueue
	for _, o := range s.tenants {
		if o.waiting() > 0 && s.mayStart(o) && (t == nil || o.running < t.running) {
			t = o
		}
	}
	if t == nil {
		return nil
	}
	queue := &t.normal
	if len(t.urgent) > 0 && (len(t.normal) == 0 || t.urgentRow < maxUrgentRow) {
		queue = &t.urgent
		t.urgentRow++
	} else {
		t.urgentRow = 0
	}
	m := (*queue)[0]
	*queue = (*queue)[1:]
	s.busy++
	t.running++
	s.left(t, m)
	i := slices.Index(s.tenants, t) // its next turn is after those of tenants with as many running
	s.tenants = append(slices.Delete(s.tenants, i, i+1), t)
	return m
}

// release frees the slot of a message.
func (s *kindSlots) release(m *delivery) {
	t := s.queueOf(m.tenant)
	s.busy--
	t.running--
	s.drop(t)
}

// drop removes a tenant that has nothing here any more.
func (s *kindSlots) drop(t *tenantQueue) {
	if t.running == 0 && t.waiting() == 0 {
		s.tenants = slices.DeleteFunc(s.tenants, func(o *tenantQueue) bool { return o == t })
	}
}
