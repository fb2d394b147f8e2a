package schemas

// The services of git over HTTP.
const (
	GitUploadPack  = "git-upload-pack"  // fetch
	GitReceivePack = "git-receive-pack" // push
)

// RouteGit is the prefix of a repository's name. The routes of git follow that name, with or
// without ".git".
const RouteGit = "/git"

// PushOrder is the payload of an action of kind push: the requested update. The objects
// themselves are not on the log.
type PushOrder struct {
	Repo string `json:"repo"`
	Ref  string `json:"ref"`
	Old  string `json:"old"` // object ids in hex; all zeros: there is no such ref
	New  string `json:"new"`
	// TaskID, Lease and Branch are whose push it is.
	TaskID string `json:"task_id"`
	Lease  int    `json:"lease"`
	Branch string `json:"branch"`
	// Key is a part of the hash of the token that it came with.
	Key string `json:"key,omitempty"`
	// Force: the task lets what was pushed be replaced.
	Force bool `json:"force,omitempty"`
	// Holder is the token of the pool's agent.
	Holder string `json:"holder,omitempty"`
	// Denied is why the push is refused before git sees a byte of it, as a sentence for a
	// person; empty: it is not.
	Denied string `json:"denied,omitempty"`
	// Capabilities are those that the client asked for, as they go on to git.
	Capabilities []string `json:"capabilities,omitempty"`
}

// PushResult is the result document of an action of kind push.
type PushResult struct {
	Repo   string `json:"repo"`
	Ref    string `json:"ref"`
	Old    string `json:"old"`
	New    string `json:"new"`
	TaskID string `json:"task_id"`
	// Unpack is git's word on the objects: "ok", or what is wrong with them; empty
	// where git was not asked.
	Unpack string `json:"unpack,omitempty"`
	// Reason is why the ref was not updated, as a sentence for a person.
	Reason string `json:"reason,omitempty"`
	// Bytes of the pack that were read; absent: none, or unknown.
	Bytes int64 `json:"bytes,omitempty"`
}

// PushAudit is the payload of the evidence of kind git.push.
type PushAudit struct {
	Repo   string `json:"repo"`
	Ref    string `json:"ref"`
	Old    string `json:"old"`
	New    string `json:"new"`
	TaskID string `json:"task_id"`
	Lease  int    `json:"lease,omitempty"`
	// Agent is the token of the pool's agent; empty: the holder of the task's own.
	Agent string `json:"agent,omitempty"`
	// Result is "ok", or the code of the refusal or failure.
	Result   string   `json:"result"`
	Mode     RepoMode `json:"mode,omitempty"`
	Bytes    int64    `json:"bytes,omitempty"` // as PushResult has them
	Duration int64    `json:"duration_ms"`
}

// RepoAudit is the payload of the evidence of kind repo.create.
type RepoAudit struct {
	Repo   string   `json:"repo"`
	Mode   RepoMode `json:"mode,omitempty"`
	Result string   `json:"result"` // "ok", or the code of the failure
}

// AuditOK is the result of a successful event.
const AuditOK = "ok"
