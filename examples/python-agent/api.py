"""Call an API directly or through Weir, with the same code.

Usage: python3 api.py PATH [NAME=VALUE…]

API_URL is the address of the API: its own, or http://127.0.0.1:8092/via/ENTRY of Weir. API_TOKEN is
the API's key, or a token of Weir, which then adds the key. With HTTP_PROXY or HTTPS_PROXY set to
Weir's proxy, API_URL stays as it is. With fields, the program sends a form.
"""
import os
import sys
import urllib.error
import urllib.parse
import urllib.request


def call(path, fields):
    """Return the status, the headers and the body that the API answers."""
    form = urllib.parse.urlencode(fields).encode() if fields else None
    request = urllib.request.Request(os.environ["API_URL"] + path, form)
    if token := os.environ.get("API_TOKEN"):
        request.add_header("Authorization", "Bearer " + token)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as failure:
        return failure.code, failure.headers, failure.read()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    status, headers, body = call(sys.argv[1], dict(field.split("=", 1) for field in sys.argv[2:]))
    print(status, body.decode(errors="replace"))
    if refusal := headers.get("Weir-Refused"):  # Weir's own answer, not the API's
        sys.exit("Weir refused the call: " + refusal)
