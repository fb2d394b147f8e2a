package check

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// seen is what a target answered.
type seen struct {
	task                        string
	syncID, streamID, unknownID string

	health, ready, sync, unknown, malformed answer
	stream                                  *streamed
}

type rule struct {
	id, what, hint string
	group          string
	// needs are rules that must have passed for this one to mean anything.
	needs []string
	// broken says what was there instead; empty: nothing is wrong.
	broken func(*seen) string
	// advice: the contract merely recommends it.
	advice bool
	// answered is the answer that says more than the rule's hint knows; nil: none does.
	answered func(*seen) (head, document)
}

// demand is a rule; needs has the ids of others with spaces between.
func demand(id, needs, what, hint string, broken func(*seen) string) rule {
	return rule{id: id, needs: strings.Fields(needs), what: what, hint: hint, broken: broken}
}

func (r rule) advised() rule {
	r.advice = true
	return r
}

func (r rule) answeredBy(by func(*seen) (head, document)) rule {
	r.answered = by
	return r
}

// found is what was there, if it is wrong.
func found(wrong bool, what string) string {
	if !wrong {
		return ""
	}
	return what
}

// Rules lists the ids of the rules in the order in which they are checked.
func Rules() []string {
	var ids []string
	for _, r := range rules() {
		ids = append(ids, r.id)
	}
	return ids
}

// rules is the table: a rule comes after those it needs.
func rules() []rule {
	var all []rule
	for _, group := range []struct {
		name  string
		rules []rule
	}{
		{"health", healthRules()},
		{"sync", syncRules()},
		{"stream", slices.Concat(streamRules(), eventRules(), endRules())},
		{"refusals", refusalRules()},
	} {
		for _, r := range group.rules {
			r.group = group.name
			all = append(all, r)
		}
	}
	return all
}

func (h head) not200() string { return h.notWithin(http.StatusOK, http.StatusOK) }

func (h head) not4xx() string { return h.notWithin(400, 499) }

// notWithin is the status, or why there is none, if it is not one of these.
func (h head) notWithin(first, last int) string {
	if h.none != "" || h.status >= first && h.status <= last {
		return h.none
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", h.status, http.StatusText(h.status)))
}

func (h head) notType(want string) string {
	switch {
	case h.mediaType == "":
		return "there is none"
	case h.mediaType != want:
		return quote(h.mediaType)
	case h.encoding != "" && h.encoding != "identity":
		return "it is encoded: " + quote(h.encoding)
	default:
		return ""
	}
}
