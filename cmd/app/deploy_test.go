package app

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/cmd/cli"
	"weir/internal/broker/embedded"
	"weir/internal/broker/natsconf"
	"weir/internal/config"
	"weir/internal/weirtest/fixture"
	"weir/schemas"
)

const deploy = "../../deploy"

// composed is what is read of a service of a compose file.
type composed struct {
	Image       string            `json:"image"`
	Command     []string          `json:"command"`
	Volumes     []string          `json:"volumes"`
	Ports       []string          `json:"ports"`
	Environment map[string]string `json:"environment"`
	HealthCheck struct {
		Test    []string `json:"test"`
		Disable bool     `json:"disable"`
	} `json:"healthcheck"`
}

// mounts are a service's volumes by where they are seen, each with its source and ro or rw.
func (c composed) mounts() map[string][2]string {
	all := map[string][2]string{}
	for _, v := range c.Volumes {
		parts := append(strings.Split(v, ":"), "rw")
		all[parts[1]] = [2]string{parts[0], parts[2]}
	}
	return all
}

func readCompose(t *testing.T, name string) map[string]composed {
	t.Helper()
	var doc map[string]any
	require.NoError(t, yaml.Unmarshal(fixture.Read(t, filepath.Join(deploy, name)), &doc))
	asJSON, err := json.Marshal(doc)
	require.NoError(t, err)
	return fixture.Decode[struct {
		Services map[string]composed `json:"services"`
	}](t, asJSON).Services
}

// initialized runs the `weir nats init` of the cluster's README in a copy of its folder, and
// returns that and what is planned there.
func initialized(t *testing.T) (dir string, plan natsconf.Plan) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(deploy, "cluster"))))
	raw := fixture.Read(t, filepath.Join(dir, "README.md"))
	line := regexp.MustCompile(`(?m)^ +\./weir nats (init .*)$`).FindStringSubmatch(string(raw))
	require.NotNil(t, line)
	code, _, errs := runNATS(t, strings.Fields(strings.Replace(line[1], "deploy/cluster", dir, 1))...)
	require.Equal(t, cli.ExitOK, code, errs)
	return dir, fixture.Decode[natsconf.Plan](t, fixture.Read(t, filepath.Join(dir, "cluster.json")))
}

// TestComposeFitsWhatInitWrites: the cluster's compose file mounts what `weir nats init`
// writes, each service what is its own, and the nodes look for the servers where they are.
func TestComposeFitsWhatInitWrites(t *testing.T) {
	t.Parallel()
	services := readCompose(t, "compose.cluster.yaml")
	dir, plan := initialized(t)
	cfg, err := config.Load(filepath.Join(dir, "weir.yaml"), nil, nil)
	require.NoError(t, err)
	require.Equal(t, plan.Partitions, cfg.Log.Partitions)
	require.Equal(t, len(plan.Servers), cfg.Log.Replicas)
	written := func(source string) string { return strings.Replace(source, "./cluster", dir, 1) }

	var urls []string
	for _, s := range plan.Servers {
		urls = append(urls, s.URL())
		service, ok := services[s.Host]
		require.True(t, ok, s.Host)
		assert.Equal(t, []string{"--config", plan.At + "/nats.conf"}, service.Command, s.Host)
		mount := service.mounts()
		require.Len(t, mount, 1, "a server sees its own folder, and no other's")
		assert.Equal(t, "rw", mount[plan.At][1], "the log lies there too")
		assert.Equal(t, natsconf.ServerDir(dir, s.Name), written(mount[plan.At][0]))
		assert.FileExists(t, filepath.Join(written(mount[plan.At][0]), "nats.conf"))
		assert.Contains(t, service.HealthCheck.Test, strconv.Itoa(s.Port))
	}
	require.Equal(t, strings.Join(urls, ","), cfg.NATS.URL)

	_, port, err := net.SplitHostPort(cfg.Listen)
	require.NoError(t, err)
	for name, role := range map[string]string{"provision": "provisioner", "ingress": "ingress", "worker": "worker", "egress": "egress"} {
		service, mount := services[name], services[name].mounts()
		for target, source := range map[string]string{
			service.Environment["WEIR_CONFIG"]: filepath.Join(dir, "weir.yaml"),
			cfg.NATS.Creds:                     natsconf.CredentialsFile(dir, role),
			cfg.NATS.TLS.CA:                    natsconf.CAFile(dir),
		} {
			require.Contains(t, mount, target, name)
			assert.Equal(t, source, written(mount[target][0]), name)
			assert.FileExists(t, source)
			assert.Equal(t, "ro", mount[target][1], name)
		}
		file, makes := service.Environment["WEIR_AUTH_ADMIN_TOKEN_FILE"]
		assert.Equal(t, name == "ingress", makes, name)
		if makes {
			require.Contains(t, mount, filepath.Dir(file))
			assert.Equal(t, "rw", mount[filepath.Dir(file)][1])
		} else {
			assert.Len(t, mount, 3, "%s sees nothing else", name)
		}
		for _, p := range service.Ports {
			assert.Regexp(t, `^127\.0\.0\.1:\d+-\d+:`+port+`$`, p, name)
		}
	}
	require.Contains(t, string(fixture.Read(t, filepath.Join(deploy, "prometheus", "prometheus.yaml"))), "{names: [ingress, worker, egress], type: A, port: "+port+"}")
}

