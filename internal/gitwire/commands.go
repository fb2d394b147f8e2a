package gitwire

import (
	"io"
	"slices"
	"strings"
)

// Limits of a push's first part.
const (
	maxCommands     = 32
	maxCommandBytes = 64 << 10
	maxShallow      = 8192 // lines, each of some 50 bytes, beside the 64 KiB
	maxRefName      = 1024
)

// Capabilities that say how a push reads on.
const (
	CapReport   = "report-status"
	CapReportV2 = "report-status-v2"
	CapSideBand = "side-band-64k"
	CapQuiet    = "quiet"
	CapAtomic   = "atomic"
	CapOfsDelta = "ofs-delta"

	shallowPrefix = "shallow "
	otherFormat   = "object-format=sha256"
)

// Command is one update that a push asks for.
type Command struct {
	Old, New string // hex object ids of 40 digits, Zero for none
	// Ref is text without control characters, and may be no ref's name: see ValidRef.
	Ref string
}

// Commands are the first part of a push.
type Commands struct {
	List         []Command
	Capabilities []string
}

// Has reports whether the client asked for a capability. Side band is
// CapSideBand alone: the older one has smaller packets than are written here.
func (c *Commands) Has(capability string) bool { return slices.Contains(c.Capabilities, capability) }

// Reports reports whether the client reads a report.
func (c *Commands) Reports() bool { return c.Has(CapReport) || c.Has(CapReportV2) }

// ReadCommands reads the commands of a push up to their flush, and not a byte more of r, because the
// pack follows. Shallow lines are not kept. Without a command it is no error: that is the probe of a
// large push.
//
// Limits: 64 KiB, 32 commands, refs of 1,024 bytes, and 8,192 shallow lines that do not count for the
// 64 KiB; beyond them it is ErrTooLarge. Input that git would not send is ErrMalformed. An invalid ref
// name is not: its push must be denied with a reason.
func ReadCommands(r io.Reader) (Commands, error) {
	var c Commands
	size, shallow := 0, 0
	for text, err := range lines(r) {
		if err != nil {
			return Commands{}, err
		}
		if strings.HasPrefix(text, shallowPrefix) {
			shallow++
		} else {
			size += headSize + len(text)
			err = c.add(text)
		}
		if err == nil && (size > maxCommandBytes || len(c.List) > maxCommands || shallow > maxShallow) {
			err = tooLarge("the commands of a push")
		}
		if err != nil {
			return Commands{}, err
		}
	}
	return c, nil
}

// add reads a command. Behind the first one are the client's capabilities.
func (c *Commands) add(text string) error {
	list := ""
	if c.List == nil {
		text, list, _ = strings.Cut(text, "\x00")
		c.Capabilities = strings.Fields(list)
	}
	before, rest, _ := strings.Cut(text, " ")
	after, ref, _ := strings.Cut(rest, " ")
	switch {
	case !plain(text) || !plain(list):
		return malformed("a command is no plain text")
	case !ValidOid(before) || !ValidOid(after) || ref == "" || strings.Contains(list, otherFormat):
		return malformed("the commands are not those of a push")
	case len(ref) > maxRefName:
		return tooLarge("a ref's name has more than 1,024 bytes")
	}
	c.List = append(c.List, Command{Old: before, New: after, Ref: ref})
	return nil
}

// Request is a push of the command alone, up to its pack.
func (c Command) Request(capabilities ...string) []byte {
	text := c.Old + " " + c.New + " " + c.Ref
	if len(capabilities) > 0 {
		text += "\x00 " + strings.Join(capabilities, " ")
	}
	return append(appendLine(nil, text), Flush...)
}

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
