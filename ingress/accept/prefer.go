package accept

import (
	"regexp"
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
		item, _, _ = strings.Cut(item, ";") // the parameters of a preference have no meaning here
		name, value, _ := strings.Cut(item, "=")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "respond-async":
			async = true
		case "wait":
			if !seenWait {
				seenWait = true
				wait, p.HasWait = seconds(strings.TrimSpace(value))
			}
		}
	}
	if async {
		p.Hold, p.Applied = 0, "respond-async"
	}
	if p.HasWait {
		p.Hold = wait
		p.Applied = strings.TrimPrefix(p.Applied+", wait="+strconv.FormatInt(int64(wait/time.Second), 10), ", ")
	}
	return p
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
