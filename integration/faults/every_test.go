//go:build nightly

package faults_test

// every are the faults. Rows of the matrix that are not here are held by other tests; see
// docs/reliability.md.
func every() []row {
	return []row{
		{number: "F15", title: "a worker stands still during calls", short: true, fault: standStill},
		{number: "F14", title: "a worker stands still between attempt and first byte", short: true, fault: standDeclared},
		{number: "F19", title: "a server is killed", short: true, fault: killServers},
		{number: "F20", title: "two of three servers are killed", short: true, fault: killTwo},
		{number: "F21", title: "all servers are killed", fault: killAll},
		{number: "F23", title: "the leader is cut off from its followers", short: true, fault: isolateLeader},
		{number: "F23", title: "a node is cut off from every server", fault: cutOffNodes},
		{number: "F23", title: "the leader hears nothing of the others", fault: deafLeader},
		{number: "F23", title: "the others hear nothing of the leader", fault: muteLeader},
		{number: "F23", title: "no node reaches the leader", fault: leaderUnreached},
		{number: "F24", title: "packets are late and lost", fault: badWeather},
		{number: "F25", title: "connections break every two seconds", fault: storm},
		{number: "F30", title: "messages that no worker can read", fault: poison},
		{number: "F31", title: "every message is given out again", short: true, fault: giveAgain},
		{number: "F37", title: "each node ends with SIGTERM and another takes its place", short: true, fault: roll},
		{number: "F38", title: "leaders step down", fault: stepDown},
		{number: "F38", title: "each server is replaced by an empty one", fault: replace},
		{number: "F39", title: "clients leave before, in and behind their requests, and while they follow", short: true, fault: leave},
		{number: "F40", title: "fifty ask for the same at once", fault: sameKey},
		{number: "F47", title: "a deep queue, with cancels", fault: deepQueue},
	}
}
