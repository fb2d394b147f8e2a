package gitwire

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
)

const (
	maxReport = 64 << 10
	errPrefix = "ERR "
	// fatalPrefix is how the library begins its error for a packet on band 3.
	fatalPrefix = "unexpected error: "
)

// UnpackOK is git's word on a pack that it could take.
const UnpackOK = "ok"

// Report is git's word on a push of one ref.
type Report struct {
	Unpack string // UnpackOK, or what is wrong with the objects
	Reason string // why the ref was not updated; empty: it was
}

// RemoteError is what the other side said went wrong: one line of at most MaxText
// bytes, which may be empty.
type RemoteError struct{ Text string }

func (e *RemoteError) Error() string { return "the git server refused" }

// progress passes on what is no mere sign of life.
type progress func([]byte)

func (p progress) Write(b []byte) (int, error) {
	if p != nil && len(b) > 0 {
		p(b)
	}
	return len(b), nil
}

// Demux reads the answer of a receive-pack to a client that pushed a ref and requested a report. With
// sideBand the report is on band 1 and progress on band 2. Each piece of progress is passed to tell and
// is only valid during that call; tell may be nil. Band 3, or an ERR packet, is an error of type
// *RemoteError. Demux reads r to its end, except after errors of other types.
//
// A complete report counts, regardless of the data after it. One that is malformed, truncated, without
// the ref or over 64 KiB is ErrMalformed, unless r failed. Texts are returned as single lines of up to
// MaxText bytes.
func Demux(r io.Reader, ref string, sideBand bool, tell func([]byte)) (Report, error) {
	in := &bounded{r: r} // the library drops r's error in the middle of a report
	band := io.Reader(in)
	if sideBand {
		band = demuxer(in, tell)
	}
	var s packp.ReportStatus
	if err := s.Decode(io.LimitReader(band, maxReport)); err != nil {
		return Report{}, bandError(err, in)
	}
	_, _ = io.Copy(io.Discard, band)
	_, _ = io.Copy(io.Discard, r)
	rep := Report{Unpack: clean(s.UnpackStatus)}
	i := slices.IndexFunc(s.CommandStatuses, func(one *packp.CommandStatus) bool { return one.ReferenceName.String() == ref })
	switch {
	case rep.Unpack == "":
		return Report{}, malformed("the report does not say how the objects were taken")
	case i >= 0 && s.CommandStatuses[i].Error() != nil:
		rep.Reason = cmp.Or(clean(s.CommandStatuses[i].Status), "refused without a reason")
	case rep.Unpack != UnpackOK:
		rep.Reason = rep.Unpack
	case i < 0:
		return Report{}, malformed("the report has no result for the ref")
	}
	return rep, nil
}

func demuxer(r io.Reader, tell func([]byte)) *sideband.Demuxer {
	d := sideband.NewDemuxer(sideband.Sideband64k, r)
	d.Progress = progress(tell)
	return d
}

// ReadPackAnswer reads the answer to RequestPack up to its pack, which the returned reader reads.
// Progress and errors are as those of Demux.
func ReadPackAnswer(r io.Reader, tell func([]byte)) (pack io.Reader, err error) {
	in := &bounded{r: r}
	s := pktline.NewScanner(in)
	switch {
	case !s.Scan():
		return nil, wireError(cmp.Or(s.Err(), io.ErrUnexpectedEOF))
	case line(s.Bytes()) != "NAK":
		return nil, malformed("the answer to a fetch does not begin as it should")
	}
	return packBand{demuxer(in, tell), in}, nil
}

type packBand struct {
	*sideband.Demuxer
	in *bounded
}

func (b packBand) Read(p []byte) (int, error) {
	n, err := b.Demuxer.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = bandError(err, b.in)
	}
	return n, err
}

// bandError translates an error of the library or the reader.
func bandError(err error, in *bounded) error {
	refused, ok := wireError(err).(*RemoteError) //nolint:errorlint // of wireError itself
	if text, fatal := strings.CutPrefix(err.Error(), fatalPrefix); fatal {
		refused, ok = &RemoteError{Text: clean(text)}, true
	}
	switch {
	case ok:
		_, _ = io.Copy(io.Discard, in)
		return refused
	case in.failed != nil:
		return wireError(in.failed)
	}
	return malformed("the answer is not what a git server sends")
}

// AppendReport appends a whole answer to a push of a ref: a report as a client reads it that
// asked for report-status, on band 1 where it asked for CapSideBand. The same is said of other refs of the push.
func AppendReport(b []byte, ref string, rep Report, sideBand bool, others ...string) []byte {
	s := packp.ReportStatus{UnpackStatus: clean(rep.Unpack)}
	for _, name := range append([]string{ref}, others...) {
		s.CommandStatuses = append(s.CommandStatuses, &packp.CommandStatus{
			ReferenceName: plumbing.ReferenceName(name), Status: cmp.Or(clean(rep.Reason), UnpackOK),
		})
	}
	report := encoded(s.Encode)
	if !sideBand {
		return append(b, report...)
	}
	return append(appendBand(b, sideband.PackData, report), Flush...)
}

// appendBand appends data on a band, in as many packets as they need. The library's packets are too large
// for its own encoder.
func appendBand(b []byte, band sideband.Channel, data []byte) []byte {
	for piece := range slices.Chunk(data, maxBand) {
		b = AppendPacket(b, band.WithPayload(piece))
	}
	return b
}

// AppendProgress appends text for the person at the client, on band 2.
func AppendProgress(b, text []byte) []byte { return appendBand(b, sideband.ProgressMessage, text) }

// AppendFatal appends a sentence that ends the push, on band 3, as "error: …".
func AppendFatal(b []byte, sentence string) []byte {
	return append(appendBand(b, sideband.ErrorMessage, []byte("error: "+clean(sentence)+"\n")), Flush...)
}

// AppendErr appends an ERR packet. It ends an exchange without a side band, or before its side band
// starts, such as an advertisement or a fetch.
func AppendErr(b []byte, sentence string) []byte {
	return appendLine(b, errPrefix+clean(sentence)+"\n")
}
