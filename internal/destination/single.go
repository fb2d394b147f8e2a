package destination

// single lets one at a time through, as a mutex does. Who waits for it waits on a channel,
// which the clock of a test goes on beside: what it guards rests between two tries.
type single chan struct{}

func newSingle() single { return make(single, 1) }

func (s single) Lock() { s <- struct{}{} }

func (s single) Unlock() { <-s }
