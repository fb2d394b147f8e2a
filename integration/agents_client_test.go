//go:build e2e

package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weir/internal/weirtest/gitkit"
	"weir/internal/weirtest/llm"
	"weir/internal/weirtest/program"
	"weir/schemas"
)

const needsAgents = "this test runs coding agents that are not installed: run `make agents`"

// agentCommands are what the model has an agent do: it looks at the failing test, mends the program,
// tests it, and pushes.
var agentCommands = []string{
	"sh test.sh; env > ../environ; ls",
	"sed -i 's/-/+/' sum.sh && sh test.sh",
	"git commit -qam 'Mend the sum' && git push -q origin HEAD",
}

const agentDone = "The sum is right, its test passes, and the branch is pushed."

// agentScript is a model that has an agent run the commands with its tool, one after the other.
func agentScript(tool string, arguments func(command string) map[string]string) (script []llm.Act) {
	for i, command := range agentCommands {
		call, _ := json.Marshal(arguments(command)) //nolint:errchkjson // texts
		script = append(script, llm.Act{Tools: []llm.Tool{{ID: fmt.Sprint("call_", i), Name: tool, Arguments: []string{string(call)}}}})
	}
	return append(script, llm.Act{Texts: []string{agentDone}})
}

// TestCodingAgents has Codex and Claude Code finish a task in `weir runner`, by the recipes that are
// delivered, with the task's token alone: clone, mend, test, push, complete.
func TestCodingAgents(t *testing.T) {
	t.Parallel()
	for name, agent := range map[string]struct {
		recipe, model, path string
		script              []llm.Act
	}{
		"codex": {"codex.sh", "gpt-5.5", "/v1/responses", agentScript("exec_command", func(command string) map[string]string {
			return map[string]string{"cmd": command}
		})},
		"claude code": {"claude-code.sh", "claude-opus-5-5", "/v1/messages", agentScript("Bash", func(command string) map[string]string {
			return map[string]string{"command": command, "description": "Work"}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := agentPrograms(t)
			p := llm.New(t, llm.Config{Key: providerKey, Script: agent.script})
			admin, people := serveAgents(t, p)
			status, text, _ := people.do(t, http.MethodPost, schemas.RouteTasks, fmt.Sprintf(
				`{"repo":"shop","description":"The sum is wrong. Mend it until test.sh passes.","branch":"mended","model":%q,"budget":{"requests":50}}`, agent.model))
			require.Equal(t, http.StatusCreated, status, text)
			task := decode[schemas.NewTask](t, text)

			dir, output := runAgent(t, admin, people, task.ID, path, agent.recipe)
			status, text, _ = people.do(t, http.MethodGet, schemas.RouteTasks+"/"+task.ID, "")
			require.Equal(t, http.StatusOK, status, text)
			view := decode[schemas.TaskView](t, text)
			require.Equal(t, schemas.TaskStatusCompleted, view.Status, "%s\n%s", text, output)

			g := newClientGit(t, people.token)
			g.do(t, ".", "clone", "-q", "-b", "mended", admin.gitURL("shop"), "copy")
			program, err := os.ReadFile(filepath.Join(g.dir, "copy", "sum.sh"))
			require.NoError(t, err)
			require.Equal(t, "echo $(($1 + $2))\n", string(program))

			sent := p.Ledger()
			require.Len(t, sent, len(agentCommands)+1, "no other request reaches the upstream")
			for _, r := range sent {
				require.Equal(t, agent.path, r.Path)
				require.Equal(t, agent.model, r.Asked.Model)
				require.Equal(t, "Bearer "+providerKey, r.Header.Get("Authorization"))
			}
			assert.Contains(t, string(sent[1].Body), "sum.sh", "the upstream receives the output of the first command")

			t.Log("the command has the task's token and no other secret")
			environ, err := os.ReadFile(findFile(t, dir, "environ"))
			require.NoError(t, err)
			require.NotContains(t, string(environ), people.token)
			require.NotContains(t, string(environ), providerKey)

			_, text, _ = people.do(t, http.MethodGet, "/v1/actions?kind=chat&limit=100", "")
			actions := decode[schemas.Page[schemas.ActionEntry]](t, text).Items
			require.Len(t, actions, len(sent), "each call of a model is an action")
			_, text, _ = people.do(t, http.MethodGet, schemas.RouteBudgets, "")
			budgets := decode[struct{ Items []schemas.BudgetView }](t, text).Items
			i := slices.IndexFunc(budgets, func(b schemas.BudgetView) bool { return b.Task == task.ID && b.Budget == schemas.BudgetOfTask })
			require.GreaterOrEqual(t, i, 0, text)
			require.InEpsilon(t, len(sent), budgets[i].Requests.Used, 1e-9)
		})
	}
}

// agentPrograms is the PATH in which the agents are found by their names.
func agentPrograms(t *testing.T) string {
	t.Helper()
	modules, err := filepath.Abs(filepath.Join("clients", "agents", "node_modules"))
	require.NoError(t, err)
	bin := t.TempDir()
	for name, script := range map[string]string{
		"codex":  filepath.Join(modules, "@openai", "codex", "bin", "codex.js"),
		"claude": filepath.Join(modules, "@anthropic-ai", "claude-code", "cli-wrapper.cjs"), // it needs no install script
	} {
		program.Needs(t, script, needsAgents)
		text := fmt.Sprintf("#!/bin/sh\nexec node '%s' \"$@\"\n", script)
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte(text), 0o700))
	}
	return bin + string(os.PathListSeparator) + os.Getenv("PATH")
}

