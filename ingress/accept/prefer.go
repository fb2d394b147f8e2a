package accept

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxWait is the longest time for which an answer waits on request.
const MaxWait = 300 * time.Second

// Preference is a caller's Prefer header, see RFC 7240.
type Preference struct {
	// Hold is how long an answer is to wait for the action's end: negative for until it comes, zero
	// for not at all.
	Hold time.Duration
	// HasWait: the caller has named that time.
	HasWait bool
	// Applied is the Preference-Applied header of an answer that followed Hold, or "".
	Applied string
}

// preference is an item of the header: a comma in quotes does not end it.
var preference = regexp.MustCompile(`(?:"(?:\\.|[^"\\])*"?|[^",])+`)

// Prefer reads the Prefer headers. Preferences that are unknown, malformed or
// out of their range are ignored, as the RFC demands; of repeated ones the
// first counts. A wait over MaxWait is MaxWait.
func Prefer(fields []string) Preference {
	p := Preference{Hold: -1}
	if len(fields) == 0 {
		return p
	}
	async, seenWait := false, false
	var wait time.Duration
	for _, item := range preference.FindAllString(strings.Join(fields, ","), -1) {
		switch name, value := named(item); name {
		case respondAsync:
			async = true
		case waits:
			if !seenWait {
				seenWait = true
				wait, p.HasWait = seconds(strings.TrimSpace(value))
			}
		}
	}
	if async {
		p.Hold, p.Applied = 0, respondAsync
	}
	if p.HasWait {
		p.Hold = wait
		p.Applied = strings.TrimPrefix(p.Applied+", wait="+strconv.FormatInt(int64(wait/time.Second), 10), ", ")
	}
	return p
}

// The preferences that are Weir's own.
const respondAsync, waits = "respond-async", "wait"

// named is the name of a preference, in lower case, and its value. Its parameters have no meaning here.
func named(item string) (name, value string) {
	item, _, _ = strings.Cut(item, ";")
	name, value, _ = strings.Cut(item, "=")
	return strings.ToLower(strings.TrimSpace(name)), value
}

// Foreign are the preferences in Prefer headers that are not Weir's own, as they were written.
func Foreign(fields []string) string {
	items := preference.FindAllString(strings.Join(fields, ","), -1)
	items = slices.DeleteFunc(items, func(item string) bool {
		name, _ := named(item)
		return name == respondAsync || name == waits || strings.TrimSpace(item) == ""
	})
	return strings.TrimSpace(strings.Join(items, ","))
}

// seconds reads a delta-seconds, quoted or not. A number too long to be read
// is a long wait, not a malformed one.
func seconds(s string) (time.Duration, bool) {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		s = s[1 : len(s)-1]
	}
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || n > uint64(MaxWait/time.Second) {
		return MaxWait, true
	}
	return time.Duration(n) * time.Second, true
}
