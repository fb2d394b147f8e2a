package config

import (
	"time"

	"weir/schemas"
)

// taskDeadline is how long a task may take where nobody says otherwise.
const taskDeadline = 8 * time.Hour

// leastTask is the default where the history is refused for its own sake.
const leastTask = 30 * time.Minute

// Defaults is the configuration of somebody who said nothing.
func Defaults() Config {
	c := Config{
		Listen:  "127.0.0.1:8092",
		Data:    "./weir-data",
		Log:     Log{History: 7 * 24 * time.Hour, MaxBytes: 10 << 30},
		Workers: Workers{Slots: 256, Chats: 1024},
		Limits: Limits{
			Body: 1 << 20, Chat: 16 << 20, Headers: 32 << 10, Response: 8 << 20, ResponseHeaders: 64 << 10,
			Stream: 256 << 20, Queued: 10_000_000, QueuedPerTenant: 5_000_000, TenantShare: 25, Answers: 64 << 20, Connections: 16384, ConnectionsPerPeer: 12288,
		},
		Auth:      Auth{Rate: "500/s", Streams: 1000},
		Deadline:  Deadline{HTTP: 2 * time.Minute, Plan: 10 * time.Minute, Run: 10 * time.Minute, Push: 15 * time.Minute, Repo: 30 * time.Minute, Chat: 15 * time.Minute},
		Rules:     Rules{AgentAPI: true, Limit: schemas.MaxRules},
		Tasks:     Tasks{Lease: 2 * time.Minute},
		Git:       Git{Program: "git", MaxPack: 1 << 30, MaxRepo: 10 << 30, Timeout: 10 * time.Minute, Memory: 2 << 30, Processes: 32},
		Policy:    Policy{Timeout: 30 * time.Second},
		Telemetry: Telemetry{LogLevel: "info", LogFormat: "json"},
	}
	derive(&c, origins{})
	return c
}

// derive sets the defaults that hang on another key, where nobody gave a value.
func derive(c *Config, given origins) {
	if !given.has("log.partitions") {
		c.Log.Partitions = 1
		if !c.Embedded() {
			c.Log.Partitions = 8
		}
	}
	if !given.has("log.replicas") {
		c.Log.Replicas = 1
		if !c.Embedded() {
			c.Log.Replicas = clusterReplicas
		}
	}
	if !given.has("log.durability") {
		c.Log.Durability = defaultDurability(c)
	}
	if !given.has("deadline.task") {
		// A history that was enough before there were tasks still is.
		c.Deadline.Task = max(min(taskDeadline, c.LongestAction()), leastTask)
	}
	deriveAuth(c, given)
	if !given.has("policy.allowed_hosts") {
		c.Policy.AllowedHosts = nil
		if c.Open() && len(c.Policy.Allowlist) == 0 { // a first try needs no policy, and only this machine reaches the node
			c.Policy.AllowedHosts = []string{"localhost", "127.0.0.1", "::1"}
		}
	}
	deriveAgents(c)
	deriveModels(c)
	deriveBudgets(c)
}

// clusterReplicas is how many copies of the log a cluster keeps: one server may be lost.
const clusterReplicas = 3

// defaultDurability is what the copies of the log make of it.
func defaultDurability(c *Config) schemas.Durability {
	switch {
	case c.Embedded():
		return schemas.DurabilityDisk
	case c.Log.Replicas > 1:
		return schemas.DurabilityReplicated
	default:
		return schemas.DurabilityProcess
	}
}
