// Package embedded runs the message broker inside the process: a NATS server
// with one JetStream store on the local disk, the data directory that belongs
// to it, and the group commit that turns its acknowledgements into a promise
// that outlives a power cut.
//
// The server hands every message to the kernel before it acknowledges it, so
// that killing the process loses nothing that was acknowledged. Only what
// Barrier has waited for also survives the loss of the machine's memory.
package embedded
