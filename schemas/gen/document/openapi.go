package document

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// operations are the description of the routes in YAML. It is OpenAPI with these abbreviations:
//
//   - An operation has METHOD and path as its key, and the statuses of its answers among its members;
//     path are the parameters of its path, id, tag and body its operationId, tags and requestBody.
//   - The name of a schema, parameter, header or answer stands for a reference to that component, and a
//     list of names of schemas for any of them.
//   - An example is a pair: its summary and its value.
//   - The schema and examples of a JSON body are beside its description; text, sse and other media
//     types have theirs below.
//   - errors are names of groups of answers or of single ones, see failures. Later ones replace earlier ones.
//
//go:embed openapi/*.yaml
var operations embed.FS

// openAPI describes the routes. Components are the definitions of all documents.
func openAPI(components object) (object, error) {
	doc, err := readOperations()
	if err != nil {
		return nil, err
	}
	known, groups := failures()
	paths := object{}
	for route, value := range doc {
		method, path, ok := strings.Cut(route, " ")
		if !ok {
			continue
		}
		delete(doc, route)
		item, _ := paths[path].(object)
		if item == nil {
			item = object{}
			paths[path] = item
		}
		op, _ := value.(object)
		if of := member[[]any](op, "path"); of != nil {
			item["parameters"] = referred("parameters", of)
		}
		if item[strings.ToLower(method)], err = operation(op, groups); err != nil {
			return nil, fmt.Errorf("%s: %w", route, err)
		}
	}
	delete(doc, "shared")
	doc["paths"] = paths
	own := member[object](doc, "components")
	own["schemas"], own["responses"] = components, known
	return doc, nil
}

// readOperations reads all files as one text: common.yaml has the anchors of the others.
func readOperations() (doc object, err error) {
	files, err := fs.Glob(operations, "openapi/*.yaml")
	if err != nil {
		return nil, err
	}
	const first = "openapi/common.yaml"
	slices.SortFunc(files, func(a, b string) int {
		return cmp.Or(strings.Compare(strconv.FormatBool(b == first), strconv.FormatBool(a == first)), strings.Compare(a, b))
	})
	var all bytes.Buffer
	for _, file := range files {
		text, err := operations.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all.Write(text)
	}
	if err := yaml.Unmarshal(all.Bytes(), &doc); err != nil {
		return nil, fmt.Errorf("the operations: %w", err)
	}
	return doc, nil
}

// operation writes an operation out.
func operation(short object, groups map[string]object) (object, error) {
	op, responses := object{"operationId": short["id"], "tags": []any{short["tag"]}}, object{}
	for _, name := range member[[]any](short, "errors") {
		group, ok := groups[fmt.Sprint(name)]
		if !ok {
			return nil, fmt.Errorf("there are no errors of the name %v", name)
		}
		maps.Copy(responses, group)
	}
	for name, value := range short {
		switch name {
		case "id", "tag", "path", "errors":
		case "parameters":
			op[name] = referred(name, value)
		case "body":
			b := body(member[object](short, name))
			if b["optional"] == nil {
				b["required"] = true
			}
			delete(b, "optional")
			op["requestBody"] = b
		case "summary", "description", "security":
			op[name] = value
		default: // a status
			responses[name] = body(member[object](short, name))
		}
	}
	op["responses"] = responses
	return op, nil
}

// member is a member of a type, or the zero value.
func member[T any](of object, name string) T {
	value, _ := of[name].(T)
	return value
}

// body writes a body, or an answer with one, out.
func body(short object) object {
	b, content := object{}, object{}
	for name, value := range short {
		switch name {
		case "description", "optional":
			b[name] = value
		case "headers":
			headers := object{}
			for _, h := range member[[]any](short, name) {
				headers[fmt.Sprint(h)] = reference(name, h)
			}
			b[name] = headers
		case "schema":
			content["application/json"] = medium(short)
		case "examples":
		default:
			media := map[string]string{"json": "application/json", "text": "text/plain", "sse": "text/event-stream"}
			content[cmp.Or(media[name], name)] = medium(member[object](short, name))
		}
	}
	if len(content) > 0 {
		b["content"] = content
	}
	return b
}

// medium is the body in one media type.
func medium(short object) object {
	examples := object{}
	for name, value := range member[object](short, "examples") {
		pair, _ := value.([]any)
		examples[name] = object{"summary": pair[0], "value": pair[1]}
	}
	schema := reference("schemas", short["schema"])
	if _, several := short["schema"].([]any); several {
		schema = object{"anyOf": referred("schemas", short["schema"])}
	}
	return object{"schema": schema, "examples": examples}
}

// reference refers to a component, if the value is the name of one.
func reference(kind string, value any) any {
	if name, ok := value.(string); ok {
		return object{"$ref": "#/components/" + kind + "/" + name}
	}
	return value
}

func referred(kind string, list any) (out []any) {
	items, _ := list.([]any)
	for _, item := range items {
		out = append(out, reference(kind, item))
	}
	return out
}

// componented moves references from a document's definitions to the components.
func componented(node any) any {
	switch n := node.(type) {
	case object:
		out := make(object, len(n))
		for key, v := range n {
			if text, ok := v.(string); ok && key == "$ref" {
				v = strings.Replace(text, "#/$defs/", "#/components/schemas/", 1)
			}
			out[key] = componented(v)
		}
		return out
	case []any:
		out := make([]any, len(n))
		for i, v := range n {
			out[i] = componented(v)
		}
		return out
	default:
		return node
	}
}
