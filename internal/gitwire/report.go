package gitwire

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"strings"
)

const maxReport = 64 << 10

// The bands of an answer.
const (
	bandData     = 1
	bandProgress = 2
	bandFatal    = 3
)

const errPrefix = "ERR "

// UnpackOK is git's word on a pack that it could take.
const UnpackOK = "ok"

// Report is git's word on a push.
type Report struct {
	Unpack string // UnpackOK, or what is wrong
	Refs   []RefReport
}

// RefReport is the result for one ref; Reason is empty if it was updated.
type RefReport struct{ Ref, Reason string }

// Of is the result for a ref, if there is one.
func (r Report) Of(ref string) (RefReport, bool) {
	for _, one := range r.Refs {
		if one.Ref == ref {
			return one, true
		}
	}
	return RefReport{}, false
}

// RemoteError is what the other side said went wrong: one line of at most MaxText
// bytes, which may be empty.
type RemoteError struct{ Text string }

func (e *RemoteError) Error() string { return "the git server refused" }

// Demux reads the answer of a receive-pack to a client that requested a report. With sideBand the
// report is on band 1 and progress on band 2. Each piece of progress is passed to progress and is
// only valid during that call; progress may be nil. Band 3, or an ERR packet, is an error of type
// *RemoteError. Demux reads r to its end, except after errors of other types.
//
// A complete report counts, regardless of the data after it. A malformed report is ErrMalformed, a
// truncated one io.ErrUnexpectedEOF as well, and one over 64 KiB ErrTooLarge. Texts are returned as
// single lines of up to MaxText bytes.
func Demux(r io.Reader, sideBand bool, progress func([]byte)) (Report, error) {
	if progress == nil {
		progress = func([]byte) {}
	}
	var raw bytes.Buffer
	err := collect(NewPackets(r), sideBand, &raw, progress)
	rep, failed := parseReport(&raw)
	if failed == nil || errors.As(err, new(*RemoteError)) {
		_, _ = io.Copy(io.Discard, r)
	}
	switch {
	case failed == nil:
		return rep, nil
	case err == nil:
		err = failed
	}
	return Report{}, err
}

func collect(p *Packets, sideBand bool, raw *bytes.Buffer, progress func([]byte)) error {
	for raw.Len() <= maxReport {
		kind, data, err := p.Next()
		switch {
		case err == io.EOF: //nolint:errorlint // between packets, and nowhere else
			return nil
		case err != nil:
			return err
		case kind == KindFlush:
			if !sideBand {
				raw.WriteString(Flush)
			}
			return nil
		case kind != KindData:
			return malformed("the answer has a packet that belongs to a fetch")
		case bytes.HasPrefix(data, []byte(errPrefix)):
			return &RemoteError{Text: clean(data[len(errPrefix):])}
		case !sideBand:
			raw.Write(AppendPacket(nil, data))
			continue
		case len(data) == 0:
			return malformed("a packet has no band")
		}
		switch band, data := data[0], data[1:]; {
		case band == bandData:
			raw.Write(data)
		case band == bandProgress && len(data) > 0: // else it keeps the connection alive
			progress(data)
		case band == bandFatal:
			return &RemoteError{Text: clean(data)}
		case band != bandProgress:
			return malformed("a packet is on a band that there is not")
		}
	}
	return tooLarge("the report has more than 64 KiB")
}

// parseReport reads a whole report, and ignores what follows it.
func parseReport(r io.Reader) (rep Report, err error) {
	for data, err := range NewPackets(r).lines("the report") {
		if err == nil && !reportLine(&rep, line(data)) {
			err = malformed("a line of the report is none")
		}
		if err != nil {
			return Report{}, err
		}
	}
	if rep.Unpack == "" {
		err = malformed("the report is empty")
	}
	return rep, err
}

func reportLine(r *Report, text string) bool {
	word, rest, _ := strings.Cut(text, " ")
	if r.Unpack == "" {
		r.Unpack = clean([]byte(rest))
		return word == "unpack" && r.Unpack != ""
	}
	one := RefReport{Ref: rest}
	switch word {
	case "ok":
	case "ng":
		ref, reason, _ := strings.Cut(rest, " ")
		one = RefReport{ref, cmp.Or(clean([]byte(reason)), "refused without a reason")}
	default: // of report-status-v2, about the ref before it
		return word == "option" && len(r.Refs) > 0
	}
	r.Refs = append(r.Refs, one)
	return one.Ref != "" && len(one.Ref) <= maxRefName && !strings.Contains(one.Ref, " ") && plain(one.Ref)
}

// AppendReport appends a whole answer to a push: a report as a client reads it that
// asked for report-status, on band 1 where it asked for CapSideBand.
func AppendReport(b []byte, rep Report, sideBand bool) []byte {
	if !sideBand {
		return rep.append(b)
	}
	return append(appendBand(b, bandData, rep.append(nil)), Flush...)
}

func (r Report) append(b []byte) []byte {
	b = AppendPacket(b, []byte("unpack "+clean([]byte(r.Unpack))+"\n"))
	for _, one := range r.Refs {
		if one.Reason == "" {
			b = AppendPacket(b, []byte("ok "+one.Ref+"\n"))
		} else {
			b = AppendPacket(b, []byte("ng "+one.Ref+" "+clean([]byte(one.Reason))+"\n"))
		}
	}
	return append(b, Flush...)
}

// AppendProgress appends text for the person at the client, on band 2.
func AppendProgress(b, text []byte) []byte { return appendBand(b, bandProgress, text) }

// AppendFatal appends a sentence that ends the push, on band 3, as "error: …".
func AppendFatal(b []byte, sentence string) []byte {
	return append(appendBand(b, bandFatal, []byte("error: "+clean([]byte(sentence))+"\n")), Flush...)
}

// AppendErr appends an ERR packet. It ends an exchange without a side band, or before its side band
// starts, such as an advertisement or a fetch.
func AppendErr(b []byte, sentence string) []byte {
	return appendLine(b, errPrefix+clean([]byte(sentence))+"\n")
}
