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
	// Command is what is asked for: in protocol 2 CommandLsRefs or CommandFetch, else
	// CommandFetch; empty: nothing, which is the probe of a large request.
	Command string
	// Capabilities are those that stand before the arguments, or on the first want.
	Capabilities []string
	// Wants are object ids, WantRefs refs of protocol 2.
	Wants, WantRefs []string
	// Haves counts the lines of that kind.
	Haves int
	// Filter is the filter of a partial clone, if there is one.
	Filter string
	// Prefixes are those that an ls-refs asks for; none: all refs.
	Prefixes []string
	Done     bool
}

// ParseFetch reads the request of a fetch to its end, v2 or not. ErrMalformed is what is not
// one: lengths that lie, no packet at all, commands other than ls-refs and fetch, no
// flush at the end (without v2 also a "done"), anything after it. A lone flush is the probe of a large request. Arguments
// that it does not know are git's to judge.
func ParseFetch(data []byte, v2 bool) (Fetch, error) {
	r := bytes.NewReader(data)
	d := fetchReader{p: NewPackets(r)}
	read := d.v0
	if v2 {
		read = d.v2
	}
	if err := read(); err != nil {
		return Fetch{}, ended(err, "the request")
	}
	if r.Len() > 0 {
		return Fetch{}, malformed("the request has something behind its end")
	}
	return d.f, nil
}

type fetchReader struct {
	p *Packets
	f Fetch
}

func misplaced() error { return malformed("a line or a packet stands where it does not belong") }

// v2 reads a command with its capabilities, and behind a delimiter its arguments.
func (d *fetchReader) v2() error {
	args := false
	for n := 0; ; n++ {
		kind, data, err := d.p.Next()
		switch {
		case err != nil:
			return err
		case kind == KindFlush && (d.f.Command != "" || n == 0):
			return nil
		case kind == KindDelim && d.f.Command != "" && !args:
			args = true
			continue
		case kind != KindData:
			return misplaced()
		}
		word, rest, _ := strings.Cut(line(data), " ")
		if args {
			err = d.argument(word, rest)
		} else {
			err = d.capability(line(data))
		}
		if err != nil {
			return err
		}
	}
}

func (d *fetchReader) capability(text string) error {
	name, command := strings.CutPrefix(text, "command=")
	format, named := strings.CutPrefix(text, capFormat)
	switch {
	case !ascii(text) || text == "":
		return malformed("a capability is no plain text")
	case named && format != formatOK:
		return malformed("the object ids are not by SHA-1")
	case !command:
		d.f.Capabilities = append(d.f.Capabilities, text)
		return nil
	case d.f.Command != "":
		return malformed("the request has two commands")
	case name != CommandLsRefs && name != CommandFetch:
		return malformed("the command is neither ls-refs nor fetch")
	}
	d.f.Command = name
	return nil
}

// argument reads one line after the delimiter, or without v2 one of the request.
func (d *fetchReader) argument(word, rest string) error {
	f := &d.f
	if f.Command == CommandLsRefs {
		if word == "ref-prefix" {
			f.Prefixes = append(f.Prefixes, rest)
		}
		return nil
	}
	switch word {
	case "want", "have", "shallow":
		if !ValidOid(rest) {
			return malformed("a line has an object id that is none")
		}
	}
	switch word {
	case "want":
		f.Wants = append(f.Wants, rest)
	case "have":
		f.Haves++
	case "want-ref":
		f.WantRefs = append(f.WantRefs, rest)
	case "filter":
		f.Filter = rest
	case "done":
		f.Done = true
	}
	return nil
}

// v0 reads wants, with capabilities on the first, a flush, and what the client has,
// with flushes between; it ends in one, or in "done".
func (d *fetchReader) v0() error {
	flushed, wanted := false, false // the last packet was a flush; the wants are over
	for !d.f.Done {
		kind, data, err := d.p.Next()
		switch {
		case err == io.EOF && flushed: //nolint:errorlint // between packets, and nowhere else
			return nil
		case err != nil:
			return err
		case kind == KindFlush:
			flushed, wanted = true, true
			continue
		case kind != KindData:
			return misplaced()
		}
		flushed = false
		word, rest, _ := strings.Cut(line(data), " ")
		first := len(d.f.Wants) == 0
		switch word {
		case "want":
			if wanted {
				return misplaced()
			}
		case "shallow", "deepen", "deepen-since", "deepen-not", "filter":
			if wanted || first {
				return misplaced()
			}
		case "have", "done":
			if !wanted || first {
				return misplaced()
			}
		default:
			return misplaced()
		}
		if first {
			var list string
			d.f.Command = CommandFetch
			if rest, list, _ = strings.Cut(rest, " "); !ascii(list) {
				return malformed("the capabilities are no plain text")
			}
			for c := range strings.FieldsSeq(list) {
				if err := d.capability(c); err != nil {
					return err
				}
			}
		}
		if err := d.argument(word, rest); err != nil {
			return err
		}
	}
	return nil
}