// serveAgents is a Weir with models, and with a repository of the tenant people whose test fails.
func serveAgents(t *testing.T, p *llm.Server) (admin, people caller) {
	t.Helper()
	backend := gitkit.NewBackend(t)
	source, _ := gitkit.NewRepo(t)
	gitkit.Write(t, source, "sum.sh", "echo $(($1 - $2))\n")
	gitkit.Write(t, source, "test.sh", "test \"$(sh sum.sh 2 3)\" = 5 && echo passed || { echo 'failed: 2 + 3'; exit 1; }\n")
	origin, _ := backend.Add(t, "shop", source)
	dir := t.TempDir()
	w := serveChat(t, dir, configFile(t, fmt.Sprintf(`auth: {mode: tokens}
models:
  "*": {url: %q, headers: {Authorization: "Bearer ${secret:PROVIDER}"}, price: {input: 1, output: 2}, max_output: 1000}
policy:
  allowlist:
    - {name: origin, url_prefix: "%s/", methods: [GET, POST], network: loopback}
`, p.URL(), backend.URL)), "--durability", "process")
	secret, err := os.ReadFile(filepath.Join(dir, "admin.token"))
	require.NoError(t, err)
	admin = caller{w, strings.TrimSpace(string(secret))}
	people = admin.tenant(t, "people")
	status, text, _ := people.do(t, http.MethodPost, schemas.RouteRepos, fmt.Sprintf(`{"name":"shop","import_url":%q}`, origin))
	require.Equal(t, http.StatusCreated, status, text)
	return admin, people
}

// runAgent runs `weir runner` with a recipe until a task has ended. It returns the directory of
// the tasks, and the output of the runner and of the recipe.
func runAgent(t *testing.T, admin, people caller, task, path, recipe string) (dir, output string) {
	t.Helper()
	status, text, _ := admin.do(t, http.MethodPost, "/v1/tokens", `{"name":"runner","tenant":"people","scopes":["tasks:work"]}`)
	require.Equal(t, http.StatusCreated, status, text)
	dir = t.TempDir()
	token := filepath.Join(dir, "runner.token")
	require.NoError(t, os.WriteFile(token, []byte(decode[schemas.NewToken](t, text).Secret), 0o600))
	command, err := filepath.Abs(filepath.Join("..", "deploy", "runner", recipe))
	require.NoError(t, err)
	require.FileExists(t, command)
	cmd := exec.CommandContext(t.Context(), binary, "runner", "--server", admin.URL, "--token-file", token, "--exec", command,
		"--complete-on-success", "--keep", "--dir", filepath.Join(dir, "tasks"))
	cmd.Env = []string{"PATH=" + path, "HOME=" + dir, "TMPDIR=" + t.TempDir(), "LANG=C.UTF-8"}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	_, events, _ := people.do(t, http.MethodGet, schemas.RouteTasks+"/"+task+"/events", "", "Accept", "text/event-stream") // to its end
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait(), "%s\n%s", out.String(), events)
	logs, err := filepath.Glob(filepath.Join(dir, "tasks", "*.log"))
	require.NoError(t, err)
	for _, log := range logs {
		data, err := os.ReadFile(log)
		require.NoError(t, err)
		out.Write(data)
	}
	return dir, out.String()
}

// findFile is the file of a name below a directory.
func findFile(t *testing.T, dir, name string) (found string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if filepath.Base(path) == name {
			found = path
		}
		return err
	}))
	require.NotEmpty(t, found, name)
	return found
}
