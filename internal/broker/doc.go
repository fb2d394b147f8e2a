// Package broker is Weir's log, evidence and queues on NATS JetStream: guarded
// appends and reads by subject, bodies by hash, delayed wake-ups, the live feed
// of what was just stored, and Watermill's publisher and subscriber over it.
// Nothing else in Weir speaks to NATS.
package broker
