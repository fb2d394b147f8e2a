package access

import (
	"slices"

	"weir/schemas"
)

// Of are the permissions of a role on a log of so many partitions.
func Of(r Role, partitions int) Permissions {
	others := func(rule Rule) bool { return !r.is(rule.roles...) }
	return Permissions{
		Publish: slices.DeleteFunc(publishes(r, partitions), others), Subscribe: slices.DeleteFunc(subscribes(r), others),
		Replies: r.is(Ingress),
	}
}

// publishes lists what roles may publish. A role that reads the log reads all of it: Weir itself
// decides what each caller may see. Nothing that the provisioner may do deletes.
func publishes(r Role, partitions int) []Rule {
	log, all := logStreams(partitions), Streams(partitions)
	stored := append(slices.Clip(log), schemas.EvidenceStream, schemas.DeadStream)
	var buckets []Rule
	for _, b := range Buckets() {
		if r.is(b.Reads...) {
			stored = append(stored, b.Stream())
		}
		why, subjects := "write ", []string{b.Keys() + ">"}
		if slices.Contains(b.Writes, Provisioner) {
			why, subjects = "make ", append(subjects, "$JS.API.STREAM.MSG.GET."+b.Stream())
		}
		buckets = append(buckets, Rule{b.Writes, why + b.Holds, subjects},
			Rule{b.Purges, "delete old entries of " + b.Holds, []string{"$JS.API.STREAM.PURGE." + b.Stream()}})
	}
	maker, ingress, worker, egress, node := []Role{Provisioner}, []Role{Ingress}, []Role{Worker}, []Role{Egress}, []Role{Ingress, Worker, Egress}
	return slices.Concat([]Rule{
		{Roles(), "find out what this user may do", []string{"$SYS.REQ.USER.INFO"}},
		{maker, "find out what is there", slices.Concat(each("$JS.API.STREAM.INFO.", all, ""), each("$JS.API.CONSUMER.INFO.", log, ".*"), []string{accountInfo})},
		{maker, "make streams and buckets, and bring them up to date", append(each("$JS.API.STREAM.CREATE.", all, ""), each("$JS.API.STREAM.UPDATE.", all, "")...)},
		{maker, "make queues", each("$JS.API.CONSUMER.CREATE.", log, ".>")},
		{maker, "make the places of tenants' observers in the evidence", []string{
			"$JS.API.CONSUMER.INFO." + schemas.EvidenceStream + ".*", "$JS.API.CONSUMER.CREATE." + schemas.EvidenceStream + ".>",
		}},
		{node, "find out whether the log is there", append(each("$JS.API.STREAM.INFO.", all, ""), accountInfo)},
		{node, "read what is stored", append(each("$JS.API.DIRECT.GET.", stored, ""), each("$JS.API.STREAM.MSG.GET.", stored, "")...)},
		{node, "see how long the queues are", append(each("$JS.API.CONSUMER.INFO.", log, ".*"), each("$JS.API.CONSUMER.LIST.", log, "")...)},
		{ingress, "accept an action: no other role creates work", section(schemas.SectionAccepted)},
		{ingress, "send an action an outside event: cancel, resolve, messages of a task's agent", section(schemas.SectionWake)},
		{ingress, "tell the worker that is at it to stop", []string{schemas.CancelRoot + ".>"}},
		{worker, "write down what is done for an action, and its end", section(schemas.SectionEvent)},
		{worker, "look at an action again, now, and name its successor", section(schemas.SectionWake)},
		{worker, "look at an action again, later", []string{schemas.ScheduleRoot + ".>"}},
		{worker, "move an action to an overflow queue", section(schemas.SectionOverflow, schemas.SectionOverflowLong)},
		{worker, "leave evidence", []string{schemas.EvidenceRoot + ".>"}},
		{worker, "park what no retry can help", []string{schemas.DeadRoot + ".>"}},
		{worker, "tell observers the states of tasks", []string{schemas.StatusRoot + ".>"}},
		{ingress, "have every node read its policy again", []string{schemas.PolicyRequestRoot + ".*"}},
		{egress, "have every node report", []string{schemas.NodesRequestRoot + ".*"}},
		{node, "report about this node", []string{schemas.PolicyReportRoot + ".*"}},
	}, buckets, []Rule{
		{worker, "ask for work", each("$JS.API.CONSUMER.MSG.NEXT.", log, ".*")},
		{worker, "say that work is done, goes on, or is for another", each("$JS.ACK.", log, ".>")},
		{worker, "recreate a queue that was deleted", each("$JS.API.CONSUMER.CREATE.", log, ".>")},
		{worker, "move the place of a queue that nothing came from for long", each("$JS.API.CONSUMER.RESET.", log, ".*")},
	})
}

// subscribes lists the notifications that roles receive.
func subscribes(r Role) []Rule {
	ingress, worker, egress, node := []Role{Ingress}, []Role{Worker}, []Role{Egress}, []Role{Ingress, Worker, Egress}
	all := []Rule{
		{Roles(), "receive the answers to its own requests", []string{r.Inbox() + ".>"}},
		{node, "follow the log as it is written", []string{schemas.LiveLog + ".>"}},
		{egress, "follow the evidence as it is left", []string{schemas.LiveRoot + ".evidence.>"}},
		{worker, "receive the notice that an action must stop", []string{schemas.CancelRoot + ".>"}},
		{node, "receive the notice to report, or to reload the policy", []string{schemas.NodesRequestRoot + ".*", schemas.PolicyRequestRoot + ".*"}},
		{append(ingress, Egress), "receive the report of each node", []string{schemas.PolicyReportRoot + ".*"}},
		{ingress, "answer the agent API", []string{schemas.AgentAPIRoot + ".*"}},
	}
	for _, b := range Buckets() {
		if b.Live != "" {
			all = append(all, Rule{b.Reads, "follow " + b.Holds, []string{b.Live + ">"}})
		}
	}
	return all
}

const inboxRoot = "_INBOX."

// section covers sections of the log.
func section(all ...schemas.Section) (subjects []string) {
	for _, s := range all {
		subjects = append(subjects, schemas.LogRoot+".*."+string(s)+".>")
	}
	return subjects
}

// each is a subject for each of some streams.
func each(before string, streams []string, after string) []string {
	all := make([]string, len(streams))
	for i, s := range streams {
		all[i] = before + s + after
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