// TestComposeHasTheServerOfTheTests: the NATS servers are of the version that the tests run. What rights the services
// have is for deploycheck.
func TestComposeHasTheServerOfTheTests(t *testing.T) {
	t.Parallel()
	server := regexp.MustCompile(`nats-server/v2 v(\S+)`).FindStringSubmatch(string(fixture.Read(t, "../../go.mod")))
	require.NotNil(t, server)
	for name, s := range readCompose(t, "compose.cluster.yaml") {
		if strings.HasPrefix(s.Image, "nats:") {
			assert.Equal(t, "nats:"+server[1]+"-alpine", s.Image, name)
		}
		if strings.HasPrefix(s.Image, "weir") {
			assert.Equal(t, name == "provision", s.HealthCheck.Disable, "%s ends, the others are watched", name)
		}
	}
}

// TestEveryAlertHasItsRunbook: the runbook_url of an alert leads to the section of its name.
func TestEveryAlertHasItsRunbook(t *testing.T) {
	t.Parallel()
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert       string            `yaml:"alert"`
				Annotations map[string]string `yaml:"annotations"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	require.NoError(t, yaml.Unmarshal(fixture.Read(t, filepath.Join(deploy, "prometheus", "rules.yaml")), &file))
	page := fixture.Read(t, filepath.Join("..", "..", "docs", "how-to", "alerts.md"))
	alerts := 0
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			if rule.Alert == "" {
				continue
			}
			alerts++
			assert.Equal(t, "http://localhost:8092/docs/how-to/alerts#"+strings.ToLower(rule.Alert), rule.Annotations["runbook_url"])
			assert.Contains(t, string(page), "\n## "+rule.Alert+"\n")
		}
	}
	require.Equal(t, alerts, strings.Count(string(page), "\n## "), "each section has its alert")
}

// TestTheImageServesOthersWithTokens: a container's port is reachable, and nothing is open on it. The
// linker's flags name variables that exist.
func TestTheImageServesOthersWithTokens(t *testing.T) {
	t.Parallel()
	docker := fixture.Read(t, filepath.Join(deploy, "Dockerfile"))
	stages := regexp.MustCompile(`(?m)^ENV (.*)$`).FindAllStringSubmatch(string(docker), -1)
	require.Len(t, stages, 2)
	for _, env := range stages {
		cfg, err := config.Load("", strings.Fields(env[1]), nil)
		require.NoError(t, err)
		assert.False(t, cfg.Open())
		assert.False(t, config.Loopback(cfg.Listen))
		assert.Equal(t, "/data/admin.token", cfg.AdminTokenFile())
	}
	source := fixture.Read(t, filepath.Join("..", "cli", "cli.go"))
	makefile := fixture.Read(t, filepath.Join("..", "..", "Makefile"))
	for _, file := range [][]byte{docker, makefile} {
		var set []string
		for _, flag := range regexp.MustCompile(`-X weir/cmd/cli\.(\w+)=`).FindAllSubmatch(file, -1) {
			set = append(set, string(flag[1]))
		}
		assert.Contains(t, string(source), "\nvar "+strings.Join(set, ", ")+" string ")
	}
}

// TestTheChartsConfigurationIsValid: the nodes of the Helm chart start with its default values.
func TestTheChartsConfigurationIsValid(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"values.yaml", "values-cluster.yaml"} {
		var values struct {
			Config yaml.MapSlice `yaml:"config"`
		}
		require.NoError(t, yaml.Unmarshal(fixture.Read(t, filepath.Join(deploy, "helm", "weir", file)), &values))
		require.NotEmpty(t, values.Config)
		text, err := yaml.Marshal(values.Config)
		require.NoError(t, err)
		nats := ""
		if file == "values-cluster.yaml" {
			nats = "nats: {url: tls://nats:4222}\n"
		}
		_, err = config.Parse(file, []byte("listen: 0.0.0.0:8092\nauth: {mode: tokens}\n"+nats+string(text)), nil, nil)
		require.NoError(t, err)
	}
}

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
	made := fixture.Decode[natsTenant](t, out)
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
		{[]string{"tenant", "acme", "--dir", "/nowhere"}, cli.ExitUsage, "`weir nats init DIR` makes one"},
		{[]string{"tenant", "a b", "--dir", "/nowhere"}, cli.ExitUsage, "`weir nats init DIR` makes one"},
		{[]string{"init", "/dev/null/x"}, cli.ExitFailed, "not a directory"},
		{[]string{"init", "x", "--server", "a=h", "--server", "b=i"}, cli.ExitUsage, "2 servers: use 3 or 5"},
		{[]string{"init", "x", "--partitions", "0"}, cli.ExitUsage, "--partitions: is 0; use 1 to 64"},
		{[]string{"provision"}, cli.ExitUsage, "name the NATS cluster with --nats"},
		{[]string{"provision", "--nats", "nats://h", "--tenant", "a b"}, cli.ExitUsage, "is not the name of a tenant"},
		{[]string{"provision", "--nats", "nats://127.0.0.1:1", "--creds", "/nowhere"}, cli.ExitUsage, "nats.creds: open /nowhere"},
		{[]string{"provision", "--nats", "nats://127.0.0.1:1", "--ca", "/nowhere"}, cli.ExitUsage, "nats.tls: "},
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
	c := fixture.Decode[embedded.Credentials](t, fixture.Read(t, credentials))
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
