package access

import (
	"slices"

	"weir/schemas"
)

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
	told := []Rule{
		{"see evidence as it is left", []string{schemas.EvidenceRoot + "." + t + ".>", schemas.LiveRoot + ".evidence." + t + ".>"}},
		{"see the states of tasks as they change", []string{schemas.StatusRoot + "." + t + ".>"}},
	}
	asked := []Rule{
		{"read the evidence that is stored", []string{
			api("CONSUMER.INFO", schemas.EvidenceStream) + "." + queue, api("CONSUMER.MSG.NEXT", schemas.EvidenceStream) + "." + queue,
		}},
		{"say what was read", []string{"$JS.ACK." + schemas.EvidenceStream + "." + queue + ".>"}},
		// It has only counts and limits of the whole log. Its import also keeps the servers from giving the
		// account an API of its own, which would refuse every request.
		{"find out, as clients do by default, whether there is JetStream", []string{accountInfo}},
	}
	return Account{
		Streams: Subjects(told), Services: Subjects(asked),
		Permissions: Permissions{Publish: asked, Subscribe: append(slices.Clip(told), answers())},
	}
}

// Agent is the account of a tenant's agents: they ask the agent API, and no more.
func Agent(tenant string) Account {
	asked := []Rule{{"ask the agent API", []string{schemas.AgentAPISubject(tenant)}}}
	return Account{Services: Subjects(asked), Permissions: Permissions{Publish: asked, Subscribe: []Rule{answers()}}}
}

func answers() Rule {
	return Rule{"receive the answers to its own requests", []string{inboxRoot + ">"}}
}

const accountInfo = "$JS.API.INFO"

// Exports are the exports of Weir's account, from which each tenant's account imports its own part:
// subscriptions, requests, and requests that are answered by several messages.
func Exports() (streams, services, streamed []string) {
	streams = []string{schemas.EvidenceRoot + ".>", schemas.LiveRoot + ".evidence.>", schemas.StatusRoot + ".>"}
	services = []string{
		api("CONSUMER.INFO", schemas.EvidenceStream) + ".*", "$JS.ACK." + schemas.EvidenceStream + ".>", schemas.AgentAPIRoot + ".*", accountInfo,
	}
	return streams, services, []string{api("CONSUMER.MSG.NEXT", schemas.EvidenceStream) + ".*"}
}
