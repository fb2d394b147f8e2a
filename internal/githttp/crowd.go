package githttp

import (
	"strconv"
	"sync"

	"weir/internal/fault"
	"weir/internal/task"
	"weir/schemas"
)

// Crowd bounds how many requests of a kind a task has at a time, so that one token cannot
// take all that there is of something. It is safe for concurrent use.
type Crowd struct {
	what string
	most int

	mu sync.Mutex
	of map[holder]int
}

type holder struct{ tenant, task string }

// NewCrowd returns a bound. what names the requests, in the plural.
func NewCrowd(what string, most int) *Crowd {
	return &Crowd{what: what, most: most, of: map[holder]int{}}
}

// Enter lets one request of a task in until it leaves. Who has no task is not counted.
func (c *Crowd) Enter(g task.Grant) (leave func(), err error) {
	if g.TaskID == "" {
		return func() {}, nil
	}
	who := holder{g.Tenant, g.TaskID}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[who] >= c.most {
		return nil, fault.New(schemas.RateLimited, "this task has "+strconv.Itoa(c.most)+" "+c.what+" on their way already; try again when one of them has ended")
	}
	c.of[who]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.of[who]--; c.of[who] == 0 {
			delete(c.of, who)
		}
	}, nil
}
