#!/bin/sh
# AGENT='my-agent --stdin' weir runner --pass AGENT --exec deploy/runner/agent.sh --complete-on-success
# For any agent that reads its task on standard input and changes files in its directory.
set -eu
: "${AGENT:?set AGENT to the command that does the work, and start the runner with --pass AGENT}"
git clone -q -b "$WEIR_TASK_BRANCH" "$WEIR_TASK_REPO_URL" work
cd work
sh -c "$AGENT" <"$WEIR_TASK_PROMPT_FILE"
git add --all
git diff --cached --quiet || git commit -q -m "$(head -n 1 "$WEIR_TASK_PROMPT_FILE" | cut -c 1-70)"
git push -q origin "HEAD:$WEIR_TASK_BRANCH"
echo "Pushed $(git rev-parse HEAD)"
