package config

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// keyOf is the key of a struct field; empty for one that is not read.
func keyOf(f reflect.StructField) string {
	if !f.IsExported() {
		return ""
	}
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	if name == "-" {
		return ""
	}
	return name
}

func join(path, key string) string {
	if !slices.ContainsFunc([]byte(key), func(c byte) bool { return !plainByte(c) }) && key != "" && len(key) <= 64 {
		if path == "" {
			return key
		}
		return path + "." + key
	}
	if len(key) > 64 {
		key = key[:64]
	}
	if path == "" {
		return strconv.QuoteToASCII(key)
	}
	return path + "." + strconv.QuoteToASCII(key)
}

func plainByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}
