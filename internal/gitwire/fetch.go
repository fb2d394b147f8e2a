package gitwire

import (
	"bytes"
	"io"
	"strings"
)

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
	// Wants are object ids, WantRefs refs of protocol 2.
	Wants, WantRefs []string
	// Filter is the filter of a partial clone, if there is one.
	Filter string
}

// ParseFetch reads the request of a fetch to its end, v2 or not. ErrMalformed is what is not one: lengths
// that lie, no packet at all, ids that are none, commands other than ls-refs and fetch, no flush at the
// end (without v2 also a "done"), anything after it. A lone flush is the probe of a large request.
// Arguments of v2 that it does not know are git's to check.
func ParseFetch(data []byte, v2 bool) (Fetch, error) {
	r := bytes.NewReader(data)
	f := Fetch{Request: data, V2: v2}
	read := f.readV0
	if v2 {
		read = f.readV2
	}
	if err := read(NewPackets(r)); err != nil {
		return Fetch{}, ended(err, "the request")
	}
	if r.Len() > 0 {
		return Fetch{}, malformed("the request continues after its end")
	}
	return f, nil
}

// readV0 reads wants, with capabilities on the first, a flush, and what the client has, with flushes
// between. It ends in one, or in "done".
func (f *Fetch) readV0(p *Packets) error {
	flushed, haves := false, false
	for {
		kind, data, err := p.Next()
		switch {
		case err == io.EOF && flushed: //nolint:errorlint // between packets, and nowhere else
			return nil
		case err != nil:
			return err
		}
		if flushed = kind == KindFlush; flushed {
			haves = true
			continue
		}
		text := line(data)
		word, rest, _ := strings.Cut(text, " ")
		first := f.Command == ""
		switch word {
		case "want":
			if haves {
				return misplaced()
			}
		case "shallow", "deepen", "deepen-since", "deepen-not", "filter":
			if haves || first {
				return misplaced()
			}
		case "have", "done":
			if !haves || first {
				return misplaced()
			}
		default:
			return misplaced()
		}
		if first {
			f.Command = CommandFetch
			oid, list, _ := strings.Cut(rest, " ")
			for c := range strings.FieldsSeq(list) {
				if err := f.capability(c); err != nil {
					return err
				}
			}
			text = "want " + oid
		}
		if err := f.argument(text); err != nil || word == "done" {
			return err
		}
	}
}

// readV2 reads a command with its capabilities, and behind a delimiter its arguments.
func (f *Fetch) readV2(p *Packets) error {
	behind := false
	for n := 0; ; n++ {
		kind, data, err := p.Next()
		switch {
		case err != nil:
			return err
		case kind == KindFlush && (f.Command != "" || n == 0):
			return nil
		case kind == KindDelim && f.Command != "" && !behind:
			behind = true
			continue
		case kind != KindData:
			return misplaced()
		case behind:
			err = f.argument(line(data))
		default:
			err = f.capability(line(data))
		}
		if err != nil {
			return err
		}
	}
}

func (f *Fetch) capability(text string) error {
	name, command := strings.CutPrefix(text, "command=")
	format, named := strings.CutPrefix(text, capFormat)
	switch {
	case !ascii(text) || text == "":
		return malformed("a capability is no plain text")
	case named && format != formatOK:
		return malformed("the object ids are not by SHA-1")
	case !command:
		return nil
	case f.Command != "":
		return malformed("the request has two commands")
	case name != CommandLsRefs && name != CommandFetch:
		return malformed("the command is neither ls-refs nor fetch")
	}
	f.Command = name
	return nil
}

func (f *Fetch) argument(text string) error {
	if f.Command == CommandLsRefs {
		return nil
	}
	switch word, rest, _ := strings.Cut(text, " "); word {
	case "want", "have", "shallow":
		if !ValidOid(rest) {
			return malformed("a line has an object id that is none")
		}
		if word == "want" {
			f.Wants = append(f.Wants, rest)
		}
	case "want-ref":
		f.WantRefs = append(f.WantRefs, rest)
	case "filter":
		f.Filter = rest
	}
	return nil
}
