package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/schemas"
)

// Hide keeps other processes of the same user, such as the commands, from looking into
// this one, where its token is. It does not keep out the superuser.
func Hide() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// endWithParent ends a process if the runner is killed.
func endWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

// Sandbox starts commands with bubblewrap, in namespaces of their own: they see the directory of their task,
// the programs of the system, and no network but Weir's.
type Sandbox struct {
	bwrap, self string
	read        []string
}

// probeWait bounds the probe of a sandbox.
const probeWait = 20 * time.Second

// NewSandbox returns a sandbox in which commands may also read some paths. It tries it out: a machine may
// permit no namespaces.
func NewSandbox(ctx context.Context, read []string) (*Sandbox, error) {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		return nil, errors.New("--sandbox needs bubblewrap, and there is no bwrap in PATH; install it with `apt-get install bubblewrap`, " +
			"`dnf install bubblewrap` or `apk add bubblewrap`")
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &Sandbox{bwrap: bwrap, self: self, read: read}
	dir, err := os.MkdirTemp("", "weir-sandbox-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	out, err := exec.CommandContext(ctx, bwrap, append(s.args(dir, dir), "sh", "-c", ":")...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("--sandbox: bubblewrap cannot make a sandbox here: %s (%w); permit namespaces of users, "+
			"such as with `sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or start the commands in a container instead", bytes.TrimSpace(out), err)
	}
	return s, nil
}

// The places in the sandbox, whose network has nothing but these two ports.
const (
	sandboxDir  = "/run/weir"
	sandboxSelf = "/run/weir-runner"
	serverPort  = "127.0.0.1:8092"
	proxyPort   = "127.0.0.1:8093"
	serverSock  = "server"
	proxySock   = "proxy"
)

// systemPaths are what programs need of the system. Paths that a system has not are left out.
func systemPaths() []string {
	paths := []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}
	for _, name := range []string{
		"alternatives", "ca-certificates", "group", "hosts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types",
		"nsswitch.conf", "passwd", "profile",
		"pki/ca-trust", "pki/tls/cert.pem", "pki/tls/certs", "pki/tls/openssl.cnf", // beside them are private keys
		"ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf",
	} {
		paths = append(paths, "/etc/"+name)
	}
	return paths
}

// args are the arguments of bubblewrap but the command. Dir is the task's, and sockets the directory of the
// ways to Weir.
func (s *Sandbox) args(dir, sockets string) []string {
	args := []string{
		"--die-with-parent", "--new-session", "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
		"--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
	}
	for _, path := range systemPaths() {
		args = append(args, "--ro-bind-try", path, path)
	}
	for _, path := range s.read {
		args = append(args, "--ro-bind", path, path)
	}
	return append(args, "--ro-bind", s.self, sandboxSelf, "--ro-bind", sockets, sandboxDir, "--bind", dir, dir, "--chdir", dir, "--")
}

// prepare makes the command of a task, and the ways to Weir that it has.
func (s *Sandbox) prepare(r *runner, t *schemas.LeasedTask, dir string) (*process, error) {
	sockets, err := os.MkdirTemp("", "weir-") // the path of a socket must be short
	if err != nil {
		return nil, err
	}
	clean := func() { _ = os.RemoveAll(sockets) }
	ways, err := openWays(sockets, r.cfg.Client.BaseURL(), r.cfg.Proxy)
	if err != nil {
		clean()
		return nil, err
	}
	at := address{server: "http://" + serverPort}
	if r.cfg.Proxy != "" {
		at.proxy = proxyPort
	}
	cmd := exec.Command(s.bwrap, append(s.args(dir, sockets), sandboxSelf, RelayCommand, r.cfg.Command)...) //nolint:gosec,noctx // what the operator says is what it runs, and end ends it
	cmd.Dir = filepath.Dir(dir)
	cmd.Env = append(r.environ(t, dir, at), "TMPDIR=/tmp")
	ownGroup(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		ways.close()
		clean()
		return nil, err
	}
	// A signal to bubblewrap would end all at once. The relay inside asks the command to end when its input does.
	return &process{cmd, func() { _ = stdin.Close() }, func() { ways.close(); clean() }}, nil
}
