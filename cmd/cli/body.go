package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
)

// bodyFlags give the body of a call in one of several forms.
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

// member is the member of a request that gives the body, and its value; "" without a body.
func (f *bodyFlags) member(env *Env) (name string, value json.RawMessage, err error) {
	given := 0
	for _, one := range []bool{f.data != "", f.binary != "", len(f.fields) > 0, len(f.parts) > 0} {
		if one {
			given++
		}
	}
	switch {
	case given > 1:
		return "", nil, usageError{errors.New("a call has one body; use one of -d, --data-binary, --data-urlencode and -F")}
	case f.data != "":
		value, err = env.document("body", f.data)
		return "body", value, err
	case f.binary != "":
		raw := []byte(f.binary)
		if file, ok := strings.CutPrefix(f.binary, "@"); ok {
			raw, err = env.read(file, maxInput)
		}
		if err == nil {
			value, err = json.Marshal(raw)
		}
		return "body_base64", value, err
	case len(f.fields) > 0:
		value, err = form("--data-urlencode", f.fields, func(text string) (any, error) { return text, nil })
		return "form", value, err
	case len(f.parts) > 0:
		value, err = form("-F", f.parts, env.part)
		return "form", value, err
	default:
		return "", nil, nil
	}
}

// form is fields in the order of their first names. The values of a name that is given again follow its first one.
func form(flag string, fields []string, value func(text string) (any, error)) (json.RawMessage, error) {
	var names []string
	values := map[string][]any{}
	for _, field := range fields {
		name, text, ok := strings.Cut(field, "=")
		if !ok || name == "" {
			return nil, usageError{fmt.Errorf("%s %q has no name; write %s 'name=value'", flag, field, flag)}
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
	doc := []byte("{")
	for _, name := range names {
		if len(doc) > 1 {
			doc = append(doc, ',')
		}
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		list, err := json.Marshal(values[name])
		if err != nil {
			return nil, err
		}
		doc = append(append(append(doc, key...), ':'), list...)
	}
	return append(doc, '}'), nil
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
			return nil, usageError{fmt.Errorf("-F has no option %q; use type and filename: -F 'name=@FILE;type=image/png;filename=a.png'", key)}
		}
	}
	data, err := s.read(name, maxInput)
	p.Base64 = append([]byte{}, data...)
	return p, err
}
