package schemas

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
)

// Seed is what the idempotency keys of an action are derived from. It is the same for every worker.
// The instant of acceptance is part of it, so that an id that another tenant can guess gives no key
// away.
func (a *Action) Seed() string {
	if a.KeySeed != "" {
		return a.KeySeed
	}
	sum := sha256.Sum256([]byte(a.Tenant + "\x00" + a.ID + "\x00" + a.AcceptedAt.UTC().Format(time.RFC3339Nano)))
	return hex.EncodeToString(sum[:])
}

// DerivedKey is the idempotency key of the call of a step, for a target that knows keys and a caller
// that gave none. It has the form of a UUID, of the version for own use, because some targets take
// no other.
func (a *Action) DerivedKey(step int) string {
	sum := sha256.Sum256([]byte(a.Seed() + "\x00" + strconv.Itoa(step)))
	sum[6] = sum[6]&0x0f | 0x80
	sum[8] = sum[8]&0x3f | 0x80
	text := hex.EncodeToString(sum[:16])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}
