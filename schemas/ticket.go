package schemas

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Ticket is an action's place in the line of its ordering key: a message on TicketSubject
// that is stored right before the action is accepted, and deleted once it has ended. Where it
// stands is its sequence.
type Ticket struct {
	ID   string `json:"id"`
	Kind Kind   `json:"kind"`
}

// TicketSubject is the line of a tenant's ordering key: weir.ticket.<tenant>.<hash of the key>.
func TicketSubject(tenant, key string) string {
	sum := sha256.Sum256([]byte(key))
	return TicketRoot + "." + EscapeToken(tenant) + "." + hex.EncodeToString(sum[:16])
}

// TicketTenant is whose line a subject is.
func TicketTenant(subject string) (string, error) {
	rest, ok := strings.CutPrefix(subject, TicketRoot+".")
	if !ok {
		return "", ErrSubject
	}
	token, _, _ := strings.Cut(rest, ".")
	return UnescapeToken(token)
}
