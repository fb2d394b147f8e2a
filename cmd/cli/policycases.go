package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"weir/internal/nearest"
	"weir/schemas"
)

// policyCase is a call, and what the policy must say of it.
type policyCase struct {
	line    int
	allow   bool
	by      string       // the entry that must decide; empty: any
	because schemas.Code // the code of the denial; empty: any
	// entries are the only ones that the caller may use; empty: all.
	entries []string
	call    schemas.ExplainRequest
}

// caseKeys are the keys of a case.
var caseKeys = []string{"allow", "deny", "because", "by", "key", "headers", "body", "idempotency_key", "entries"} //nolint:gochecknoglobals // a constant

// readCases reads a YAML list of cases. The error joins one for each mistake, with its line.
func readCases(name string, data []byte) ([]policyCase, error) {
	root, err := parseCases(name, data)
	if err != nil {
		return nil, err
	}
	list, ok := root.(*ast.SequenceNode)
	if !ok || len(list.Values) == 0 {
		return nil, fmt.Errorf("%s: it is not a list of cases; write one a line, such as: - allow: GET https://api.example.com/orders", name)
	}
	var cases []policyCase
	var all []error
	for _, node := range list.Values {
		c := policyCase{line: lineOf(node)}
		for _, err := range c.read(node) {
			all = append(all, fmt.Errorf("%s:%d: %w", name, c.line, err))
		}
		cases = append(cases, c)
	}
	return cases, errors.Join(all...)
}

func parseCases(name string, data []byte) (root ast.Node, err error) {
	defer func() {
		if recover() != nil { // the parser fails so on some broken texts
			err = fmt.Errorf("%s: it is not YAML", name)
		}
	}()
	file, err := parser.ParseBytes(data, 0)
	if syntax, ok := errors.AsType[*yaml.SyntaxError](err); ok && syntax.Token != nil {
		return nil, fmt.Errorf("%s:%d: it is not YAML: %s", name, syntax.Token.Position.Line, syntax.Message)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: it is not YAML: %w", name, err)
	}
	if len(file.Docs) == 0 {
		return nil, nil //nolint:nilnil // an empty file holds no list
	}
	return file.Docs[0].Body, nil
}

// lineOf is the line on which a case begins.
func lineOf(node ast.Node) int {
	if m, ok := node.(*ast.MappingNode); ok && len(m.Values) > 0 {
		node = m.Values[0].Key
	}
	if t := node.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 0
}

// read reads a case, and returns what is wrong with it.
func (c *policyCase) read(node ast.Node) (wrong []error) {
	var doc map[string]any
	if err := yaml.NodeToValue(node, &doc); err != nil || doc == nil {
		return []error{errors.New("it is not a case; write allow or deny with a method and a URL, such as: allow: GET https://api.example.com/orders")}
	}
	var expected []string
	for _, key := range slices.Sorted(maps.Keys(doc)) {
		var err error
		switch value := doc[key]; key {
		case "allow", "deny":
			expected = append(expected, key)
			c.allow = key == "allow"
			err = c.target(value)
		case "key":
			err = setText(&c.call.AllowlistKey, value)
		case "by":
			err = setText(&c.by, value)
		case "because":
			err = setCode(&c.because, value)
		case "idempotency_key":
			err = setText(&c.call.IdempotencyKey, value)
		case "headers":
			err = c.headers(value)
		case "entries":
			err = c.only(value)
		case "body":
			c.call.Body, err = json.Marshal(value)
		default:
			err = errors.New("unknown key" + cmp.Or(nearest.Hint(key, caseKeys), "; a case has "+strings.Join(caseKeys, ", ")))
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", key, err))
		}
	}
	switch {
	case len(expected) != 1:
		wrong = append(wrong, errors.New("give one of allow and deny"))
	case c.allow && c.because != "":
		wrong = append(wrong, errors.New("because: only for deny; remove it"))
	}
	return wrong
}

// target reads a method and a URL.
func (c *policyCase) target(value any) error {
	text, _ := value.(string)
	parts := strings.Fields(text)
	if len(parts) != 2 || !schemas.KnownMethod(strings.ToUpper(parts[0])) { //nolint:mnd // a method and a URL
		return errors.New("write a method and a URL, such as GET https://api.example.com/orders; methods are GET, POST, PUT, PATCH, DELETE, HEAD and OPTIONS")
	}
	c.call.Method, c.call.URL = strings.ToUpper(parts[0]), parts[1]
	return nil
}

func setText(to *string, value any) error {
	text, ok := value.(string)
	if !ok || text == "" {
		return errors.New("write a text; put it in quotes if it is a number")
	}
	*to = text
	return nil
}

func setCode(to *schemas.Code, value any) error {
	text, _ := value.(string)
	code := schemas.Code(text)
	if !slices.Contains(schemas.DenyCodes(), code) {
		return fmt.Errorf("%q is not the code of a denial; the codes are %s", text, strings.Join(texts(schemas.DenyCodes()...), ", "))
	}
	*to = code
	return nil
}

func (c *policyCase) headers(value any) error {
	all, ok := value.(map[string]any)
	if !ok {
		return errors.New("write names and values, such as: {Accept: application/json}")
	}
	c.call.Headers = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text, ok := all[name].(string)
		if !ok {
			return fmt.Errorf("the value of %s is not a text; put it in quotes", name)
		}
		c.call.Headers[http.CanonicalHeaderKey(name)] = text
	}
	return nil
}

func (c *policyCase) only(value any) error {
	list, ok := value.([]any)
	for _, one := range list {
		name, text := one.(string)
		ok = ok && text && name != ""
		c.entries = append(c.entries, name)
	}
	if !ok || len(list) == 0 {
		return errors.New("write a list of the names of entries, such as [orders]; leave it out for all")
	}
	return nil
}
