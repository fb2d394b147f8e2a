package completion

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// inner is a string without its quotes.
func inner(s []byte) []byte {
	if len(s) < 2 {
		return nil
	}
	return s[1 : len(s)-1 : len(s)-1]
}

// unquote decodes what stands between the quotes of a string. What is no text in it
// becomes U+FFFD.
func unquote(in []byte) string {
	if bytes.IndexByte(in, '\\') < 0 {
		return string(bytes.ToValidUTF8(in, []byte("\uFFFD")))
	}
	quoted := slices.Concat([]byte{'"'}, in, []byte{'"'})
	out, _ := jsontext.AppendUnquote(nil, quoted)
	return string(out)
}

// appendHalves adds what stands between the quotes of a string, decoded but for escapes
// that are no character by themselves.
func appendHalves(to, in []byte) []byte {
	for at := 0; at < len(in); {
		if in[at] != '\\' {
			to = append(to, in[at])
			at++
			continue
		}
		one := in[at:min(at+len(`\n`), len(in))]
		if string(one) == `\u` {
			one = in[at:min(at+len(`\u0000`), len(in))]
			if pair := in[at:min(at+len(`\u0000\u0000`), len(in))]; whole(pair) {
				one = pair
			}
		}
		at += len(one)
		if whole(one) {
			to = append(to, unquote(one)...)
		} else {
			to = append(to, one...)
		}
	}
	return to
}

// whole reports whether what stands between quotes is a text.
func whole(in []byte) bool {
	_, err := jsontext.AppendUnquote(nil, slices.Concat([]byte{'"'}, in, []byte{'"'}))
	return err == nil
}

// text decodes a value that is a string; "" for any other.
func text(value []byte) string {
	if kindOf(value) != '"' {
		return ""
	}
	return unquote(inner(value))
}

// quote writes a string. What is no text in it becomes U+FFFD.
func quote(s string) []byte {
	out, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		out, _ = jsontext.AppendQuote(nil, bytes.ToValidUTF8([]byte(s), []byte("\uFFFD")))
	}
	return out
}

// spelled is what stands between the quotes of a name, in the one spelling of walk.key.
func spelled(name []byte) []byte {
	if bytes.IndexByte(name, '\\') < 0 {
		return name
	}
	return inner(quote(unquote(name)))
}
