// Package natsconf writes the configuration of a NATS cluster for Weir into a
// directory: servers with TLS of an authority of its own, an account for Weir with a
// user for each role, accounts for tenants' own programs, and the credentials of all.
// What each may do is package access's to say. It speaks to no server.
//
//	DIR/cluster.json              what was asked for, and public keys: no secret
//	DIR/ca.pem, ca.key            the authority; the key is needed here alone
//	DIR/credentials/ROLE.nk       the seed of each role's nkey, for nats.creds
//	DIR/credentials/tenants/…     those of tenants' observers and agents
//	DIR/servers/NAME/             all that one server needs: nats.conf, accounts.conf, …
package natsconf

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Server is a server of the cluster.
type Server struct {
	Name string `json:"name"`
	// Host is the name or the address that clients and the other servers reach it at.
	Host string `json:"host"`
	// Port is for clients, Route for the other servers.
	Port  int `json:"port"`
	Route int `json:"route"`
}

// URL is where clients reach it.
func (s Server) URL() string { return "tls://" + net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

func (s Server) route() string { return "tls://" + net.JoinHostPort(s.Host, strconv.Itoa(s.Route)) }

// The ports that servers have unless something else is said.
const (
	DefaultPort  = 4222
	DefaultRoute = 6222
)

var serverName = regexp.MustCompile(`^[A-Za-z0-9-]{1,32}$`)

// ParseServer reads NAME=HOST[:PORT[:ROUTE]].
func ParseServer(text string) (Server, error) {
	bad := fmt.Errorf("%q is not a server: write NAME=HOST, or NAME=HOST:PORT:ROUTE, such as n1=nats-1.example.com:4222:6222", text)
	name, place, ok := strings.Cut(text, "=")
	parts := strings.Split(place, ":")
	if !ok || !serverName.MatchString(name) || parts[0] == "" || strings.ContainsAny(parts[0], "\"' /@") || len(parts) > 3 {
		return Server{}, bad
	}
	s := Server{Name: name, Host: parts[0], Port: DefaultPort, Route: DefaultRoute}
	for i, port := range parts[1:] {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return Server{}, bad
		}
		*[]*int{&s.Port, &s.Route}[i] = int(n)
	}
	return s, nil
}

// Local are three servers on this machine.
func Local() []Server {
	var all []Server
	for i := range 3 {
		all = append(all, Server{fmt.Sprint("n", i+1), "127.0.0.1", DefaultPort + i, DefaultRoute + i})
	}
	return all
}

// Plan describes a cluster. It is stored in cluster.json; fields left empty later keep their stored
// value.
type Plan struct {
	Servers []Server `json:"servers"`
	// Partitions is that of log.partitions; default 8.
	Partitions int `json:"partitions"`
	// Store is how many bytes each server may store; default 64 GiB.
	Store int64 `json:"store"`
	// At is the folder that each server finds its files in; default where they are written.
	At string `json:"at,omitempty"`
}

const (
	defaultPartitions = 8
	maxPartitions     = 64
	defaultStore      = 64 << 30
	planFile          = "cluster.json"
)

// tenant is one whose programs have accounts.
type tenant struct {
	Name string `json:"name"`
	// Observer and Agent are the public keys of its users.
	Observer string `json:"observer"`
	Agent    string `json:"agent"`
}

// state is the content of cluster.json.
type state struct {
	Plan
	// Users are the public keys of the roles.
	Users   map[string]string `json:"users"`
	Tenants []tenant          `json:"tenants,omitempty"`
}

// ErrNone says that a directory has no cluster in it.
var ErrNone = errors.New("there is no cluster in this directory: `weir nats init DIR` makes one")

func readState(dir string) (s state, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, planFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, ErrNone
	}
	if err == nil {
		if err = json.Unmarshal(raw, &s); err != nil {
			err = fmt.Errorf("%s cannot be read: %w", planFile, err)
		}
	}
	return s, err
}

// over fills the empty fields of p from the previous plan, and then with defaults.
func (p Plan) over(was Plan) Plan {
	if p.Servers == nil {
		p.Servers = was.Servers
	}
	if p.Servers == nil {
		p.Servers = Local()
	}
	p.Partitions = cmp.Or(p.Partitions, was.Partitions, defaultPartitions)
	p.Store = cmp.Or(p.Store, was.Store, defaultStore)
	p.At = cmp.Or(p.At, was.At)
	return p
}

func (p Plan) validate() error {
	taken := map[string]bool{}
	for _, s := range p.Servers {
		taken[s.Name], taken[s.URL()], taken[s.route()] = true, true, true
	}
	switch {
	case len(taken) < 3*len(p.Servers):
		return errors.New("two servers have the same name or the same port: give each its own")
	case len(p.Servers) != 1 && len(p.Servers) != 3 && len(p.Servers) != 5:
		return fmt.Errorf("%d servers: use 3 or 5, or 1 that survives nothing", len(p.Servers))
	case p.Partitions < 1 || p.Partitions > maxPartitions:
		return fmt.Errorf("%d partitions: use 1 to %d", p.Partitions, maxPartitions)
	case p.Store < 1<<20:
		return errors.New("a server stores at least 1 MiB")
	case p.At != "" && !filepath.IsAbs(p.At):
		return fmt.Errorf("%q is not an absolute path: servers resolve it where they are started", p.At)
	}
	return nil
}
