package broker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// connect opens both connections. Publishes and their acknowledgements use a separate one, so that
// they and the deliveries do not delay each other.
func (b *Broker) connect() (err error) {
	gap := nats.ReconnectHandler(func(*nats.Conn) { b.gapped(false) })
	if b.nc, err = b.dial(gap); err != nil {
		return err
	}
	var more []nats.Option
	if b.cfg.Server != nil { // its acknowledgements are the feed
		more = append(more, gap)
	}
	if b.writes, err = b.dial(more...); err != nil {
		return err
	}
	if b.js, err = jetstream.New(b.nc); err != nil {
		return err
	}
	return errors.Join(b.acks.open(b.writes), b.reads.open(b.nc))
}

func (b *Broker) dial(more ...nats.Option) (nc *nats.Conn, err error) {
	opts := append([]nats.Option{
		nats.Name("weir"),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		// A publish without a connection fails at once instead of being buffered.
		nats.ReconnectBufSize(-1),
		nats.ErrorHandler(b.asyncError),
	}, more...)
	if b.cfg.Server != nil {
		nc, err = b.cfg.Server.Connect(opts...)
	} else {
		var own []nats.Option
		if own, err = b.cfg.external(); err != nil {
			return nil, err
		}
		own = append(own,
			nats.CustomInboxPrefix(b.cfg.Role.Inbox()),
			// A server that hangs closes no connection. After six seconds without an answer to three pings
			// the client goes to another server; its defaults would take six minutes.
			nats.PingInterval(2*time.Second), nats.MaxPingsOutstanding(2))
		nc, err = nats.Connect(b.cfg.URL, append(own, opts...)...)
	}
	if err != nil {
		return nil, fmt.Errorf("the broker cannot be reached: %w", wrap(err))
	}
	return nc, nil
}

// asyncError handles errors that the client cannot return to a caller. Their texts may name
// subjects and addresses, so it logs the kind only.
func (b *Broker) asyncError(_ *nats.Conn, _ *nats.Subscription, err error) {
	kind := "other"
	switch {
	case errors.Is(err, nats.ErrPermissionViolation):
		b.denied(err)
		return
	case errors.Is(err, nats.ErrSlowConsumer):
		kind = "slow_consumer"
	case errors.Is(err, nats.ErrBadHeaderMsg):
		kind = "bad_header"
	}
	b.cfg.Logger.WarnContext(b.life, "broker_connection_failed", "component", "broker", "err_kind", kind)
}

// subscribe calls fn for each message, however many wait for it: something else bounds their
// number.
func subscribe(nc *nats.Conn, subject string, fn nats.MsgHandler) (*nats.Subscription, error) {
	sub, err := nc.Subscribe(subject, fn)
	if err == nil {
		err = sub.SetPendingLimits(-1, -1)
	}
	return sub, wrap(err)
}

// drain ends a subscription and waits until its last message was handled. It fails on a closed
// connection, which has ended the subscription.
func drain(sub *nats.Subscription) {
	halted := make(chan struct{})
	sub.SetClosedHandler(func(string) { close(halted) })
	if sub.Drain() == nil {
		select {
		case <-halted:
		case <-time.After(readTimeout):
		}
	}
}

// TLS names the files of a connection that is encrypted. Each may be empty.
type TLS struct {
	// CA is what the servers' certificates are checked with, in the place of the system's own. With
	// one, a server that does not encrypt is refused.
	CA string
	// Cert and Key are this node's own certificate, where servers ask for one.
	Cert, Key string
}

// CheckFiles returns an error if a file for the connection to a cluster cannot be read or used. Waiting
// for the cluster does not cure that.
func (c Config) CheckFiles() error {
	_, err := c.external()
	return err
}

// external are the options of a connection to a cluster, with what its files hold.
func (c Config) external() ([]nats.Option, error) {
	var opts []nats.Option
	if c.TLS.CA != "" {
		opts = append(opts, nats.RootCAs(c.TLS.CA))
	}
	if c.TLS.Cert != "" {
		opts = append(opts, nats.ClientCert(c.TLS.Cert, c.TLS.Key))
	}
	for _, opt := range opts { // each reads its file
		if err := opt(&nats.Options{}); err != nil {
			return nil, fmt.Errorf("nats.tls: %w", err)
		}
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
