// Package clock turns the clocks of real programs, one by one, while they run. A program is
// built over a time package whose Now adds what a file says; nothing else of it, and nothing
// of the toolchain, is changed. What a process measures by its monotonic clock goes on as
// ever, as it does where a machine's clock is stepped.
//
//	args, err := clock.Overlay(dir)           // for go build
//	c, err := clock.New(path)                 // c.Environ() is for the process
//	c.Turn(-time.Hour)                        // from now on
//
// The times of files are the kernel's, and stay right.
package clock

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// variable names the file that a program's clock is turned by.
const variable = "WEIR_TEST_CLOCK"

// errTime: the toolchain's time package is not the one that this was written for.
var errTime = errors.New("time.Now does not look as it did: see internal/weirtest/clock")

// Overlay writes what go build needs to make a program whose clock can be turned, and
// returns the arguments for it. Every package is compiled anew the first time.
func Overlay(dir string) (args []string, err error) {
	root, err := exec.Command("go", "env", "GOROOT").Output() //nolint:noctx // it ends at once
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	path := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	turned, ok := turnable(source)
	if !ok {
		return nil, errTime
	}
	file, overlay := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json")
	doc, err := json.Marshal(map[string]map[string]string{"Replace": {path: file}})
	if err != nil {
		return nil, err
	}
	return []string{"-overlay", overlay}, errors.Join(os.WriteFile(file, turned, 0o600), os.WriteFile(overlay, doc, 0o600)) //nolint:gosec // the test names the directory
}

// turnable has Now ask by how much the clock is turned.
func turnable(source []byte) (turned []byte, ok bool) {
	turned = source
	for _, change := range []struct{ from, to string }{
		{"\t_ \"unsafe\" // for go:linkname\n", "\t\"sync\"\n\t\"syscall\"\n\t\"unsafe\"\n"},
		{"\tsec, nsec, mono := runtimeNow()\n\tif mono == 0 {", "\tsec, nsec, mono := runtimeNow()\n\tsec += turnedBy()\n\tif mono == 0 {"},
	} {
		if bytes.Count(turned, []byte(change.from)) != 1 {
			return nil, false
		}
		turned = bytes.Replace(turned, []byte(change.from), []byte(change.to), 1)
	}
	return append(turned, turning...), true
}

// turning is added to the time package. A file that is named and cannot be had ends the
// program: a fault that does not come about would pass for one that does nothing.
const turning = `
var turn struct {
	once sync.Once
	by   *int64
}

// turnedBy is in seconds, as the file says now.
func turnedBy() int64 {
	turn.once.Do(func() {
		path, named := syscall.Getenv("` + variable + `")
		if !named {
			return
		}
		fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			panic("` + variable + `: " + err.Error())
		}
		page, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
		if err != nil {
			panic("` + variable + `: " + err.Error())
		}
		turn.by = (*int64)(unsafe.Pointer(&page[0]))
	})
	if turn.by == nil {
		return 0
	}
	return *turn.by
}
`

// Clock is that of a process, and of the next that takes its place.
type Clock struct{ path string }

// New makes a clock that goes right. The file is its own.
func New(path string) (*Clock, error) {
	c := &Clock{path}
	return c, c.Turn(0)
}

// Environ is what the process must have in its environment.
func (c *Clock) Environ() []string { return []string{variable + "=" + c.path} }

// Turn has the clock be ahead by so much from now on, or behind where it is less than zero,
// in whole seconds. A process sees it at once.
func (c *Clock) Turn(by time.Duration) error {
	f, err := os.OpenFile(c.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(binary.Write(f, binary.NativeEndian, int64(by/time.Second)), f.Close())
}
