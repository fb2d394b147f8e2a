package gitwire

import "strings"

// The commands of a fetch.
const (
	CommandLsRefs = "ls-refs"
	CommandFetch  = "fetch"
)

// Fetch is one request of a fetch.
type Fetch struct {
	// Request is all of it as it was sent, and V2 whether it is of protocol 2.
	Request []byte
	V2      bool
	// Command is what is asked for: in protocol 2 CommandLsRefs or CommandFetch, else
	// CommandFetch; empty: nothing, which is the probe of a large request.
	Command string
	// Wants are object ids, WantRefs refs of protocol 2, DeepenNot the refs at which a shallow fetch stops.
	Wants, WantRefs, DeepenNot []string
	// Filter is the filter of a partial clone, if there is one.
	Filter string
}

// ParseFetch reads what a request of a fetch asks for, v2 or not. ErrMalformed: lengths that lie, no packet
// at all, a want that is no object id, commands other than ls-refs and fetch. The rest is git's to check.
func ParseFetch(data []byte, v2 bool) (Fetch, error) {
	f := Fetch{Request: data, V2: v2}
	for text, err := range packets(data) {
		if err == nil && text != "" {
			err = f.take(text)
		}
		if err != nil {
			return Fetch{}, err
		}
	}
	if f.Command == "" && string(data) != Flush {
		return Fetch{}, malformed("the request asks for nothing")
	}
	return f, nil
}

// take reads a line, wherever it stands: so no line is another to git than it is here.
func (f *Fetch) take(text string) error {
	word, rest, _ := strings.Cut(text, " ")
	command, named := strings.CutPrefix(text, "command=")
	switch {
	case named && f.V2 && f.Command == "" && (command == CommandLsRefs || command == CommandFetch):
		f.Command = command
		return nil
	case named:
		return malformed("the request has two commands, or one that is neither ls-refs nor fetch")
	case !f.V2 && word == "want":
		f.Command = CommandFetch
	case f.Command == "":
		return malformed("the request does not begin with what it asks for")
	}
	switch word {
	case "want":
		oid, _, _ := strings.Cut(rest, " ") // capabilities follow the first one of protocol 0
		if !ValidOid(oid) {
			return malformed("a line has an object id that is none")
		}
		f.Wants = append(f.Wants, oid)
	case "want-ref":
		f.WantRefs = append(f.WantRefs, rest)
	case "deepen-not":
		f.DeepenNot = append(f.DeepenNot, rest)
	case "filter":
		f.Filter = rest
	}
	return nil
}
