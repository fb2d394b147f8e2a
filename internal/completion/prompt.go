package completion

import (
	"bytes"
	"encoding/json"
	"strings"
)

// What parts of a prompt count that are no text.
const (
	// messageTokens are those around the text of a message.
	messageTokens = 16
	// imageTokens are those of one image, whatever its size.
	imageTokens = 2048
	// fileTokens are those of a file that the request only names.
	fileTokens = 32768
	// soundBytes of base64 make a token at most, of sound or film: that is 32 tokens a
	// second of sound at 8 kbit/s.
	soundBytes = 32
	// fileBytes of base64 make a token at most, of a document, which may be packed.
	fileBytes = 4
)

// promptDepth is how deep a request is read for its parts; below it every byte counts.
const promptDepth = 16

// Prompt is how many tokens a request may have at most: no tokenizer makes more tokens
// of a text than it has bytes. Each message counts its strings and 16 for what lies
// between; of everything else that a model may read (tools, response_format, and what
// Weir does not know) every byte counts. An image counts 2048, by its address or its
// data. Sound and film count a token for each 32 bytes of their base64, a document for
// each 4, and what the request only names 32768. So much is a bound for the formats in
// use, and no proof.
func Prompt(body json.RawMessage) int64 {
	n := int64(0)
	for w := members(body, 0); w.next(); {
		switch string(w.key()) {
		case "model", "models", "metadata", "logit_bias", "stop", "stream_options", "provider", "user":
		case "messages":
			for e := elements(body, w.from); e.next(); {
				n += messageTokens + texts(e.value(), promptDepth)
			}
		default:
			if k := w.kind(); k == '{' || k == '[' || k == '"' {
				n += tight(w.value())
			}
		}
	}
	return n
}

// tight is how many bytes a value has without white space between its values.
func tight(value []byte) int64 {
	n := int64(0)
	for at := 0; at < len(value); {
		if at = space(value, at); at == len(value) {
			break
		}
		end := at + 1
		if value[at] == '"' {
			end = skipString(value, at)
		}
		n += int64(end - at)
		at = end
	}
	return n
}

// texts counts the texts of a value.
func texts(value []byte, depth int) int64 {
	switch k := kindOf(value); {
	case k == '"':
		return length(inner(value))
	case k != '{' && k != '[':
		return 0
	case depth == 0:
		return int64(len(value))
	case k == '[':
		n := int64(0)
		for w := elements(value, 0); w.next(); {
			n += texts(w.value(), depth-1)
		}
		return n
	}
	if n, is := media(value); is {
		return n
	}
	n := int64(0)
	for w := members(value, 0); w.next(); {
		n += texts(w.value(), depth-1)
	}
	return n
}

// media counts a part that is no text; false: it is none.
func media(part []byte) (int64, bool) {
	kind := text(find(part, "type"))
	fixed, bytesPer := int64(0), int64(0)
	switch {
	case strings.Contains(kind, "image"):
		fixed = imageTokens
	case strings.Contains(kind, "audio"), strings.Contains(kind, "video"):
		bytesPer = soundBytes
	case kind == "file", kind == "input_file", kind == "document":
		bytesPer = fileBytes
	default:
		return 0, false
	}
	named, data, other := weigh(part, "", promptDepth)
	switch {
	case fixed > 0:
		return max(1, named+min(data, 1))*fixed + other, true
	case data > 0:
		return max(data/bytesPer, imageTokens) + other, true
	}
	return fileTokens + other, true
}

// weigh parts the strings of a part: how many are addresses or names of what it shows,
// how many bytes of it lie in the request, and how many of other text.
func weigh(value []byte, name string, depth int) (named, data, other int64) {
	switch k := kindOf(value); {
	case k == '"' && name == "":
		return 0, 0, length(inner(value))
	case k == '"':
		in := inner(value)
		switch name {
		case "data", "file_data", "b64_json":
			return 0, int64(len(in)), 0
		case "url", "uri", "image_url", "audio_url", "video_url", "file_url", "file_id":
			if at := bytes.IndexByte(in, ','); bytes.HasPrefix(in, []byte("data:")) && at > 0 {
				return 0, int64(len(in)), 0
			}
			return 1, 0, 0
		}
		return 0, 0, length(in)
	case k != '{' && k != '[':
		return 0, 0, 0
	case depth == 0:
		return 0, 0, int64(len(value))
	}
	w := elements(value, 0)
	if value[0] == '{' {
		w = members(value, 0)
	}
	for w.next() {
		inside := name
		if w.names {
			inside = string(w.key())
		}
		n, d, o := weigh(w.value(), inside, depth-1)
		named, data, other = named+n, data+d, other+o
	}
	return named, data, other
}
