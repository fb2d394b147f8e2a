package disk

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// insideEnv names the test that runs inside.
const insideEnv = "WEIR_TEST_INSIDE"

// Unavailable says why this machine lets the test have no device, or nothing.
func Unavailable() string {
	if os.Geteuid() != 0 {
		return "only root may mount"
	}
	for _, path := range []string{"/dev/fuse", "/dev/loop-control"} {
		if err := unix.Access(path, unix.R_OK|unix.W_OK); err != nil {
			return path + ": " + err.Error()
		}
	}
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		return "there is no mkfs.ext4"
	}
	child := exec.Command("/bin/true") //nolint:noctx // it ends at once
	child.SysProcAttr = namespaces()
	if err := child.Run(); err != nil {
		return "no namespace can be made: " + err.Error()
	}
	return ""
}

func namespaces() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Unshareflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
}

// Inside runs the test in a process of its own whose mounts and children nobody else has:
// however that process ends, and if this one is killed, the kernel takes them away. It
// reports whether this is that process already. Elsewhere it returns false, after the other
// process has ended and has had its say; the test returns then.
func Inside(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideEnv) == t.Name() {
		return true
	}
	args := []string{"-test.v", "-test.count=1", "-test.run=^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"}
	for _, a := range os.Args[1:] {
		if !strings.HasPrefix(a, "-test.") {
			args = append(args, a) // a flag of the package's own
		} else if strings.HasPrefix(a, "-test.timeout") {
			args = append(args, a)
		}
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...) //nolint:gosec // this test binary, with its own flags
	cmd.Env = append(os.Environ(), insideEnv+"="+t.Name(), "TMPDIR="+t.TempDir())
	cmd.SysProcAttr = namespaces()
	// The signal comes when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	t.Logf("inside:\n%s", out)
	if err != nil {
		t.Error(fmt.Errorf("inside: %w", err))
	}
	return false
}
