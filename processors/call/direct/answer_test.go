package direct_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/policy"
	"weir/internal/weirtest/upstream"
	"weir/schemas"
)

// TestEverySecretComesBackScrubbed: whatever the entry adds, wherever, and in
// whatever form and place the target says it again.
func TestEverySecretComesBackScrubbed(t *testing.T) {
	t.Parallel()
	quoted := func(s string) string {
		b, err := json.Marshal(s)
		require.NoError(t, err)
		return string(b)
	}
	for name, echo := range map[string]string{
		"raw":          "%s",
		"query":        "q",
		"path":         "p",
		"json":         "j",
		"base64":       "b",
		"base64 inner": "B",
		"split":        "split",
	} {
		for _, value := range []string{secret, inQuery, inBody, inParts, "pre-" + inParts + "-post", "AGWCANARY-PASS:word-99", known["WEIR_SECRET_BASIC"]} {
			said, pad := value, 500 // the cut goes through it
			switch echo {
			case "q":
				said = url.QueryEscape(value)
			case "p":
				said = url.PathEscape(value)
			case "j":
				said = quoted(value)
			case "b":
				said = base64.StdEncoding.EncodeToString([]byte(value))
			case "B":
				said = base64.RawURLEncoding.EncodeToString([]byte("x" + value + "yy"))
			case "split": // by bytes that are dropped for the snippet
				said, pad = value[:9]+"\xff"+value[9:], 400
			}
			printable := strings.ReplaceAll(said, "\xff", "")
			up := upstream.New(t, upstream.Respond(200, strings.Repeat("é", pad)+said, upstream.Header("X-Echo", printable), upstream.Header("Location", "/next?x="+url.QueryEscape(value))))
			e := full(up.URL())
			e.Headers["X-Basic"] = "Basic ${secret:BASIC}"
			h := newHouse(t, e)
			answer, _, err := h.send(t, h.pass(t, schemas.HTTPCall{Method: "POST", URL: up.URL() + "/x", AllowlistKey: "up", Body: []byte("{}")}))
			require.NoError(t, err)
			var body string
			require.NoError(t, json.Unmarshal(answer.Body, &body))
			kept := fmt.Sprint(strings.ReplaceAll(body, "\ufffd", ""), answer.Snippet, answer.Headers)
			if echo == "split" { // halves of it, apart, are in the body as they came
				kept = fmt.Sprint(answer.Snippet, answer.Headers)
			}
			for _, form := range []string{value, url.QueryEscape(value), url.PathEscape(value), strings.Trim(quoted(value), `"`), base64.StdEncoding.EncodeToString([]byte(value))} {
				assert.NotContains(t, kept, form, name)
				assert.NotContains(t, kept, form[:min(len(form), 16)], "%s: its beginning", name)
			}
		}
	}
}

func TestNamesAndNumbersOfSecrets(t *testing.T) {
	t.Parallel()
	up := upstream.New(t, upstream.Respond(200, `{"pin":12345678,"AGWCANARY-SECRET-0123456789abcdef":[1.50]}`, upstream.Header("X-AGWCANARY-SECRET-0123456789ABCDEF", "1"), upstream.Header("X-Csrf-Token", "theirs"), upstream.Header("Signature", "theirs")))
	e := full(up.URL())
	e.Headers["X-Pin"] = "${secret:PIN}"
	h := newHouse(t, e)
	h.known = map[string]string{"WEIR_SECRET_PIN": "12345678"}
	maps.Copy(h.known, known)
	answer, _, err := h.send(t, h.pass(t, schemas.HTTPCall{Method: "GET", URL: up.URL() + "/x", AllowlistKey: "up"}))
	require.NoError(t, err)
	assert.True(t, answer.JSON, "what was JSON stays JSON")
	assert.JSONEq(t, `{"pin":"REDACTED","REDACTED":[1.50]}`, string(answer.Body))
	assert.Contains(t, string(answer.Body), "[1.50]")
	assert.Equal(t, "1", header(answer.Headers, "x-redacted"))
	assert.Equal(t, "REDACTED", header(answer.Headers, "x-csrf-token"))
	assert.Equal(t, "REDACTED", header(answer.Headers, "signature"))
}

