// Command gen writes the JSON Schema of weir.yaml. It runs in its own folder:
// the descriptions are the comments of the structs, read from their source.
package main

//go:generate go run .

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/invopop/jsonschema"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"weir/internal/completion"
	"weir/internal/config"
	"weir/internal/policy"
	"weir/schemas"
)

// target is where the schema lies, from this folder.
const target = "../../../schemas/json/weir.config.json"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run() error {
	text, err := generate()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil { //nolint:gosec // part of the source tree
		return err
	}
	return os.WriteFile(target, text, 0o644) //nolint:gosec // part of the source tree
}

// generate returns the schema as it is committed.
func generate() ([]byte, error) {
	r := jsonschema.Reflector{
		Anonymous: true, ExpandedStruct: true, RequiredFromJSONSchemaTags: true, FieldNameTag: "yaml",
		Mapper: scalar, Namer: name,
	}
	for _, dir := range []string{"..", "../../policy", "../../../schemas"} {
		if err := r.AddGoComments("weir/internal/config/gen", dir, jsonschema.WithFullComment()); err != nil {
			return nil, err
		}
	}
	r.LookupComment = func(t reflect.Type, name string) string { // a key's comment, and what its tags say
		if name == "" {
			return oneLine(r.CommentMap[t.PkgPath()+"."+t.Name()])
		}
		comment := r.CommentMap[t.PkgPath()+"."+t.Name()+"."+name]
		f, _ := t.FieldByName(name)
		if rest, own := strings.CutPrefix(comment, name+" "); own && strings.ContainsAny(name[1:], "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			comment = "`" + key + "` " + rest
		}
		if bounds := f.Tag.Get("bounds"); bounds != "" {
			comment += " Allowed: " + bounds + "."
		}
		if standard := f.Tag.Get("default"); standard != "" {
			comment += " Default: " + standard + "."
		}
		return oneLine(comment)
	}
	raw, err := json.Marshal(r.Reflect(config.Config{}))
	if err != nil {
		return nil, err
	}
	if raw, err = refine(raw); err != nil {
		return nil, err
	}
	raw, err = jsontext.AppendFormat(nil, raw, jsontext.ReorderRawObjects(true), jsontext.WithIndent("  "))
	return append(raw, '\n'), err
}

// oneLine undoes the line breaks that comments have in source.
func oneLine(comment string) string { return strings.Join(strings.Fields(comment), " ") }

// name keeps apart the types of the two packages that have one name.
func name(t reflect.Type) string {
	if t.PkgPath() == reflect.TypeFor[policy.Entry]().PkgPath() && t != reflect.TypeFor[policy.Entry]() {
		return "Entry" + t.Name()
	}
	return t.Name()
}

// scalar describes the types that the file writes in another form than Go has.
func scalar(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return &jsonschema.Schema{Type: "string", Pattern: `^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`, Examples: []any{"30s", "168h"}}
	case reflect.TypeFor[json.RawMessage]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "object"}, {Type: "string"}}}
	case reflect.TypeFor[config.Size]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "string", Pattern: `^[0-9]+ ?(B|KiB|MiB|GiB|TiB)?$`, Examples: []any{"256KiB"}},
			{Type: "integer", Minimum: "0"},
		}}
	case reflect.TypeFor[schemas.USD]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "number", Minimum: "0", Examples: []any{2.5}},
			{Type: "string", Pattern: `^[0-9]{1,9}(\.[0-9]{1,9})?$`},
		}}
	case reflect.TypeFor[config.Pass]():
		names := &jsonschema.Schema{Type: "string", MinLength: new(uint64(1)), MaxLength: new(uint64(completion.MaxMember))}
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "array", Items: names, UniqueItems: true}, names}}
	default:
		return nil
	}
}

// refine adds what tags do not say.
func refine(raw []byte) ([]byte, error) {
	const entry, names = "$defs.Entry.properties.", "^[A-Za-z0-9._:-]+$"
	const retry, probe, answer = "$defs.EntryRetry.properties.", "$defs.EntryReconcile.properties.", "$defs.EntryResponseSchema.properties."
	for _, add := range []struct {
		at, key string
		value   any
	}{
		{"", "title", "weir.yaml"},
		{entry + "network", "enum", []string{policy.NetworkPublic, policy.NetworkLoopback, policy.NetworkPrivate}},
		{entry + "redirects", "minimum", 0},
		{entry + "redirects", "maximum", policy.MaxRedirects},
		{entry + "mode", "enum", []string{policy.ModeEnforce, policy.ModeShadow}},
		{retry + "attempts", "minimum", 1},
		{retry + "attempts", "maximum", policy.MaxAttempts},
		{probe + "method", "enum", []string{"GET", "HEAD"}},
		{answer + "mode", "enum", []string{policy.SchemaStrict, policy.SchemaWarn, policy.SchemaRedact}},
		{"$defs.EntryReconcile", "required", []string{"url", "applied"}},
		{"$defs.EntryResponseSchema", "required", []string{"schema"}},
		{"$defs.EntryIdempotency", "required", []string{"ttl"}},
		{entry + "name", "minLength", 1},
		{entry + "name", "maxLength", 128},
		{entry + "name", "pattern", names},
		{"$defs.Entry", "required", []string{"name", "url_prefix"}},
		{"$defs.Upstream", "required", []string{"name", "url"}},
		{"properties.agents", "propertyNames", map[string]any{
			"pattern": names, "maxLength": schemas.MaxAgentTask, "not": map[string]any{"enum": schemas.BuiltinTasks()},
		}},
		{"properties.models", "propertyNames", map[string]any{
			"pattern": `^(\*|[A-Za-z0-9._:@+-]+(/[A-Za-z0-9._:@+-]+)*(/?\*)?)$`, "maxLength": schemas.MaxModel,
		}},
	} {
		if add.at != "" && !gjson.GetBytes(raw, add.at).IsObject() {
			return nil, fmt.Errorf("the schema has no %s", add.at)
		}
		var err error
		if raw, err = sjson.SetBytes(raw, strings.TrimPrefix(add.at+"."+add.key, "."), add.value); err != nil {
			return nil, err
		}
	}
	return raw, nil
}
