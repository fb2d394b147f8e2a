package completion

import (
	"bytes"
	"encoding/json"
	"strings"
)

// What parts of a prompt count that are no text.
const (
	// messageBytes are those around the text of a message.
	messageBytes = 16
	// fileTokens are those of a file that the request only names, and leastTokens of one
	// that lies in it.
	fileTokens  = 32768
	leastTokens = 2048
	// soundBytes of base64 make a token at most, of sound or film: that is 32 tokens a
	// second of sound at 8 kbit/s.
	soundBytes = 32
	// fileBytes of base64 make a token at most, of a document, which may be packed.
	fileBytes = 4
)

// Size is how large a request is.
type Size struct {
	// Bytes are those of its text: no tokenizer makes more tokens of a text.
	Bytes int64
	// Images are how many images it shows or names. What one of them counts depends on the
	// model, and not on its data; see models.Image.
	Images int64
	// Media are the tokens of all other files. They are a bound for the formats in use, and
	// no proof of one.
	Media int64
}

// promptDepth is how deep a request is read for its parts; below it every byte counts.
const promptDepth = 16

// Prompt measures a request. Each message counts the bytes of its strings and 16 for what
// lies between; of everything else that a model may read (tools, response_format, and what
// Weir does not know) every byte counts. Sound and film count a token for each 32 bytes of
// their base64, a document for each 4, and what the request only names 32768.
func Prompt(body json.RawMessage) Size {
	var s Size
	for w := members(body, 0); w.next(); {
		switch string(w.key()) {
		case "model", "models", "metadata", "logit_bias", "stop", "stream_options", "provider", "user":
		case "messages":
			for e := elements(body, w.from); e.next(); {
				s.Bytes += messageBytes
				s.add(e.value(), promptDepth)
			}
		default:
			if k := w.kind(); k == '{' || k == '[' || k == '"' {
				s.Bytes += tight(w.value())
			}
		}
	}
	return s
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

// add counts what a value of a message holds.
func (s *Size) add(value []byte, depth int) {
	switch k := kindOf(value); {
	case k == '"':
		s.Bytes += length(inner(value))
		return
	case k != '{' && k != '[':
		return
	case depth == 0:
		s.Bytes += int64(len(value))
		return
	case k == '[':
		for w := elements(value, 0); w.next(); {
			s.add(w.value(), depth-1)
		}
		return
	}
	if s.media(value) {
		return
	}
	for w := members(value, 0); w.next(); {
		s.add(w.value(), depth-1)
	}
}

// media counts a part that is no text; false: it is none.
func (s *Size) media(part []byte) bool {
	kind, bytesPer := text(find(part, "type")), int64(0)
	switch {
	case strings.Contains(kind, "image"):
	case strings.Contains(kind, "audio"), strings.Contains(kind, "video"):
		bytesPer = soundBytes
	case kind == "file", kind == "input_file", kind == "document":
		bytesPer = fileBytes
	default:
		return false
	}
	named, data, other := weigh(part, "", promptDepth)
	s.Bytes += other
	switch {
	case bytesPer == 0:
		s.Images += max(1, named+min(data, 1))
	case data > 0:
		s.Media += max(data/bytesPer, leastTokens)
	default:
		s.Media += fileTokens
	}
	return true
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
