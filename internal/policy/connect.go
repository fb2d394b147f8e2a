package policy

import (
	"errors"
	"reflect"
	"strings"
)

// The values of an entry's connect.
const (
	ConnectTunnel  = "tunnel"  // the proxy passes on the caller's bytes as they are
	ConnectInspect = "inspect" // the proxy ends TLS, and each request in it is an action
)

// MethodConnect is the method of a request for a tunnel.
const MethodConnect = "CONNECT"

// mailPort is the port on which mail servers relay for each other. No entry grants it.
const mailPort = 25

// setConnect sets what the proxy does with a CONNECT, after the rest of the entry.
func (e *entry) setConnect(word string) error {
	switch {
	case word == "":
		return nil
	case word != ConnectTunnel && word != ConnectInspect:
		return errors.New("connect: it is neither tunnel nor inspect")
	case e.Agent:
		return errors.New("connect: an agent's entry has none")
	case e.Port == mailPort:
		return errors.New("connect: port 25 relays mail, and no entry grants a CONNECT to it; use port 587 or 465")
	case word == ConnectInspect && e.Scheme == schemeHTTP:
		return errors.New("connect: inspect ends TLS; begin url_prefix with https://")
	case word == ConnectTunnel && e.Path != "" && e.Path != "/":
		return errors.New("connect: a tunnel hides the path, so that url_prefix cannot limit it; remove the path, or use inspect")
	case word == ConnectTunnel && e.injects:
		return errors.New("connect: nothing can be added to a tunnel; remove headers, query and body, or use inspect")
	}
	e.Connect = word
	return nil
}

// askConnect parses the authority of a CONNECT. Every fault of its form is a fault of the whole
// question.
func askConnect(authority string) question {
	q := question{method: MethodConnect, connect: true}
	q.url, q.urlForm = parseAuthority(authority)
	return q
}

// parseAuthority reads host:port, and nothing else.
func parseAuthority(s string) (parts, denial) {
	var u parts
	switch {
	case len(s) > MaxURL:
		return u, deniedURLLength
	case strings.ContainsAny(s, "/?#"):
		return u, deniedConnectForm
	}
	for i := range len(s) {
		if !urlByte(s[i]) {
			return u, deniedURLCharacter
		}
	}
	f := u.setAuthority(s)
	switch {
	case f == deniedNoHost:
		f = deniedConnectForm
	case f != nil:
	case u.userinfo:
		f = deniedConnectUser
	case u.hostForm != nil:
		f = u.hostForm
	case u.Port == 0:
		f = deniedConnectPort
	case u.Port == mailPort:
		f = deniedConnectMail
	}
	u.Path, u.Target = "/", "/"
	return u, f
}

// Authority is the canonical form of the target of a CONNECT; empty if it cannot be read.
func Authority(s string) string {
	u, f := parseAuthority(s)
	if f != nil {
		return ""
	}
	return u.Authority()
}

// connects is fits for the question of a CONNECT. A literal address needs an entry that names it.
func (e *entry) connects(q *question) denial {
	switch {
	case !e.coversHost(q.url.Host):
		return deniedHost
	case e.Any && q.url.addr.IsValid():
		return deniedConnectAddress
	case e.Any && q.url.Port != 80 && q.url.Port != 443:
		return deniedPortAny
	case e.Port != 0 && e.Port != q.url.Port:
		return deniedPort
	case e.Connect == "":
		return deniedConnect
	}
	return nil
}

// Connect is the entry's setting for CONNECT: tunnel, inspect or nothing.
func (p *Permit) Connect() string { return p.granted().Connect }

// Network is the network that the entry grants: public, loopback or private.
func (p *Permit) Network() string { return p.granted().Network }

// SameGrant reports whether two permits come from equal entries, perhaps in two policies.
func (p *Permit) SameGrant(other Permit) bool {
	a, b := p.granted(), other.granted()
	return a.Name != "" && reflect.DeepEqual(a, b)
}
