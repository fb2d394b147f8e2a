package token

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"weir/schemas"
)

// version of the records that are written.
const version = 1

// record is a token as it is stored.
type record struct {
	V int `json:"v"`
	schemas.Token
	// Status is left out: it is the time's and not the record's.
	Status *struct{} `json:"status,omitempty"`
	// SHA256 is the hex of the secret's hash.
	SHA256 string `json:"sha256"`
	// Session: it is none but a browser's word that it was signed in with the token
	// CreatedBy.
	Session bool `json:"session,omitempty"`
}

// errDamaged is a record that is none. Its token is not accepted.
var errDamaged = errors.New("the record of a token cannot be read")

func encode(h *held) ([]byte, error) {
	return json.Marshal(record{V: version, Token: h.token, SHA256: hex.EncodeToString(h.hash[:]), Session: h.session})
}

// decode reads what encode wrote. What cannot be read is gone.
func decode(key string, data []byte) (*held, error) {
	var r record
	var hash [sha256.Size]byte
	if err := json.Unmarshal(data, &r); err != nil {
		return &held{gone: true}, errDamaged
	}
	n, err := hex.Decode(hash[:], []byte(r.SHA256[:min(len(r.SHA256), 2*len(hash))]))
	if err != nil || n != len(hash) || len(r.SHA256) != 2*len(hash) || r.V != version || r.ID != key || !ValidID(key) || !schemas.ValidID(r.Tenant) {
		return &held{gone: true}, errDamaged
	}
	return &held{token: r.Token, hash: hash, session: r.Session}, nil
}

// The words of a token's status.
const (
	active  = "active"
	expired = "expired"
	revoked = "revoked"
)

func statusAt(t schemas.Token, now time.Time) string {
	switch {
	case !t.RevokedAt.IsZero():
		return revoked
	case !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt):
		return expired
	default:
		return active
	}
}
