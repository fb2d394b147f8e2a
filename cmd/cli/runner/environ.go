package runner

import (
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"time"

	"weir/schemas"
)

// promptFile has the text of the task, in the directory of its command.
const promptFile = "task.md"

// address is where a command finds Weir and its forward proxy.
type address struct {
	server string // the base URL
	proxy  string // host:port; empty: there is no proxy
}

// environ is the environment of the command: of the runner's own, only the variables that
// the configuration names.
func (r *runner) environ(t *schemas.LeasedTask, dir string, at address) []string {
	env := append(append([]string(nil), r.cfg.Environ...),
		"HOME="+dir, "PWD="+dir, "GIT_TERMINAL_PROMPT=0",
		"WEIR_URL="+at.server, "WEIR_TOKEN="+t.Token,
		"MINION_API_BASE_URL="+at.server+schemas.RouteAPI+"/", "MINION_API_TOKEN="+t.Token,
		"OPENAI_BASE_URL="+at.server+"/v1", "OPENAI_API_KEY="+t.Token,
		"ANTHROPIC_BASE_URL="+at.server, "ANTHROPIC_AUTH_TOKEN="+t.Token, // its clients add /v1
		"WEIR_TASK_ID="+t.ID, "WEIR_TASK_MODEL="+t.Model, "WEIR_TASK_DEADLINE="+t.Deadline.UTC().Format(time.RFC3339),
		"WEIR_TASK_PROMPT_FILE="+dir+"/"+promptFile,
		"WEIR_TASK_REPO_URL="+at.repo(t), "WEIR_TASK_BRANCH="+t.Task.GitBranch, "WEIR_TASK_BASE="+t.Base,
	)
	if at.proxy != "" {
		u := url.URL{Scheme: "http", User: url.UserPassword(proxyUser, t.Token), Host: at.proxy}
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
			env = append(env, name+"="+u.String())
		}
		direct := "127.0.0.1,localhost,::1"
		if own, err := url.Parse(at.server); err == nil {
			direct = own.Hostname() + "," + direct
		}
		env = append(env, "NO_PROXY="+direct, "no_proxy="+direct)
	}
	return append(env, gitEnviron(t, at)...)
}

// proxyUser is the user name beside a token where there must be one. Any would do.
const proxyUser = "weir"

// repo is where git reaches the task's repository. The server may know itself by another URL.
func (p address) repo(t *schemas.LeasedTask) string {
	if i := strings.LastIndex(t.Task.GitRepoURL, schemas.RouteGit+"/"); i >= 0 {
		return p.server + t.Task.GitRepoURL[i:]
	}
	return t.Task.GitRepoURL
}

// credentialHelper is a program for the shell that gives git the token from the environment. An agent may send the
// header itself instead: git then does not need the helper.
const credentialHelper = `!f() { test "$1" = get && echo username=` + proxyUser + ` && echo "password=$WEIR_TOKEN"; }; f`

// gitEnviron configures git by variables, so that the token is in no file, URL or argument. The empty helper has git
// ignore the machine's own helpers, which could store it.
func gitEnviron(t *schemas.LeasedTask, at address) []string {
	helper := "credential." + at.server + ".helper"
	config := [][2]string{
		{helper, ""},
		{helper, credentialHelper},
		{"user.name", t.Task.GitUserName},
		{"user.email", t.Task.GitUserEmail},
	}
	if own := at.repo(t); own != t.Task.GitRepoURL { // for agents that read it from the server
		config = append(config, [2]string{"url." + own + ".insteadOf", t.Task.GitRepoURL})
	}
	env := []string{"GIT_CONFIG_COUNT=" + strconv.Itoa(len(config))}
	for i, c := range config {
		n := strconv.Itoa(i)
		env = append(env, "GIT_CONFIG_KEY_"+n+"="+c[0], "GIT_CONFIG_VALUE_"+n+"="+c[1])
	}
	return env
}

// secretsOf are the forms in which the environment has a task's token.
func secretsOf(t *schemas.LeasedTask) []string {
	if t.Token == "" {
		return nil
	}
	return []string{base64.StdEncoding.EncodeToString([]byte(proxyUser + ":" + t.Token)), t.Token}
}
