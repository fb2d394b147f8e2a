package gitwire

import (
	"bytes"
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

// RefReport is the word on one ref; Reason is empty where it was updated.
type RefReport struct{ Ref, Reason string }

// Of is the word on a ref, if there is one.
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

// Demux reads what a receive-pack answers to who asked for a report: with sideBand
// that is on band 1 and progress on band 2, which is handed to progress piece by piece
// as it comes, each good for that call only; progress may be nil. Band 3, or an ERR
// packet, is an error of type *RemoteError. Demux reads r to its end, but for errors of
// other types.
//
// A report that is whole is git's word, whatever r has behind it. What is no report is
// ErrMalformed, and one that r ends before is io.ErrUnexpectedEOF as well; more than
// 64 KiB of it are ErrTooLarge. Its texts come as single lines of up to MaxText bytes.
func Demux(r io.Reader, sideBand bool, progress func([]byte)) (Report, error) {
	if progress == nil {
		progress = func([]byte) {}
	}
	var raw bytes.Buffer
	err := collect(NewPackets(r), sideBand, &raw, progress)
	rep, failed := parseReport(&raw)
	if failed == nil {
		_, _ = io.Copy(io.Discard, r)
		return rep, nil
	}
	if err == nil {
		return Report{}, failed
	}
	if errors.As(err, new(*RemoteError)) {
		_, _ = io.Copy(io.Discard, r)
	}
	return Report{}, err
}

// collect gathers the packets of the report, and returns nil when there are no more.
func collect(p *Packets, sideBand bool, raw *bytes.Buffer, progress func([]byte)) error {
	for {
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
		case len(data) == 0:
			return malformed("a packet has no band")
		default:
			if err := band(data[0], data[1:], raw, progress); err != nil {
				return err
			}
		}
		if raw.Len() > maxReport {
			return tooLarge("the report has more than 64 KiB")
		}
	}
}

func band(n byte, data []byte, raw *bytes.Buffer, progress func([]byte)) error {
	switch n {
	case bandData:
		raw.Write(data)
	case bandProgress:
		if len(data) > 0 { // else it keeps the connection alive
			progress(data)
		}
	case bandFatal:
		return &RemoteError{Text: clean(data)}
	default:
		return malformed("a packet is on a band that there is not")
	}
	return nil
}

// parseReport reads a whole report, and lets lie what is behind it.
func parseReport(r io.Reader) (Report, error) {
	var rep Report
	p := NewPackets(r)
	for {
		kind, data, err := p.Next()
		switch {
		case err != nil:
			return Report{}, ended(err, "the report")
		case kind == KindFlush && rep.Unpack != "":
			return rep, nil
		case kind != KindData:
			return Report{}, malformed("the report is empty, or has a packet that belongs to a fetch")
		}
		if err := reportLine(&rep, line(data)); err != nil {
			return Report{}, err
		}
	}
}

func reportLine(r *Report, text string) error {
	word, rest, _ := strings.Cut(text, " ")
	switch {
	case r.Unpack == "" && word == "unpack":
		if r.Unpack = clean([]byte(rest)); r.Unpack != "" {
			return nil
		}
	case r.Unpack == "":
	case word == "ok":
		return reportRef(r, rest, "")
	case word == "ng":
		ref, reason, _ := strings.Cut(rest, " ")
		if reason = clean([]byte(reason)); reason == "" {
			reason = "refused without a reason"
		}
		return reportRef(r, ref, reason)
	case word == "option" && len(r.Refs) > 0: // of report-status-v2, about the ref before it
		return nil
	}
	return malformed("a line of the report is none")
}

func reportRef(r *Report, ref, reason string) error {
	if ref == "" || len(ref) > maxRefName || strings.Contains(ref, " ") || !plain(ref) {
		return malformed("a line of the report has no ref")
	}
	r.Refs = append(r.Refs, RefReport{Ref: ref, Reason: reason})
	return nil
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

// AppendErr appends an ERR packet: the end of an exchange that has no side band, or
// has not come to it, such as an advertisement or a fetch.
func AppendErr(b []byte, sentence string) []byte {
	return appendLine(b, errPrefix, clean([]byte(sentence)), "\n")
}
