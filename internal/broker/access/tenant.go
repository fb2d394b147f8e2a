package access

import (
	"slices"

	"weir/schemas"
)

// Account is one for programs of a tenant's own. What it may use of Weir's account is imported, and
// nothing else is there for it. Permissions alone would not be enough: the server writes its
// answers to whatever subject a request names, and in an account of its own that can only be one of
// the tenant's.
type Account struct {
	// Streams are what it is told, Services what it may ask; each is imported under its own name.
	Streams, Services []string
	Permissions
}

// ObserverQueue is the name of the consumer through which a tenant's observer reads its evidence.
// It is made by `weir nats provision --tenant`, because nobody but Weir may say what a consumer
// filters and where it delivers.
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

func answers() Rule { return Rule{"hear the answers to its own requests", []string{inboxRoot + ">"}} }

const accountInfo = "$JS.API.INFO"

// Exports are what Weir's account offers, of which each account of a tenant imports its own part:
// what it is told, what it may ask, and what it may ask that is answered by more than one message.
func Exports() (streams, services, streamed []string) {
	streams = []string{schemas.EvidenceRoot + ".>", schemas.LiveRoot + ".evidence.>", schemas.StatusRoot + ".>"}
	services = []string{
		api("CONSUMER.INFO", schemas.EvidenceStream) + ".*", "$JS.ACK." + schemas.EvidenceStream + ".>", schemas.AgentAPIRoot + ".*", accountInfo,
	}
	return streams, services, []string{api("CONSUMER.MSG.NEXT", schemas.EvidenceStream) + ".*"}
}
