package task

import (
	"slices"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

// subtoken is a subtoken with the hashes that decide about it.
type subtoken struct {
	schemas.Subtoken

	hash   string // of its own secret
	holder string // of the token that was in force when it was made
}

// delegated folds the making of a subtoken in.
func (s *State) delegated(e *schemas.TaskEvent) {
	if e.Subtoken != nil && e.Subtoken.N == len(s.subtokens)+1 {
		s.subtokens = append(s.subtokens, subtoken{*e.Subtoken, e.TokenHash, s.hash})
	}
}

// Subtokens is how many subtokens were made.
func (s *State) Subtokens() int { return len(s.subtokens) }

// Delegates reports whether a token is a subtoken of the token in force, whatever its time. A subtoken
// ends no later than its parent.
func (s *State) Delegates(t Token) bool {
	if t.Subtoken < 1 || t.Subtoken > len(s.subtokens) || s.hash == "" {
		return false
	}
	sub := s.subtokens[t.Subtoken-1]
	return sub.holder == s.hash && same(sub.hash, t.hash())
}

// Subtoken is what a token permits, if it is a subtoken of the token in force and has not ended at a time.
func (s *State) Subtoken(t Token, now time.Time) (schemas.Subtoken, bool) {
	if !s.Delegates(t) {
		return schemas.Subtoken{}, false
	}
	sub := s.subtokens[t.Subtoken-1].Subtoken
	return sub, now.Before(sub.ExpiresAt)
}

// Budgets are the budgets of a subtoken and of the subtokens that it was made from, its own first.
func (s *State) Budgets(n int) (list []schemas.SubtokenBudget) {
	for n > 0 && n <= len(s.subtokens) {
		sub := s.subtokens[n-1]
		if sub.Budget != nil {
			list = append(list, schemas.SubtokenBudget{N: n, TaskBudget: *sub.Budget})
		}
		if sub.Parent >= n {
			break
		}
		n = sub.Parent
	}
	return list
}

// Derive is the subtoken that a holder makes, or with a parent another subtoken. It permits no more than
// its parent: a request for more entries, models or repository rights is FORBIDDEN, and one for more
// time ends with the parent. Until is when the task ends.
func Derive(req schemas.SubtokenRequest, parent *schemas.Subtoken, of Bounds, now, until time.Time) (schemas.Subtoken, error) {
	out := schemas.Subtoken{Repo: req.Repo, Budget: req.Budget, ExpiresAt: until}
	rights := schemas.RepoWrite
	if parent != nil {
		out.Parent, out.ExpiresAt, rights = parent.N, parent.ExpiresAt, parent.Repo
		of = Bounds{parent.Entries, parent.Models}
	}
	b, err := of.Narrow(Bounds{req.Entries, req.Models})
	if err != nil {
		return out, err
	}
	out.Entries, out.Models = b.Entries, b.Models
	if slices.Index(rightsOrder(), req.Repo) > slices.Index(rightsOrder(), rights) {
		return out, errRights(rights)
	}
	if ttl, err := time.ParseDuration(req.TTL); err == nil && now.Add(ttl).Before(out.ExpiresAt) {
		out.ExpiresAt = now.Add(ttl).UTC()
	}
	return out, nil
}

// errRights refuses a subtoken with more rights on the repository than its parent has.
func errRights(rights string) error {
	if rights == "" {
		return fault.New(schemas.Forbidden, "at /repo: the token has no rights on the repository; leave it out")
	}
	return fault.New(schemas.Forbidden, "at /repo: the token may only read the repository; ask for read, or leave it out")
}

// rightsOrder are the rights on the task's repository, each wider than those before it.
func rightsOrder() []string { return []string{"", schemas.RepoRead, schemas.RepoWrite} }
