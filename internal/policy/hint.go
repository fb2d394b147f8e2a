package policy

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"weir/internal/redact"
	"weir/schemas"
)

// maxListed bounds the names in one sentence.
const maxListed = 10

// hint looks for what would make a denied request pass.
type hint struct {
	policy *Policy
	entry  *entry // the one that it came closest to; nil: none
	q      *question
	r      *Request
}

// of is empty where nothing would help.
func (m *hint) of(f denial) string {
	switch f.Check {
	case CheckKey, CheckScheme, CheckHost, CheckPort, CheckMethod, CheckPath, CheckAddress:
		if s := m.other(); s != "" {
			return s
		}
	default:
	}
	switch f.Check {
	case CheckKey:
		return m.key(f)
	case CheckURL:
		return m.url(f)
	case CheckScheme, CheckHost, CheckPort, CheckMethod, CheckPath:
		return m.match(f)
	case CheckHeader:
		return m.header(f)
	case CheckBody:
		return m.body(f)
	case CheckAddress:
		return m.address(f)
	default:
		return advice(f)
	}
}

// advice is the second half of a denial's sentence: what to do.
func advice(f denial) string {
	if _, after, ok := strings.Cut(f.Reason, "; "); ok {
		return after
	}
	return f.Reason
}

// other is another entry that takes the request as it is.
func (m *hint) other() string {
	if m.q.urlForm != nil {
		return ""
	}
	shadow := ""
	for _, e := range m.policy.all {
		switch {
		case !m.r.usable(e) || m.policy.checkEntry(e, m.q, m.r) != nil:
		case e.Shadow:
			if shadow == "" {
				shadow = "set mode of entry " + e.Name + " to " + ModeEnforce
			}
		case !e.item:
			return "set allowlist_key to " + e.Name
		case !m.r.KeyRequired:
			return "leave out allowlist_key; " + e.label() + " covers the call"
		}
	}
	return shadow
}

func (m *hint) key(f denial) string {
	switch {
	case f == deniedNoPolicy:
		return advice(f)
	case m.q.urlForm == nil && m.policy.network(&m.q.url.target) == "":
		return "" // no entry leads there
	}
	var list []string
	for _, e := range m.policy.enforced.entries {
		if e.item || !m.r.usable(e) {
			continue
		}
		if m.r.Key != "" && strings.EqualFold(e.Name, m.r.Key) {
			return "set allowlist_key to " + e.Name
		}
		list = append(list, e.Name)
	}
	if added := m.newEntry(); f == deniedKeyUnknown && added != "" && len(m.r.Only) == 0 && checkName(m.r.Key, false) == nil {
		return "add an entry named " + m.r.Key + " with " + added
	}
	switch {
	case len(list) == 0:
		return "add an entry to policy.allowlist"
	case len(list) > maxListed:
		return fmt.Sprintf("set allowlist_key to one of %s and %d more", strings.Join(list[:maxListed], ", "), len(list)-maxListed)
	case len(list) == 1:
		return "set allowlist_key to " + list[0]
	}
	return "set allowlist_key to one of " + strings.Join(list, ", ")
}

func (m *hint) match(f denial) string {
	e, u := m.entry, &m.q.url
	switch f {
	case deniedHostDot:
		return "write the host in lower case without the trailing dot: " + u.Host
	case deniedHostNever:
		return ""
	case deniedHostNone, deniedHostLoopback, deniedHostLimited:
		return m.grant()
	case deniedConnectAddress:
		return "use the name of the host, or " + m.grant()
	default:
		if e == nil {
			return advice(f)
		}
	}
	switch f {
	case deniedScheme:
		return "begin the url with " + e.Scheme + "://"
	case deniedHost:
		return "use the host " + e.Host + ", which " + e.label() + " covers" + m.orEntry("this one")
	case deniedPort, deniedPortLimited:
		t := u.target
		if t.Port = e.Port; m.policy.network(&t) == "" {
			return ""
		}
		return fmt.Sprintf("use port %d%s", e.Port, m.orEntry(fmt.Sprintf("port %d", u.Port)))
	case deniedConnect:
		if e.item {
			return m.grant()
		}
		return "set connect of " + e.label() + " to " + ConnectTunnel + " or " + ConnectInspect
	case deniedMethod:
		return "add " + m.q.method + " to methods of " + e.label()
	case deniedPath:
		where := "at or below "
		if strings.HasSuffix(e.Path, "/") {
			where = "below "
		}
		return "use a path " + where + e.Path + ", or widen url_prefix of " + e.label()
	case deniedPathEmptySegment:
		return "write single slashes in the path"
	default:
		return advice(f)
	}
}

