package secrets

import (
	"slices"
	"sync"
)

// maxFormer is how many former values of a secret are remembered.
const maxFormer = 3

// former remembers the returned values by name, the newest first. A target may still return a value
// that it learned before a rotation: in the answer to a retry, after a redirect, on any later call.
type former struct {
	mu     sync.Mutex
	values map[string][]Value
}

// use notes that a name's value is given out, and returns it with the former ones.
func (f *former) use(name, text string) []Value {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.values == nil {
		f.values = map[string][]Value{}
	}
	list := slices.DeleteFunc(slices.Clone(f.values[name]), func(v Value) bool { return v.ExposeSecret() == text })
	list = append([]Value{newValue(text)}, list[:min(len(list), maxFormer)]...)
	f.values[name] = list
	return list
}
