package sim_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// The branches that a run can take only where something goes wrong, or two things happen
// at once. Over all runs each has to be taken, or the simulation sees less than it claims.
var (
	ackLost       = branch("the acknowledgement of an append was lost")
	appendLost    = branch("an append was lost")
	copyLate      = branch("an append arrived after its writer had given it up")
	diedBefore    = branch("a node died before an append")
	diedAfter     = branch("a node died after an append")
	diedCalling   = branch("a node died in a call, before its target heard of it")
	diedHeard     = branch("a node died in a call that its target had heard")
	diedIdle      = branch("a node died of itself")
	drained       = branch("a node that drained wrote down what became of a call that it had cut off")
	pausedLong    = branch("a node was paused for longer than the acknowledgement wait")
	overtaken     = branch("a message was taken over from a node that was still at it")
	staleFenced   = branch("a node whose message was another's by then was fenced")
	zombieSent    = branch("a node that had been paused sent its request late")
	twice         = branch("a message was delivered to two nodes at once")
	afterAck      = branch("a message was delivered after its acknowledgement")
	firstAgain    = branch("a repeat was delivered as if it were the first")
	ackMissed     = branch("the acknowledgement of a message was lost")
	replicaLate   = branch("a late replica answered")
	liveMissed    = branch("a republished record was missed")
	clockStepped  = branch("the clock of a node was stepped")
	readerCut     = branch("a reader was cut off and resumed")
	clientLeft    = branch("a client left and asked again later")
	joined        = branch("a repeated request joined its action")
	repaid        = branch("a request with an Idempotency-Key was given the stored answer")
	refused       = branch("another payload under a name in use was refused")
	revoked       = branch("the policy was replaced by one that denies")
	logUnknown    = branch("an interrupted call ended outcome_unknown")
	logAgain      = branch("an interrupted call was made again")
	logResumed    = branch("an action was ended by another node than the one that had its answer")
	logInFlight   = branch("an action waited for the attempt of a node that may live")
	logCanceled   = branch("an action was canceled before it was begun")
	logCancelCall = branch("an action was canceled while its call was under way")
	logCancelLate = branch("an action that was asked to stop succeeded all the same")
	logDenied     = branch("a call was denied at the last moment")
	logExhausted  = branch("all attempts of a call failed")
	logHeld       = branch("a traffic rule held a call back, and then did not")
	logMocked     = branch("a traffic rule answered in the target's place")
	logPartial    = branch("a plan was applied in part")
	logNotSent    = branch("a call failed before anything was sent, and was made again")
	logDelayed    = branch("the next attempt was left to a wake-up")
	logWokeLate   = branch("a wake-up came after its action's end")
	logExpired    = branch("the time of an action was up")
	logReconciled = branch("a probe showed the effect of a call whose answer was lost")
	logNotApplied = branch("a call that had no effect, by its probe, was made again")
	logDerived    = branch("a call was made again under its derived key")
	logResolved   = branch("a person resolved an unknown outcome")
)

// branches lists them.
var branches []string

func branch(what string) string {
	branches = append(branches, what)
	return what
}

// tally counts how often each branch was taken. It is safe for concurrent use.
type tally struct {
	mu sync.Mutex
	of map[string]int
}

func (t *tally) add(branch string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[string]int{}
	}
	t.of[branch] += n
}

func (t *tally) merge(other *tally) {
	for branch, n := range other.of {
		t.add(branch, n)
	}
}

// missing are the branches that were not taken.
func (t *tally) missing() []string {
	return slices.DeleteFunc(slices.Clone(branches), func(b string) bool { return t.of[b] > 0 })
}

func (t *tally) String() string {
	var b strings.Builder
	for _, branch := range branches {
		fmt.Fprintf(&b, "%8d  %s\n", t.of[branch], branch)
	}
	return b.String()
}
