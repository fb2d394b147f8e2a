package chat_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/ingress/chat"
	"weir/ingress/strict"
	"weir/internal/completion"
	"weir/internal/fault"
	"weir/internal/problem"
	"weir/internal/weirtest/fixture"
	"weir/schemas"
)

const fixtures = "../../schemas/chat/testdata"

// dirs are the folders of the dialects' fixtures.
func dirs() map[schemas.Dialect]string {
	return map[schemas.Dialect]string{
		schemas.DialectChat: fixtures, schemas.DialectResponses: "testdata/responses", schemas.DialectMessages: "testdata/messages",
		schemas.DialectCount: "testdata/count_tokens", schemas.DialectEmbeddings: "testdata/embeddings",
	}
}

// outcome is what a fixture expects: an order, or a refusal. How many tokens a prompt
// may have is not this package's to say.
type outcome struct {
	Order   *schemas.ChatOrder `json:"order,omitempty"`
	Code    schemas.Code       `json:"code,omitempty"`
	Word    string             `json:"word,omitempty"`
	Message string             `json:"message,omitempty"`
}

// read takes a body of chat completions the way the door takes it.
func read(tb testing.TB, body []byte) outcome {
	tb.Helper()
	return readAs(tb, schemas.DialectChat, body)
}

func readAs(tb testing.TB, d schemas.Dialect, body []byte) outcome {
	tb.Helper()
	before := bytes.Clone(body)
	order, _, err := chat.Read(d, body)
	require.Equal(tb, before, body, "the body stays as it was")
	if err != nil {
		require.Zero(tb, order)
		if specific, ok := errors.AsType[*problem.Error](err); ok {
			return outcome{Code: specific.Code, Word: specific.Word, Message: specific.Detail}
		}
		public, ok := errors.AsType[*fault.Error](err)
		require.True(tb, ok, "%v", err)
		return outcome{Code: public.Code, Message: public.Message}
	}
	require.Equal(tb, completion.Prompt(order.Dialect, order.Body).Bytes, order.Prompt)
	order.Prompt = 0
	return outcome{Order: &order}
}

func TestFixtures(t *testing.T) {
	t.Parallel()
	for d, dir := range dirs() {
		set := fixture.Set{Dir: dir, Valid: "order.json", Invalid: "error.json"}
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			set.Run(t, func(t *testing.T, _ string, body []byte) (any, bool) {
				t.Helper()
				require.NoError(t, strict.Check(body, strict.Limits{}))
				got := readAs(t, d, body)
				return got, got.Order != nil
			})
		})
	}
}

// A refusal names the member and shows nothing of what it holds.
func TestRefusalsShowNoValue(t *testing.T) {
	t.Parallel()
	const secret = "AGWCANARY-value"
	for _, member := range []string{"api_key", "model", "models", "n", "max_tokens", "stream", "stream_options", "messages", "unheard"} {
		body := `{"model":"a b` + secret + `","messages":[{"role":"user"}]}`
		if member != "model" {
			body = `{"model":"m","messages":[{"role":"user"}],"` + member + `":"https://` + secret + `"}`
		}
		if member == "messages" {
			body = `{"model":"m","messages":"` + secret + `"}`
		}
		got := read(t, []byte(body))
		require.Nil(t, got.Order, body)
		require.Contains(t, got.Message, "at /"+member)
		require.NotContains(t, got.Message, secret)
	}
}

// TestEveryOtherByteStays: of a body with models only that member goes, wherever it stands.
func TestEveryOtherByteStays(t *testing.T) {
	t.Parallel()
	members := []string{` "model" : "m"`, "\n\"messages\":[ {\"role\":\"user\",\"content\":\"\\u00e9\"} ]", `"x":[1.50, 1E2]`}
	for at := range len(members) + 1 {
		with := append(append(append([]string{}, members[:at]...), ` "models": ["b"]`), members[at:]...)
		order, _, err := chat.Read(schemas.DialectChat, []byte("{"+strings.Join(with, ",")+"}"))
		require.NoError(t, err)
		require.Equal(t, []string{"b"}, order.Models)
		require.Equal(t, "{"+strings.Join(members, ",")+"}", string(order.Body), "%d", at)
	}
	whole := "{" + strings.Join(members, ",") + "}"
	order, _, err := chat.Read(schemas.DialectChat, []byte(whole))
	require.NoError(t, err)
	require.Equal(t, whole, string(order.Body))
}

