package traffic

// As is the same set under another etag: who writes a set compiles it before the
// store has numbered it.
func (s *Set) As(etag string) *Set {
	again := *s
	again.etag = etag
	return &again
}
