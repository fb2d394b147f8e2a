package natsconf

import (
	"embed"
	"net"
	"path"
	"strconv"
	"strings"
	"text/template"

	"weir/internal/broker/access"
	"weir/schemas"
)

//go:embed *.tmpl
var files embed.FS

var templates = template.Must(template.ParseFS(files, "*.tmpl")) //nolint:gochecknoglobals // constant

func render(name string, data any) string {
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		panic(err) // the templates and their data are this package's own
	}
	return b.String()
}

// serverConf is one server's nats.conf.
func serverConf(p Plan, s Server, at string) string {
	listen := "0.0.0.0"
	if net.ParseIP(s.Host) != nil {
		listen = s.Host
	}
	var routes []string
	for _, other := range p.Servers {
		if other.Name != s.Name {
			routes = append(routes, other.route())
		}
	}
	return render("nats.conf.tmpl", map[string]any{
		"Server": s, "Store": p.Store, "Routes": routes,
		"Listen":      net.JoinHostPort(listen, strconv.Itoa(s.Port)),
		"ListenRoute": net.JoinHostPort(listen, strconv.Itoa(s.Route)),
		"Advertise":   net.JoinHostPort(s.Host, strconv.Itoa(s.Port)),
		"Cert":        path.Join(at, "cert.pem"), "Key": path.Join(at, "key.pem"), "CA": path.Join(at, "ca.pem"), "Data": path.Join(at, "data"),
	})
}

// user is a user of an account.
type user struct {
	Name, Key string
	access.Account
	Tenant string // the name of the account
}

// accountsConf is the same on all servers.
func accountsConf(s state) string {
	var roles, tenants []user
	for _, r := range access.Roles() {
		roles = append(roles, user{Name: string(r), Key: s.Users[string(r)], Account: access.Account{Permissions: access.Of(r, s.Partitions)}})
	}
	for _, t := range s.Tenants {
		token := schemas.EscapeToken(t.Name)
		tenants = append(tenants, user{"observer of " + token, t.Observer, access.Observer(t.Name), "OBSERVER_" + token},
			user{"agent of " + token, t.Agent, access.Agent(t.Name), "AGENT_" + token})
	}
	streams, services, streamed := access.Exports()
	return render("accounts.conf.tmpl", map[string]any{
		"Roles": roles, "Tenants": tenants, "Streams": streams, "Services": services, "Streamed": streamed, "System": s.Users[systemUser],
	})
}
