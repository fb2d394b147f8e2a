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
			task := people.MakeTask(t, map[string]any{
				"repo": "shop", "description": "The sum is wrong. Mend it until test.sh passes.", "branch": "mended", "model": agent.model, "budget": map[string]any{"requests": 50},
			})

			dir, output := runAgent(t, admin, people, task.ID, path, agent.recipe)
			require.Equal(t, schemas.TaskStatusCompleted, people.Task(t, task.ID).Status, output)

			g := newClientGit(t, people.Token)
			g.do(t, ".", "clone", "-q", "-b", "mended", admin.gitURL("shop"), "copy")
			mended, err := os.ReadFile(filepath.Join(g.dir, "copy", "sum.sh"))
			require.NoError(t, err)
			require.Equal(t, "echo $(($1 + $2))\n", string(mended))

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
			require.NotContains(t, string(environ), people.Token)
			require.NotContains(t, string(environ), providerKey)

			require.Len(t, program.Items[schemas.ActionEntry](t, people.Client, "/v1/actions?kind=chat&limit=100"), len(sent), "each call of a model is an action")
			budgets := program.Items[schemas.BudgetView](t, people.Client, schemas.RouteBudgets)
			i := slices.IndexFunc(budgets, func(b schemas.BudgetView) bool { return b.Task == task.ID && b.Budget == schemas.BudgetOfTask })
			require.GreaterOrEqual(t, i, 0, budgets)
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
func serveAgents(t *testing.T, p *llm.Server) (admin, people *weir) {
	t.Helper()
	backend := gitkit.NewBackend(t)
	source, _ := gitkit.NewRepo(t)
	gitkit.Write(t, source, "sum.sh", "echo $(($1 - $2))\n")
	gitkit.Write(t, source, "test.sh", "test \"$(sh sum.sh 2 3)\" = 5 && echo passed || { echo 'failed: 2 + 3'; exit 1; }\n")
	origin, _ := backend.Add(t, "shop", source)
	admin = serveTokens(t, []string{"WEIR_SECRET_PROVIDER=" + providerKey}, t.TempDir(), fmt.Sprintf(`models:
  "*": {url: %q, headers: {Authorization: "Bearer ${secret:PROVIDER}"}, price: {input: 1, output: 2}, max_output: 1000}
policy:
  allowlist:
    - {name: origin, url_prefix: "%s/", methods: [GET, POST], network: loopback}
`, p.URL(), backend.URL))
	people = admin.tenant(t, "people")
	people.MakeRepo(t, map[string]any{"name": "shop", "import_url": origin})
	return admin, people
}

// runAgent runs `weir runner` with a recipe until a task has ended. It returns the directory of
// the tasks, and the output of the runner and of the recipe.
func runAgent(t *testing.T, admin, people *weir, task, path, recipe string) (dir, output string) {
	t.Helper()
	dir = t.TempDir()
	token := filepath.Join(dir, "runner.token")
	secret := admin.MakeToken(t, schemas.TokenRequest{Name: "runner", Tenant: "people", Scopes: []string{schemas.ScopeTasksWork}}).Secret
	require.NoError(t, os.WriteFile(token, []byte(secret), 0o600))
	command, err := filepath.Abs(filepath.Join("..", "deploy", "runner", recipe))
	require.NoError(t, err)
	require.FileExists(t, command)
	cmd := exec.CommandContext(t.Context(), binary, "runner", "--server", admin.URL, "--token-file", token, "--exec", command,
		"--complete-on-success", "--keep", "--dir", filepath.Join(dir, "tasks"))
	cmd.Env = []string{"PATH=" + path, "HOME=" + dir, "TMPDIR=" + t.TempDir(), "LANG=C.UTF-8"}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	events := people.Ask(t, http.MethodGet, schemas.RouteTasks+"/"+task+"/events", "", "Accept", "text/event-stream").Body // to its end
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
