package runner

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"weir/schemas"
)

// output is where a command writes. It keeps the beginning in a file, and what was not sent to the
// server yet: if that is too much, the oldest of it is left out. Of what leaves the machine,
// secrets are taken out.
type output struct {
	mu      sync.Mutex
	file    io.Writer
	left    int64    // that the file still takes; negative: it is complete
	secrets []string // none is empty

	held []byte // the last bytes, if a secret or a character may go on after them
	text []byte // to send
	at   int64  // bytes of output before text
	room int64  // bytes that may still be sent
	tail []byte // the end of all
}

// The sizes of what is kept in memory. The reserve is what the end of the output may have, however
// much came before it.
const (
	maxPiece = schemas.MaxTaskOutput
	reserve  = maxPiece
	maxTail  = 4 << 10
)

// cutMark stands where the file ends and the output does not.
const cutMark = "\n[weir: the output was cut here]\n"

// redacted replaces a secret.
const redacted = "[redacted]"

// Write takes everything: a command does not wait for the server, nor fail by a full disk.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	keep := p[:max(0, min(int64(len(p)), o.left))]
	if len(keep) > 0 {
		o.left -= int64(len(keep))
		if _, err := o.file.Write(keep); err != nil {
			o.left = -1
		}
	}
	if len(keep) < len(p) && o.left == 0 {
		o.left = -1
		_, _ = io.WriteString(o.file, cutMark)
	}
	o.held = append(o.held, p...)
	o.show(o.undecided())
	return len(p), nil
}

// undecided is how many of the held bytes have to wait, after complete secrets are taken out.
func (o *output) undecided() int {
	for _, secret := range o.secrets {
		o.held = bytes.ReplaceAll(o.held, []byte(secret), []byte(redacted))
	}
	wait := 0
	for _, secret := range o.secrets {
		for n := min(len(secret)-1, len(o.held)); n > wait; n-- {
			if strings.HasPrefix(secret, string(o.held[len(o.held)-n:])) {
				wait = n
			}
		}
	}
	for n := 1; n <= min(utf8.UTFMax-1, len(o.held)); n++ {
		if last := o.held[len(o.held)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				wait = max(wait, n)
			}
			break
		}
	}
	return wait
}

// show makes text of the held bytes but the last.
func (o *output) show(last int) {
	n := len(o.held) - last
	fresh := bytes.ToValidUTF8(o.held[:n], []byte("\uFFFD"))
	o.tail, _ = newest(append(o.tail, fresh...), maxTail)
	o.text = append(o.text, fresh...)
	o.trim(maxPiece)
	o.held = append(o.held[:0], o.held[n:]...)
}

// trim leaves out the oldest of the text.
func (o *output) trim(most int) {
	text, dropped := newest(o.text, most)
	o.text, o.at = text, o.at+int64(dropped)
}

// newest is the end of a text, from the beginning of a character, and how much is before it.
func newest(text []byte, most int) (end []byte, dropped int) {
	if len(text) <= most {
		return text, 0
	}
	dropped = len(text) - most
	for dropped < len(text) && !utf8.RuneStart(text[dropped]) {
		dropped++
	}
	return append([]byte(nil), text[dropped:]...), dropped
}

// piece is what to send next; with last, there is no more output. Its text is empty if there is
// nothing, or no room before the end.
func (o *output) piece(last bool) schemas.OutputRequest {
	o.mu.Lock()
	defer o.mu.Unlock()
	if last {
		o.show(0)
		o.trim(int(max(0, min(o.room, maxPiece))))
	} else if int64(len(o.text)) > o.room-reserve {
		return schemas.OutputRequest{}
	}
	return schemas.OutputRequest{At: o.at, Text: string(o.text)}
}

// sent forgets a piece that the server has stored.
func (o *output) sent(p schemas.OutputRequest) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.room -= int64(len(p.Text))
	if n := p.At + int64(len(p.Text)) - o.at; n > 0 { // part of it may have been left out meanwhile
		o.text, o.at = append([]byte(nil), o.text[n:]...), o.at+n
	}
}

// full has nothing more be sent.
func (o *output) full() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.room = 0
}

// summary is the end of the output, for a report.
func (o *output) summary() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.show(0)
	return strings.TrimSpace(string(o.tail))
}

// lines are the last lines of the output, for a notice.
func (o *output) lines() []string {
	text := o.summary()
	if text == "" {
		return nil
	}
	all := strings.Split(text, "\n")
	return all[max(0, len(all)-tailLines):]
}

const tailLines = 5
