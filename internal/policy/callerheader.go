package policy

import "weir/schemas"

// strictest is an entry that permits no credential of the caller's.
func strictest() *entry { return &entry{credential: true} }

// CallerHeader holds one header against what Decide refuses to every caller,
// whatever the entry. Its error is a *DeniedError.
func CallerHeader(name, value string) error {
	return checkHeader(strictest(), schemas.Header{Name: name, Value: value}).err()
}

// AnswerHeader holds one header against what no answer of our own making may
// have: what frames a message or is hop-by-hop, and cookies. Its error is a
// *DeniedError.
func AnswerHeader(name, value string) error {
	f := checkHeader(strictest(), schemas.Header{Name: name, Value: value})
	if f != flawHeaderRouting && f != flawHeaderCredential && f != flawHeaderMetadata && f != flawHeaderIdempotency {
		return f.err()
	}
	var buf [maxHeaderName]byte
	switch string(foldName(buf[:0], name)) {
	case "cookie", "cookie2", "set-cookie", "set-cookie2", "host", "authorization":
		return f.err()
	}
	return checkText(value).err()
}

// checkText is the part of checkHeader that is about a value alone, for names that
// it refuses before it comes to that.
func checkText(value string) flaw {
	return checkHeader(strictest(), schemas.Header{Name: "x", Value: value})
}
