"""Copy Weir's evidence into a file over HTTP, one record a line.

Usage: python3 consumer.py FILE

It needs the standard library only. The file FILE.position holds the id of the
last record that is on disk; after a restart or a lost connection Weir continues there.
"""
import os
import sys
import time
import urllib.error
import urllib.request

WEIR = os.environ.get("WEIR_URL", "http://127.0.0.1:8092")


def records(last):
    """Yield (id, JSON text) of each record after a position, and wait for the next ones."""
    while True:
        headers = {"Accept": "text/event-stream"}
        if token := os.environ.get("WEIR_TOKEN"):
            headers["Authorization"] = "Bearer " + token
        if last:
            headers["Last-Event-ID"] = last
        try:
            request = urllib.request.Request(WEIR + "/v1/evidence", headers=headers)
            with urllib.request.urlopen(request, timeout=60) as answer:
                event = {}
                for line in answer:
                    name, _, value = line.decode().rstrip("\r\n").partition(":")
                    if name:
                        event[name] = value.removeprefix(" ")
                    elif line.strip() == b"":
                        if "id" in event and "data" in event:
                            last = event["id"]
                            yield last, event["data"]
                        event = {}
        except urllib.error.HTTPError:
            raise  # Weir refused: the message says why
        except OSError:
            print("the connection was lost; reconnecting", file=sys.stderr)
        time.sleep(1)


def store(file, text):
    file.write(text + "\n")
    file.flush()
    os.fsync(file.fileno())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    position = sys.argv[1] + ".position"
    last = open(position).read().strip() if os.path.exists(position) else None
    with open(sys.argv[1], "a") as file:
        for last, text in records(last):
            store(file, text)  # first the record, then the position: none is lost
            with open(position + ".new", "w") as new:
                store(new, last)
            os.replace(position + ".new", position)
