"""Follow an action until it ends, over any number of lost connections.

Usage: python3 follow.py ACTION

Each event has an id. After a lost connection the program sends the last id that it
read as Last-Event-ID, and Weir continues with the next event.
"""
import json
import os
import sys
import time
import urllib.error
import urllib.request

WEIR = os.environ.get("WEIR_URL", "http://127.0.0.1:8092")


def events(action, last=None):
    """Yield (id, type, data) of each event in order, each exactly once."""
    while True:
        headers = {"Accept": "text/event-stream"}
        if token := os.environ.get("WEIR_TOKEN"):
            headers["Authorization"] = "Bearer " + token
        if last:
            headers["Last-Event-ID"] = last
        request = urllib.request.Request(f"{WEIR}/v1/actions/{action}/events", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                if answer.status == 204:  # the action has ended, and all was read
                    return
                for event in read(answer):
                    last = event[0]
                    yield event
                    if event[1] == "settled":
                        return
        except urllib.error.HTTPError:
            raise  # Weir refused, such as 404: another attempt does not help
        except OSError:
            pass
        time.sleep(0.5)


def read(lines):
    """Yield the complete events of a stream of server-sent events."""
    event = {}
    for line in lines:
        name, _, value = line.decode().rstrip("\r\n").partition(":")
        if name:
            event[name] = value.removeprefix(" ")
        elif line.strip() == b"":
            if "id" in event and "data" in event:
                yield event["id"], event.get("event", "message"), json.loads(event["data"])
            event = {}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for id, type, data in events(sys.argv[1]):
        print(id, type, flush=True)
