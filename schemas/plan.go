package schemas

import "encoding/json"

// PlanRequest is the body of POST /v1/plans and, minus request_id, the payload
// of kind plan.
type PlanRequest struct {
	RequestID string          `json:"request_id,omitempty" jsonschema:"pattern=^[A-Za-z0-9._:-]{1\\,128}$"`
	Snapshot  json.RawMessage `json:"state:env.snapshot" jsonschema:"type=object"`
	Plan      ProposedPlan    `json:"artifact:proposed.plan"`
}

// ProposedPlan is an ordered list of decisions. Unknown members are ignored.
type ProposedPlan struct {
	PlanID    *string        `json:"plan_id,omitempty"`
	Decisions []PlanDecision `json:"decisions"`
}

// PlanDecision is one effect to apply. TargetState is checked when the decision
// is performed, so that one bad decision fails alone. Unknown members are ignored.
type PlanDecision struct {
	EffectRef      string          `json:"effect_ref" jsonschema:"minLength=1"`
	TargetState    json.RawMessage `json:"target_state" jsonschema:"type=object"`
	IdempotencyKey string          `json:"idempotency_key,omitempty"`
}

// PlanResult is the answer of POST /v1/plans, key for key, and the result
// document of kind plan.
type PlanResult struct {
	Report    ExecutionReport `json:"artifact:execution.report"`
	ActResult ActResult       `json:"state:act.result"`
}

// ExecutionReport proves what was done for each effect.
type ExecutionReport struct {
	ReportID        *string                      `json:"report_id" jsonschema:"nullable"`
	ArtifactRefs    map[string]ArtifactRef       `json:"artifact_refs"`
	Status          string                       `json:"status" jsonschema:"enum=succeeded,enum=partial,enum=failed"`
	PolicyDecisions []PolicyDecision             `json:"policy_decisions"`
	Errors          []string                     `json:"errors"`
	Artifacts       map[string]ConnectorArtifact `json:"artifacts"`
	ExecutionHash   string                       `json:"execution_hash"`
}

// ActResult repeats the report's outcome for the controller loop.
type ActResult struct {
	ArtifactRefs map[string]ArtifactRef `json:"artifact_refs"`
	Status       string                 `json:"status" jsonschema:"enum=succeeded,enum=partial,enum=failed"`
}

// ArtifactRef is the result of one effect: an applied call, or a failure. Which members are present
// depends on Status alone.
type ArtifactRef struct {
	Status          string  `json:"status" jsonschema:"enum=applied,enum=failed"`
	URL             *string `json:"url,omitempty"`
	Method          *string `json:"method,omitempty"`
	Fingerprint     *string `json:"fingerprint,omitempty"`
	ResponseSnippet *string `json:"response_snippet,omitempty"`
	ResponseHash    *string `json:"response_hash,omitempty"`
	Error           *string `json:"error,omitempty"`
}

// PolicyDecision is the report's line for one decision, in the plan's order.
type PolicyDecision struct {
	EffectRef      string `json:"effect_ref"`
	Allowed        bool   `json:"allowed"`
	Reason         string `json:"reason"`
	IdempotencyKey string `json:"idempotency_key"`
}

// ConnectorArtifact is the connector's own entry in the report.
type ConnectorArtifact struct {
	SnapshotID json.RawMessage        `json:"snapshot_id"`
	Requests   map[string]ArtifactRef `json:"requests"`
}

// ConnectorAgent is the key of the connector's entry in artifacts.
const ConnectorAgent = "HttpConnectorAgent"
