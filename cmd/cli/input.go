package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"weir/schemas"
)

// The most that is read of a text, and of a document.
const (
	maxText  = 1 << 20
	maxInput = 64 << 20
)

// read reads a file of at most some bytes; of the name -, standard input.
func (s *Streams) read(name string, most int64) ([]byte, error) {
	in := s.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, Usage(err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, most+1))
	if err == nil && int64(len(data)) > most {
		if name == "-" {
			name = "standard input"
		}
		err = fmt.Errorf("%s has more than %d MiB", name, most>>20)
	}
	if err != nil {
		return nil, Usage(err)
	}
	return data, nil
}

// text is a text that is given as such, in a @FILE or, for -, on standard input.
func (s *Streams) text(text string) (string, error) {
	name, file := strings.CutPrefix(text, "@")
	if !file && text != "-" {
		return text, nil
	}
	data, err := s.read(name, maxText)
	return string(data), err
}

// document is a JSON text given on the command line, as @FILE in a file, or as @-
// on standard input.
func (s *Streams) document(what, text string) (json.RawMessage, error) {
	data := []byte(text)
	if name, ok := strings.CutPrefix(text, "@"); ok {
		var err error
		if data, err = s.read(name, maxInput); err != nil {
			return nil, err
		}
	}
	var doc json.RawMessage
	if err := json.Unmarshal(data, &doc); err != nil {
		what = strings.ReplaceAll(what, "_", " ")
		if text := strings.TrimSpace(string(data)); text == "" || strings.ContainsRune(`{["`, rune(text[0])) {
			return nil, usagef("the %s is not JSON: %w", what, err)
		}
		hint := "a JSON string has quotes: '\"text\"'"
		if what == "body" {
			hint += "; other bodies are sent with --data-binary, --data-urlencode or -F"
		}
		return nil, usagef("the %s is not JSON; %s", what, hint)
	}
	return data, nil
}

// looseDocument is a document whose file needs no @, and whose standard input is - alone.
func (s *Streams) looseDocument(what, text string) (json.RawMessage, error) {
	switch first := strings.TrimLeft(text, " \t\r\n"); {
	case text == "-":
		text = "@-"
	case first != "" && strings.ContainsRune(`{["`, rune(first[0])), strings.HasPrefix(text, "@"):
	default:
		text = "@" + text
	}
	return s.document(what, text)
}

// headersOf reads headers of the form 'Name: value'; nil: there are none.
func headersOf(all []string) (headers map[string]string, err error) {
	for _, h := range all {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return nil, usagef("-H %q has no colon; write -H 'Name: value'", h)
		}
		if headers == nil {
			headers = map[string]string{}
		}
		name = strings.TrimSpace(name)
		if slices.ContainsFunc(slices.Collect(maps.Keys(headers)), func(h string) bool { return strings.EqualFold(h, name) }) {
			return nil, usagef("-H names %s twice; give it once, with the values joined as its syntax says", name)
		}
		headers[name] = strings.TrimSpace(value)
	}
	return headers, nil
}

// beginFlags say when what a command asks for begins.
type beginFlags struct {
	delay, notBefore, priority string
}

func (f *beginFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.delay, "delay", "", "begin this much later, such as 30s or 1h30m; not with --not-before")
	flags.StringVar(&f.notBefore, "not-before", "", "begin at this time at the earliest, such as 2026-01-31T09:00:00Z")
	flags.StringVar(&f.priority, "priority", "", "high: run before waiting actions of normal priority (default normal)")
}

// header adds the flags to a request's header. It refuses values that the server would
// refuse, and names the flag.
func (f *beginFlags) header(h http.Header) error {
	_, notTime := time.Parse(time.RFC3339, f.notBefore)
	delay, notDelay := time.ParseDuration(f.delay)
	var err error
	switch {
	case f.delay != "" && (notDelay != nil || delay < 0):
		err = fmt.Errorf("--delay %q is not a duration such as 30s, 5m or 1h30m", f.delay)
	case f.notBefore != "" && notTime != nil:
		err = fmt.Errorf("--not-before %q is not a time with its zone, such as 2026-01-31T09:00:00Z or 2026-01-31T09:00:00+01:00", f.notBefore)
	case f.priority != "" && !schemas.Priority(f.priority).Valid():
		err = fmt.Errorf("--priority %q is neither high nor normal", f.priority)
	case f.delay != "" && f.notBefore != "":
		err = errors.New("--delay and --not-before say the same in two ways; give one of them")
	}
	if err != nil {
		return Usage(err)
	}
	setAll(h, schemas.HeaderDelay, f.delay, schemas.HeaderNotBefore, f.notBefore, schemas.HeaderPriority, f.priority)
	return nil
}

