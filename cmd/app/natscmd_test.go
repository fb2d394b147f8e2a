package app

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"weir/cmd/cli"
	"weir/internal/broker/embedded"
	"weir/schemas"
)

// weir runs the program, and returns its exit code and what it printed.
func weir(t *testing.T, environ []string, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = Main(t.Context(), args, environ, Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr})
	return code, stdout.String(), stderr.String()
}

// command runs the program with nothing but its arguments.
func command(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	return weir(t, nil, args...)
}

func runNATS(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	return weir(t, []string{"HOME=/nowhere"}, append([]string{"nats"}, args...)...)
}

// runsNATS is runNATS that must end with this code.
func runsNATS(t *testing.T, want int, args ...string) (out, errs string) {
	t.Helper()
	code, out, errs := runNATS(t, args...)
	require.Equal(t, want, code, "%v: %s", args, errs)
	return out, errs
}

func TestNATSInitAndTenant(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "nats")
	out, _ := runsNATS(t, cli.ExitOK, "init", dir, "--partitions", "2", "--store", "1GiB")
	require.Contains(t, out, "made "+filepath.Join(dir, "credentials", "worker.nk"))
	require.Contains(t, out, "weir nats provision --nats tls://127.0.0.1:4222,tls://127.0.0.1:4223,tls://127.0.0.1:4224 --creds ")
	out, _ = runsNATS(t, cli.ExitOK, "init", dir, "--json")
	var r struct {
		Partitions int      `json:"partitions"`
		Store      int64    `json:"store"`
		Made       []string `json:"made"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Equal(t, 2, r.Partitions)
	require.EqualValues(t, 1<<30, r.Store)
	require.Empty(t, r.Made)
	out, _ = runsNATS(t, cli.ExitOK, "tenant", "acme", "--dir", dir, "--json")
	var made natsTenant
	require.NoError(t, json.Unmarshal([]byte(out), &made))
	require.FileExists(t, made.Observer)
	require.FileExists(t, made.Agent)
	out, _ = runsNATS(t, cli.ExitOK, "tenant", "--remove", "acme", "--dir", dir)
	require.Contains(t, out, "removed "+made.Agent)
	require.Contains(t, out, "nats-server --signal reload")
	require.NoFileExists(t, made.Observer)
	_, errs := runsNATS(t, cli.ExitFailed, "tenant", "--remove", "acme", "--dir", dir)
	require.Contains(t, errs, `tenant "acme" has no accounts here`)

	out, _ = runsNATS(t, cli.ExitOK, "init", filepath.Join(t.TempDir(), "nats"), "--server", "n1=127.0.0.1")
	require.Contains(t, out, "set log.replicas to 1", "what the nodes need to know of one server")
}

func TestNATSUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"init"}, cli.ExitUsage, "takes a directory"},
		{[]string{"init", "x", "--server", "y"}, cli.ExitUsage, "--server: \"y\" is not a server"},
		{[]string{"init", "x", "--store", "much"}, cli.ExitUsage, "--store"},
		{[]string{"tenant", "acme"}, cli.ExitUsage, "with --dir"},
		{[]string{"tenant", "acme", "--dir", "/nowhere"}, cli.ExitFailed, "`weir nats init DIR` makes one"},
		{[]string{"provision"}, cli.ExitUsage, "name the NATS cluster with --nats"},
		{[]string{"provision", "--nats", "nats://h", "--tenant", "a b"}, cli.ExitUsage, "is not the name of a tenant"},
		{[]string{"provision", "--nats", "nats://127.0.0.1:1", "--creds", "/nowhere"}, cli.ExitFailed, "nats.creds: open /nowhere"},
		{[]string{"provision", "--nats", "nats://127.0.0.1:1"}, cli.ExitFailed, "cannot be reached"},
	} {
		code, out, errs := runNATS(t, c.args...)
		require.Equal(t, c.code, code, c.args)
		require.Contains(t, errs, c.says, c.args)
		require.Empty(t, out, c.args)
	}
}

func TestNATSConsumers(t *testing.T) {
	t.Parallel()
	a := natsNode.node(t)
	credentials := embedded.CredentialsFile(a.cfg.Data)
	raw, err := os.ReadFile(credentials)
	require.NoError(t, err)
	var c embedded.Credentials
	require.NoError(t, json.Unmarshal(raw, &c))
	conn, err := nats.Connect(c.URL, nats.UserInfo(c.User, c.Password))
	require.NoError(t, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	for _, name := range []string{"b", "a"} {
		_, err = js.CreateConsumer(t.Context(), schemas.EvidenceStream, jetstream.ConsumerConfig{Durable: name, FilterSubject: "weir.evidence.*.*." + name + ".>"})
		require.NoError(t, err)
	}

	out, _ := runsNATS(t, cli.ExitOK, "consumers", "ls", "--credentials", credentials)
	require.Regexp(t, `(?s)^NAME .*\na +true .* weir\.evidence\.\*\.\*\.a\.>\nb +true `, out)
	out, _ = runsNATS(t, cli.ExitOK, "consumers", "rm", "a", "--credentials", credentials)
	require.Equal(t, "deleted a\n", out)
	_, errs := runsNATS(t, cli.ExitFailed, "consumers", "rm", "a", "--credentials", credentials)
	require.Contains(t, errs, "a: there is no consumer of this name")
	out, _ = runsNATS(t, cli.ExitOK, "consumers", "ls", "--json", "--credentials", credentials)
	require.Equal(t, 1, strings.Count(out, "\n"))
	require.Contains(t, out, `{"name":"b","durable":true,`)
	_, errs = runsNATS(t, cli.ExitFailed, "consumers", "ls", "--credentials", filepath.Join(t.TempDir(), "nowhere"))
	require.Contains(t, errs, "is Weir running with --nats-listen?")
}
