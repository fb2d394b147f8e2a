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

// rule is one demand of the contract.
type rule struct {
	id, what, hint string
	group          string
	// told is the answer that says more than the rule's hint knows; nil: none does.
	told func(*seen) (head, document)
	// needs are rules that must have passed for this one to mean anything.
	needs []string
	// advice: the contract merely recommends it.
	advice bool
	// broken says what was there instead; empty: nothing is wrong.
	broken func(*seen) string
}

// Rules lists the ids of the rules in the order in which they are judged.
func Rules() []string {
	var ids []string
	for _, r := range rules() {
		ids = append(ids, r.id)
	}
	return ids
}

// rules is the table: a rule stands behind those it needs.
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

func (h head) not200() string {
	switch {
	case h.none != "":
		return h.none
	case h.status != http.StatusOK:
		return h.said()
	default:
		return ""
	}
}

func (h head) not4xx() string {
	switch {
	case h.none != "":
		return h.none
	case h.status < 400 || h.status >= 500:
		return h.said()
	default:
		return ""
	}
}

func (h head) said() string {
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
