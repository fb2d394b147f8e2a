package gitwire

import (
	"io"
	"slices"
	"strings"
)

// Limits of a push's first part.
const (
	maxCommands     = 32
	maxCommandBytes = 64 << 10 // of everything but the shallow lines
	maxShallow      = 8192     // of those, each of some 50 bytes
	maxRefName      = 1024
	maxCapabilities = 8 << 10
)

// Capabilities that say how a push reads on.
const (
	CapReport      = "report-status"
	CapReportV2    = "report-status-v2"
	CapSideBand    = "side-band-64k"
	CapPushOptions = "push-options"
	CapQuiet       = "quiet"
	CapAtomic      = "atomic"
	CapOfsDelta    = "ofs-delta"

	shallowPrefix = "shallow "

	capFormat = "object-format="
	formatOK  = "sha1"
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
func (c Commands) Has(capability string) bool { return slices.Contains(c.Capabilities, capability) }

// Reports reports whether the client reads a report.
func (c Commands) Reports() bool { return c.Has(CapReport) || c.Has(CapReportV2) }

// ReadCommands reads the commands of a push up to their flush, and the push options if they were
// requested, and not a byte more of r, because the pack follows. Shallow lines and options are checked
// and not kept. A lone flush is no command and no error: the probe of a large push; neither are a
// shallow repository's lines without a command.
//
// Limits: 64 KiB, 32 commands, refs of 1,024 bytes, capabilities of 8 KiB, and 8,192 shallow lines
// that do not count for the 64 KiB; beyond them it is ErrTooLarge. Input that git would not send is
// ErrMalformed: wrong lengths, ids that are not hex or not SHA-1, a signed push, shallow lines
// after commands, capabilities on any but the first command, control characters. An invalid ref
// name is not: its push must be denied with a reason. If r ends too early the error is also
// io.ErrUnexpectedEOF.
func ReadCommands(r io.Reader) (Commands, error) {
	d := commandReader{p: NewPackets(r)}
	err := d.lines("the commands", d.parseLine)
	if err == nil && len(d.c.List) > 0 && d.c.Has(CapPushOptions) {
		err = d.lines("the push options", func(text string) error {
			if !plain(text) {
				return malformed("a push option is no plain text")
			}
			return nil
		})
	}
	if err != nil {
		return Commands{}, err
	}
	return d.c, nil
}

type commandReader struct {
	p       *Packets
	c       Commands
	shallow int // lines
	size    int // bytes so far, but for the shallow lines
}

// lines hands over the lines up to the flush.
func (d *commandReader) lines(where string, take func(text string) error) error {
	for data, err := range d.p.lines(where) {
		if err != nil {
			return err
		}
		text := line(data)
		if !strings.HasPrefix(text, shallowPrefix) || len(d.c.List) > 0 {
			d.size += headSize + len(data)
		}
		if d.size > maxCommandBytes {
			return tooLarge("the commands of a push have more than 64 KiB")
		}
		if err := take(text); err != nil {
			return err
		}
	}
	return nil
}

func (d *commandReader) parseLine(text string) error {
	if oid, ok := strings.CutPrefix(text, shallowPrefix); ok {
		switch d.shallow++; {
		case !ValidOid(oid) || oid == Zero:
			return malformed("a shallow line has no object id")
		case len(d.c.List) > 0:
			return malformed("a shallow line follows a command")
		case d.shallow > maxShallow:
			return tooLarge("a push has more than 8,192 shallow lines")
		}
		return nil
	}
	text, list, has := strings.Cut(text, "\x00")
	switch {
	case has && len(d.c.List) > 0:
		return malformed("capabilities are only allowed on the first command")
	case len(list) > maxCapabilities:
		return tooLarge("the capabilities have more than 8 KiB")
	case !ascii(list):
		return malformed("the capabilities are no plain text")
	case text == "push-cert":
		return malformed("the push is signed, which is not taken")
	case len(d.c.List) == maxCommands:
		return tooLarge("a push has more than 32 commands")
	}
	if has {
		d.c.Capabilities = strings.Fields(list)
	}
	for _, c := range d.c.Capabilities {
		if format, ok := strings.CutPrefix(c, capFormat); ok && format != formatOK {
			return malformed("the object ids are not by SHA-1")
		}
	}
	c, err := command(text)
	d.c.List = append(d.c.List, c)
	return err
}

func command(text string) (Command, error) {
	from, rest, _ := strings.Cut(text, " ")
	to, ref, _ := strings.Cut(rest, " ")
	switch {
	case ref == "":
		return Command{}, malformed("a command is not two object ids and a ref")
	case !ValidOid(from) || !ValidOid(to):
		return Command{}, malformed("a command has an object id that is none")
	case len(ref) > maxRefName:
		return Command{}, tooLarge("a ref's name has more than 1,024 bytes")
	case !plain(ref):
		return Command{}, malformed("a ref's name is no plain text")
	}
	return Command{Old: from, New: to, Ref: ref}, nil
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Request is a push of the command alone, up to its pack.
func (c Command) Request(capabilities ...string) []byte {
	text := c.Old + " " + c.New + " " + c.Ref
	if len(capabilities) > 0 {
		text += "\x00 " + strings.Join(capabilities, " ")
	}
	return append(appendLine(nil, text), Flush...)
}
