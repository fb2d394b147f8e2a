package schemas

import (
	"strconv"
)

// The streams, buckets and subject roots.
const (
	LogStreamPrefix = "WEIR_LOG_"
	EvidenceStream  = "WEIR_EVIDENCE"
	DeadStream      = "WEIR_DEAD"
	BlobBucket      = "WEIR_BLOBS"
	TokenBucket     = "WEIR_TOKENS"
	RuleBucket      = "WEIR_RULES"
	RepoBucket      = "WEIR_REPOS"
	LeaseBucket     = "WEIR_LEASES"  // when the holder of a task was last heard of
	BudgetBucket    = "WEIR_BUDGETS" // usage of models, and reservations of running completions
	JanitorBucket   = "WEIR_JANITOR" // how far each partition was looked through for overdue actions
	KeyBucket       = "WEIR_KEYS"    // the key that evidence of sensitive actions is hashed with
	// OperationBucket has what operators decided. Ingress writes it (POST /v1/operations/…),
	// workers and egress read and follow it (weir.live.operations.>).
	OperationBucket = "WEIR_OPERATIONS"
	// DestinationBucket has what workers tell each other of destinations: which are left
	// alone, and what is used of their entries' limits. Workers write it, workers and egress
	// read and follow it (weir.live.destinations.>).
	DestinationBucket = "WEIR_DESTINATIONS"
	// ModelBucket has providers' own lists of models. Workers read and write it, egress reads it;
	// both follow it (weir.live.models.>).
	ModelBucket = "WEIR_MODELS"

	// UsageBucket has what each tenant has stored. All who write for tenants write and read it.
	UsageBucket = "WEIR_USAGE"

	LogRoot      = "weir.log"
	LiveRoot     = "weir.live"       // records as they are stored
	LiveLog      = LiveRoot + ".log" // log records, with the same subjects as below LogRoot
	ScheduleRoot = "weir.sched"      // pending wake-ups, in the stream of the log they wake
	EvidenceRoot = "weir.evidence"
	DeadRoot     = "weir.dead"
	// CancelRoot carries nudges without a store: the durable word is on the log.
	CancelRoot = "weir.cancel"
	// StatusRoot carries the changes of tasks' states, without a store: see StatusSubject.
	StatusRoot = "weir.status"
	// PolicyRequestRoot carries requests to reload the configuration, NodesRequestRoot those to report
	// alone, and PolicyReportRoot the answers of each node. All are followed by a name of the requester;
	// nothing is stored.
	PolicyRequestRoot = "weir.policy.look"
	NodesRequestRoot  = "weir.nodes.look"
	PolicyReportRoot  = "weir.policy.told"
	// AgentAPIRoot carries requests of the agent API and is answered by request-reply.
	AgentAPIRoot = "weir.rpc.agent-api"
)

// InlineLimit is the size of a body, in bytes, over which it goes to BlobBucket.
const InlineLimit = 256 << 10

// SpoolMemory is about what a body costs, in bytes, while it is stored as it arrives.
const SpoolMemory = 4 << 20

// LogStream names the stream of a partition.
func LogStream(partition int) string { return LogStreamPrefix + strconv.Itoa(partition) }

// Layout is how the log is cut. Partitions is fixed when the log is made.
type Layout struct {
	Partitions int // at least 1
}

// Partition is where an action's events lie.
func (l Layout) Partition(tenant, id string) int {
	return int(hash(tenant, "\x00", id) % uint32(l.Partitions)) //nolint:gosec // partitions are few and positive
}

// hash is FNV-1a of the parts, one behind the other, and what comes after it. It is
// asked for several times an action, and so makes nothing.
func hash(parts ...string) uint32 {
	h := uint32(2166136261)
	for _, s := range parts {
		for i := range len(s) {
			h = (h ^ uint32(s[i])) * 16777619
		}
	}
	// FNV alone lets only the low bits of each byte into the low bits of its
	// sum, and those are what a remainder takes; this spreads all of them.
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	return h ^ h>>16
}
