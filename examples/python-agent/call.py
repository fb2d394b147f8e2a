"""Make a call once, whatever happens to the connection.

Usage: python3 call.py METHOD URL [BODY]

The Idempotency-Key names the call. If the connection is lost, the program sends the
same request again: Weir returns the stored result and does not repeat the call.
"""
import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid

WEIR = os.environ.get("WEIR_URL", "http://127.0.0.1:8092")


def execute(call, key):
    """Return the status and the document that Weir answers."""
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    if token := os.environ.get("WEIR_TOKEN"):
        headers["Authorization"] = "Bearer " + token
    request = urllib.request.Request(WEIR + "/v1/execute", json.dumps(call).encode(), headers)
    for wait in (0.2, 1, 5, None):
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:  # Weir answered: do not send it again
            return refusal.code, json.load(refusal)
        except OSError:  # the connection was lost: send the same request again
            if wait is None:
                raise
            time.sleep(wait)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    call = {"method": sys.argv[1], "url": sys.argv[2]}
    if len(sys.argv) == 4:
        call["body"] = json.loads(sys.argv[3])
    # Derive the key from what the call is for, such as an order's number, so that a
    # restarted program finds its own call again.
    status, document = execute(call, os.environ.get("CALL_KEY") or str(uuid.uuid4()))
    print(json.dumps(document, indent=2))
    sys.exit(0 if status < 400 else 1)
