package config

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// describe says what a node is, for people.
func describe(n ast.Node) string {
	switch n.Type() {
	case ast.MappingType, ast.MappingValueType:
		return "a mapping"
	case ast.SequenceType:
		return "a list"
	case ast.IntegerType:
		return "a whole number"
	case ast.FloatType, ast.InfinityType, ast.NanType:
		return "a number with a fraction"
	case ast.BoolType:
		return "true or false"
	case ast.StringType, ast.LiteralType:
		return "text"
	case ast.NullType:
		return "empty"
	default:
		return "something else"
	}
}

// wanted says what a scalar takes, for people.
func wanted(v reflect.Value) string {
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		return "write a duration, such as 30s"
	case v.Type() == reflect.TypeFor[Size]():
		return "write a size, such as 256KiB"
	case v.Type() == reflect.TypeFor[USD]():
		return "write an amount of US dollars, such as 2.5"
	case v.Kind() == reflect.String:
		return "write text, in quotes where it looks like something else"
	case v.Kind() == reflect.Bool:
		return "write true or false"
	default:
		return "write a whole number"
	}
}

// advice names the key that was probably meant, or those there are.
func advice(key string, names []string) string {
	slices.Sort(names)
	if best := nearest(strings.ReplaceAll(strings.ToLower(key), "-", "_"), names); best != "" {
		return "did you mean " + best + "?"
	}
	return "the keys here are " + strings.Join(names, ", ")
}

// nearest is the name that a slip of one or two letters turns into word; empty
// where there is none.
func nearest(word string, names []string) string {
	best, distance := "", 3
	for _, name := range names {
		if d := apart(word, name); d < distance && d < len(name) {
			best, distance = name, d
		}
	}
	return best
}

// apart is the Levenshtein distance, or a large number for long words.
func apart(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
