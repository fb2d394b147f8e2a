package runs

import "time"

// Pass lets the time go by for which the agent of a task type is left alone, if it
// is.
func (m *Remote) Pass(taskType string) bool {
	_, d, found := m.agent(taskType)
	if !found || d.breaker.remaining() == 0 {
		return false
	}
	d.breaker.mu.Lock()
	defer d.breaker.mu.Unlock()
	d.breaker.until = time.Now()
	return true
}
