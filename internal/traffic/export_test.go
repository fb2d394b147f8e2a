package traffic

import "weir/schemas"

// Looks is how much Circular looks at.
func Looks(s *Set, r schemas.Rule) int {
	_, looks := s.circular(r)
	return looks
}
