package outbound

// Phase says how far a call had come when it failed.
type Phase string

// The phases of Open, and then those of Do and Stream.
const (
	PhaseDNS     Phase = "dns"
	PhaseConnect Phase = "connect"
	PhaseTLS     Phase = "tls"
	PhaseHeader  Phase = "header" // sending, and waiting for the answer's headers
	PhaseBody    Phase = "body"
)

// PhaseError is the cause of a failure on the network. Its text is the phase
// alone. What it wraps is for errors.Is: net's errors name addresses, crypto/tls's
// quote certificates, and net/http's what the upstream said.
type PhaseError struct {
	Phase Phase
	Cause error
}

func (e *PhaseError) Error() string { return string(e.Phase) + ": it failed" }

// Unwrap gives the private cause. Never show it.
func (e *PhaseError) Unwrap() error { return e.Cause }
