package access

import "weir/schemas"

// Bucket says who keeps what in a bucket.
type Bucket struct {
	Name string
	// Holds describes the content in a few words.
	Holds string
	// Object marks an object store; the others are key-value stores.
	Object bool
	// Live is the subject prefix under which changes are republished. Empty: they are not.
	Live string
	// History is how many values of a key are stored; default 1.
	History uint8
	// Reads and Writes are the roles that do. Purges are those that drop what is long over, and
	// could drop the rest.
	Reads, Writes, Purges []Role
}

// ruleHistory is how many rule sets of a tenant are stored: the most that a bucket stores. A worker
// that does not know the outcome of its write finds the set that replaced the one it had read.
const ruleHistory = 64

// Buckets lists every bucket of a log.
func Buckets() []Bucket {
	all := []Role{Ingress, Worker, Egress}
	return []Bucket{
		{Name: schemas.BlobBucket, Holds: "bodies too large for the log", Object: true, Reads: all, Writes: []Role{Ingress, Worker}},
		{Name: schemas.TokenBucket, Holds: "the hashes of tokens", Live: schemas.LiveRoot + ".tokens.", Reads: all, Writes: []Role{Ingress}, Purges: []Role{Ingress}},
		{Name: schemas.RuleBucket, Holds: "traffic rules", Live: schemas.LiveRoot + ".rules.", History: ruleHistory, Reads: all, Writes: []Role{Worker}},
		{Name: schemas.RepoBucket, Holds: "the names of repositories", Reads: all, Writes: []Role{Worker}},
		{Name: schemas.LeaseBucket, Holds: "the last heartbeats of tasks' holders", Reads: all, Writes: []Role{Ingress, Worker}},
		{Name: schemas.BudgetBucket, Holds: "the usage of budgets", Reads: all, Writes: []Role{Worker}, Purges: []Role{Worker}},
		{Name: schemas.JanitorBucket, Holds: "the positions of the search for overdue actions", Reads: []Role{Worker}, Writes: []Role{Worker}},
		{Name: schemas.UsageBucket, Holds: "how much each tenant has stored", Reads: []Role{Ingress, Worker}, Writes: []Role{Ingress, Worker}},
		{Name: schemas.OperationBucket, Holds: "what operators pause and pin", Live: schemas.LiveRoot + ".operations.", Reads: all, Writes: []Role{Ingress}},
		{Name: schemas.DestinationBucket, Holds: "which destinations are paused, and the use of their limits", Live: schemas.LiveRoot + ".destinations.", Reads: []Role{Worker, Egress}, Writes: []Role{Worker}},
		{Name: schemas.ModelBucket, Holds: "the lists of models that providers have", Live: schemas.LiveRoot + ".models.", Reads: []Role{Worker, Egress}, Writes: []Role{Worker}},
		// Roles that read evidence must not have the key: with it, contents can be guessed.
		{Name: schemas.KeyBucket, Holds: "the key of sensitive evidence", Reads: []Role{Worker}, Writes: []Role{Provisioner}},
	}
}

// Stream is the stream behind the bucket.
func (b Bucket) Stream() string {
	if b.Object {
		return "OBJ_" + b.Name
	}
	return "KV_" + b.Name
}

// Keys is the subject prefix of what it holds.
func (b Bucket) Keys() string {
	if b.Object {
		return "$O." + b.Name + "."
	}
	return "$KV." + b.Name + "."
}

// Named is the listed bucket with a name; the zero Bucket if there is none.
func Named(name string) (found Bucket) {
	for _, b := range Buckets() {
		if b.Name == name {
			found = b
		}
	}
	return found
}

// Reads reports whether a role reads a bucket. One that is not listed it does not.
func Reads(r Role, bucket string) bool { return r.is(Named(bucket).Reads...) }
