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
	agentFile       = "nats-agent-credentials.json"

	observerUser    = "observer"
	observerAccount = "OBSERVERS"
	agentUser       = "agent"
	agentAccount    = "AGENTS"

	// ownerInbox is where the replies to Weir's own requests arrive. It is not
	// the default prefix, which others may listen to.
	ownerInbox = "_WEIR"
)

// Credentials is the content of nats-credentials.json, with which any NATS client
// follows the evidence and the states of tasks, and of nats-agent-credentials.json, with which it asks the
// agent API.
type Credentials struct {
	URL      string `json:"url"`
	User     string `json:"user"`
	Password string `json:"password"`
}

type login struct{ User, Password string }

// access is who may connect when a port is open. Only the passwords of the observer
// and of the agent are ever written down; the others are new at each start and stay
// in memory.
type access struct {
	owner    login // Weir itself, in its own account
	gate     login // Weir's ear in the observers' account
	observer login
	agent    login
}

// openAccess makes the users. The passwords in files survive restarts.
func openAccess(d *dataDir) (a access, err error) {
	a = access{owner: login{"weir", rand.Text()}, gate: login{"gate", rand.Text()}}
	if a.observer, err = readLogin(d.file(credentialsName), observerUser); err != nil {
		return a, err
	}
	a.agent, err = readLogin(d.file(agentFile), agentUser)
	return a, err
}

// readLogin has a user's password from its file, or makes one.
func readLogin(file, user string) (login, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return login{user, rand.Text()}, nil
	}
	if err != nil {
		return login{}, refuse("%s cannot be read, repair it or delete it for a new password: %w", file, err)
	}
	var c Credentials
	if err := json.Unmarshal(raw, &c); err != nil || c.User != user || c.Password == "" {
		return login{}, refuse("%s is damaged: delete it for a new password", file)
	}
	return login{user, c.Password}, nil
}

// write puts the credentials where only this user can read them.
func (a access) write(d *dataDir, addr string) error {
	return errors.Join(a.observer.write(d.file(credentialsName), addr), a.agent.write(d.file(agentFile), addr))
}

func (l login) write(file, addr string) error {
	raw, err := json.Marshal(Credentials{URL: "nats://" + addr, User: l.User, Password: l.Password}) //nolint:gosec // writing it down is the file's purpose
	if err != nil {
		return err
	}
	if err := writeFile(file, append(raw, '\n')); err != nil {
		return refuse("%s cannot be written, repair it or name another directory: %w", file, err)
	}
	return nil
}

// apply puts the users into their accounts. Observers have an account of their
// own: in Weir's, permissions would not be enough, because the server writes
// its answer to any reply subject a request names, and a consumer delivers to
// any subject its creator names; both could be subjects of the log. Agents have
// another: the answers to them go to whatever subjects they name, which in the
// observers' could be a request there, or an observer's inbox.
func (a access) apply(o *server.Options) {
	observers, agents := server.NewAccount(observerAccount), server.NewAccount(agentAccount)
	o.Accounts = []*server.Account{observers, agents}
	o.Users = []*server.User{
		{Username: a.owner.User, Password: a.owner.Password},
		{Username: a.gate.User, Password: a.gate.Password, Account: observers},
		{Username: a.observer.User, Password: a.observer.Password, Account: observers, Permissions: observerPermissions()},
		{Username: a.agent.User, Password: a.agent.Password, Account: agents, Permissions: agentPermissions()},
	}
}

// The requests that lead to Weir's account. Each names the one stream.
const (
	apiInfo         = "$JS.API.INFO"
	apiStreamInfo   = "$JS.API.STREAM.INFO." + schemas.EvidenceStream
	apiConsumerInfo = "$JS.API.CONSUMER.INFO." + schemas.EvidenceStream + ".*"
	apiConsumerList = "$JS.API.CONSUMER.LIST." + schemas.EvidenceStream
	apiConsumerNext = "$JS.API.CONSUMER.MSG.NEXT." + schemas.EvidenceStream + ".*"
	ackEvidence     = "$JS.ACK." + schemas.EvidenceStream + ".>"

	// Creation is answered by the gate, which reads the configuration first.
	apiConsumerCreate  = "$JS.API.CONSUMER.CREATE." + schemas.EvidenceStream + ".>"
	apiDurableCreate   = "$JS.API.CONSUMER.DURABLE.CREATE." + schemas.EvidenceStream + ".*"
	apiEphemeralCreate = "$JS.API.CONSUMER.CREATE." + schemas.EvidenceStream
	apiConsumerDelete  = "$JS.API.CONSUMER.DELETE." + schemas.EvidenceStream + ".*"

	storedEvidence = schemas.EvidenceRoot + ".>"
	liveEvidence   = schemas.LiveRoot + ".evidence.>"

	// statuses are told to whoever listens, and stored nowhere.
	statuses = schemas.StatusRoot + ".>"

	agentAPI = schemas.AgentAPIRoot + ".>"
	inbox    = "_INBOX.>"
)

func observerPermissions() *server.Permissions {
	return &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{
			apiStreamInfo, apiConsumerInfo, apiConsumerList, apiConsumerNext, ackEvidence, apiConsumerCreate, apiDurableCreate, apiEphemeralCreate, apiConsumerDelete,
		}},
		Subscribe: &server.SubjectPermission{Allow: []string{storedEvidence, liveEvidence, statuses, inbox}},
	}
}

// agentPermissions let agents ask and hear the answers. As they are one user, each
// can hear those that the others get.
func agentPermissions() *server.Permissions {
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: []string{agentAPI}},
		Subscribe: &server.SubjectPermission{Allow: []string{inbox}},
	}
}

// share opens, between the accounts, what others may use and no more.
func share(ns *server.Server) error {
	own := ns.GlobalAccount()
	observers, err := ns.LookupAccount(observerAccount)
	if err != nil {
		return fmt.Errorf("the observers' account: %w", err)
	}
	if err := shareRecords(own, observers); err != nil {
		return fmt.Errorf("the observers' account: %w", err)
	}
	agents, err := ns.LookupAccount(agentAccount)
	if err == nil {
		err = errors.Join(own.AddServiceExport(agentAPI, []*server.Account{agents}), agents.AddServiceImport(own, agentAPI, agentAPI))
	}
	if err != nil {
		return fmt.Errorf("the agents' account: %w", err)
	}
	return nil
}

func shareRecords(own, observers *server.Account) error {
	to := []*server.Account{observers}
	var errs []error
	for _, subject := range []string{storedEvidence, liveEvidence, statuses} {
		errs = append(errs, own.AddStreamExport(subject, to), observers.AddStreamImport(own, subject, ""))
	}
	// Nobody may ask for the account's info. That it is imported keeps the
	// server from giving this account an API of its own, which would refuse
	// every request before the gate could answer it.
	for _, subject := range []string{apiInfo, apiStreamInfo, apiConsumerInfo, apiConsumerList, ackEvidence} {
		errs = append(errs, own.AddServiceExport(subject, to), observers.AddServiceImport(own, subject, subject))
	}
	// One request for messages is answered by many.
	errs = append(errs, own.AddServiceExportWithResponse(apiConsumerNext, server.Streamed, to),
		observers.AddServiceImport(own, apiConsumerNext, apiConsumerNext))
	return errors.Join(errs...)
}

// CredentialsFile is where the observer's credentials lie for a server on dir
// that listens.
func CredentialsFile(dir string) string { return filepath.Join(dir, credentialsName) }

// AgentCredentialsFile is where the credentials for the agent API lie.
func AgentCredentialsFile(dir string) string { return filepath.Join(dir, agentFile) }
