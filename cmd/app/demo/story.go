package demo

import (
	"fmt"
	"io"
	"strings"
)

// story tells the tour. Every line that claims something has been checked
// before it is printed; the first claim that does not hold ends the tour.
type story struct {
	out  io.Writer
	step int
}

// chapter begins a step of the tour.
func (s *story) chapter(title string) {
	s.step++
	fmt.Fprintf(s.out, "\n%d. %s\n", s.step, title)
}

// say explains.
func (s *story) say(format string, args ...any) {
	fmt.Fprintf(s.out, "   %s\n", fmt.Sprintf(format, args...))
}

// show prints something as it is: a request, a line of a stream.
func (s *story) show(format string, args ...any) {
	for line := range strings.SplitSeq(fmt.Sprintf(format, args...), "\n") {
		fmt.Fprintf(s.out, "     %s\n", line)
	}
}

// claim states what has just been checked.
func (s *story) claim(format string, args ...any) {
	fmt.Fprintf(s.out, "   ✓ %s\n", fmt.Sprintf(format, args...))
}

// mismatch is a claim that does not hold.
func mismatch(what string, want, got any) error {
	return fmt.Errorf("the tour found something that is not as it should be: %s: want %v, got %v", what, want, got)
}