// A list in the place of an object is looked at like a member that is not known, labels but for addresses.
func TestListsOfObjectsHideNothing(t *testing.T) {
	t.Parallel()
	const head = `{"model":"m","messages":[{"role":"user"}],`
	for _, member := range []string{
		`"metadata":%s`, `"logit_bias":%s`, `"response_format":%s`, `"tool_choice":%s`, `"function_call":%s`, `"audio":{"voice":%s}`,
		`"response_format":{"json_schema":%s}`, `"response_format":{"json_schema":[{"schema":%s}]}`, `"audio":%s`,
		`"messages":[{"role":"assistant","function_call":[{"arguments":%s}]}]`,
	} {
		for _, list := range []string{`[{"proxy":"b"}]`, `[{"server_url":"http://x"}]`, `[{"secret":7}]`} {
			body := head + strings.Replace(member, "%s", list, 1) + `}`
			if strings.HasPrefix(member, `"messages"`) {
				body = `{"model":"m",` + strings.Replace(member, "%s", list, 1) + `}`
			}
			require.Equal(t, schemas.ValidationError, read(t, []byte(body)).Code, body)
		}
	}
	require.Equal(t, schemas.ValidationError, read(t, []byte(head+`"audio":{"voice":["http://x"]}}`)).Code)
	for _, list := range []string{`[{"proxy":"b"}]`, `[{"server_url":"http://x"}]`, `[{"secret":7}]`} {
		body := `{"model":"m","input":"a","client_metadata":` + list + `}`
		require.Equal(t, schemas.ValidationError, readAs(t, schemas.DialectResponses, []byte(body)).Code, body)
	}
}

// What a body has of its own is bounded; what lies in its members is the door's to bound.
func TestMembersAreBounded(t *testing.T) {
	t.Parallel()
	body := func(n int, nested bool) []byte {
		var b strings.Builder
		b.WriteString(`{"model":"m","messages":[{"role":"user"}]`)
		if nested {
			b.WriteString(`,"x":{"y":0`)
		}
		for i := range n {
			b.WriteString(`,"member_of_a_body_` + strconv.Itoa(i) + `":0`)
		}
		if nested {
			b.WriteByte('}')
		}
		return []byte(b.String() + "}")
	}
	require.NotNil(t, read(t, body(498, false)).Order)
	require.Equal(t, schemas.ValidationError, read(t, body(499, false)).Code)
	require.NotNil(t, read(t, body(5000, true)).Order)
}

// FuzzRead holds what is stored for a body that is accepted against the body, in every dialect.
func FuzzRead(f *testing.F) {
	for _, dir := range dirs() {
		fixture.Seed(f, dir)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if strict.Check(body, strict.Limits{}) != nil {
			return
		}
		for d := range dirs() {
			got := readAs(t, d, body)
			if got.Order == nil {
				require.Contains(t, []schemas.Code{schemas.ValidationError, schemas.InvalidRequest}, got.Code)
				continue
			}
			require.True(t, schemas.ValidModel(got.Order.Model))
			require.Positive(t, got.Order.Choices)
			var was, is map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(body, &was))
			require.NoError(t, json.Unmarshal(got.Order.Body, &is), "%s", got.Order.Body)
			delete(was, "models")
			require.Equal(t, was, is)
			again := readAs(t, d, got.Order.Body)
			require.NotNil(t, again.Order, "%+v", again)
			require.Equal(t, got.Order.Body, again.Order.Body)
			require.Empty(t, again.Order.Models)
		}
	})
}

func TestUnpassedItemReference(t *testing.T) {
	t.Parallel()
	err := chat.Unpassed([]chat.Further{{Name: "item_reference", At: "/input/0"}}, []string{"item_reference"}, "models.m")
	require.ErrorContains(t, err, "at /input/0: no upstream of this model passes item_reference; have the client send the items themselves (store: false;")
	require.ErrorContains(t, err, ", or have the operator write models.m.pass: [item_reference]")
}