type bodyFlags struct {
	data, binary  string
	fields, parts []string
}

func (f *bodyFlags) bind(flags *pflag.FlagSet) {
	flags.StringVarP(&f.data, "data", "d", "", "the body, which must be JSON: a text, @FILE, or @- for standard input")
	flags.StringVar(&f.binary, "data-binary", "", "a body of any bytes: a text, @FILE, or @- for standard input; -H sets its Content-Type")
	flags.StringArrayVar(&f.fields, "data-urlencode", nil, "a field of a form, `'name=value'`, sent as application/x-www-form-urlencoded; may be repeated")
	flags.StringArrayVarP(&f.parts, "form", "F", nil, "a field of a form, `'name=value'` or 'name=@FILE;type=TYPE', sent as multipart/form-data; may be repeated")
}

// body adds the body to a request, if there is one.
func (f *bodyFlags) body(env *Env, req *schemas.ExplainRequest) (err error) {
	given := 0
	for _, one := range []bool{f.data != "", f.binary != "", len(f.fields) > 0, len(f.parts) > 0} {
		if one {
			given++
		}
	}
	switch {
	case given > 1:
		return usagef("a call has one body; use one of -d, --data-binary, --data-urlencode and -F")
	case f.data != "":
		req.Body, err = env.document("body", f.data)
	case f.binary != "":
		raw := []byte(f.binary)
		if file, ok := strings.CutPrefix(f.binary, "@"); ok {
			raw, err = env.read(file, maxInput)
		}
		if err == nil {
			req.BodyBase64, err = json.Marshal(raw)
		}
	case len(f.fields) > 0:
		req.Form, err = form("--data-urlencode", f.fields, func(text string) (any, error) { return text, nil })
	case len(f.parts) > 0:
		req.Form, err = form("-F", f.parts, env.part)
	}
	return err
}

// form is fields in the order of their first names. The values of a name that is given again follow its first one.
func form(flag string, fields []string, value func(text string) (any, error)) (json.RawMessage, error) {
	var names []string
	values := map[string][]any{}
	for _, field := range fields {
		name, text, ok := strings.Cut(field, "=")
		if !ok || name == "" {
			return nil, usagef("%s %q has no name; write %s 'name=value'", flag, field, flag)
		}
		v, err := value(text)
		if err != nil {
			return nil, err
		}
		if values[name] == nil {
			names = append(names, name)
		}
		values[name] = append(values[name], v)
	}
	var members [][]byte
	for _, name := range names {
		one, err := json.Marshal(map[string]any{name: values[name]})
		if err != nil {
			return nil, err
		}
		members = append(members, one[1:len(one)-1])
	}
	return slices.Concat([]byte("{"), bytes.Join(members, []byte(",")), []byte("}")), nil
}

// formPart is a part of a form. Marshal writes bytes as base64.
type formPart struct {
	Filename    string  `json:"filename,omitempty"`
	ContentType string  `json:"content_type,omitempty"`
	Text        *string `json:"text,omitempty"`
	Base64      []byte  `json:"base64,omitzero"`
}

// part is the value of -F: a text, or a file with its type and name.
func (s *Streams) part(text string) (any, error) {
	name, file := strings.CutPrefix(text, "@")
	if !file {
		return formPart{Text: &text}, nil
	}
	name, options, _ := strings.Cut(name, ";")
	p := formPart{Filename: filepath.Base(name), ContentType: mime.TypeByExtension(filepath.Ext(name))}
	for option := range strings.SplitSeq(options, ";") {
		switch key, value, _ := strings.Cut(strings.TrimSpace(option), "="); key {
		case "type":
			p.ContentType = value
		case "filename":
			p.Filename = value
		case "":
		default:
			return nil, usagef("-F has no option %q; use type and filename: -F 'name=@FILE;type=image/png;filename=a.png'", key)
		}
	}
	data, err := s.read(name, maxInput)
	p.Base64 = append([]byte{}, data...)
	return p, err
}
