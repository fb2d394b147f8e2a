package config

import "reflect"

// NeedsRestart lists the keys, in the order of the file, whose values differ in
// next and that a running node does not take over: everything but the
// agents, the models, their budgets and the policy's entries and allowed hosts.
func (c Config) NeedsRestart(next Config) []string {
	var keys []string
	before, after := settings(&c), settings(&next)
	for i, s := range before {
		if s.path != "policy.allowed_hosts" && !reflect.DeepEqual(s.value.Interface(), after[i].value.Interface()) {
			keys = append(keys, s.path)
		}
	}
	return keys
}
