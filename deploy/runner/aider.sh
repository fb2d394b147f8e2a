#!/bin/sh
# weir runner --exec deploy/runner/aider.sh --complete-on-success
set -eu
: "${WEIR_TASK_MODEL:?Aider needs a model: create the task with --model}"
git clone -q -b "$WEIR_TASK_BRANCH" "$WEIR_TASK_REPO_URL" work
cd work
export OPENAI_API_BASE="$OPENAI_BASE_URL" # the name that Aider reads
aider --model "openai/$WEIR_TASK_MODEL" --message-file "$WEIR_TASK_PROMPT_FILE" --yes-always \
	--no-check-update --no-analytics --no-show-model-warnings --no-gitignore --no-pretty </dev/null
# Aider commits its changes.
git push -q origin "HEAD:$WEIR_TASK_BRANCH"
