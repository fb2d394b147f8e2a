package task

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/fault"
	"weir/schemas"
)

// A token reads weirt1_<name>_<secret>. The name says in base32 which task it is for
// and for which of its leases, and of a subtoken which one, so that the task's own events decide about it and
// there is no list of tokens to keep in step with them; the secret is 32 random bytes.
const (
	prefix     = "weirt1_"
	secretSize = 32
	secretText = 43 // of base64url without padding
	// maxText bounds what is looked at of a token.
	maxText = 768
)

func letters() *base32.Encoding {
	return base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
}

// Token is what an agent holds.
type Token struct {
	Tenant, ID string
	// Lease is the number of the lease that it is for; 0: it is the task's own.
	Lease int
	// Subtoken is its number among the task's subtokens; 0: it is the holder's own.
	Subtoken int
	secret   [secretSize]byte
}

// New is a token around a secret, which must be random.
func New(tenant, id string, lease int, secret [secretSize]byte) Token {
	return Token{Tenant: tenant, ID: id, Lease: lease, secret: secret}
}

// Ref names the token's task.
func (t Token) Ref() schemas.Ref {
	return schemas.Ref{Tenant: t.Tenant, Kind: schemas.KindTask, ID: t.ID}
}

// Text is the whole token.
func (t Token) Text() string {
	name := t.Tenant + "\x00" + t.ID + "\x00" + strconv.Itoa(t.Lease)
	if t.Subtoken > 0 {
		name += "\x00" + strconv.Itoa(t.Subtoken)
	}
	return prefix + letters().EncodeToString([]byte(name)) + "_" + base64.RawURLEncoding.EncodeToString(t.secret[:])
}

// String keeps the secret out of whatever prints a token.
func (t Token) String() string { return prefix + "…" }

// Is reports whether a text claims to be a task's token, well-formed or not.
func Is(text string) bool { return strings.HasPrefix(text, prefix) }

// Parse reads a token. Each has one spelling.
func Parse(text string) (Token, bool) {
	if len(text) > maxText || !Is(text) {
		return Token{}, false
	}
	named, secret, ok := strings.Cut(text[len(prefix):], "_")
	if !ok || len(secret) != secretText {
		return Token{}, false
	}
	raw, err := letters().DecodeString(named)
	if err != nil {
		return Token{}, false
	}
	parts := strings.Split(string(raw), "\x00")
	if len(parts) < 3 || len(parts) > 4 || !schemas.ValidID(parts[0]) || !schemas.ValidID(parts[1]) {
		return Token{}, false
	}
	lease, err := strconv.Atoi(parts[2])
	if err != nil || lease < 0 {
		return Token{}, false
	}
	t := Token{Tenant: parts[0], ID: parts[1], Lease: lease}
	if len(parts) == 4 {
		if t.Subtoken, err = strconv.Atoi(parts[3]); err != nil || t.Subtoken < 1 {
			return Token{}, false
		}
	}
	key, err := base64.RawURLEncoding.Strict().DecodeString(secret)
	if err != nil || len(key) != secretSize {
		return Token{}, false
	}
	copy(t.secret[:], key)
	return t, t.Text() == text
}

// same compares a stored hash with another in constant time.
func same(stored string, hash [sha256.Size]byte) bool {
	want, err := hex.DecodeString(stored)
	return err == nil && len(want) == len(hash) && subtle.ConstantTimeCompare(want, hash[:]) == 1
}

// LeaseKey names the record with the last heartbeat of a lease's holder. Each lease has its own, so
// writes of an earlier holder are ignored.
func LeaseKey(r schemas.Ref, lease int) string {
	return schemas.EscapeToken(r.Tenant) + "." + schemas.EscapeToken(r.ID) + "." + strconv.Itoa(lease)
}

// EncodeHeartbeat is that record: the holder of a lease was heard of when it was written.
func EncodeHeartbeat(lease int) []byte { return []byte(`{"lease":` + strconv.Itoa(lease) + `}`) }

// NotRunning is the error for the holder of a task that has ended.
func NotRunning() error { return fault.New(schemas.TaskNotRunning, NotRunningText) }

// NotRunningText is what it says, in the protocol's words.
const NotRunningText = "Task is not running"

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
