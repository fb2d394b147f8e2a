package git

import "weir/internal/ledger"

// Identity is the id of the repository that an action makes.
func Identity(st *ledger.State) string { return identity(st) }

// Word is an upstream's word on a push.
type Word = pushReport
