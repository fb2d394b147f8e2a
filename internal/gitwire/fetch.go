package gitwire

import (
	"bytes"
	"io"
	"slices"
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
	Done   bool
}

// ParseFetch reads the request of a fetch to its end, v2 or not. ErrMalformed is what is not
// one: lengths that lie, no packet at all, commands other than ls-refs and fetch, no
// flush at the end (without v2 also a "done"), anything after it. A lone flush is the probe of a large request. Arguments
// that it does not know are git's to judge.
func ParseFetch(data []byte, v2 bool) (Fetch, error) {
	r := bytes.NewReader(data)
	d := fetchReader{f: Fetch{Request: data, V2: v2}}
	if err := d.read(NewPackets(r)); err != nil {
		return Fetch{}, ended(err, "the request")
	}
	if r.Len() > 0 {
		return Fetch{}, malformed("the request continues after its end")
	}
	return d.f, nil
}

type fetchReader struct {
	f      Fetch
	behind bool // of v2: the capabilities are over; else the wants are
}

// read reads of v2 a command with its capabilities, and behind a delimiter its arguments; otherwise wants, with
// capabilities on the first, a flush, and what the client has, with flushes between: it ends in one, or in "done".
func (d *fetchReader) read(p *Packets) error {
	flushed := false
	for n := 0; d.f.V2 || !d.f.Done; n++ {
		kind, data, err := p.Next()
		switch {
		case err == io.EOF && flushed: //nolint:errorlint // between packets, and nowhere else
			return nil
		case err != nil:
			return err
		}
		flushed = kind == KindFlush
		switch {
		case flushed && !d.f.V2:
			d.behind = true
		case flushed && (d.f.Command != "" || n == 0):
			return nil
		case kind == KindDelim && d.f.V2 && d.f.Command != "" && !d.behind:
			d.behind = true
		case kind != KindData:
			return misplaced()
		case d.f.V2 && !d.behind:
			err = d.capability(line(data))
		default:
			err = d.argument(line(data))
		}
		if err != nil {
			return err
		}
	}
	return nil
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
		return nil
	case d.f.Command != "":
		return malformed("the request has two commands")
	case name != CommandLsRefs && name != CommandFetch:
		return malformed("the command is neither ls-refs nor fetch")
	}
	d.f.Command = name
	return nil
}

// argument reads one line after the delimiter or, without v2, one line of the request.
func (d *fetchReader) argument(text string) error {
	f := &d.f
	word, rest, _ := strings.Cut(text, " ")
	if first := len(f.Wants) == 0; !d.f.V2 {
		behind := word == "have" || word == "done"
		known := behind || slices.Contains([]string{"want", "shallow", "deepen", "deepen-since", "deepen-not", "filter"}, word)
		if !known || behind != d.behind || first && word != "want" {
			return misplaced()
		}
		if first {
			var list string
			f.Command = CommandFetch
			rest, list, _ = strings.Cut(rest, " ")
			for c := range strings.SplitSeq(list, " ") {
				if err := d.capability(c); c != "" && err != nil {
					return err
				}
			}
		}
	}
	if f.Command == CommandLsRefs {
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
	case "want-ref":
		f.WantRefs = append(f.WantRefs, rest)
	case "filter":
		f.Filter = rest
	case "done":
		f.Done = true
	}
	return nil
}
