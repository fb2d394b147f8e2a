package task

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"

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

// DecodeHeartbeat is the lease that a record is about; ok is false where it cannot be read.
func DecodeHeartbeat(record []byte) (lease int, ok bool) {
	var of struct {
		Lease *int `json:"lease"`
	}
	if json.Unmarshal(record, &of) != nil || of.Lease == nil {
		return 0, false
	}
	return *of.Lease, true
}

// NotRunning is the error for the holder of a task that has ended.
func NotRunning() error { return fault.New(schemas.TaskNotRunning, NotRunningText) }

// NotRunningText is what it says, in the protocol's words.
const NotRunningText = "Task is not running"
