package runs

// Pass lets the time go by for which the agent of a task type is left alone, if it
// is.
func (m *Remote) Pass(taskType string) bool {
	_, d, found := m.agents.of(taskType)
	if !found || !d.breaker.state.IsOpen() {
		return false
	}
	d.breaker.state.HalfOpen()
	return true
}
