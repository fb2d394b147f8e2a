#!/bin/sh
# weir runner --exec deploy/runner/claude-code.sh --complete-on-success
set -eu
git clone -q -b "$WEIR_TASK_BRANCH" "$WEIR_TASK_REPO_URL" work
cd work
# As root, Claude Code needs IS_SANDBOX. The sandbox, if there is one, is the runner's.
export CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 IS_SANDBOX=1
claude -p "$(cat "$WEIR_TASK_PROMPT_FILE")" --dangerously-skip-permissions ${WEIR_TASK_MODEL:+--model "$WEIR_TASK_MODEL"} </dev/null
# Push what the agent has not committed, or has not pushed.
git add --all
git diff --cached --quiet || git commit -q -m "$(head -n 1 "$WEIR_TASK_PROMPT_FILE" | cut -c 1-70)"
git push -q origin "HEAD:$WEIR_TASK_BRANCH"
