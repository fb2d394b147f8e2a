package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/program"
)

// Server is one NATS server, a process of its own.
type Server struct {
	// Name is n0, n1 and so on. Store is where it keeps its messages.
	Name, Store string

	binary, config  string
	client, monitor string // addresses
	environ         []string

	mu      sync.Mutex
	process *program.Program // nil: it was never started
}

func (s *Server) current() *program.Program {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// Start runs the process and returns when it takes connections.
func (s *Server) Start(ctx context.Context) error {
	p, err := program.Launch(s.binary, program.How{Args: []string{"-c", s.config}, Environ: s.environ})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.process = p
	s.mu.Unlock()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp4", s.client)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.Exited():
			return s.asEnded()
		case <-ctx.Done():
			return fmt.Errorf("%s takes no connections: %w", s.Name, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

var errServerEnded = errors.New("the server has ended")

func (s *Server) asEnded() error {
	return fmt.Errorf("%s: %w: %s", s.Name, errServerEnded, s.current().Said())
}

// Kill ends the process at once and waits for it.
func (s *Server) Kill() {
	if p := s.current(); p != nil {
		p.Kill()
	}
}

// Pause stops the process where it is, until Resume.
func (s *Server) Pause() error { return s.current().Signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (s *Server) Resume() error { return s.current().Signal(syscall.SIGCONT) }

// Ended reports whether the process has ended.
func (s *Server) Ended() bool {
	select {
	case <-s.current().Exited():
		return true
	default:
		return false
	}
}

// State is what a server says of the message store that it is part of.
type State struct {
	// Leader is who leads the cluster; empty: nobody.
	Leader string
	// Leaders are those of the streams and of the consumers, by name: "S" and "S/C".
	Leaders map[string]string
	// Behind are the groups that lack a leader, or have a follower that is not up to date.
	Behind []string
	// Now is the time by the server's clock.
	Now time.Time
}

// errSilent is a server that does not say.
var errSilent = errors.New("the server does not say")

// State asks the server.
func (s *Server) State(ctx context.Context) (State, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.monitor+"/jsz?accounts=true&streams=true&consumers=true", http.NoBody)
	if err != nil {
		return State{}, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return State{}, errors.Join(errSilent, err)
	}
	defer resp.Body.Close()
	var doc jsz
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil {
		return State{}, errors.Join(errSilent, err)
	}
	return doc.state(s.Name), nil
}

// jsz is the part of a server's report that is read.
type jsz struct {
	Now  time.Time `json:"now"`
	Meta struct {
		Leader string `json:"leader"`
	} `json:"meta_cluster"`
	Accounts []struct {
		Streams []struct {
			Name      string `json:"name"`
			Cluster   group  `json:"cluster"`
			Consumers []struct {
				Name    string `json:"name"`
				Cluster group  `json:"cluster"`
			} `json:"consumer_detail"`
		} `json:"stream_detail"`
	} `json:"account_details"`
}

type group struct {
	Leader   string `json:"leader"`
	Replicas []struct {
		Name    string `json:"name"`
		Current bool   `json:"current"`
		Offline bool   `json:"offline"`
	} `json:"replicas"`
}

// state is what a server may say: of followers its leader alone knows.
func (d jsz) state(of string) State {
	s := State{Leader: d.Meta.Leader, Leaders: map[string]string{}, Now: d.Now}
	note := func(name string, g group) {
		s.Leaders[name] = g.Leader
		behind := g.Leader == ""
		for _, r := range g.Replicas {
			behind = behind || g.Leader == of && (r.Offline || !r.Current)
		}
		if behind {
			s.Behind = append(s.Behind, name)
		}
	}
	for _, a := range d.Accounts {
		for _, st := range a.Streams {
			note(st.Name, st.Cluster)
			for _, c := range st.Consumers {
				note(st.Name+"/"+c.Name, c.Cluster)
			}
		}
	}
	return s
}

// settings is a server's configuration file.
func (c *Cluster) settings(i int) string {
	var routes []string
	for j := range c.Servers {
		switch {
		case j == i:
		case c.config.Direct:
			routes = append(routes, "nats://"+c.ports[j])
		default:
			routes = append(routes, "nats://"+c.routes[i][j].Addr())
		}
	}
	s := c.Servers[i]
	return fmt.Sprintf(`server_name: %s
listen: %s
http: %s
ping_interval: "2s"
ping_max: 2
write_deadline: "5s"
jetstream: {store_dir: %q, max_file_store: %d, max_mem: 64MB, sync_interval: %q}
cluster: {
  name: c
  listen: %s
  # Neither clients nor servers learn addresses that lead round the links.
  no_advertise: true
  advertise: "127.0.0.1:1"
  ping_interval: "2s"
  ping_max: 2
  routes: [%s]
}
`, s.Name, s.client, s.monitor, s.Store, cmp.Or(c.config.Room, defaultRoom), cmp.Or(c.config.Sync, "always"), c.ports[i], strings.Join(routes, ", "))
}

// Denies has the servers deny a user what it publishes, and what it subscribes to. denied receives
// the errors of its connection.
func Denies(t *testing.T, nc *nats.Conn, denied <-chan error, publish, subscribe []string) {
	t.Helper()
	for _, subject := range publish {
		require.NoError(t, nc.Publish(subject, []byte("{}")))
		require.NoError(t, nc.Flush())
		require.ErrorIs(t, <-denied, nats.ErrPermissionViolation, subject)
	}
	for _, subject := range subscribe {
		_, err := nc.SubscribeSync(subject)
		require.NoError(t, err)
		require.NoError(t, nc.Flush())
		require.ErrorIs(t, <-denied, nats.ErrPermissionViolation, subject)
	}
}
