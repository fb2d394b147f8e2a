package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

type version struct{ major, minor int }

// atLeast compares with 2.minor.
func (v version) atLeast(minor int) bool {
	return v.major > 2 || v.major == 2 && v.minor >= minor
}

// find finds the program, asks for its version and for where its parts are.
func (g *Git) find(ctx context.Context) error {
	path, err := exec.LookPath(g.cfg.Program)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return fmt.Errorf("git is not installed, or git.program does not name it: %w", err)
	}
	g.program = path
	said, err := g.ask(ctx, "version")
	if err != nil {
		return err
	}
	if g.version, err = parseVersion(said); err != nil {
		return err
	}
	if !g.version.atLeast(31) {
		return fmt.Errorf("git is %d.%d, and must be 2.31 or newer", g.version.major, g.version.minor)
	}
	g.execPath, err = g.ask(ctx, "--exec-path")
	return err
}

// ask runs git without a repository, before there is a Git to run it.
func (g *Git) ask(ctx context.Context, arg string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, smallTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, g.program, arg) //nolint:gosec // the program is the operator's choice
	cmd.Env = environment("", nil)
	cmd.Dir = "/"
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", arg, err)
	}
	return string(bytes.TrimSpace(out)), nil
}

// parseVersion reads "git version 2.39.5 (and more)".
func parseVersion(s string) (version, error) {
	rest, ok := strings.CutPrefix(s, "git version ")
	first, rest, _ := strings.Cut(rest, ".")
	second, _, _ := strings.Cut(rest, ".")
	major, err1 := strconv.Atoi(first)
	minor, err2 := strconv.Atoi(strings.TrimRightFunc(second, notDigit))
	if !ok || err1 != nil || err2 != nil {
		return version{}, errors.New("the program that git.program names is not git")
	}
	return version{major, minor}, nil
}

func notDigit(r rune) bool { return r < '0' || r > '9' }
