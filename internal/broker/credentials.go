package broker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"
)

// TLS names the files of a connection that is encrypted. Each may be empty.
type TLS struct {
	// CA is what the servers' certificates are checked with, in the place of the system's own. With
	// one, a server that does not encrypt is refused.
	CA string
	// Cert and Key are this node's own certificate, where servers ask for one.
	Cert, Key string
}

// external are the options of a connection to a cluster.
func (c Config) external() ([]nats.Option, error) {
	opts := []nats.Option{nats.CustomInboxPrefix(c.Role.Inbox())}
	if c.TLS.CA != "" {
		opts = append(opts, nats.RootCAs(c.TLS.CA))
	}
	if c.TLS.Cert != "" {
		opts = append(opts, nats.ClientCert(c.TLS.Cert, c.TLS.Key))
	}
	if c.Creds == "" {
		return opts, nil
	}
	creds, err := credentials(c.Creds)
	if err != nil {
		return nil, fmt.Errorf("nats.creds: %w", err)
	}
	return append(opts, creds), nil
}

// errCredentials is a file with something else in it. Its text is never repeated.
var errCredentials = errors.New(`the file holds no credentials: it takes a .creds file, the seed of an nkey (SU…), or {"user":"…","password":"…"}`)

// credentials reads a file of any of the forms that Weir takes. The seed of an nkey is read again
// at each connection.
func credentials(file string) (nats.Option, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	text := bytes.TrimSpace(raw)
	var login struct {
		User     string `json:"user"`
		Password string `json:"password"`
	}
	switch {
	case bytes.Contains(text, []byte("BEGIN NATS USER JWT")):
		return nats.UserCredentials(file), nil
	case bytes.HasPrefix(text, []byte("{")) && json.Unmarshal(text, &login) == nil && login.User != "":
		return nats.UserInfo(login.User, login.Password), nil
	}
	seed, err := nats.NkeyOptionFromSeed(file)
	if err != nil {
		return nil, errCredentials
	}
	return seed, nil
}
