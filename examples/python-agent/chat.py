"""Let a model answer a question with the help of HTTP calls.

Usage: python3 chat.py MODEL QUESTION

Both the model and the calls that it asks for go through Weir: the policy decides which
calls leave, and the model reads a refusal as the result of its call.
"""
import json
import os
import sys
import urllib.error
import urllib.request

from call import WEIR, execute

TOOLS = [{"type": "function", "function": {
    "name": "http_get",
    "description": "Fetch a URL with GET.",
    "parameters": {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]},
}}]


def complete(model, messages):
    """Return the next message of the model."""
    headers = {"Content-Type": "application/json"}
    if token := os.environ.get("WEIR_TOKEN"):
        headers["Authorization"] = "Bearer " + token
    body = json.dumps({"model": model, "messages": messages, "tools": TOOLS}).encode()
    request = urllib.request.Request(WEIR + "/v1/chat/completions", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)["choices"][0]["message"]
    except urllib.error.HTTPError as refusal:
        sys.exit("the model was not asked: " + json.load(refusal)["error"]["message"])


def answer(model, question):
    """Run the loop: at most ten rounds, each call under a key of its own."""
    messages = [{"role": "user", "content": question}]
    for _ in range(10):
        message = complete(model, messages)
        messages.append(message)
        if not message.get("tool_calls"):
            return message["content"]
        for call in message["tool_calls"]:
            arguments = json.loads(call["function"]["arguments"])
            print("the model calls", arguments["url"], file=sys.stderr)
            # The id of the model's call is the key: a repeat of this round calls nothing twice.
            _, document = execute({"method": "GET", "url": arguments["url"]}, call["id"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(document)})
    sys.exit("the model gave no answer within ten rounds")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(answer(sys.argv[1], sys.argv[2]))
