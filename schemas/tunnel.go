package schemas

// TunnelState is the state of a tunnel of the forward proxy in a record.
type TunnelState string

// The states. A tunnel that is opened has a record of its end later, unless its node was killed.
const (
	TunnelOpened  TunnelState = "opened"
	TunnelRefused TunnelState = "refused"
	TunnelEnded   TunnelState = "ended"
)

// TunnelEnd is how a tunnel ended.
type TunnelEnd string

// The ends of a tunnel.
const (
	TunnelClosed  TunnelEnd = "closed"  // the client and the target had both ended
	TunnelFailed  TunnelEnd = "failed"  // the client or the target broke the connection
	TunnelIdle    TunnelEnd = "idle"    // nothing passed for as long as proxy.idle
	TunnelTooLong TunnelEnd = "longest" // it was open for as long as proxy.longest
	TunnelName    TunnelEnd = "name"    // TLS in it asked for another host than the one permitted
	TunnelRevoked TunnelEnd = "revoked" // its token ended
	TunnelDenied  TunnelEnd = "denied"  // a reload denied or changed its entry
	TunnelStopped TunnelEnd = "stopped" // its node stopped
)

// TunnelEnds lists the ends.
func TunnelEnds() []TunnelEnd {
	return []TunnelEnd{TunnelClosed, TunnelFailed, TunnelIdle, TunnelTooLong, TunnelName, TunnelRevoked, TunnelDenied, TunnelStopped}
}

// TunnelAudit is the payload of the evidence of kind proxy.tunnel. The records of one tunnel have one
// action_id, which names no action: a tunnel is none, and cannot be replayed.
type TunnelAudit struct {
	State TunnelState `json:"state"` // opened, refused or ended
	// Target is the host and the port, as policy reads them; empty if they cannot be read.
	Target string `json:"target,omitempty"`
	// Connect is tunnel or inspect, as the entry says. Network is what the entry grants, and what the
	// dialled address is: public, loopback or private. Both are empty if policy denied the tunnel.
	Connect string `json:"connect,omitempty"`
	Network string `json:"network,omitempty"`
	// Reason says why it was refused.
	Reason string    `json:"reason,omitempty"`
	End    TunnelEnd `json:"end,omitempty"`
	// BytesUp went to the target, BytesDown to the client.
	BytesUp    int64 `json:"bytes_up"`
	BytesDown  int64 `json:"bytes_down"`
	DurationMS int64 `json:"duration_ms"`
}
