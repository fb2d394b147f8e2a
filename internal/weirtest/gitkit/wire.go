package gitkit

import (
	"fmt"
	"strings"
)

// Zero is the object id that stands for none.
const Zero = "0000000000000000000000000000000000000000"

// Capabilities are what a git of our days asks for with a push.
func Capabilities() []string {
	return []string{"report-status", "side-band-64k", "object-format=sha1", "agent=git/2.39.5"}
}

// Pkt is one packet line.
func Pkt(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }

// Update is one update of a ref.
type Update struct{ Old, New, Ref string }

// PushBody is the body of a push of one update: its command, with Capabilities, and
// the pack.
func PushBody(u Update, pack []byte) []byte {
	return PushBodyWith([]Update{u}, Capabilities(), pack)
}

// PushBodyWith is the body of any push.
func PushBodyWith(updates []Update, capabilities []string, pack []byte) []byte {
	var b strings.Builder
	for i, u := range updates {
		text := u.Old + " " + u.New + " " + u.Ref
		if i == 0 {
			text += "\x00 " + strings.Join(capabilities, " ")
		}
		b.WriteString(Pkt(text))
	}
	b.WriteString("0000")
	return append([]byte(b.String()), pack...)
}

// FetchV2 is a request of protocol 2: a command and its arguments.
func FetchV2(command string, arguments ...string) []byte {
	var b strings.Builder
	b.WriteString(Pkt("command="+command+"\n") + Pkt("agent=git/2.39.5") + Pkt("object-format=sha1"))
	if len(arguments) > 0 {
		b.WriteString("0001")
	}
	for _, a := range arguments {
		b.WriteString(Pkt(a + "\n"))
	}
	return []byte(b.String() + "0000")
}
