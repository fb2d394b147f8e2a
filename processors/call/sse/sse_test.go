package sse_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/table"
	"weir/processors/call/sse"
)

// got is an event without what a later one overwrites.
type got struct {
	name, data string
	size       int
	cut        bool
}

func readAll(t *testing.T, r io.Reader, limit int) ([]got, error) {
	t.Helper()
	s := sse.New(r, limit)
	var all []got
	for {
		ev, err := s.Next()
		if err != nil {
			return all, err
		}
		all = append(all, got{ev.Name, string(ev.Data), ev.Size, ev.Cut})
	}
}

func TestSSE(t *testing.T) {
	t.Parallel()
	type testCase struct {
		in   string
		want []got
	}
	table.RunNamed(t, map[string]testCase{
		"nothing":                   {"", nil},
		"blank lines":               {"\n\r\r\n\n", nil},
		"one":                       {"event: a\ndata: 1\n\n", []got{{"a", "1", 1, false}}},
		"crlf":                      {"event: a\r\ndata: 1\r\n\r\nevent: b\r\ndata: 2\r\n\r\n", []got{{"a", "1", 1, false}, {"b", "2", 1, false}}},
		"cr":                        {"event: a\rdata: 1\r\rdata: 2\r\r", []got{{"a", "1", 1, false}, {"", "2", 1, false}}},
		"all ends mixed":            {"event: a\rdata: 1\r\ndata: 2\n\r\n", []got{{"a", "1\n2", 3, false}}},
		"byte order mark":           {"\uFEFFdata: 1\n\n", []got{{"", "1", 1, false}}},
		"one byte order mark alone": {"\uFEFF\uFEFFdata: 1\n\ndata: 2\n\n", []got{{"", "2", 1, false}}},
		"comments":                  {": x\nevent: a\n:\n:data: 2\ndata: 1\n: y\n\n", []got{{"a", "1", 1, false}}},
		"several lines":             {"data: {\ndata:   \"a\": 1\ndata: }\n\n", []got{{"", "{\n  \"a\": 1\n}", 12, false}}},
		"no space":                  {"event:a\ndata:1\n\n", []got{{"a", "1", 1, false}}},
		"one space is not the data": {"data:  1\n\n", []got{{"", " 1", 2, false}}},
		"no colon":                  {"data\n\n", []got{{"", "", 0, false}}},
		"empty lines of data":       {"data\ndata\n\n", []got{{"", "\n", 1, false}}},
		"name alone":                {"event: done\n\n", []got{{"done", "", 0, false}}},
		"empty name alone":          {"event:\n\nid: 7\nretry: 1\n\n", nil},
		"the last name":             {"event: a\nevent: b\ndata: 1\n\ndata: 2\n\n", []got{{"b", "1", 1, false}, {"", "2", 1, false}}},
		"others are passed over":    {"id: 1\nretry: 10\nEvent: a\nDATA: 2\nnonsense\ndata: 1\n\n", []got{{"", "1", 1, false}}},
		"cut before the blank line": {"data: 1\n", []got{{"", "1", 1, true}}},
		"cut in a line":             {"event: a\ndata: {\"a\"", []got{{"a", `{"a"`, 4, true}}},
		"cut behind CR":             {"data: 1\r\n\r", []got{{"", "1", 1, false}}},
		"cut name":                  {"event: a", []got{{"a", "", 0, true}}},
		"not UTF-8":                 {"data: a\xffb\n\n", []got{{"", "a\uFFFDb", 5, false}}},
		"nul":                       {"data: a\x00b\n\n", []got{{"", "a\x00b", 3, false}}},
		"over the limit":            {"event: a\ndata: 12345678\ndata: 90\n\ndata: 1\n\n", []got{{"a", "", 11, false}, {"", "1", 1, false}}},
		"over in one line":          {"data: " + strings.Repeat("x", 5000) + "\nevent: a\n\n", []got{{"a", "", 5000, false}}},
		"long name":                 {"event: " + strings.Repeat("x", 131) + "\n\n", []got{{strings.Repeat("x", 131), "", 0, false}}},
		"a name over the limit":     {"event: a\nevent: " + strings.Repeat("x", 132) + "\ndata: 1\n\n", []got{{"", "1", 1, false}}},
		"long comment":              {":" + strings.Repeat("x", 9000) + "\ndata: 1\n\n", []got{{"", "1", 1, false}}},
	}, func(t *testing.T, name string, tt testCase) {
		limit := 10
		if strings.HasPrefix(name, "several") {
			limit = 100
		}
		for way, r := range map[string]io.Reader{
			"whole": strings.NewReader(tt.in), "by bytes": iotest.OneByteReader(strings.NewReader(tt.in)),
			"with the error": iotest.DataErrReader(strings.NewReader(tt.in)),
		} {
			events, err := readAll(t, r, limit)
			require.ErrorIs(t, err, io.EOF, way)
			assert.Equal(t, tt.want, events, way)
		}
	})
}

// TestSSEGivesEventsAtOnce: an event is given when its blank line is there, with
// any line end, and not when the next byte is.
func TestSSEGivesEventsAtOnce(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"\n", "\r\n", "\r"} {
		r, w := io.Pipe()
		s := sse.New(r, 100)
		events := make(chan string)
		go func() {
			defer close(events)
			for {
				ev, err := s.Next()
				if err != nil {
					return
				}
				events <- string(ev.Data)
			}
		}()
		for _, data := range []string{"1", "2", "3"} {
			_, err := io.WriteString(w, "data: "+data+end+end)
			require.NoError(t, err)
			assert.Equal(t, data, <-events)
		}
		require.NoError(t, w.Close())
		<-events
	}
}

func TestSSEPassesErrorsOn(t *testing.T) {
	t.Parallel()
	broke := errors.New("broke")
	events, err := readAll(t, io.MultiReader(strings.NewReader("data: 1\n\ndata: 2\n"), iotest.ErrReader(broke)), 10)
	require.ErrorIs(t, err, broke)
	assert.Equal(t, []got{{"", "1", 1, false}, {"", "2", 1, true}}, events)
}

func FuzzSSE(f *testing.F) {
	for _, seed := range []string{
		"event: a\r\ndata: {\"type\":\"final\"}\r\n\r\n", "\uFEFFdata:1\r\rdata\n\n", ": c\nevent:\nevent: done\n\n",
		"data: 1\ndata: 2\n\nid: 1\nretry: 5\n\n", "data: \xff\xfe\n\n", "event: a", "data: 123456789012\n\ndata: x\n",
	} {
		f.Add([]byte(seed), 8)
	}
	f.Fuzz(func(t *testing.T, in []byte, limit int) {
		limit = 1 + max(limit, -limit-1)%64
		whole, err := readAll(t, bytes.NewReader(in), limit)
		require.ErrorIs(t, err, io.EOF)
		bytewise, err := readAll(t, iotest.OneByteReader(bytes.NewReader(in)), limit)
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, whole, bytewise, "how it is cut changes nothing")
		for i, ev := range whole {
			require.LessOrEqual(t, len(ev.data), 3*limit, "mended bytes are three for one")
			require.True(t, !ev.cut || i == len(whole)-1, "only the last can be cut")
			require.NotContains(t, ev.name, "\n")
		}
	})
}
