package main

import (
	"fmt"
	"io"
)

// report collects what was found.
type report struct {
	out    io.Writer
	by     string // what checks now
	right  int
	wrong  int
	passed int // over: what checks them is not here
}

// ok says that something is as it should be.
func (r *report) ok(what string, args ...any) {
	r.right++
	fmt.Fprintf(r.out, "ok    %-10s %s\n", r.by, fmt.Sprintf(what, args...))
}

// bad says what is wrong.
func (r *report) bad(what string, args ...any) {
	r.wrong++
	fmt.Fprintf(r.out, "WRONG %-10s %s\n", r.by, fmt.Sprintf(what, args...))
}

// over says what was not checked, and why.
func (r *report) over(what string, args ...any) {
	r.passed++
	fmt.Fprintf(r.out, "NOT   %-10s %s\n", r.by, fmt.Sprintf(what, args...))
}

// tell is ok without an error, and bad with one.
func (r *report) tell(err error, what string, args ...any) bool {
	if err != nil {
		r.bad("%s: %v", fmt.Sprintf(what, args...), err)
		return false
	}
	r.ok(what, args...)
	return true
}