// orEntry proposes an entry of the target's own, where one could lead there.
func (m *hint) orEntry(what string) string {
	switch {
	case m.policy.network(&m.q.url.target) == "":
		return ""
	case m.r.Key != "": // another entry decides only if the call names it
		return ", or add an entry for " + what + " and set allowlist_key to its name"
	default:
		return ", or an entry for " + what
	}
}

// newEntry describes an entry that would allow the call, if one can lead there; empty for a URL that cannot be read.
func (m *hint) newEntry() string {
	if m.q.urlForm != nil {
		return ""
	}
	t := m.q.url.target
	t.Target = "/"
	if m.q.connect {
		t.Scheme = schemeHTTPS
	}
	list := []string{"url_prefix " + t.String()}
	if method := m.q.method; method != "" && method != "GET" && !m.q.connect {
		list = append(list, "methods ["+m.q.method+"]")
	}
	if network := m.policy.network(&t); network != NetworkPublic {
		list = append(list, "network "+network)
	}
	if m.q.connect {
		list = append(list, "connect "+ConnectTunnel)
	}
	last := len(list) - 1
	if last == 0 {
		return list[0]
	}
	return strings.Join(list[:last], ", ") + " and " + list[last]
}

// grant is the entry that would have to be added for a host that none covers.
func (m *hint) grant() string {
	if len(m.r.Only) > 0 {
		return "use a token whose entries cover this host"
	}
	added := "add an entry with " + m.newEntry()
	if t := m.q.url.target; m.policy.network(&t) == NetworkPublic && !m.q.connect {
		added += ", or add " + t.Authority() + " to policy.allowed_hosts"
	}
	return added
}

func (m *hint) address(f denial) string {
	network := m.policy.network(&m.q.url.target)
	switch {
	case network == "":
		return ""
	case f == deniedAddressNotGranted && strings.HasPrefix(network, NetworkPrivate):
		return "add " + single(m.q.url.addr) + " to cidrs of " + m.entry.label()
	case m.entry.Any || m.entry.item:
		return "add an entry for this host with network " + network
	}
	return "set network of " + m.entry.label() + " to " + network
}

// network is what an entry must grant to reach a target as far as it is known;
// empty where no entry can.
func (p *Policy) network(t *target) string {
	e := &entry{canonical: canonical{Network: NetworkPublic}}
	word := NetworkPublic
	switch {
	case p.loopback(t):
		e.Network, word = NetworkLoopback, NetworkLoopback
	case t.addr.IsValid() && !p.ranges.isPublic(t.addr):
		e.Network, e.cidrs = NetworkPrivate, []netip.Prefix{netip.PrefixFrom(t.addr, t.addr.BitLen())}
		word = NetworkPrivate + " with cidrs " + single(t.addr)
	}
	if p.checkTarget(e, t) != nil {
		return ""
	}
	return word
}

// loopback reports whether a target is on this machine, as far as its name or address says so.
func (p *Policy) loopback(t *target) bool { return loopbackName(t.Host) || p.ranges.isLoopback(t.addr) }

func single(a netip.Addr) string { return netip.PrefixFrom(a, a.BitLen()).String() }

