// Package access lists, as data, what each user of a NATS cluster may say and hear:
// the roles of Weir, whoever makes the log, and the observers and agents of a tenant.
// It knows subjects alone and speaks to nobody; internal/broker/natsconf makes
// servers' configuration of it, and internal/broker compares with it what the
// servers grant.
//
// A user may do what is listed, and nothing else. The list bounds what a role can do
// by mistake and what its stolen credentials are good for. It is not the fence, which
// the log itself is.
package access
