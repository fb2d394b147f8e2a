package casefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// body is what policy and the door know of a request's body.
type body struct {
	size, depth int
	valid       bool            // JSON without repeated names, as the door demands
	value       json.RawMessage // nil: it goes out as text
}

// generated is a body that is described instead of written out.
type generated struct {
	Gen   string `json:"gen"`
	Unit  string `json:"unit"`
	Count int    `json:"count"`
	Depth int    `json:"depth"`
	Text  string `json:"text"`
}

func readBody(raw json.RawMessage) body {
	if isString(raw) {
		var s string
		err := json.Unmarshal(raw, &s)
		return body{size: len(s), valid: err == nil}
	}
	var g generated
	if json.Unmarshal(raw, &g) == nil {
		switch g.Gen {
		case "repeat":
			return body{size: len(g.Unit) * g.Count, valid: true}
		case "nest":
			n := min(max(g.Depth, 0), maxNest)
			nest := strings.Repeat("[", n) + strings.Repeat("]", n)
			return body{size: 2 * g.Depth, depth: g.Depth, valid: true, value: json.RawMessage(nest)}
		case "json":
			raw = json.RawMessage(g.Text)
		}
	}
	depth, err := measure(raw)
	return body{size: len(raw), depth: depth, valid: err == nil, value: raw}
}

// maxNest stops the measuring, far above what any policy allows.
const maxNest = 4096

// measure gives the depth of a JSON value and refuses what is not exactly one,
// or has a name twice in one object.
func measure(raw []byte) (int, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	depth, err := measureValue(dec, 0)
	if err != nil {
		return depth, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return depth, errors.New("more than one value")
	}
	return depth, nil
}

// measureValue reads one value that stands inside level others.
func measureValue(dec *json.Decoder, level int) (int, error) {
	tok, err := dec.Token()
	open, container := tok.(json.Delim)
	if err != nil || !container {
		return level, err
	}
	level++
	if level > maxNest {
		return level, nil // deep enough to be refused; the rest does not matter
	}
	deepest := level
	names := map[string]bool{}
	for dec.More() {
		if open == '{' {
			tok, err := dec.Token()
			if err != nil {
				return deepest, err
			}
			name, _ := tok.(string)
			if names[name] {
				return deepest, errors.New("a name is there twice")
			}
			names[name] = true
		}
		inner, err := measureValue(dec, level)
		if deepest = max(deepest, inner); err != nil || deepest > maxNest {
			return deepest, err
		}
	}
	_, err = dec.Token() // the closing delimiter
	return deepest, err
}
