// Command cluster runs three NATS servers with replicated streams in one process,
// for tests of several nodes of Weir on one log. It stores under its one
// argument, prints the servers' addresses on one line once they agree on a
// leader, and ends when its standard input does.
//
// It lies below the one package that may know the server, and is built by the
// tests that need it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"weir/internal/weirtest/cluster"
)

const size = 3

func main() {
	if err := run(os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dir string, in io.Reader, out io.Writer) error {
	routes, err := freeAddresses()
	if err != nil {
		return err
	}
	nodes := make([]*server.Server, size)
	for i := range nodes {
		if nodes[i], err = start(dir, i, routes); err != nil {
			return err
		}
		defer nodes[i].WaitForShutdown()
		defer nodes[i].Shutdown()
	}
	if err := agree(nodes); err != nil {
		return err
	}
	urls := make([]string, size)
	for i, s := range nodes {
		urls[i] = s.ClientURL()
	}
	fmt.Fprintln(out, strings.Join(urls, ","))
	_, err = io.Copy(io.Discard, in)
	return err
}

func start(dir string, i int, routes []*url.URL) (*server.Server, error) {
	s, err := server.NewServer(&server.Options{
		ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: server.RANDOM_PORT,
		JetStream: true, StoreDir: filepath.Join(dir, fmt.Sprint(i)), NoSigs: true, NoLog: true,
		Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: portOf(routes[i])}, Routes: routes,
	})
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		return nil, errors.New("a server takes no connections")
	}
	return s, nil
}

// agree waits until the servers have found each other and one leads.
func agree(nodes []*server.Server) error {
	limit := time.Now().Add(time.Minute)
	for time.Now().Before(limit) {
		if slices.ContainsFunc(nodes, func(s *server.Server) bool { return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == size }) {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return errors.New("the servers found no leader")
}

func freeAddresses() ([]*url.URL, error) {
	free, err := cluster.FreePorts(context.Background(), size)
	all := make([]*url.URL, 0, size)
	for _, at := range free {
		all = append(all, &url.URL{Scheme: "nats", Host: at})
	}
	return all, err
}

func portOf(u *url.URL) int {
	var port int
	_, _ = fmt.Sscanf(u.Port(), "%d", &port)
	return port
}
