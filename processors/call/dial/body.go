package dial

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"mime"
	"strings"
	"unicode/utf8"

	"weir/internal/redact"
	"weir/processors/call"
	"weir/schemas"
)

// snippetLength is how many code points of a body are kept in the open.
const snippetLength = 512

// snippetRoom is how many bytes of a body are looked at for that.
const snippetRoom = 64 << 10

// PutBody gives an answer its body: JSON as it came, a string of its text if its media type is textual, or
// a string of base64. contentType is the Content-Type, "" if the answer has none. The snippet has no
// bytes that are not UTF-8.
func PutBody(a *schemas.Answer, raw []byte, contentType string, scrub *redact.Scrubber) {
	clean := scrub.Bytes(raw)
	doc, isJSON := JSON(raw, clean, scrub)
	switch {
	case len(raw) == 0:
		a.Body = json.RawMessage("null")
		return
	case isJSON:
		a.Body, a.JSON = doc, true
	case utf8.Valid(clean) && textual(contentType):
		a.Body = Quoted(string(clean))
	default:
		a.Body, a.Base64 = Quoted(base64.StdEncoding.EncodeToString(clean)), true
	}
	text := string(clean[:min(len(clean), snippetRoom)])
	if !utf8.ValidString(text) { // without these bytes, two parts may be a secret
		text = scrub.String(strings.ToValidUTF8(text, ""))
	}
	a.Snippet = snippet(text)
}

// Hash is the hex SHA-256 of what came; empty of nothing.
func Hash(raw []byte) string {
	if len(raw) == 0 {
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// MediaType is what an answer says that it is; empty where it does not say it in a way that can be
// read.
func MediaType(headers []schemas.Header) string {
	media, _, _ := mime.ParseMediaType(ContentType(headers))
	return media
}

// ContentType is the Content-Type of an answer as the target sent it, "" without one.
func ContentType(headers []schemas.Header) string {
	for _, h := range headers {
		if h.Name == "content-type" {
			return h.Value
		}
	}
	return ""
}

// JSON is a body that is JSON, without secrets. clean is raw, scrubbed. False: it is none, or it is
// nested too deep to be kept as JSON.
func JSON(raw, clean []byte, scrub *redact.Scrubber) (doc json.RawMessage, ok bool) {
	if len(raw) == 0 || !call.Shallow(raw, maxDepth) || !utf8.Valid(raw) || !json.Valid(raw) {
		return nil, false
	}
	if bytes.Equal(raw, clean) {
		return bytes.TrimSpace(raw), true
	}
	raw = scrub.JSON(raw)
	return bytes.TrimSpace(raw), json.Valid(raw)
}

// Quoted is a text as a JSON string.
func Quoted(text string) json.RawMessage {
	doc, err := json.Marshal(text)
	if err != nil { // a string always marshals
		return json.RawMessage("null")
	}
	return doc
}

// maxDepth is how deep an answer's JSON may be nested and still be kept as JSON.
// It lies inside records that lie inside answers, and every reader on the way has
// a limit of its own.
const maxDepth = 512

// textual reports whether a media type is one of text. An answer without a media type is text if
// its bytes are.
func textual(contentType string) bool {
	media, _, _ := mime.ParseMediaType(contentType)
	kind, name, _ := strings.Cut(media, "/")
	if kind == "text" || media == "" || strings.HasSuffix(name, "+json") || strings.HasSuffix(name, "+xml") || strings.HasSuffix(name, "+yaml") {
		return true
	}
	switch strings.TrimPrefix(name, "x-") {
	case "json", "ndjson", "jsonl", "jsonlines", "json-seq", "xml", "xml-dtd", "yaml", "toml", "csv", "javascript", "ecmascript",
		"www-form-urlencoded", "graphql", "sql", "rtf", "sh", "pem-file", "ns-proxy-autoconfig":
		return kind == "application"
	default:
		return false
	}
}

// Peek passes over white space and shows the first other byte, which is read next.
func Peek(r *bufio.Reader) (byte, error) {
	for {
		c, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		if !strings.ContainsRune(" \t\r\n", rune(c)) {
			return c, r.UnreadByte()
		}
	}
}

// snippet is the first code points of a scrubbed text.
func snippet(text string) string {
	n := 0
	for i := range text {
		if n == snippetLength {
			return text[:i]
		}
		n++
	}
	return text
}
