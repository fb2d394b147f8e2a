package access

import "weir/schemas"

// Account is for a tenant's own programs. It imports the parts of Weir's account that they may use,
// and contains nothing else. Permissions alone would not be enough: the server sends replies to any
// subject that a request names. In a separate account that subject can only be the tenant's.
type Account struct {
	// Streams are the subjects it may subscribe to, Services those it may send requests to. Each is
	// imported under its own name.
	Streams, Services []string
	Permissions
}

// ObserverQueue is the name of the consumer through which a tenant's observer reads its evidence.
// `weir nats provision --tenant` creates it, because only Weir may set a consumer's filter and
// delivery subject.
func ObserverQueue(tenant string) string { return "observer_" + schemas.EscapeToken(tenant) }

// Observer is the account of a tenant's observer: it sees the tenant's own evidence, as it is left
// and as it is stored, and the states of its tasks.
func Observer(tenant string) Account {
	t, queue := schemas.EscapeToken(tenant), ObserverQueue(tenant)
	return account([]Rule{
		{nil, "see evidence as it is left", []string{schemas.EvidenceRoot + "." + t + ".>", schemas.LiveRoot + ".evidence." + t + ".>"}},
		{nil, "see the states of tasks as they change", []string{schemas.StatusRoot + "." + t + ".>"}},
	}, []Rule{
		{nil, "read the evidence that is stored", []string{consumerInfo + queue, consumerNext + queue}},
		{nil, "say what was read", []string{evidenceAck + queue + ".>"}},
		// It has only counts and limits of the whole log. Its import also keeps the servers from giving the
		// account an API of its own, which would refuse every request.
		{nil, "find out, as clients do by default, whether there is JetStream", []string{accountInfo}},
	})
}

// Agent is the account of a tenant's agents: they ask the agent API, and no more.
func Agent(tenant string) Account {
	return account(nil, []Rule{{nil, "ask the agent API", []string{schemas.AgentAPISubject(tenant)}}})
}

func account(told, asked []Rule) Account {
	answers := Rule{nil, "receive the answers to its own requests", []string{inboxRoot + ">"}}
	return Account{Subjects(told), Subjects(asked), Permissions{Publish: asked, Subscribe: append(told, answers)}}
}

const (
	accountInfo  = "$JS.API.INFO"
	consumerInfo = "$JS.API.CONSUMER.INFO." + schemas.EvidenceStream + "."
	consumerNext = "$JS.API.CONSUMER.MSG.NEXT." + schemas.EvidenceStream + "."
	evidenceAck  = "$JS.ACK." + schemas.EvidenceStream + "."
)

// Exports are the exports of Weir's account, from which each tenant's account imports its own part:
// subscriptions, requests, and requests that are answered by several messages.
func Exports() (streams, services, streamed []string) {
	return []string{schemas.EvidenceRoot + ".>", schemas.LiveRoot + ".evidence.>", schemas.StatusRoot + ".>"},
		[]string{consumerInfo + "*", evidenceAck + ">", schemas.AgentAPIRoot + ".*", accountInfo},
		[]string{consumerNext + "*"}
}
