package stream

// Topics is how many actions are watched.
func (f *Feed) Topics() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.topics)
}

// Held is how many events wait for a barrier.
func (f *Feed) Held() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.held)
}

// Watching is how many watchers an action has.
func (f *Feed) Watching() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.topics {
		n += len(t.watchers)
	}
	return n
}
