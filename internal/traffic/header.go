package traffic

import (
	"slices"
	"strings"

	"weir/schemas"
)

// EditHeaders makes changes to the headers of an answer, sorted and in lower case
// before and after. The slice given is not changed.
func EditHeaders(headers []schemas.Header, changes []schemas.HeaderChange) []schemas.Header {
	return edit(headers, changes, true)
}

// edit makes changes to headers that are sorted by their names, whatever the case.
// With fold, new names are written in lower case. The slice given is not changed.
func edit(headers []schemas.Header, changes []schemas.HeaderChange, fold bool) []schemas.Header {
	if len(changes) == 0 {
		return headers
	}
	out := slices.Clone(headers)
	for _, c := range changes {
		out = editOne(out, c, fold)
	}
	return out
}

func editOne(out []schemas.Header, c schemas.HeaderChange, fold bool) []schemas.Header {
	name := c.Name
	if fold {
		name = strings.ToLower(name)
	}
	if c.Op == schemas.HeaderAppend {
		for i, h := range slices.Backward(out) {
			if strings.EqualFold(h.Name, name) {
				out[i].Value = join(h.Value, c.Value)
				return out
			}
		}
	} else {
		out = slices.DeleteFunc(out, func(h schemas.Header) bool { return strings.EqualFold(h.Name, name) })
		if c.Op == schemas.HeaderRemove {
			return out
		}
	}
	lower := strings.ToLower(name)
	i := slices.IndexFunc(out, func(h schemas.Header) bool { return strings.ToLower(h.Name) > lower })
	if i < 0 {
		i = len(out)
	}
	return slices.Insert(out, i, schemas.Header{Name: name, Value: c.Value})
}

// join adds a value to a list of them.
func join(list, value string) string {
	if list == "" {
		return value
	}
	return list + ", " + value
}