func (m *hint) header(f denial) string {
	if f == deniedKeyRequired {
		return "set idempotency_key, or set derive in upstream_idempotency of " + m.entry.label() + " in place of requires_key"
	}
	name := m.faultyHeader()
	switch {
	case name == "":
		return advice(f)
	case f == deniedHeaderCredential:
		return "leave out the header " + name + "; the operator sets it in headers of " + m.entry.label()
	case f == deniedHeaderOwned:
		return "leave out the header " + name + "; " + m.entry.label() + " sets it"
	case f == deniedHeaderCaller, f == deniedHeaderPart:
		return "leave out the header " + name + ", or add " + name + " to caller_headers of " + m.entry.label()
	case f == deniedHeaderIdempotency:
		return "leave out the header " + name + " and set idempotency_key"
	case f == deniedHeaderRepeated:
		return "send the header " + name + " once"
	case f == deniedHeaderValue, f == deniedHeaderLength, f == deniedHeaderTemplate, f == deniedHeaderRedacted:
		return "change the value of the header " + name + ": " + advice(f)
	}
	return "leave out the header " + name
}

// faultyHeader is the name of the first header that is refused, where it is a
// name at all.
func (m *hint) faultyHeader() string {
	for i, h := range m.r.Headers {
		repeated := slices.ContainsFunc(m.r.Headers[:i], func(o schemas.Header) bool { return strings.EqualFold(o.Name, h.Name) })
		if (repeated || h.Value == redact.Mark || checkHeader(m.entry, h) != nil) && headerToken(h.Name) {
			return h.Name
		}
	}
	return ""
}

func (m *hint) body(f denial) string {
	switch f {
	case deniedBodyOwned:
		return "leave out the members that " + m.entry.label() + " adds: " + strings.Join(names(m.entry.Body), ", ")
	case deniedBodyMissing:
		return "send a JSON object as the body, such as {}"
	default:
		return advice(f)
	}
}

// label is what an entry is called in a sentence.
func (e *entry) label() string {
	if e.item {
		return "allowed host " + strings.TrimPrefix(e.Name, hostEntryPrefix)
	}
	return "entry " + e.Name
}

// url names the faulty place in the URL. Positions count bytes from 1.
func (m *hint) url(f denial) string {
	s := m.r.URL
	switch f {
	case deniedURLLength:
		return fmt.Sprintf("shorten the url by %d bytes, or send what is long in the body", len(s)-MaxURL)
	case deniedURLCharacter:
		return urlCharacter(s)
	case deniedEscape:
		if i := badEscape(s); i >= 0 {
			return fmt.Sprintf("write %%25 for the percent sign at byte %d, or two hex digits after it", i+1)
		}
	case deniedFragment:
		return "leave out the # and what follows it"
	case deniedNoScheme:
		return "begin the url with https:// or http://"
	case deniedQueryOwned:
		return "leave out the parameters that " + m.entry.label() + " adds: " + strings.Join(names(m.entry.Query), ", ")
	case deniedQueryCaller:
		raw, _ := foreignParam(m.entry, m.q.url.Query)
		name := strconv.Quote(string(paramName(nil, raw)))
		return "leave out the parameter " + name + ", or add " + name + " to caller_params of " + m.entry.label()
	default:
	}
	return advice(f)
}

func urlCharacter(s string) string {
	i := 0
	for i < len(s) && (s[i] == '#' || urlByte(s[i])) {
		i++
	}
	if i == len(s) {
		return advice(deniedURLCharacter)
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	where := fmt.Sprintf("at byte %d", i+1)
	switch _, rest, ok := strings.Cut(s[:i], "://"); {
	case r < ' ' || r == 0x7f:
		return "leave out the control character " + where
	case i == 0 || strings.TrimSpace(s[i:]) == "":
		return "leave out the text before or after the url, " + where
	case !ok || !strings.ContainsAny(rest, "/?"):
		if r >= utf8.RuneSelf {
			return "write the host as A-labels, which begin with xn--; it has another script " + where
		}
		return "leave out the character " + where + ", which no host has"
	case r == '\\':
		return "write / for the backslash " + where
	}
	return fmt.Sprintf("write %s for the character %s", url.PathEscape(s[i:i+n]), where)
}
