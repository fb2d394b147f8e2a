package models

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"weir/schemas"
)

// Candidate is one place to ask for a completion.
type Candidate struct {
	// Asked is the name in the request, Name the one behind its alias, and Send the name
	// that the upstream is asked for.
	Asked, Name, Send string
	Model             *schemas.Model
	Upstream          schemas.ModelUpstream
}

// Candidates are the places to ask, in order: of each name in turn the model's upstreams.
// Neighbours with weights are put in an order that seed draws by them, the same for the
// same seed. May says which names may be used, see Usable; entry which policy entries; nil
// is all of them. A name that is not found, or may not be used, gives none. Nothing is
// asked twice for one name.
func (s *Set) Candidates(names []string, may func(name string) bool, entry func(entry string) bool, seed string) []Candidate {
	var list []Candidate
	type ask struct{ upstream, send string }
	seen := map[ask]bool{}
	for _, asked := range names {
		if !s.Usable(asked, may) {
			continue
		}
		m, name, _ := s.Find(asked)
		for _, up := range drawn(m.Upstreams, seed) {
			c := Candidate{Asked: asked, Name: name, Send: sent(m, up, name), Model: m, Upstream: up}
			if at := (ask{up.Name, c.Send}); !seen[at] && (entry == nil || entry(schemas.ModelEntry(up.Name))) {
				seen[at] = true
				list = append(list, c)
			}
		}
	}
	return list
}

// Lacks are the members among those that its upstream does not pass.
func (c Candidate) Lacks(members []string) []string {
	pass := c.Upstream.Pass
	if len(pass) == 1 && pass[0] == schemas.PassAll {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(members), func(name string) bool { return slices.Contains(pass, name) })
}

// Speaking are the candidates whose upstreams answer requests of a dialect.
func Speaking(list []Candidate, d schemas.Dialect) []Candidate {
	return slices.DeleteFunc(slices.Clone(list), func(c Candidate) bool { return !c.Upstream.Speaks(d) })
}

// Passing are the candidates whose upstreams pass all the members.
func Passing(list []Candidate, members []string) []Candidate {
	return slices.DeleteFunc(list, func(c Candidate) bool { return len(c.Lacks(members)) > 0 })
}

// sent is the name that an upstream knows a model by.
func sent(m *schemas.Model, up schemas.ModelUpstream, name string) string {
	if up.Model == "" {
		return name
	}
	if prefix, ok := strings.CutSuffix(m.Name, "*"); ok {
		return strings.ReplaceAll(up.Model, "*", strings.TrimPrefix(name, prefix))
	}
	return up.Model
}

// drawn is the order in which upstreams are asked.
func drawn(ups []schemas.ModelUpstream, seed string) []schemas.ModelUpstream {
	ups = slices.Clone(ups)
	for from := 0; from < len(ups); {
		to := from + 1
		for to < len(ups) && ups[from].Weight > 0 && ups[to].Weight > 0 {
			to++
		}
		draw(ups[from:to], seed)
		from = to
	}
	return ups
}

// draw orders upstreams so that each is first as often as its weight says, and second
// as its weight among the others says, and so on. Each has a draw of its own, so that
// one which is taken away moves no other.
func draw(ups []schemas.ModelUpstream, seed string) {
	if len(ups) < 2 {
		return
	}
	at := make(map[string]float64, len(ups))
	for _, up := range ups {
		sum := sha256.Sum256([]byte(seed + "\x00" + up.Name))
		// In (0, 1]: the smallest of the exponential variables wins as its rate says.
		u := (float64(binary.BigEndian.Uint64(sum[:])>>11) + 1) / (1 << 53)
		at[up.Name] = -math.Log(u) / float64(up.Weight)
	}
	slices.SortStableFunc(ups, func(a, b schemas.ModelUpstream) int { return cmp.Compare(at[a.Name], at[b.Name]) })
}
