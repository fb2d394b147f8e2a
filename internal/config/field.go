package config

import (
	"encoding"
	"errors"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/schemas"
)

// field is a value of the configuration at the path of its key.
type field struct {
	path, key string
	tag       reflect.StructTag
	value     reflect.Value
}

// members are the keys of a struct and of the structs that it embeds.
func members(path string, v reflect.Value) (all []field) {
	for _, f := range reflect.VisibleFields(v.Type()) {
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if f.IsExported() && key != "" && key != "-" {
			all = append(all, field{join(path, key), key, f.Tag, v.FieldByIndex(f.Index)})
		}
	}
	return all
}

// keys are the names of the keys of a struct, in order.
func keys(t reflect.Type) (all []string) {
	for _, f := range members("", reflect.Zero(t)) {
		all = append(all, f.key)
	}
	return all
}

// leaves visits the scalars and the lists of words below a value, in the order of the file. Only
// with deep does it enter mappings with names of the operator's and lists of sections.
func leaves(f field, deep bool, visit func(field)) {
	v, kind := f.value, f.value.Kind()
	sections := kind == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct
	switch {
	case kind == reflect.Struct:
		for _, member := range members(f.path, v) {
			leaves(member, deep, visit)
		}
	case !deep && (sections || kind == reflect.Map), kind == reflect.Pointer && v.IsNil():
	case kind == reflect.Pointer:
		leaves(field{path: f.path, value: v.Elem()}, deep, visit)
	case kind == reflect.Map:
		for _, key := range slices.SortedFunc(v.Seq(), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
			leaves(field{path: join(f.path, key.String()), value: v.MapIndex(key)}, deep, visit)
		}
	case sections:
		for i := range v.Len() {
			leaves(field{path: item(f.path, i), value: v.Index(i)}, deep, visit)
		}
	default:
		visit(f)
	}
}

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

// standard is the value of a type with the defaults of its tags.
func standard[T any]() T {
	c, _ := reflect.TypeAssert[T](fresh(reflect.TypeFor[T]()))
	return c
}

// settings are the keys of c that a single string, number or comma-separated list can set.
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
	least, most, _ := strings.Cut(strings.TrimSuffix(bounds, " or more"), " to ")
	of := func(text string) int64 {
		v := reflect.New(f.value.Type()).Elem()
		if !setText(v, text) {
			panic("config: the bounds of " + f.path + " are not any")
		}
		return v.Int()
	}
	return bounds == "" || zero && f.value.IsZero() || of(least) <= f.value.Int() && (most == "" || f.value.Int() <= of(most))
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

// Size is a number of bytes. In text it is a whole number, followed by KiB, MiB, GiB or TiB, or by
// nothing for bytes.
type Size int64

var errSize = errors.New("is not a size; " + form(reflect.TypeFor[Size]()))

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(text []byte) error {
	for shift, unit := range []string{"", "KiB", "MiB", "GiB", "TiB", "B"} {
		factor := int64(1) << (shift % 5 * 10)
		digits, ok := strings.CutSuffix(string(text), unit)
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if ok && err == nil && 0 <= n && n <= math.MaxInt64/factor {
			*s = Size(n * factor)
			return nil
		}
	}
	return errSize
}

// setText reads text into a scalar and reports whether it has the scalar's form.
func setText(v reflect.Value, text string) bool {
	if u, ok := reflect.TypeAssert[encoding.TextUnmarshaler](v.Addr()); ok {
		return u.UnmarshalText([]byte(text)) == nil
	}
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		d, err := time.ParseDuration(text)
		v.SetInt(int64(d))
		return err == nil
	case v.Kind() == reflect.String:
		v.SetString(text)
		return true
	case v.Kind() == reflect.Bool:
		v.SetBool(text == "true")
		return text == "true" || text == "false"
	default:
		n, err := strconv.ParseInt(text, 10, 64)
		v.SetInt(n)
		return err == nil && !v.OverflowInt(n)
	}
}

// formOf is form with what the key of a rate needs.
func formOf(path string, t reflect.Type) string {
	if strings.HasSuffix(path, ".rate") {
		return "write a count a second, minute or hour, such as 10/s"
	}
	return form(t)
}

// form is what an operator writes for a scalar of a type.
func form(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "write a duration in ms, s, m or h, such as 30s or 168h"
	case t == reflect.TypeFor[Size]():
		return "write a whole number of bytes, or one with KiB, MiB, GiB or TiB, such as 256KiB"
	case t == reflect.TypeFor[schemas.USD]():
		return "write an amount of US dollars such as 12 or 2.5, with at most nine digits after the point"
	case t.Kind() == reflect.String:
		return "write text, in quotes where it looks like something else"
	case t.Kind() == reflect.Bool:
		return "write true or false"
	default:
		return "write a whole number of at most 18 digits, without quotes"
	}
}

// short prints a duration without the zero units that time.Duration has.
func short(d time.Duration) string {
	return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(d.String())
}
