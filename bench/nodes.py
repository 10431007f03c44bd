#!/usr/bin/env python3
"""What the nodes of one database deliver together while more waits than they can carry; prints one JSON line.

usage: nodes.py KEY SINKS ADDRESS...

SINKS are where the endpoints lead, separated by commas: each takes only so many connections.
"""
import http.client
import json
import sys
import threading
import time

KEY, SINKS, ADDRESSES = sys.argv[1], sys.argv[2].split(","), sys.argv[3:]
ENDPOINTS = 16
# Published at once, and how much waits at least.
BATCH, BACKLOG = 500, 4000
READY_WITHIN_S, BEFORE_S, MEASURED_S = 30, 5, 15


def call(address, method, path, body=None):
    connection = http.client.HTTPConnection(address, timeout=30)
    headers = {"authorization": "Bearer " + KEY, "content-type": "application/json"}
    connection.request(method, path, json.dumps(body) if body is not None else None, headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


def wait_for(address, path):
    until = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < until:
        try:
            if call(address, "GET", path)[0] == 200:
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise SystemExit(f"nodes: {address} does not answer {path}")


def make(path, body):
    status, text = call(ADDRESSES[0], "POST", path, body)
    if status not in (200, 201):
        raise SystemExit(f"nodes: {path} answered {status}: {text[:300]!r}")


def attempts():
    """How many there were, by how they ended."""
    found = {}
    for address in ADDRESSES:
        for line in call(address, "GET", "/metrics")[1].decode().splitlines():
            if line.startswith("posthaste_attempts_total{"):
                ended = line.split('"')[1]
                found[ended] = found.get(ended, 0) + float(line.split()[-1])
    return found


def delivered():
    return attempts().get("ok", 0)


def publish(published, stop, refusals):
    """To the nodes in turn, an event for one of the endpoints each; until one is refused."""
    while not stop.is_set():
        if published[0] - delivered() > BACKLOG:
            time.sleep(0.02)
            continue
        address = ADDRESSES[published[0] // BATCH % len(ADDRESSES)]
        events = [{"type": f"bench.{n % ENDPOINTS}", "data": {"pad": "x" * 480}} for n in range(BATCH)]
        status, text = call(address, "POST", "/v1/apps/nodes/events/batch", {"events": events})
        if status != 200:
            refusals.append(f"nodes: publishing answered {status}: {text[:300]!r}")
            return
        published[0] += BATCH


for address in ADDRESSES:
    wait_for(address, "/readyz")
make("/v1/apps", {"id": "nodes", "name": "nodes"})
for number in range(ENDPOINTS):
    url = SINKS[number % len(SINKS)]
    make("/v1/apps/nodes/endpoints", {"id": f"sink-{number}", "url": url, "event_types": [f"bench.{number}"]})
for address in ADDRESSES:
    wait_for(address, f"/v1/apps/nodes/endpoints/sink-{ENDPOINTS - 1}")

stop = threading.Event()
refusals = []
publisher = threading.Thread(target=publish, args=([0], stop, refusals), daemon=True)
publisher.start()
time.sleep(BEFORE_S)
before, began = delivered(), time.monotonic()
time.sleep(MEASURED_S)
after, ended = delivered(), time.monotonic()
stop.set()
publisher.join()
if refusals:
    raise SystemExit(refusals[0])
failed = {ended: count for ended, count in attempts().items() if count and ended != "ok"}
if failed:
    raise SystemExit(f"nodes: some attempts failed: {failed}")
print(json.dumps({"nodes": len(ADDRESSES), "delivered_per_s": round((after - before) / (ended - began))}))
