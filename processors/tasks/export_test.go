package tasks

import (
	"time"

	"weir/schemas"
)

// Few is how many holders are not worth a sweep.
const Few = few

// Holders are those of a worker.
type Holders struct{ *holders }

// NewHolders remembers nobody.
func NewHolders(lease time.Duration) Holders { return Holders{newHolders(lease)} }

// Silent is for how long a holder has been.
func (h Holders) Silent(ref schemas.Ref, lease int, revision uint64, age time.Duration) time.Duration {
	return h.silent(ref, sign{lease: lease, revision: revision}, age)
}

// Len is how many are remembered.
func (h Holders) Len() int { return len(h.of) }
