package embedded

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/nats-server/v2/server"

	"weir/schemas"
)

const (
	credentialsName = "nats-credentials.json"

	observerUser    = "observer"
	observerAccount = "OBSERVERS"

	// ownerInbox is where the replies to Weir's own requests arrive. It is not
	// the default prefix, which observers may listen to.
	ownerInbox = "_WEIR"
)

// Credentials is the content of nats-credentials.json: what a program needs
// to follow the evidence with any NATS client.
type Credentials struct {
	URL      string `json:"url"`
	User     string `json:"user"`
	Password string `json:"password"`
}

type login struct{ User, Password string }

// access is who may connect when a port is open. Only the observer's password
// is ever written down; the others are new at each start and stay in memory.
type access struct {
	owner    login // Weir itself, in its own account
	gate     login // Weir's ear in the observers' account
	observer login
}

// openAccess makes the users. An observer's password survives restarts.
func openAccess(d *dataDir) (access, error) {
	a := access{
		owner:    login{"weir", rand.Text()},
		gate:     login{"gate", rand.Text()},
		observer: login{observerUser, rand.Text()},
	}
	raw, err := os.ReadFile(d.file(credentialsName))
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err != nil {
		return a, refuse("%s cannot be read, repair it or delete it for a new password: %w", d.file(credentialsName), err)
	}
	var c Credentials
	if err := json.Unmarshal(raw, &c); err != nil || c.User != observerUser || c.Password == "" {
		return a, refuse("%s is damaged: delete it for a new password", d.file(credentialsName))
	}
	a.observer.Password = c.Password
	return a, nil
}

// write puts the observer's credentials where only this user can read them.
func (a access) write(d *dataDir, addr string) error {
	raw, err := json.Marshal(Credentials{URL: "nats://" + addr, User: a.observer.User, Password: a.observer.Password}) //nolint:gosec // writing it down is the file's purpose
	if err != nil {
		return err
	}
	if err := writeFile(d.file(credentialsName), append(raw, '\n')); err != nil {
		return refuse("%s cannot be written, repair it or name another directory: %w", d.file(credentialsName), err)
	}
	return nil
}

// apply puts the users into their accounts. Observers have an account of their
// own: in Weir's, permissions would not be enough, because the server writes
// its answer to any reply subject a request names, and a consumer delivers to
// any subject its creator names; both could be subjects of the log.
func (a access) apply(o *server.Options) {
	observers := server.NewAccount(observerAccount)
	o.Accounts = []*server.Account{observers}
	o.Users = []*server.User{
		{Username: a.owner.User, Password: a.owner.Password},
		{Username: a.gate.User, Password: a.gate.Password, Account: observers},
		{Username: a.observer.User, Password: a.observer.Password, Account: observers, Permissions: observerPermissions()},
	}
}

// The requests that lead to Weir's account. Each names the one stream.
const (
	apiInfo         = "$JS.API.INFO"
	apiStreamInfo   = "$JS.API.STREAM.INFO." + schemas.EvidenceStream
	apiConsumerInfo = "$JS.API.CONSUMER.INFO." + schemas.EvidenceStream + ".*"
	apiConsumerNext = "$JS.API.CONSUMER.MSG.NEXT." + schemas.EvidenceStream + ".*"
	ackEvidence     = "$JS.ACK." + schemas.EvidenceStream + ".>"

	// Creation is answered by the gate, which reads the configuration first.
	apiConsumerCreate  = "$JS.API.CONSUMER.CREATE." + schemas.EvidenceStream + ".>"
	apiDurableCreate   = "$JS.API.CONSUMER.DURABLE.CREATE." + schemas.EvidenceStream + ".*"
	apiEphemeralCreate = "$JS.API.CONSUMER.CREATE." + schemas.EvidenceStream

	storedEvidence = schemas.EvidenceRoot + ".>"
	liveEvidence   = schemas.LiveRoot + ".evidence.>"
)

func observerPermissions() *server.Permissions {
	return &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{
			apiStreamInfo, apiConsumerInfo, apiConsumerNext, ackEvidence, apiConsumerCreate, apiDurableCreate, apiEphemeralCreate,
		}},
		Subscribe: &server.SubjectPermission{Allow: []string{storedEvidence, liveEvidence, "_INBOX.>"}},
	}
}

// share opens, between the accounts, what observers may use and no more.
func share(ns *server.Server) error {
	own := ns.GlobalAccount()
	observers, err := ns.LookupAccount(observerAccount)
	if err != nil {
		return fmt.Errorf("the observers' account: %w", err)
	}
	to := []*server.Account{observers}
	var errs []error
	for _, subject := range []string{storedEvidence, liveEvidence} {
		errs = append(errs, own.AddStreamExport(subject, to), observers.AddStreamImport(own, subject, ""))
	}
	// Nobody may ask for the account's info. That it is imported keeps the
	// server from giving this account an API of its own, which would refuse
	// every request before the gate could answer it.
	for _, subject := range []string{apiInfo, apiStreamInfo, apiConsumerInfo, ackEvidence} {
		errs = append(errs, own.AddServiceExport(subject, to), observers.AddServiceImport(own, subject, subject))
	}
	// One request for messages is answered by many.
	errs = append(errs, own.AddServiceExportWithResponse(apiConsumerNext, server.Streamed, to),
		observers.AddServiceImport(own, apiConsumerNext, apiConsumerNext))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("the observers' account: %w", err)
	}
	return nil
}

// CredentialsFile is where the observer's credentials lie for a server on dir
// that listens.
func CredentialsFile(dir string) string { return filepath.Join(dir, credentialsName) }
