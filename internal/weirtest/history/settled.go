package history

import "weir/schemas"

// settled is I2. It reads the log alone: an accepted action has exactly one terminal
// event, behind which nothing stands but a person's resolution or its successor's name, and which was stored no
// later than its deadline and the time to heal.
func (c *checker) settled() {
	for _, a := range c.actions {
		accepted, ends := a.Accepted(), a.Of(schemas.EventSettled)
		if accepted == nil {
			continue
		}
		if len(ends) != 1 {
			c.breach("I2", a.Tenant, a.ID, "%d terminal events among %d", len(ends), len(a.Events))
			continue
		}
		end := ends[0]
		for _, ev := range a.Events {
			if ev.Seq > end.Seq && ev.Type != schemas.EventResolution && ev.Type != schemas.EventSuperseded {
				c.breach("I2", a.Tenant, a.ID, "%s at %d stands behind the end at %d", ev.Type, ev.Seq, end.Seq)
			}
		}
		late := end.Record.Time.Sub(accepted.Deadline)
		if c.bounds.Heal > 0 && !accepted.Deadline.IsZero() && late > c.bounds.Heal {
			c.breach("I2", a.Tenant, a.ID, "it ended %s behind its deadline", late)
		}
	}
}
