package completion_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"weir/internal/completion"
)

func TestReadFault(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in      string
		status  int
		message string
	}{
		{`{"error":{"message":"no such model","type":"invalid_request_error","param":null,"code":"model_not_found"}}`, 404, "no such model"},
		{`{"error":{"message":"slow down","code":429,"metadata":{"provider_name":"x","raw":"over capacity"}}}`, 429, "slow down: over capacity"},
		{`{"error":{"message":"Provider returned error","code":502,"metadata":{"raw":"{\"error\":{\"message\":\"deep\",\"code\":503}}"}}}`, 502, "Provider returned error: deep"},
		{`{"error":{"message":"the server had an error","type":"server_error","param":null,"code":null}}`, 500, "the server had an error"},
		{`{"error":"just text"}`, 0, "just text"},
		{`{"message":"Internal Server Error","statusCode":500}`, 500, "Internal Server Error"},
		{`{"detail":"Not Found"}`, 0, "Not Found"},
		{`{"detail":[{"loc":["body","n"],"msg":"must be more"}]}`, 0, "must be more"},
		{`{"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400}`, 400, "too long"},
		{`[{"error":{"code":503,"message":"try later","status":"UNAVAILABLE"}}]`, 503, "try later"},
		{`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, 503, "Overloaded"},
		{`{"errors":[{"message":"first"},{"message":"second"}]}`, 0, "first"},
		{`{"title":"Forbidden","detail":"not you","status":403}`, 403, "not you"},
		{`{"fault":{"faultstring":"quota","detail":{"errorcode":"x"}}}`, 0, "quota"},
		{`{"error":{"code":"429","message":"as text"}}`, 429, "as text"},
		{`{"error":{"code":1234,"message":"no status"}}`, 0, "no status"},
		{`{"error":{"code":200,"message":"odd"}}`, 0, "odd"},
		{`{"error":{"code":500}}`, 500, ""},
		{`{"error":{"message":"a\n\u0000\u001b[31mb\u2028"}}`, 0, "a   [31mb"},
		{`  {"error":{"message":" é "}}  `, 0, "é"},
		{`"quoted"`, 0, "quoted"},
		{"no healthy upstream\n", 0, "no healthy upstream"},
	} {
		t.Run(c.in, func(t *testing.T) {
			t.Parallel()
			got := completion.ReadFault([]byte(c.in))
			require.NotNil(t, got)
			require.Equal(t, []any{c.status, c.message}, []any{got.Status, got.Message})
		})
	}
}

// TestReadFaultsWords: an error is told by its code, its type and its place, where each is a word.
func TestReadFaultsWords(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 129)
	for _, c := range []struct {
		in   string
		want [3]string // code, type, param
	}{
		{`{"error":{"message":"m","type":"invalid_request_error","param":"messages[0].content","code":"context_length_exceeded"}}`, [3]string{"context_length_exceeded", "invalid_request_error", "messages[0].content"}},
		{`{"error":{"message":"m","type":"server_error","param":null,"code":null}}`, [3]string{"", "server_error", ""}},
		{`{"error":{"message":"m","code":400}}`, [3]string{}},
		{`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, [3]string{"", "overloaded_error", ""}},
		{`{"type":"error","message":"m"}`, [3]string{}},
		{`{"code":"outer","error":{"message":"m"}}`, [3]string{"outer", "", ""}},
		{`{"code":"outer","error":{"message":"m","code":"inner"}}`, [3]string{"inner", "", ""}},
		{`{"error":{"message":"m","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"deep\",\"code\":\"context_length_exceeded\"}}"}}}`, [3]string{"context_length_exceeded", "", ""}},
		{`{"error":{"message":"m","code":"two words","type":"` + long + `","param":"a\u001bb"}}`, [3]string{}},
		{`{"error":{"message":"m","code":"` + long[1:] + `"}}`, [3]string{long[1:], "", ""}},
	} {
		t.Run(c.in, func(t *testing.T) {
			t.Parallel()
			got := completion.ReadFault([]byte(c.in))
			require.NotNil(t, got)
			require.Equal(t, c.want, [3]string{got.Code, got.Type, got.Param})
		})
	}
}

func TestReadFaultFindsNone(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"", " \n", "<html><h1>502 Bad Gateway</h1>", "{", `{"error":`, "[]", "{}", "null", "12", `{"error":null}`, "a\xff", strings.Repeat("x", 5000), `{"a":{"message":"not here"}}`, `{"error":{"message":"a"},"pad":"` + strings.Repeat("x", 256<<10) + `"}`, strings.Repeat(`{"error":`, 300) + "1" + strings.Repeat("}", 300)} {
		require.Nil(t, completion.ReadFault([]byte(in)), in)
	}
}

func TestReadFaultBoundsItsMessage(t *testing.T) {
	t.Parallel()
	for pad := range 4 {
		got := completion.ReadFault([]byte(`{"error":{"message":"` + strings.Repeat("a", pad) + strings.Repeat("\U0001F600", 4000) + `"}}`))
		require.NotNil(t, got)
		require.LessOrEqual(t, len(got.Message), 4<<10)
		require.Greater(t, len(got.Message), 4<<10-5)
		require.True(t, utf8.ValidString(got.Message))
		require.NotContains(t, got.Message, "\uFFFD")
	}
}

func FuzzReadFault(f *testing.F) {
	f.Add([]byte(`{"error":{"message":"a","code":1,"metadata":{"raw":"{}"}},"detail":[{"msg":1}]}`))
	f.Add([]byte("plain"))
	f.Fuzz(func(t *testing.T, body []byte) {
		got := completion.ReadFault(body)
		if got == nil {
			return
		}
		require.True(t, utf8.ValidString(got.Message))
		require.LessOrEqual(t, len(got.Message), 4<<10)
		require.False(t, strings.ContainsAny(got.Message, "\r\n\x00\x1b"))
		require.True(t, got.Status == 0 || got.Status >= 400 && got.Status <= 599)
		require.True(t, got.Status != 0 || got.Message != "")
	})
}
