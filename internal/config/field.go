package config

import (
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// field is a value of the configuration at the path of its key.
type field struct {
	path, key string
	tag       reflect.StructTag
	value     reflect.Value
}

// members are the keys of a struct, with those of the structs that it embeds.
func members(path string, v reflect.Value) iter.Seq[field] {
	return func(yield func(field) bool) {
		for _, f := range reflect.VisibleFields(v.Type()) {
			key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if f.IsExported() && key != "" && key != "-" && !yield(field{join(path, key), key, f.Tag, v.FieldByIndex(f.Index)}) {
				return
			}
		}
	}
}

// keys are the names of the keys of a struct, in order.
func keys(t reflect.Type) (all []string) {
	for f := range members("", reflect.Zero(t)) {
		all = append(all, f.key)
	}
	return all
}

// leaves visits the scalars and the lists of words below a value, in the order of the file. Only
// with deep does it enter mappings with names of the operator's and lists of sections.
func leaves(f field, deep bool, visit func(field)) {
	switch v := f.value; {
	case v.Kind() == reflect.Struct:
		for member := range members(f.path, v) {
			leaves(member, deep, visit)
		}
	case v.Kind() == reflect.Pointer:
		if !v.IsNil() && deep {
			leaves(field{path: f.path, value: v.Elem()}, deep, visit)
		}
	case v.Kind() == reflect.Map:
		for _, key := range slices.SortedFunc(v.Seq(), byText) {
			if deep {
				leaves(field{path: join(f.path, key.String()), value: v.MapIndex(key)}, deep, visit)
			}
		}
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		for i := range v.Len() {
			if deep {
				leaves(field{path: item(f.path, i), value: v.Index(i)}, deep, visit)
			}
		}
	default:
		visit(f)
	}
}

func byText(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }

// fresh is a value of a type with its defaults.
func fresh(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	leaves(field{value: v}, true, func(f field) {
		if text, ok := f.tag.Lookup("default"); ok && !setText(f.value, text) {
			panic("config: the default of " + f.path + " is not one")
		}
	})
	return v
}

// settings are the keys of c that one word, number or comma-separated list can fill.
func settings(c *Config) (all []field) {
	leaves(field{value: reflect.ValueOf(c).Elem()}, false, func(f field) { all = append(all, f) })
	return all
}

// words are the values that a key may have; none: any.
func (f field) words() (all []string) {
	for option := range strings.SplitSeq(f.tag.Get("jsonschema"), ",") {
		if word, ok := strings.CutPrefix(option, "enum="); ok {
			all = append(all, word)
		}
	}
	return all
}

// within reports whether a number is in the bounds of its key.
func (f field) within() bool {
	bounds, zero := strings.CutPrefix(f.tag.Get("bounds"), "0 or ")
	least, most, ok := strings.Cut(bounds, " to ")
	of := func(text string) int64 {
		v := reflect.New(f.value.Type()).Elem()
		if !setText(v, text) {
			panic("config: the bounds of " + f.path + " are not any")
		}
		return v.Int()
	}
	return !ok || zero && f.value.IsZero() || of(least) <= f.value.Int() && f.value.Int() <= of(most)
}

// join is the path of a key below another. A key that is not plain is quoted, a long one cut.
func join(path, key string) string {
	plain := strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
	if !plain || key == "" || len(key) > 64 {
		key = strconv.QuoteToASCII(key[:min(len(key), 64)])
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// item is the path of an item of a list.
func item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
