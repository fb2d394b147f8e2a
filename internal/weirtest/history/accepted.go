package history

import (
	"slices"

	"weir/schemas"
)

// accepted is I1. It reads the clients' answers and the accepted records: an answer that
// accepts names an action that is on the log, and where every answer refuses there is
// none. A log that holds an action's later events without its accepted one has lost it.
func (c *checker) accepted() {
	for _, n := range c.names {
		refused := 0
		for _, asked := range n.asked {
			switch {
			case asked.Answer == Refused:
				refused++
			case asked.Answer != Accepted:
			case asked.ID == "":
				c.breach("I1", n.tenant, n.text, "status %d accepted it and named no action", asked.Status)
			case !c.stored(place{n.tenant, asked.ID}):
				c.breach("I1", n.tenant, n.text, "status %d accepted it as %s, which the log does not have", asked.Status, asked.ID)
			}
		}
		if len(n.asked) > 0 && refused == len(n.asked) && len(n.actions) > 0 {
			c.breach("I1", n.tenant, n.text, "all %d requests were refused, and the log has %s", refused, n.actions[0].ID)
		}
	}
	for _, a := range c.actions {
		for _, seq := range a.Unread {
			c.breach("I1", a.Tenant, a.ID, "the record at %d cannot be read", seq)
		}
		if len(a.Events) > 0 && a.Accepted() == nil && !c.said(a) {
			c.breach("I1", a.Tenant, a.ID, "its first event is %s at %d: the accepted one is lost", a.Events[0].Type, a.Events[0].Seq)
		}
	}
}

func (c *checker) stored(at place) bool {
	return slices.ContainsFunc(c.byID[at], func(a *Action) bool { return a.Accepted() != nil })
}

// origin is the id of the action that a name made first: a repeat that begins a successor, or is
// answered by one, is of the same name.
func (c *checker) origin(at place) string {
	for _, a := range c.byID[at] {
		if accepted := a.Accepted(); accepted != nil && accepted.Supersedes != "" {
			return c.origin(place{at.tenant, accepted.Supersedes})
		}
	}
	return at.text
}

// said: the loss of an action was reported by what its client was told.
func (c *checker) said(a *Action) bool {
	return slices.ContainsFunc(c.run.Asked, func(asked Asked) bool {
		return asked.Tenant == a.Tenant && asked.ID == a.ID && asked.Answer == Accepted
	})
}

// named is I9. It reads the clients' answers and the accepted records: all answers of one
// name name one action, no second one was made for it, and no id was accepted twice,
// whatever its kind. What redrive makes names the action it comes from, and is another; a
// successor counts as the action that it follows.
func (c *checker) named() {
	for at, all := range c.byID {
		times := 0
		for _, a := range all {
			times += len(a.Of(schemas.EventAccepted))
		}
		if times > 1 {
			c.breach("I9", at.tenant, at.text, "the id was accepted %d times", times)
		}
	}
	for _, n := range c.names {
		ids := map[string]bool{}
		for _, asked := range n.asked {
			if asked.ID != "" && asked.Answer == Accepted && c.stored(place{n.tenant, asked.ID}) {
				ids[c.origin(place{n.tenant, asked.ID})] = true
			}
		}
		for _, a := range n.actions {
			if accepted := a.Accepted(); accepted != nil && accepted.Supersedes == "" {
				ids[a.ID] = true
			}
		}
		if len(ids) > 1 {
			c.breach("I9", n.tenant, n.text, "one name was made %d actions", len(ids))
		}
	}
}
