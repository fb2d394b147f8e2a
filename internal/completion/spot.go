package completion

// The kinds of spots of which an Assembler makes something of its own.
const (
	spotPlain = iota
	spotRoot
	spotChoices
	spotChoice
	spotDelta
	spotContent
	spotCalls
	spotCall
	spotFunction
)

// spot is a place in the chunks of an answer: a member, or the elements of a list that
// are one. It remembers the names of its members, and not its own path, which may be
// long where there are many.
type spot struct {
	kind    int
	name    string
	lane    int // that of its text, counted from one; 0: it has had none
	choice  int // that it is in
	members []*spot
	byName  map[string]*spot // where they are many
	nth     map[int]*spot    // elements
	calls   callKeys         // of a list of calls

	// visit is the object in which it was met last, and lies where in it.
	visit int
	lies  Extent
	// Of a choice: ended is the chunk that ended it last, and instead says that its message
	// stands in the place of a delta.
	ended   int
	instead bool
}

// fewMembers are so few that they are looked through.
const fewMembers = 12

// member finds a member; nil: there was none yet.
func (s *spot) member(name []byte) *spot {
	if s.byName != nil {
		return s.byName[string(name)]
	}
	for _, m := range s.members {
		if m.name == string(name) {
			return m
		}
	}
	return nil
}

// kindOf is the kind of a member.
func (s *spot) kindOf(name string) int {
	switch {
	case s.kind == spotRoot:
		return spotChoices // there is no other
	case s.kind == spotChoice && name == "delta":
		return spotDelta
	case s.kind == spotDelta && name == "content":
		return spotContent
	case s.kind == spotDelta && name == "tool_calls":
		return spotCalls
	case s.kind == spotDelta && name == "function_call":
		return spotFunction
	case s.kind == spotCall && (name == "function" || name == "custom"):
		return spotFunction
	}
	return spotPlain
}

// room counts one more spot; false: there are too many.
func (t *Texts) room(name []byte) bool {
	t.spots++
	t.names += len(name)
	if t.spots > maxSpots || t.names > maxNames {
		t.over = true
	}
	return !t.over
}

// add makes a member's spot.
func (t *Texts) add(s *spot, name []byte) *spot {
	if !t.room(name) {
		return s
	}
	m := &spot{name: string(name), choice: s.choice}
	m.kind = s.kindOf(m.name)
	s.members = append(s.members, m)
	switch {
	case s.byName != nil:
		s.byName[m.name] = m
	case len(s.members) > fewMembers:
		s.byName = make(map[string]*spot, 2*fewMembers)
		for _, m := range s.members {
			s.byName[m.name] = m
		}
	}
	return m
}

// delta is the spot of a choice's delta.
func (t *Texts) delta(choice *spot) *spot {
	if m := choice.member([]byte("delta")); m != nil {
		return m
	}
	return t.add(choice, []byte("delta"))
}

// nth is the spot of an element by its number.
func (t *Texts) nth(s *spot, n int) *spot {
	if e := s.nth[n]; e != nil {
		return e
	}
	if !t.room(nil) {
		return s
	}
	e := &spot{choice: s.choice}
	switch s.kind {
	case spotChoices:
		e.kind, e.choice = spotChoice, t.choices
		t.choices++
	case spotCalls:
		e.kind = spotCall
	}
	if s.nth == nil {
		s.nth = make(map[int]*spot)
	}
	s.nth[n] = e
	return e
}
