#!/bin/sh
# weir runner --exec deploy/runner/codex.sh --complete-on-success
set -eu
git clone -q -b "$WEIR_TASK_BRANCH" "$WEIR_TASK_REPO_URL" work
cd work
export CODEX_HOME="$HOME/codex"
mkdir "$CODEX_HOME"
# Codex does not read OPENAI_BASE_URL. The provider performs web_search, and few upstreams pass it on.
# The sandbox, if there is one, is the runner's.
codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox ${WEIR_TASK_MODEL:+--model "$WEIR_TASK_MODEL"} \
	-c model_provider=weir -c model_providers.weir.name=Weir -c model_providers.weir.wire_api=responses \
	-c "model_providers.weir.base_url=$OPENAI_BASE_URL" -c model_providers.weir.env_key=OPENAI_API_KEY \
	-c web_search=disabled -c check_for_update_on_startup=false -c analytics.enabled=false \
	"$(cat "$WEIR_TASK_PROMPT_FILE")" </dev/null
# Push what the agent has not committed, or has not pushed.
git add --all
git diff --cached --quiet || git commit -q -m "$(head -n 1 "$WEIR_TASK_PROMPT_FILE" | cut -c 1-70)"
git push -q origin "HEAD:$WEIR_TASK_BRANCH"
