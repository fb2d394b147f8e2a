// Package reconcile compiles and evaluates the probe of an entry: the request that looks up whether
// a call whose answer was lost has taken effect. Its expressions are CEL.
package reconcile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"weir/schemas"
)

// Spec is a probe as an operator writes it.
type Spec struct {
	// Method is GET or HEAD; empty means GET.
	Method string
	// URL is the probe's URL. Each {expression} in its path or query is replaced by its value.
	URL string
	// Applied and NotApplied are conditions on the probe's answer. Without NotApplied, no answer shows
	// that the call was not applied.
	Applied, NotApplied string
}

// Probe is a compiled Spec. It is safe for concurrent use.
type Probe struct {
	method              string
	url                 []part
	applied, notApplied cel.Program
}

// The limits of expressions: the length of one, and the cost of one evaluation in CEL's units.
const (
	maxLength = 4096
	maxCost   = 200_000
)

// Error is a mistake in a Spec. Position counts characters from 1; 0: the member as a whole.
type Error struct {
	Member   string
	Position int
	Reason   string
}

func (e *Error) Error() string {
	if e.Position == 0 {
		return e.Member + ": " + e.Reason
	}
	return fmt.Sprintf("%s, character %d: %s", e.Member, e.Position, e.Reason)
}

// ofRequest are the variables of all expressions.
func ofRequest() []cel.EnvOption {
	return []cel.EnvOption{
		cel.Variable("request.method", cel.StringType),
		cel.Variable("request.url", cel.StringType),
		cel.Variable("request.headers", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("request.body", cel.DynType),
		cel.Variable("request.idempotency_key", cel.StringType),
		cel.Variable("request.action_id", cel.StringType),
	}
}

// ofResponse are the further variables of conditions.
func ofResponse() []cel.EnvOption {
	return []cel.EnvOption{
		cel.Variable("response.status", cel.IntType),
		cel.Variable("response.headers", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("response.body", cel.DynType),
	}
}

// Compile checks a Spec as a whole: the error joins one *Error for each mistake.
func Compile(s Spec) (*Probe, error) {
	request, err := cel.NewEnv(ofRequest()...)
	if err != nil {
		return nil, err
	}
	both, err := request.Extend(ofResponse()...)
	if err != nil {
		return nil, err
	}
	p := &Probe{method: cmp.Or(s.Method, "GET")}
	var errs []error
	if !slices.Contains([]string{"GET", "HEAD"}, p.method) {
		errs = append(errs, &Error{Member: "method", Reason: fmt.Sprintf("%q is not GET or HEAD; a probe must change nothing", s.Method)})
	}
	add := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	p.url, err = parse(request, s.URL)
	add(err)
	p.applied, err = condition(both, "applied", s.Applied)
	add(err)
	if s.NotApplied != "" {
		p.notApplied, err = condition(both, "not_applied", s.NotApplied)
		add(err)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return p, nil
}

// condition compiles an expression whose value is true or false.
func condition(env *cel.Env, member, text string) (cel.Program, error) {
	if strings.TrimSpace(text) == "" {
		return nil, &Error{Member: member, Reason: "the condition is missing; write an expression such as response.status == 404"}
	}
	program, kind, err := compile(env, member, text, 0)
	if err == nil && !kind.IsExactType(cel.BoolType) && !kind.IsExactType(cel.DynType) {
		err = &Error{Member: member, Reason: fmt.Sprintf("its value is of type %s; write a condition that is true or false", kind)}
	}
	return program, err
}

// compile compiles an expression that begins offset characters after the begin of its member.
func compile(env *cel.Env, member, text string, offset int) (cel.Program, *cel.Type, error) {
	if len(text) > maxLength {
		return nil, nil, &Error{Member: member, Reason: fmt.Sprintf("an expression is longer than %d bytes; shorten it", maxLength)}
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		at := offset + first.Location.Column() + 1
		for i, line := range strings.Split(text, "\n") { // the position counts over all lines
			if i+1 == first.Location.Line() {
				break
			}
			at += len([]rune(line)) + 1
		}
		return nil, nil, &Error{Member: member, Position: at, Reason: strings.TrimSpace(strings.SplitN(first.Message, "\n", 2)[0])}
	}
	program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxCost))
	if err != nil {
		return nil, nil, &Error{Member: member, Reason: err.Error()}
	}
	return program, ast.OutputType(), nil
}

// Method is the probe's method.
func (p *Probe) Method() string { return p.method }

// Effect evaluates an answer to the probe: schemas.EffectApplied, schemas.EffectNotApplied, or
// empty if the answer does not show which. A condition that cannot be evaluated does not hold. If
// both hold, the answer shows nothing.
func (p *Probe) Effect(r Request, a schemas.Answer) string {
	vars := r.variables()
	vars["response.status"] = int64(a.Status)
	vars["response.headers"] = schemas.HeadersByName(a.Headers)
	vars["response.body"] = value(a.Body)
	applied, notApplied := holds(p.applied, vars), holds(p.notApplied, vars)
	switch {
	case applied == notApplied:
		return ""
	case applied:
		return schemas.EffectApplied
	default:
		return schemas.EffectNotApplied
	}
}

func holds(p cel.Program, vars map[string]any) bool {
	if p == nil {
		return false
	}
	v, _, err := p.Eval(vars)
	return err == nil && v == ref.Val(types.True)
}
