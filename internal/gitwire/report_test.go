package gitwire_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"weir/internal/gitwire"
	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/table"
)

func TestReportGoesThereAndBack(t *testing.T) {
	t.Parallel()
	gone := errors.New("the upstream is gone")
	for _, rep := range []gitwire.Report{
		{Unpack: "ok"},
		{Unpack: "index-pack abnormal exit", Reason: "unpacker error"},
		{Unpack: "ok", Reason: strings.Repeat("r", 1000)},
	} {
		for _, sideBand := range []bool{false, true} {
			b := gitwire.AppendReport(nil, main, rep, sideBand)
			got, err := gitwire.Demux(iotest.OneByteReader(bytes.NewReader(b)), main, sideBand, nil)
			require.NoError(t, err)
			require.Equal(t, rep, got)
			_, err = gitwire.Demux(bytes.NewReader(b), "refs/heads/other", sideBand, nil)
			require.Equal(t, rep.Unpack == "ok", errors.Is(err, gitwire.ErrMalformed), "it is not about that ref")
			// Whatever it ends before, it is no word; an error of the reader is that.
			for n := 0; n < len(b)-8; n += 1 + len(b)/300 {
				_, err := gitwire.Demux(bytes.NewReader(b[:n]), main, sideBand, nil)
				require.ErrorIs(t, err, gitwire.ErrMalformed)
				_, err = gitwire.Demux(io.MultiReader(bytes.NewReader(b[:n]), iotest.ErrReader(gone)), main, sideBand, nil)
				require.ErrorIs(t, err, gone)
			}
		}
	}
}

func TestDemux(t *testing.T) {
	t.Parallel()
	p := gitkit.Pkt
	report := p("unpack ok\n") + p("ok "+main+"\n") + "0000"
	fine := gitwire.Report{Unpack: "ok"}
	type testCase struct {
		in       string
		plain    bool
		want     gitwire.Report
		progress string
		err      error
		said     string // of a RemoteError
	}
	table.Run(t, map[string]testCase{
		"in pieces with progress between": {
			in:   p("\x02half ") + p("\x01"+report[:7]) + p("\x02") + p("\x01"+report[7:]) + p("\x02of it") + "0000",
			want: fine, progress: "half of it",
		},
		"texts are cleaned": {in: p("unpack a\x1b[31mb\tc\xff\n") + p("ng "+main+" x\r\u009by\n") + "0000", plain: true, want: gitwire.Report{
			Unpack: "a [31mb c", Reason: "x y",
		}},
		"of several, the ref's own":    {in: p("unpack ok") + p("ng refs/heads/x no") + p("ok "+main) + p("ng "+main+" no") + "0000", plain: true, want: fine},
		"no word on the ref":           {in: p("unpack failed") + "0000", plain: true, want: gitwire.Report{Unpack: "failed", Reason: "failed"}},
		"taken, and none on the ref":   {in: p("unpack ok") + "0000", plain: true, err: gitwire.ErrMalformed},
		"fatal":                        {in: p("\x02so far") + p("\x03error: no\n") + p("\x02more"), progress: "so far", said: "error: no"},
		"fatal behind a whole report":  {in: p("\x01"+report) + p("\x03error: hook\n"), want: fine},
		"broken behind a whole report": {in: p("\x01"+report) + "zz", want: fine},
		"more behind a whole report":   {in: p("\x01"+report) + "0000" + "anything", want: fine},
		"an ERR packet":                {in: p("ERR access denied\n"), plain: true, said: "access denied"},
		"nothing":                      {in: "", err: gitwire.ErrMalformed},
		"no report on the band":        {in: p("\x02progress") + "0000", progress: "progress", err: gitwire.ErrMalformed},
		"a page":                       {in: "<html><body>no</body></html>", err: gitwire.ErrMalformed},
		"a fourth band":                {in: p("\x04x"), err: gitwire.ErrMalformed},
		"not unpack first":             {in: p("ok "+main) + "0000", plain: true, err: gitwire.ErrMalformed},
		"a ref of control":             {in: p("unpack ok") + p("ok "+main+"\x1b") + "0000", plain: true, err: gitwire.ErrMalformed},
		"a report on a band, unasked":  {in: p("\x01"+report) + "0000", plain: true, err: gitwire.ErrMalformed},
	}, func(t *testing.T, test testCase) {
		var progress strings.Builder
		got, err := gitwire.Demux(strings.NewReader(test.in), main, !test.plain, func(b []byte) { progress.Write(b) })
		if test.said != "" {
			var remote *gitwire.RemoteError
			require.ErrorAs(t, err, &remote)
			require.Equal(t, test.said, remote.Text)
		} else {
			require.ErrorIs(t, err, test.err)
		}
		require.Equal(t, test.want, got)
		require.Equal(t, test.progress, progress.String())
	})
}

func TestAppendKeepsToPackets(t *testing.T) {
	t.Parallel()
	big := bytes.Repeat([]byte("x"), 200_000)
	require.Len(t, gitwire.AppendPacket(nil, big), 65520)
	got := 0
	_, err := gitwire.Demux(bytes.NewReader(gitwire.AppendProgress(nil, big)), main, true, func(b []byte) { got += len(b) })
	require.Error(t, err, "no report")
	require.Equal(t, len(big), got)
	require.Empty(t, gitwire.AppendProgress(nil, nil))
	require.Equal(t, gitkit.Pkt("\x03error: a b\n")+"0000", string(gitwire.AppendFatal(nil, "a\nb")))
	require.Equal(t, gitkit.Pkt("ERR no\n"), string(gitwire.AppendErr(nil, "no")))
}

func FuzzDemux(f *testing.F) {
	rep := gitwire.Report{Unpack: "ok", Reason: "no"}
	for _, sideBand := range []bool{false, true} {
		f.Add(gitwire.AppendReport(gitwire.AppendProgress(nil, []byte("p")), main, rep, sideBand), sideBand)
	}
	f.Add(gitwire.AppendFatal(nil, "no"), true)
	f.Fuzz(func(t *testing.T, data []byte, sideBand bool) {
		rep, err := gitwire.Demux(bytes.NewReader(data), main, sideBand, func([]byte) {})
		if err != nil {
			require.Zero(t, rep)
			require.True(t, errors.Is(err, gitwire.ErrMalformed) || errors.As(err, new(*gitwire.RemoteError)))
			return
		}
		again, err := gitwire.Demux(bytes.NewReader(gitwire.AppendReport(nil, main, rep, sideBand)), main, sideBand, nil)
		require.NoError(t, err)
		require.Equal(t, rep, again)
	})
}
