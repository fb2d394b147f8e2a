// Package natsconf writes the configuration of a NATS cluster for Weir into a
// directory: servers with TLS of an authority of its own, an account for Weir with a
// user for each role, accounts for tenants' own programs, and the credentials of all.
// What each may do is package access's to say. It speaks to no server.
//
//	DIR/cluster.json              what was asked for, and public keys: no secret
//	DIR/ca.pem, ca.key            the authority; the key is needed here alone
//	DIR/credentials/ROLE.nk       the seed of each role's nkey, for nats.creds
//	DIR/credentials/tenants/…     those of tenants' observers and agents
//	DIR/servers/NAME/             all that one server needs: nats.conf, accounts.conf, …
package natsconf
