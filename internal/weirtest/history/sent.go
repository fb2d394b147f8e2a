package history

import (
	"maps"
	"slices"
	"strconv"

	"weir/schemas"
)

// sent is I3 and I4. Both read the upstream's ledger against the attempts on the log.
//
// I3: a call that was denied, or that a traffic rule answered, was never heard; one of
// class once at most once for ever, unless a probe has shown that it was not applied, and then it has
// one effect at most; any other at most as often as there may be attempts;
// and each hearing of a keyed one had the same key and the same body. That a second
// attempt was declared of a call that must not be repeated breaks it too, heard or not.
//
// I4: the n-th hearing of a call is covered by n attempts that were on the log before.
// Weir waits for an attempt's record before it sends, so that one which is missing was
// never written: the log loses nothing that was acknowledged.
func (c *checker) sent() {
	for _, n := range c.names {
		for _, l := range n.lots() {
			c.repeats(n, l)
			if why, most := l.most(c.bounds.Attempts); len(l.hits) > most {
				c.breach("I3", n.tenant, n.text, "%s %s: heard %d times, and %d is the most", l.step, why, len(l.hits), most)
				n.flawed = true
				continue
			}
			if whole := l.whole(); len(l.again) > 0 && whole > 1 {
				c.breach("I3", n.tenant, n.text, "%s applied %d times: a probe had said that it was not", l.step, whole)
				n.flawed = true
				continue
			}
			c.sameRequest(n, l)
			if declared := l.count((*Try).declared); len(l.hits) > declared {
				c.breach("I4", n.tenant, n.text, "%s heard %d times, and %d attempts are on the log", l.step, len(l.hits), declared)
				n.flawed = true
			}
		}
	}
	for _, a := range c.actions {
		for _, seq := range a.Orphans {
			c.breach("I4", a.Tenant, a.ID, "the result at %d belongs to no attempt", seq)
		}
	}
}

// lot is one call's hearings and attempts; or all of a name's, where its marks do not tell
// its calls apart.
type lot struct {
	step  string
	hits  []Hit
	tries []*Try
	again map[int]int  // by step: how often a probe has shown that it was not applied
	freed map[*Try]int // how often one had shown it before the attempt
	// denied and mocked say that nothing may have been heard.
	denied, mocked bool
}

func (n *name) lots() []*lot {
	if slices.ContainsFunc(n.hits, func(h Hit) bool { _, step := h.step(); return step < 0 }) || n.single() {
		l := &lot{step: "its calls were", hits: n.hits}
		for _, a := range n.actions {
			for _, t := range a.Tries {
				l.add(t)
			}
		}
		l.check(n.actions)
		return []*lot{l}
	}
	byStep := map[int]*lot{}
	get := func(step int) *lot {
		if byStep[step] == nil {
			byStep[step] = &lot{step: "step " + strconv.Itoa(step) + " was"}
		}
		return byStep[step]
	}
	for _, h := range n.hits {
		_, step := h.step()
		get(step).hits = append(get(step).hits, h)
	}
	for _, a := range n.actions {
		for _, t := range a.Tries {
			get(t.Step).add(t)
		}
	}
	lots := make([]*lot, 0, len(byStep))
	for _, step := range slices.Sorted(maps.Keys(byStep)) {
		byStep[step].check(n.actions)
		lots = append(lots, byStep[step])
	}
	return lots
}

// add takes an attempt, or what a probe has shown.
func (l *lot) add(t *Try) {
	switch {
	case t.Probe == 0:
		l.tries = append(l.tries, t)
		if n := l.again[t.Step]; n > 0 {
			if l.freed == nil {
				l.freed = map[*Try]int{}
			}
			l.freed[t] = n
		}
	case t.Result != nil && t.Result.Effect == schemas.EffectNotApplied:
		if l.again == nil {
			l.again = map[int]int{}
		}
		l.again[t.Step]++
	}
}

// whole counts the requests that came as a whole: each has an effect.
func (l *lot) whole() (n int) {
	for _, h := range l.hits {
		if h.Whole {
			n++
		}
	}
	return n
}

// single reports whether a name's actions are of one call each.
func (n *name) single() bool {
	return !slices.ContainsFunc(n.actions, func(a *Action) bool { return a.Kind != schemas.KindHTTP })
}

func (l *lot) check(actions []*Action) {
	l.denied = len(actions) > 0 && !slices.ContainsFunc(actions, func(a *Action) bool {
		s := a.Settled()
		return s == nil || s.Outcome != schemas.OutcomeDenied
	})
	l.mocked = len(l.tries) > 0 && !slices.ContainsFunc(l.tries, func(t *Try) bool { return !t.Mocked() })
}

// most is how often an upstream may have heard of it, and why. Where no attempt is on the
// log, I4 has the word.
func (l *lot) most(attempts int) (why string, most int) {
	switch {
	case l.denied:
		return "denied", 0
	case l.mocked:
		return "answered by a rule", 0
	case len(l.tries) == 0:
		return "", len(l.hits)
	}
	why = "of a class that may be repeated"
	for step, tries := range l.byStep() {
		hops, once := 0, false
		for _, t := range tries {
			hops = max(hops, t.Hop)
			once = once || t.Class == schemas.ClassOnce && t.declared()
		}
		if once {
			most += 1 + l.again[step]
			why = "of class once (step " + strconv.Itoa(step) + ")"
		} else {
			most += attempts * (hops + 1)
		}
	}
	return why, most
}

func (l *lot) byStep() map[int][]*Try {
	steps := map[int][]*Try{}
	for _, t := range l.tries {
		steps[t.Step] = append(steps[t.Step], t)
	}
	return steps
}

// repeats finds what was declared though it must not be.
func (c *checker) repeats(n *name, l *lot) {
	for step, tries := range l.byStep() {
		left := 0
		for _, t := range tries {
			if t.Declared && left > l.freed[t] && t.Hop == 0 && t.Class == schemas.ClassOnce {
				c.breach("I3", n.tenant, n.text, "step %d: attempt %d was declared of a call that may have left and must not be repeated", step, t.Number)
				n.flawed = true
				return
			}
			if t.MayHaveLeft() && t.Class == schemas.ClassOnce {
				left++
			}
		}
	}
}

// sameRequest is the part of I3 that is for keyed calls. A body of which only a part came
// cannot be compared.
func (c *checker) sameRequest(n *name, l *lot) {
	if len(l.byStep()) != 1 || !slices.ContainsFunc(l.tries, func(t *Try) bool { return t.Class == schemas.ClassKeyed }) {
		return
	}
	var first *Hit
	for i, h := range l.hits {
		switch {
		case h.Key == "":
			c.breach("I3", n.tenant, n.text, "%s of class keyed, and hearing %d had no key", l.step, i+1)
			return
		case first == nil && h.Whole:
			first = &l.hits[i]
		case first != nil && (h.Key != first.Key || h.Whole && h.Sum != first.Sum):
			c.breach("I3", n.tenant, n.text, "%s of class keyed, and hearing %d had another key or body", l.step, i+1)
			return
		}
	}
}

func (l *lot) count(which func(*Try) bool) int {
	n := 0
	for _, t := range l.tries {
		if which(t) {
			n++
		}
	}
	return n
}

// declared: it could have been heard.
func (t *Try) declared() bool { return t.Declared && !t.Mocked() }
