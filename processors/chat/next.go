package chat

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"weir/internal/fault"
	"weir/internal/ledger"
	"weir/internal/models"
	"weir/internal/retry"
	"weir/processors/call/model"
	"weir/schemas"
)

// names are the models that were asked for, in order.
func (w *work) names() []string { return append([]string{w.order.Model}, w.order.Models...) }

// candidates are the places that may be asked, in order: those that pass all that the
// request says. Where the token may use no entry of theirs they are those of all entries:
// policy says no to each of them then.
func (w *work) candidates(set *models.Set) []models.Candidate {
	return models.Passing(w.served(set), w.order.Further)
}

// served are the places that serve the request, whatever they pass: one that continues an answer is
// served by the upstream that made it, and only to the principal whose answer it is.
func (w *work) served(set *models.Set) []models.Candidate {
	return slices.DeleteFunc(w.serving(set), func(c models.Candidate) bool {
		return w.order.Previous != "" && (w.order.PreviousBy != w.st.Action.Principal || c.Upstream.Name != w.order.PreviousUpstream)
	})
}

// serving are the places of the models that speak the request's dialect.
func (w *work) serving(set *models.Set) []models.Candidate {
	return models.Speaking(w.places(set), w.order.Dialect)
}

// places are the places of the models.
func (w *work) places(set *models.Set) []models.Candidate {
	a := &w.st.Action
	may := func(name string) bool { return models.May(a.Models, name) }
	if len(a.Entries) > 0 {
		entry := func(name string) bool { return slices.Contains(a.Entries, name) }
		if list := set.Candidates(w.names(), may, entry, w.st.ID); len(list) > 0 {
			return list
		}
	}
	return set.Candidates(w.names(), may, nil, w.st.ID)
}

// assigned says which candidate each attempt was made of, by its place in the list or -1,
// and which candidates need not be asked any more. An attempt is known by its entry: of
// several candidates with one entry the first was asked first. One whose worker died says
// nothing of the model.
func (w *work) assigned(list []models.Candidate) (of []int, spent []bool) {
	of, spent = make([]int, len(w.st.Attempts)), make([]bool, len(list))
	for n, t := range w.st.Attempts {
		of[n] = -1
		for i, c := range list {
			if schemas.ModelEntry(c.Upstream.Name) != t.Decision.Entry {
				continue
			}
			if of[n] = i; !spent[i] {
				break
			}
		}
		if i := of[n]; i >= 0 {
			spent[i] = !interrupted(t)
		}
	}
	return of, spent
}

// candidate is what an attempt was made of. Of one that the configuration does not know
// any more its upstream's name is all there is.
func (w *work) candidate(at int) models.Candidate {
	t := w.st.Attempts[at]
	if c, ok := w.made[t.Step]; ok {
		return c
	}
	list := w.candidates(w.cfg.Models())
	if of, _ := w.assigned(list); of[at] >= 0 {
		return list[of[at]]
	}
	c := models.Candidate{Asked: w.order.Model, Name: w.order.Model}
	c.Upstream.Name = strings.TrimPrefix(t.Decision.Entry, schemas.ModelEntryPrefix)
	return c
}

const (
	// maxInterrupted is how many attempts whose workers died are followed by another.
	maxInterrupted = 3
	// maxUnsent is how often the only candidate is tried that was not reached.
	maxUnsent = 3
)

// next is the candidate that is asked next; with a pause, after that and once more.
func (w *work) next(list []models.Candidate) (c models.Candidate, pause time.Duration, ok bool) {
	if w.step() >= maxSteps || w.interruptions() > maxInterrupted {
		return c, 0, false
	}
	_, spent := w.assigned(list)
	for i, c := range list {
		if !spent[i] && !w.denied[targetOf(c)] {
			return c, 0, true
		}
	}
	n := len(w.st.Attempts)
	if len(list) != 1 || n == 0 || w.denied[targetOf(list[0])] || n >= maxUnsent || !unreached(w.st.Attempts[n-1]) {
		return c, 0, false
	}
	if w.paused < n {
		pause = retry.Default().Delay(n, rand.Float64(), 0) //nolint:gosec // a spread, no secret
	}
	return list[0], pause, true
}

// step is the number of the next step.
func (w *work) step() int {
	n := w.floor
	if last := len(w.st.Attempts); last > 0 {
		n = max(n, w.st.Attempts[last-1].Step+1)
	}
	return n
}

func (w *work) interruptions() (n int) {
	for _, t := range w.st.Attempts {
		if interrupted(t) {
			n++
		}
	}
	return n
}

// interrupted reports whether the result of an attempt is unknown: its worker died, or the log did
// not accept the result. The result of an open attempt is not known yet.
func interrupted(t ledger.Attempt) bool {
	return t.Result == nil || t.Result.Code == schemas.Interrupted
}

// unreached reports whether an attempt provably did not leave, and time may change that.
func unreached(t ledger.Attempt) bool {
	return !t.Result.Sent && !t.Mocked() && retry.Retryable(schemas.ClassOnce, 0, nil, &fault.Call{Code: t.Result.Code})
}

// follows reports whether another upstream may be called after an attempt without a completion, of
// which no reader has received anything.
func follows(t *ledger.Attempt, response *model.Response) bool {
	res := t.Result
	if response != nil {
		if res.Status/100 == 2 && response.Fault != nil { // without a status it counts as a 502
			return response.Fault.Status == 0 || transient(response.Fault.Status)
		}
		return transient(res.Status)
	}
	return res.Code != schemas.Canceled && res.Code != schemas.BudgetExhausted
}

// transient holds for the statuses of a provider that another may not answer with: it has
// no room or no time, it fails, or it does not accept the credential that Weir has there.
func transient(status int) bool {
	return status == 408 || status == 429 || credential(status) || status >= 500 && status <= 599
}
