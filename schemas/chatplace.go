package schemas

// ChatPlace is where the reader of a completion's stream has been: behind the first Chunk
// chunks of the event at Seq, or behind all of it where Chunk is 0. The zero place is the
// beginning.
type ChatPlace struct {
	Seq   uint64
	Chunk int
}