// TestShortSecretsWithTheirScheme: a secret too short to be looked for is found
// as part of what was sent.
func TestShortSecretsWithTheirScheme(t *testing.T) {
	t.Parallel()
	up := upstream.New(t, upstream.Respond(200, `abc Bearer abc "YmVhcmVyOg=="`))
	h := newHouse(t, policy.Entry{
		Name: "up", URLPrefix: up.URL() + "/", Network: policy.NetworkLoopback,
		Headers: map[string]string{"Authorization": "Bearer ${secret:SHORT}"},
	})
	answer, _, err := h.send(t, h.pass(t, schemas.HTTPCall{Method: "GET", URL: up.URL() + "/x", AllowlistKey: "up"}))
	require.NoError(t, err)
	assert.Equal(t, `abc REDACTED "YmVhcmVyOg=="`, answer.Snippet)
}

// TestRotationMidway: what a target was told before a rotation is scrubbed after
// it, and the next call carries the new secret.
func TestRotationMidway(t *testing.T) {
	t.Parallel()
	up := upstream.New(t, upstream.Respond(503, "{}"), upstream.Respond(200, "first "+secret+", now AGWCANARY-NEW-9"))
	h := newHouse(t, policy.Entry{
		Name: "up", URLPrefix: up.URL() + "/", Network: policy.NetworkLoopback,
		Headers: map[string]string{"Authorization": "Bearer ${secret:TOKEN}"},
	})
	h.known = map[string]string{"WEIR_SECRET_TOKEN": secret}
	p := h.pass(t, schemas.HTTPCall{Method: "GET", URL: up.URL() + "/x", AllowlistKey: "up"})
	_, _, err := h.send(t, p)
	require.NoError(t, err)
	h.known["WEIR_SECRET_TOKEN"] = "AGWCANARY-NEW-9"
	answer, _, err := h.send(t, p)
	require.NoError(t, err)
	assert.Equal(t, "first REDACTED, now REDACTED", answer.Snippet)
	got := up.Ledger()
	require.Len(t, got, 2)
	assert.Equal(t, "Bearer "+secret, got[0].Header("Authorization"))
	assert.Equal(t, "Bearer AGWCANARY-NEW-9", got[1].Header("Authorization"))
}

// TestSecretsInsideQuotedRequests: a target quotes the request it got, as text in
// its own JSON. What is kept is JSON still, within and without.
func TestSecretsInsideQuotedRequests(t *testing.T) {
	t.Parallel()
	const value = `pa"ss/w\ord-42!xyz`
	request, err := json.Marshal(map[string]any{"user": "someone", "token": value})
	require.NoError(t, err)
	echo, err := json.Marshal(map[string]string{"b": string(request), value: "1"})
	require.NoError(t, err)
	up := upstream.New(t, upstream.Respond(200, string(echo), upstream.Header("X-Echo", string(echo))))
	e := full(up.URL())
	e.Headers["X-Quoted"] = "${secret:QUOTED}"
	h := newHouse(t, e)
	h.known = map[string]string{"WEIR_SECRET_QUOTED": value}
	maps.Copy(h.known, known)
	answer, _, err := h.send(t, h.pass(t, schemas.HTTPCall{Method: "GET", URL: up.URL() + "/x", AllowlistKey: "up"}))
	require.NoError(t, err)
	const want = `{"b":"{\"token\":\"REDACTED\",\"user\":\"someone\"}","REDACTED":"1"}`
	assert.True(t, answer.JSON)
	assert.JSONEq(t, want, string(answer.Body))
	assert.JSONEq(t, want, answer.Snippet)
	assert.JSONEq(t, want, header(answer.Headers, "x-echo"))
}
