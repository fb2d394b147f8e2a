package access

import (
	"slices"

	"weir/schemas"
)

// Of are the permissions of a role on a log of so many partitions.
func Of(r Role, partitions int) Permissions {
	p := Permissions{
		Publish:   []Rule{{"find out what this user may do", []string{"$SYS.REQ.USER.INFO"}}},
		Subscribe: []Rule{{"receive the answers to its own requests", []string{r.Inbox() + ".>"}}},
	}
	if r == Provisioner {
		p.Publish = append(p.Publish, provision(partitions)...)
		return p
	}
	p.Publish = append(p.Publish, read(r, partitions)...)
	p.Publish = append(p.Publish, write(r)...)
	if r.Works() {
		p.Publish = append(p.Publish, work(partitions)...)
	}
	p.Subscribe = append(p.Subscribe, hear(r)...)
	p.Replies = r.is(Ingress)
	return p
}

// write lists what a role may publish.
func write(r Role) (rules []Rule) {
	for _, w := range []struct {
		who Role
		Rule
	}{
		{Ingress, Rule{"accept an action: no other role creates work", []string{section(schemas.SectionAccepted)}}},
		{Ingress, Rule{"send an action an outside event: cancel, resolve, messages of a task's agent", []string{section(schemas.SectionWake)}}},
		{Ingress, Rule{"tell the worker that is at it to stop", []string{schemas.CancelRoot + ".>"}}},
		{Worker, Rule{"write down what is done for an action, and its end", []string{section(schemas.SectionEvent)}}},
		{Worker, Rule{"look at an action again, now, and name its successor", []string{section(schemas.SectionWake)}}},
		{Worker, Rule{"look at an action again, later", []string{schemas.ScheduleRoot + ".>"}}},
		{Worker, Rule{"move an action to an overflow queue", []string{section(schemas.SectionOverflow), section(schemas.SectionOverflowLong)}}},
		{Worker, Rule{"leave evidence", []string{schemas.EvidenceRoot + ".>"}}},
		{Worker, Rule{"park what no retry can help", []string{schemas.DeadRoot + ".>"}}},
		{Worker, Rule{"tell observers the states of tasks", []string{schemas.StatusRoot + ".>"}}},
	} {
		if r.is(w.who) {
			rules = append(rules, w.Rule)
		}
	}
	if r.is(Ingress) {
		rules = append(rules, Rule{"have every node read its policy again", []string{schemas.PolicyRequestRoot + ".*"}})
	}
	if r.is(Egress) {
		rules = append(rules, Rule{"have every node report", []string{schemas.NodesRequestRoot + ".*"}})
	}
	rules = append(rules, Rule{"report about this node", []string{schemas.PolicyReportRoot + ".*"}})
	for _, b := range Buckets() {
		if r.is(b.Writes...) {
			rules = append(rules, Rule{"write " + b.Holds, b.written()})
		}
		if r.is(b.Purges...) {
			rules = append(rules, Rule{"delete old entries of " + b.Holds, []string{api("STREAM.PURGE", b.Stream())}})
		}
	}
	return rules
}

// read is a role's read access. A role that reads the log reads all of it: Weir itself decides what
// each caller may see.
func read(r Role, partitions int) []Rule {
	streams := append(logStreams(partitions), schemas.EvidenceStream, schemas.DeadStream)
	for _, b := range Buckets() {
		if r.is(b.Reads...) {
			streams = append(streams, b.Stream())
		}
	}
	return []Rule{
		{"find out whether the log is there", append(each("STREAM.INFO", Streams(partitions)), "$JS.API.INFO")},
		{"read what is stored", slices.Concat(each("DIRECT.GET", streams), each("STREAM.MSG.GET", streams))},
		{"see how long the queues are", append(consumers("CONSUMER.INFO", partitions, "*"), each("CONSUMER.LIST", logStreams(partitions))...)},
	}
}

