package jsonschema

import (
	"errors"
	"regexp"
	"regexp/syntax"

	js "github.com/santhosh-tekuri/jsonschema/v6"
)

// maxProgram bounds the size of all patterns of a schema together, in
// instructions. A pattern of a few bytes can be a program of a thousand.
const maxProgram = 1 << 15

var (
	// errPattern is not shown: the library reports that the text is no regex.
	errPattern  = errors.New("is not a pattern in RE2's syntax")
	errPatterns = errors.New("the patterns of the schema are too large")
)

// pattern is a compiled pattern with the size of its program.
type pattern struct {
	*regexp.Regexp
	size int
}

// patterns compiles each text once. It belongs to one compilation.
type patterns struct {
	done map[string]*pattern
	size int // of all together
}

func (p *patterns) compile(text string) (js.Regexp, error) {
	if known, ok := p.done[text]; ok {
		return known, nil
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, errPattern
	}
	size := program(tree)
	if p.size += size; p.size > maxProgram {
		return nil, errPatterns
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, errPattern
	}
	p.done[text] = &pattern{Regexp: re, size: size}
	return p.done[text], nil
}

// program estimates how many instructions a parsed pattern becomes, without
// unrolling its repeats.
func program(re *syntax.Regexp) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpCharClass:
		n += len(re.Rune) / 8
	default: // an instruction and its parts
	}
	for _, sub := range re.Sub {
		n += program(sub)
		if n > maxProgram {
			return n
		}
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return min(n, maxProgram+1)
}
