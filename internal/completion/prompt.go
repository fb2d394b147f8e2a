package completion

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"weir/schemas"
)

// What parts of a prompt count that are no text.
const (
	// messageBytes are those around the text of a message.
	messageBytes = 16
	// fileTokens count for a file that the request only names, and leastTokens at least for a
	// file in the request.
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
	// Bytes is the size of its text: no tokenizer makes more tokens of a text.
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

// Prompt measures a request of a dialect. Each message counts the bytes of its strings and 16
// around them; of all other members that a model may read (tools, response_format, and unknown
// ones) every byte counts. Sound and film count a token for each 32 bytes of their base64, a
// document for each 4, and what the request only names 32768. A number in the input of embeddings
// is a token. The conversation behind previous_response_id is not in the request and does not
// count.
func Prompt(d schemas.Dialect, body json.RawMessage) Size {
	var s Size
	reads := readings[d.Family()]
	for name, v := range object(Parse(body)).All() {
		switch spoken := slices.Contains(reads.conversation, name.Str); {
		case slices.Contains(unread, name.Str), slices.Contains(reads.unread, name.Str):
		case spoken && d.Family() == schemas.DialectEmbeddings:
			s.inputs(v, promptDepth)
		case spoken && v.IsArray():
			for _, message := range v.All() {
				s.Bytes += messageBytes
				s.add(message, "", promptDepth, nil)
			}
		case spoken && v.Type == gjson.String:
			s.Bytes += messageBytes + length(inner(v))
		case v.Type == gjson.String || v.Type == gjson.JSON:
			s.Bytes += int64(len(v.Get("@ugly").Raw))
		}
	}
	return s
}

// unread are the members of every request that no model reads.
var unread = strings.Fields("model models metadata stream_options user service_tier") //nolint:gochecknoglobals // a constant

// readings are the members of a dialect's requests of which the messages count, and further ones
// that no model reads.
var readings = map[schemas.Dialect]struct{ conversation, unread []string }{ //nolint:gochecknoglobals // a constant
	schemas.DialectChat: {[]string{"messages"}, []string{"logit_bias", "stop", "provider"}},
	schemas.DialectResponses: {[]string{"input", "instructions"}, []string{
		"client_metadata", "include", "previous_response_id", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "truncation",
	}},
	schemas.DialectMessages:   {[]string{"messages", "system"}, []string{"stop_sequences"}},
	schemas.DialectEmbeddings: {[]string{"input"}, []string{"encoding_format"}},
}

// inputs counts the input of embeddings: texts, lists of tokens, or parts.
func (s *Size) inputs(v gjson.Result, depth int) {
	switch {
	case v.Type == gjson.Number:
		s.Media++
	case v.IsArray() && depth > 0:
		for _, inside := range v.All() {
			s.inputs(inside, depth-1)
		}
	default:
		s.add(v, "", depth, nil)
	}
}

// add counts what a value of a message holds. file takes the strings of a part that is no text, by the
// names of their members, and is false for one that is text; nil: the value is in no such part.
func (s *Size) add(v gjson.Result, name string, depth int, file func(in, name string) bool) {
	switch {
	case v.Type == gjson.String:
		if text := inner(v); file == nil || !file(text, name) {
			s.Bytes += length(text)
		}
	case v.Type != gjson.JSON:
	case depth == 0:
		s.Bytes += int64(len(v.Raw))
	case file != nil || v.IsArray() || !s.media(v):
		for key, inside := range v.All() {
			if key.Type == gjson.String { // and no place in an array
				name = key.Str
			}
			s.add(inside, name, depth-1, file)
		}
	}
}

// media counts a part that is no text; false: it is none.
func (s *Size) media(part gjson.Result) bool {
	kind, bytesPer := part.Get("type").Str, int64(0)
	switch {
	case strings.Contains(kind, "image"), strings.Contains(kind, "screenshot"):
	case strings.Contains(kind, "audio"), strings.Contains(kind, "video"):
		bytesPer = soundBytes
	case kind == "file", kind == "input_file", kind == "document":
		bytesPer = fileBytes
	default:
		return false
	}
	var named, data int64 // addresses or names of files, and bytes of files in the request
	s.add(part, "", promptDepth, func(in, name string) bool {
		switch name {
		case "data", "file_data", "b64_json", "result":
			data += int64(len(in))
		case "url", "uri", "image_url", "audio_url", "video_url", "file_url", "file_id":
			if strings.HasPrefix(in, "data:") && strings.Contains(in, ",") {
				data += int64(len(in))
			} else {
				named++
			}
		default:
			return false
		}
		return true
	})
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
