package token

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// A token reads weir1_<id>_<secret>: the first part is for those who search for
// leaked secrets, the id may be shown, and the secret is 32 random bytes.
const (
	prefix     = "weir1_"
	ofSession  = "weirc_" // as long as the other
	idLength   = 16
	secretSize = 32
	secretText = 43 // of base64url without padding
	textLength = len(prefix) + idLength + 1 + secretText

	// idLetters has 32 letters, none of which looks like another.
	idLetters = "abcdefghijkmnpqrstuvwxyz23456789"
)

// maxHeader bounds what is looked at of an Authorization header.
const maxHeader = 256

// secret is the part of a token that is never stored.
type secret [secretSize]byte

func (s secret) hash() [sha256.Size]byte { return sha256.Sum256(s[:]) }

// mint makes a new token or session.
func mint(prefix string) (id string, s secret, text string) {
	var letters [idLength]byte
	_, _ = rand.Read(letters[:]) // never fails
	_, _ = rand.Read(s[:])
	for i, b := range letters {
		letters[i] = idLetters[int(b)%len(idLetters)]
	}
	id = string(letters[:])
	return id, s, prefix + id + "_" + base64.RawURLEncoding.EncodeToString(s[:])
}

// Credential is what a request shows of a token, or of a session that stands for one.
type Credential struct{ prefix, text string }

// Session is the credential of a browser, see SignIn.
func Session(value string) Credential { return Credential{ofSession, value} }

// Bearer is the credential in the Authorization headers of a request: there must be one, its scheme
// Bearer in any case, one space, and the token.
func Bearer(fields ...string) Credential {
	if len(fields) == 1 && len(fields[0]) <= maxHeader {
		if scheme, text, _ := strings.Cut(fields[0], " "); strings.EqualFold(scheme, "Bearer") {
			return Credential{prefix, text}
		}
	}
	return Credential{}
}

// Is reports whether a text claims to be a token, well-formed or not.
func Is(text string) bool { return strings.HasPrefix(text, prefix) }

// parse reads a credential. Each token has one spelling.
func (c Credential) parse() (id string, s secret, ok bool) {
	if len(c.text) != textLength || !strings.HasPrefix(c.text, c.prefix) {
		return "", s, false
	}
	id, encoded := c.text[len(prefix):len(prefix)+idLength], c.text[len(prefix)+idLength:]
	if !ValidID(id) || encoded[0] != '_' {
		return "", s, false
	}
	var raw [secretSize + 1]byte
	n, err := base64.RawURLEncoding.Strict().Decode(raw[:], []byte(encoded[1:]))
	if err != nil || n != secretSize {
		return "", s, false
	}
	return id, secret(raw[:secretSize]), true
}

// ValidID reports whether s can be the id of a token.
func ValidID(s string) bool {
	if len(s) != idLength {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}
