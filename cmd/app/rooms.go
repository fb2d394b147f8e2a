package app

import (
	"context"
	"encoding/json"
	"errors"

	"weir/egress"
	"weir/egress/index"
	"weir/egress/stream"
	"weir/ingress"
	"weir/ingress/accept"
	ingressexecutor "weir/ingress/executor"
	"weir/internal/jsonschema"
	"weir/internal/openapi"
	"weir/internal/postcondition"
	"weir/internal/redact"
	"weir/internal/telemetry"
	"weir/schemas"
)

// egressRoom is the room of reads, wired.
type egressRoom struct {
	feed *stream.Feed
	room *egress.Room
}

func (a *App) openEgress(context.Context) error {
	cfg := stream.Config{Layout: a.layout(), Result: egress.Result, Logger: a.log}
	if a.broker.Durability() != schemas.DurabilityProcess { // there, what is stored may be shown at once
		cfg.Barrier, cfg.Reserved = a.broker.Barrier, a.broker.Reserved
	}
	feed, err := stream.Open(a.broker, a.broker, cfg)
	if err != nil {
		return err
	}
	a.teardown.push(func(context.Context) error { feed.Close(); return nil })
	about := a.serviceConfig()
	about.Live, about.HTTP = a.broker, stream.HTTP{Watching: a.metrics.SSE, Watch: a.watch}
	about.Rules, about.Repos, about.PublicURL = a.rules, a.repositories.table, a.baseURL
	if a.role == RoleAll {
		about.Git = a.gitReads()
	}
	about.Models, about.Holder, about.TaskStreams, about.Budgets = a.models, a.taskReader, a.cfg.Auth.Streams, a.book
	about.Policy, about.Tokens, about.Operations = a.policyView, a.listTokens, a.operationsView
	if a.role.shows() {
		about.Index = a.openIndex(feed)
	}
	about.Session, about.Reserve = a.consoleSession, a.reserve
	room, err := egress.New(a.broker, a.ledger, feed, about)
	a.egress = egressRoom{feed: feed, room: room}
	return err
}

// openIndex begins to follow the log for lists and figures. The file is opened when it
// is first needed: nothing waits for it.
func (a *App) openIndex(feed *stream.Feed) *index.Index {
	x := index.New(a.broker, a.ledger, feed, index.Config{Layout: a.layout(), Path: a.cfg.IndexPath(), Log: a.log})
	x.Start()
	a.teardown.push(func(context.Context) error { x.Close(); return nil })
	return x
}

// serviceConfig is what a node of every role says about itself.
func (a *App) serviceConfig() egress.Config {
	return egress.Config{
		Layout: a.layout(), Durability: a.broker.Durability(), Replicas: a.copies(), Role: string(a.role), Reader: a.reader,
		PolicyVersion: func() string { return a.policy.Load().Version() },
		AllowedHosts:  func() []string { return a.policy.Load().AllowedHosts() },
		Checks: []egress.Check{
			{Name: "log", Run: a.broker.Ready},
			{Name: "accepting", Run: a.accepting},
		},
		Redactor: redact.New(a.cfg.RedactHeaders),
		Metrics:  a.metrics.Handler(), OpenAPI: openapi.Document(), Allow: a.allow,
	}
}

// service is what the node says about itself.
func (a *App) service() (*egress.Service, error) {
	if a.role.answers() {
		return a.egress.room.Service(), nil
	}
	return egress.NewService(a.serviceConfig())
}

// errDraining is why a node that is stopping is not ready.
var errDraining = errors.New("the node is stopping")

func (a *App) accepting(context.Context) error {
	if a.stopping.Load() {
		return errDraining
	}
	return nil
}

func (a *App) newIngress() *ingress.Room {
	var sessions ingress.Sessions
	if !a.open() {
		sessions = signIns{a.tokens}
	}
	return ingress.New(a.ledger, a.judge(ingress.Asker{}), a.egress.room, ingress.Config{
		Accept: accept.Config{
			Barrier: a.broker.Barrier, Durability: a.broker.Durability(),
			Deadlines: a.deadlines(),
			Pressure: accept.NewPressure(a.broker, accept.PressureConfig{
				Queued: uint64(max(a.cfg.Limits.Queued, 0)), QueuedPerTenant: uint64(max(a.cfg.Limits.QueuedPerTenant, 0)),
				Stored: a.broker.TenantRoom,
			}),
		},
		Checker:       checker(),
		Judge:         a.judge,
		NoAgentAPI:    !a.cfg.Rules.AgentAPI,
		Previewer:     a,
		PolicyVersion: func() string { return a.policy.Load().Version() },
		Authenticate:  a.authenticate, Issuer: issuer{a.tokens}, Sessions: sessions, PublicURL: a.baseURL, Policies: a, Operations: operations{a},
		Serves: a.serves,
		MaxRun: a.cfg.LongestAction(), // whatever goes on for longer would be forgotten before it ends
		Stop:   a.stopWork, NoEnds: a.role == RoleIngress,
		Dead: a.broker,
		Git:  a.gitDoor(), Tasks: a.desk, Repos: a.repositories.table, Branches: a.branchExists, Hosts: a.hosts,
		MaxTask: a.cfg.LongestAction(),
		Chat:    a.chatDoor(),
		MaxBody: int64(a.cfg.Limits.Body),
		Metrics: a.metrics, Logger: a.log,
	})
}

// stopWork tells the worker of an action that is under way that it is to stop. If that is lost, the worker
// that receives the cancel from the log stops it later.
func (a *App) stopWork(ref schemas.Ref) {
	if err := a.broker.Nudge(schemas.CancelSubject(ref), nil); err != nil {
		a.log.Warn("cancel not announced", "err_kind", telemetry.ErrKind(err))
	}
}

// checker checks the documents that a call carries along.
func checker() ingressexecutor.Checker {
	schemaCache := jsonschema.NewCache(jsonschema.CacheConfig{})
	return ingressexecutor.Checker{
		Schema: func(doc json.RawMessage) error {
			_, err := schemaCache.Compile(doc)
			return err
		},
		Postcondition: checkPostcondition,
	}
}

func checkPostcondition(doc json.RawMessage) (supported bool, err error) {
	_, err = postcondition.Parse(doc)
	if bad, ok := errors.AsType[*postcondition.Error](err); ok {
		return bad.Supported(), bad
	}
	return true, err
}