// work is how a worker gets what there is to do.
func work(partitions int) []Rule {
	var acks []string
	for _, s := range logStreams(partitions) {
		acks = append(acks, "$JS.ACK."+s+".>")
	}
	return []Rule{
		{"ask for work", consumers("CONSUMER.MSG.NEXT", partitions, "*")},
		{"say that work is done, goes on, or is for another", acks},
		{"recreate a queue that was deleted", consumers("CONSUMER.CREATE", partitions, ">")},
		{"move the place of a queue that nothing came from for long", consumers("CONSUMER.RESET", partitions, "*")},
	}
}

// hear lists the notifications that a role receives.
func hear(r Role) (rules []Rule) {
	for _, h := range []struct {
		who []Role
		Rule
	}{
		{[]Role{Ingress, Worker, Egress}, Rule{"follow the log as it is written", []string{schemas.LiveLog + ".>"}}},
		{[]Role{Egress}, Rule{"follow the evidence as it is left", []string{schemas.LiveRoot + ".evidence.>"}}},
		{[]Role{Worker}, Rule{"receive the notice that an action must stop", []string{schemas.CancelRoot + ".>"}}},
		{[]Role{Ingress, Worker, Egress}, Rule{"receive the notice to report, or to reload the policy", []string{schemas.NodesRequestRoot + ".*", schemas.PolicyRequestRoot + ".*"}}},
		{[]Role{Ingress, Egress}, Rule{"receive the report of each node", []string{schemas.PolicyReportRoot + ".*"}}},
		{[]Role{Ingress}, Rule{"answer the agent API", []string{schemas.AgentAPIRoot + ".*"}}},
	} {
		if r.is(h.who...) {
			rules = append(rules, h.Rule)
		}
	}
	for _, b := range Buckets() {
		if b.Live != "" && r.is(b.Reads...) {
			rules = append(rules, Rule{"follow " + b.Holds, []string{b.Live + ">"}})
		}
	}
	return rules
}

// provision is how the log is made, and changed later. Nothing here deletes.
func provision(partitions int) []Rule {
	streams := Streams(partitions)
	all := []Rule{
		{"find out what is there", slices.Concat(each("STREAM.INFO", streams), consumers("CONSUMER.INFO", partitions, "*"), []string{"$JS.API.INFO"})},
		{"make streams and buckets, and bring them up to date", slices.Concat(each("STREAM.CREATE", streams), each("STREAM.UPDATE", streams))},
		{"make queues", consumers("CONSUMER.CREATE", partitions, ">")},
		{"make the places of tenants' observers in the evidence", []string{
			api("CONSUMER.INFO", schemas.EvidenceStream) + ".*", api("CONSUMER.CREATE", schemas.EvidenceStream) + ".>",
		}},
	}
	for _, b := range Buckets() {
		if slices.Contains(b.Writes, Provisioner) {
			all = append(all, Rule{"make " + b.Holds, slices.Concat(b.written(), each("STREAM.MSG.GET", []string{b.Stream()}))})
		}
	}
	return all
}

const inboxRoot = "_INBOX."

// section covers a section of the log.
func section(s schemas.Section) string { return schemas.LogRoot + ".*." + string(s) + ".>" }

func api(what, stream string) string { return "$JS.API." + what + "." + stream }

func each(what string, streams []string) []string {
	all := make([]string, len(streams))
	for i, s := range streams {
		all[i] = api(what, s)
	}
	return all
}

// consumers are requests about the queues of the log.
func consumers(what string, partitions int, which string) []string {
	all := each(what, logStreams(partitions))
	for i := range all {
		all[i] += "." + which
	}
	return all
}

func logStreams(partitions int) []string {
	all := make([]string, partitions)
	for i := range all {
		all[i] = schemas.LogStream(i)
	}
	return all
}

// Streams returns the streams of a log with a number of partitions: the log itself, then what its records refer to.
func Streams(partitions int) []string {
	all := append(logStreams(partitions), schemas.EvidenceStream, schemas.DeadStream)
	for _, b := range Buckets() {
		all = append(all, b.Stream())
	}
	return all
}
