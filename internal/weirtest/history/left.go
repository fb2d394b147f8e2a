package history

// left is I11. It reads what was still there when all was over.
func (c *checker) left() {
	l := c.run.Left
	if l.Backlog != 0 {
		c.breach("I11", "", "", "%d messages wait for a worker or an acknowledgement", l.Backlog)
	}
	for _, more := range []struct {
		what string
		n    int
	}{{"goroutines", l.Goroutines}, {"consumers", l.Consumers}, {"children", l.Children}} {
		if more.n != 0 {
			c.breach("I11", "", "", "%d more %s than before", more.n, more.what)
		}
	}
}
