#!/bin/sh
# The command that `weir runner --exec ./agent.sh` starts for each task. It clones the task's
# repository, lets your agent change it, pushes, and reports the end of the task.
#
# Needs: sh, curl, git, python3. AGENT is the command that does the work, such as
# 'my-agent --stdin': it starts in the clone and reads the task's description on standard input.
set -eu
: "${AGENT:?set AGENT to the command that does the work}"

api() { # api METHOD PATH [BODY]
	curl -sS --fail-with-body -X "$1" "$MINION_API_BASE_URL/agent/$2" -H "Authorization: Bearer $MINION_API_TOKEN" \
		-H 'Content-Type: application/json' ${3:+--data "$3"}
}
member() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }
quote() { python3 -c 'import json, sys; print(json.dumps(sys.stdin.read()))'; }

api GET task >task.json
branch=$(member git_branch <task.json)

# The token goes into the environment of git, not into a file or an argument.
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=http.extraHeader
export GIT_CONFIG_VALUE_0="Authorization: Bearer $MINION_API_TOKEN"
git clone -q -b "$branch" "$(member git_repo_url <task.json)" work
cd work
git config user.name "$(member git_user_name <../task.json)"
git config user.email "$(member git_user_email <../task.json)"

member description <../task.json >../description
if ! sh -c "$AGENT" <../description >../agent.log 2>&1; then
	api POST task/fail "{\"reason\": \"ProblemSolving\", \"description\": $(tail -c 2000 ../agent.log | quote)}"
	exit 1
fi
git add --all
git commit -q -m "$(head -c 70 ../description)"
git push -q origin "HEAD:$branch"
api POST task/complete "{\"description\": $(printf 'Pushed %s' "$(git rev-parse HEAD)" | quote)}"
