//go:build e2e

package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"weir/internal/weirtest/program"
)

// runs is a testing.M for testscript, which puts the commands into the scripts' PATH.
type runs struct{ *testing.M }

func (r runs) Run() int {
	binary, natsBinary = program.Path(program.Weir), program.Path(program.NATS)
	return r.M.Run()
}

// minion is how the shell scripts of stories speak HTTP, so that they need no other
// client on the machine:
//
//	minion METHOD PATH [-d BODY] [MEMBER]
//
// It asks as the agent whose base URL and token are in the environment, prints the
// answer, or the text that it is, or one text member of it, and exits with 1 and the
// answer on standard error where that is a refusal.
func minion() {
	args := os.Args[1:]
	if len(args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: minion METHOD PATH [-d BODY] [MEMBER]")
		os.Exit(2)
	}
	method, path, body := args[0], args[1], ""
	if args = args[2:]; len(args) > 1 && args[0] == "-d" {
		body, args = args[1], args[2:]
	}
	req, err := http.NewRequest(method, os.Getenv("MINION_API_BASE_URL")+path, strings.NewReader(body))
	if err != nil {
		fail(err)
	}
	req.Header.Set("Authorization", "Bearer "+os.Getenv("MINION_API_TOKEN"))
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		fail(err)
	}
	data, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		fail(err)
	}
	if resp.StatusCode != http.StatusOK {
		fail(fmt.Errorf("%s: %s", resp.Status, data))
	}
	fmt.Printf("%s\n", bytes.TrimSpace(member(data, args)))
	os.Exit(0)
}

// member is one text of a document, or the text that it is, or all of it.
func member(data []byte, name []string) []byte {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return []byte(text)
	}
	var doc map[string]any
	if len(name) == 0 || json.Unmarshal(data, &doc) != nil {
		return data
	}
	text, _ = doc[name[0]].(string)
	return []byte(text)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "minion:", err)
	os.Exit(1)
}
