// Package casefile evaluates files of policy cases: JSON Lines, each with a
// policy, a request, what DNS answers and the verdict that is expected. A request
// is read and judged by the code of POST /v1/execute, on a node without traffic
// rules; one with params by that of POST /v1/plans. It needs no network.
package casefile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"weir/ingress/executor"
	"weir/internal/policy"
	"weir/schemas"
)

// The verdicts.
const (
	allow = "allow"
	deny  = "deny"
)

// codeOK is the code of an allowed case.
const codeOK schemas.Code = "OK"

// maxLine bounds one case, in bytes.
const maxLine = 16 << 20

// Summary counts the cases of a run. Cases is the sum of the others.
type Summary struct {
	Cases     int `json:"cases"`
	Passed    int `json:"passed"`
	Missed    int `json:"missed"`
	Skipped   int `json:"skipped"`   // need more than policy, request and one answer of DNS
	Malformed int `json:"malformed"` // could not be judged; each is in the error
}

// Result is the line printed for a case.
type Result struct {
	ID       string       `json:"id"`
	Expected string       `json:"expected"`
	Verdict  string       `json:"verdict"`
	Code     schemas.Code `json:"code"`
	Pass     bool         `json:"pass"`
}

// Run evaluates every case of r and writes a Result a line to w, then the Summary. A case passes if
// the verdict is the expected one, and the code too, if the case gives one and is not of level
// strict. If a case is malformed, or its policy does not compile, the error names its line, and the
// other cases are still evaluated. A miss is no error: call Summary.Missed. Cases that check skips
// are not evaluated.
func Run(r io.Reader, w io.Writer, check executor.Checker) (Summary, error) {
	var (
		sum  Summary
		errs []error
	)
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		sum.Cases++
		c, err := parseRow(line)
		if err == nil && c.skipped() {
			sum.Skipped++
			continue
		}
		var res Result
		if err == nil {
			res, err = verdict(&c, check)
		}
		if err != nil {
			sum.Malformed++
			errs = append(errs, fmt.Errorf("line %d: %w", n, err))
			continue
		}
		if res.Pass {
			sum.Passed++
		} else {
			sum.Missed++
		}
		if err := out.Encode(res); err != nil {
			return sum, err
		}
	}
	if err := lines.Err(); err != nil {
		errs = append(errs, fmt.Errorf("reading cases: %w", err))
	}
	if err := out.Encode(struct {
		Summary Summary `json:"summary"`
	}{sum}); err != nil {
		return sum, err
	}
	return sum, errors.Join(errs...)
}

func verdict(c *row, check executor.Checker) (Result, error) {
	p, err := c.Policy.compile()
	if err != nil {
		return Result{}, err
	}
	res := Result{ID: c.ID, Expected: c.Expected, Verdict: deny, Code: evaluate(p, c, check)}
	if res.Code == codeOK {
		res.Verdict = allow
	}
	advisory := c.Level == "strict" || c.Code == ""
	res.Pass = res.Verdict == c.Expected && (advisory || string(res.Code) == c.Code)
	return res, nil
}

// evaluate decides as the gateway does: by the request, then by the first answer of DNS.
func evaluate(p *policy.Policy, c *row, check executor.Checker) schemas.Code {
	permit, code := decide(p, c, check)
	switch {
	case !permit.Valid():
		return code
	case permit.Addr().IsValid():
		return codeOK
	}
	addrs, ok := c.resolve(permit.Host())
	if !ok {
		return schemas.UpstreamDNS
	}
	if err := permit.CheckAddrs(addrs); err != nil {
		return schemas.DenyAddress
	}
	return codeOK
}
