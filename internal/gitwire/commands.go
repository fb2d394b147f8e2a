package gitwire

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
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
func (c Commands) Has(capability string) bool { return slices.Contains(c.Capabilities, capability) }

// Reports reports whether the client reads a report.
func (c Commands) Reports() bool { return c.Has(CapReport) || c.Has(CapReportV2) }

// ReadCommands reads the commands of a push up to their flush, and not a byte more of r, because the
// pack follows. Shallow lines are not kept. Without a command it is no error: that is the probe of a
// large push.
//
// Limits: 64 KiB, 32 commands, refs of 1,024 bytes, and 8,192 shallow lines that do not count for the
// 64 KiB; beyond them it is ErrTooLarge. Input that git would not send is ErrMalformed. An invalid ref
// name is not: its push must be denied with a reason.
func ReadCommands(r io.Reader) (c Commands, err error) {
	var raw []string
	size, shallow := 0, 0
	for text, err := range lines(r) {
		switch {
		case err != nil:
			return c, err
		case strings.HasPrefix(text, shallowPrefix): // of which the library takes only one
			shallow++
		case !plain(strings.Replace(text, "\x00", "", 1)):
			return c, malformed("a command is no plain text")
		default:
			raw = append(raw, text)
			size += headSize + len(text)
		}
		if size > maxCommandBytes || len(raw) > maxCommands || shallow > maxShallow {
			return c, tooLarge("the commands of a push")
		}
	}
	if len(raw) == 0 {
		return c, nil
	}
	first, list, _ := strings.Cut(raw[0], "\x00")
	raw[0] = first + "\x00" // the library refuses capabilities that it knows in another form
	c.Capabilities = strings.Fields(list)
	var b []byte
	for _, text := range raw {
		b = appendLine(b, text)
	}
	q := packp.NewReferenceUpdateRequest()
	err = q.Decode(bytes.NewReader(append(b, Flush...)))
	// A command from nothing to nothing is one, which is denied with a reason.
	if err != nil && !errors.Is(err, packp.ErrMalformedCommand) || strings.Contains(list, otherFormat) {
		return Commands{}, malformed("the commands are not those of a push")
	}
	for i, one := range q.Commands {
		u := Command{Old: one.Old.String(), New: one.New.String()}
		text, _, _ := strings.Cut(raw[i], "\x00")
		ref, ok := strings.CutPrefix(text, u.Old+" "+u.New+" ") // the library cuts a name off at a space
		switch u.Ref = ref; {
		case !ok:
			return Commands{}, malformed("a command has an object id that is none")
		case len(ref) > maxRefName:
			return Commands{}, tooLarge("a ref's name has more than 1,024 bytes")
		}
		c.List = append(c.List, u)
	}
	return c, nil
}

// Request is a push of the command alone, up to its pack.
func (c Command) Request(capabilities ...string) []byte {
	text := c.Old + " " + c.New + " " + c.Ref
	if len(capabilities) > 0 {
		text += "\x00 " + strings.Join(capabilities, " ")
	}
	return append(appendLine(nil, text), Flush...)
}
