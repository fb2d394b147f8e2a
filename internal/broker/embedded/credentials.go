package embedded

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/nats-io/nats-server/v2/server"

	"weir/schemas"
)

const (
	credentialsName = "nats-credentials.json"
	agentFile       = "nats-agent-credentials.json"

	// ownerInbox is where Weir's own requests are answered. It is not the default prefix, to which
	// others may subscribe.
	ownerInbox = "_WEIR"
)

// Credentials is the content of nats-credentials.json, with which any NATS client follows the evidence
// and the states of tasks, and of nats-agent-credentials.json for the agent API.
type Credentials struct {
	URL      string `json:"url"`
	User     string `json:"user"`
	Password string `json:"password"`
}

// access has the users of a server with a port. Only the passwords of the observer and of the agent are
// written to files; Weir's is new at each start and stays in memory.
type access struct {
	owner    Credentials // Weir itself
	observer Credentials
	agent    Credentials
}

// openAccess creates the users. The passwords in files survive restarts.
func openAccess(d *dataDir) (a access, err error) {
	a.owner = Credentials{User: "weir", Password: rand.Text()}
	if a.observer, err = readLogin(d.file(credentialsName), "observer"); err != nil {
		return a, err
	}
	a.agent, err = readLogin(d.file(agentFile), "agent")
	return a, err
}

// readLogin reads a user's password from its file, or creates one.
func readLogin(file, user string) (c Credentials, err error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Credentials{User: user, Password: rand.Text()}, nil
	}
	if err != nil {
		return c, refuse("%s cannot be read, repair it or delete it for a new password: %w", file, err)
	}
	if err := json.Unmarshal(raw, &c); err != nil || c.User != user || c.Password == "" {
		return c, refuse("%s is damaged: delete it for a new password", file)
	}
	return c, nil
}

// write writes the credentials to files that only this user can read.
func (a access) write(d *dataDir, addr string) error {
	a.observer.URL, a.agent.URL = "nats://"+addr, "nats://"+addr
	return errors.Join(d.write(credentialsName, a.observer), d.write(agentFile, a.agent))
}

// apply adds the accounts with their users and what they may use of Weir's. Observers have an account of
// their own. In Weir's, permissions would not be enough: the server answers to any reply subject that a
// request names, and a consumer delivers to any subject that its creator names, so both could write to
// the log. Agents have another one: the answers to them could otherwise be requests of observers, or
// reach an observer's inbox.
func (a access) apply(o *server.Options) error {
	own, observers, agents := server.NewAccount(server.DEFAULT_GLOBAL_ACCOUNT), server.NewAccount("OBSERVERS"), server.NewAccount("AGENTS")
	o.Accounts = []*server.Account{own, observers, agents}
	user := func(l Credentials, account *server.Account, publish, subscribe []string) {
		u := &server.User{Username: l.User, Password: l.Password, Account: account}
		if publish != nil {
			u.Permissions = &server.Permissions{
				Publish: &server.SubjectPermission{Allow: publish}, Subscribe: &server.SubjectPermission{Allow: subscribe},
			}
		}
		o.Users = append(o.Users, u)
	}
	follow, ask, pull, handled := observerSubjects()
	user(a.owner, nil, nil, nil)
	user(a.observer, observers, slices.Concat(ask, pull, handled), append(follow, inbox))
	// All agents are one user, so each can receive the answers to the others: they serve one tenant.
	agentAPI := schemas.AgentAPISubject(schemas.Operator)
	user(a.agent, agents, []string{agentAPI}, []string{inbox})

	var errs []error
	service := func(to *server.Account, answers server.ServiceRespType, prefix string, subjects ...string) {
		for _, s := range subjects {
			errs = append(errs, own.AddServiceExportWithResponse(prefix+s, answers, []*server.Account{to}), to.AddServiceImport(own, s, prefix+s))
		}
	}
	for _, s := range follow {
		errs = append(errs, own.AddStreamExport(s, []*server.Account{observers}), observers.AddStreamImport(own, s, ""))
	}
	service(observers, server.Singleton, "", ask...)
	service(observers, server.Streamed, "", pull...)
	service(observers, server.Singleton, handlerPrefix, handled...)
	service(agents, server.Singleton, "", agentAPI)
	return errors.Join(errs...)
}

const inbox = "_INBOX.>"

// observerSubjects are what observers may use of Weir's account, where each request names the one
// stream: messages, requests with one answer and with several, and requests that the handler of
// consumers answers.
func observerSubjects() (follow, ask, pull, handled []string) {
	const api, of = "$JS.API.", "." + schemas.EvidenceStream
	follow = []string{schemas.EvidenceRoot + ".>", schemas.LiveRoot + ".evidence.>", schemas.StatusRoot + ".>"}
	// Without the import of the account's info the server would give this account an API of its own, which
	// would refuse every request before the handler could answer. The info has only counts and limits; clients
	// request it by default to find out whether there is JetStream.
	ask = []string{api + "INFO", api + "STREAM.INFO" + of, api + "CONSUMER.INFO" + of + ".*", api + "CONSUMER.LIST" + of, "$JS.ACK" + of + ".>"}
	pull = []string{api + "CONSUMER.MSG.NEXT" + of + ".*"}
	handled = []string{api + "CONSUMER.CREATE" + of + ".>", api + "CONSUMER.DURABLE.CREATE" + of + ".*", api + "CONSUMER.CREATE" + of, api + "CONSUMER.DELETE" + of + ".*"}
	return follow, ask, pull, handled
}

// CredentialsFile has the observer's credentials for a server on dir with a port.
func CredentialsFile(dir string) string { return filepath.Join(dir, credentialsName) }

// AgentCredentialsFile has the credentials for the agent API.
func AgentCredentialsFile(dir string) string { return filepath.Join(dir, agentFile) }
