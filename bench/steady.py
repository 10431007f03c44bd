#!/usr/bin/env python3
"""What a stretch of steady load cost a server, by its own counters and its own CPU; prints one JSON line.

usage: steady.py BASE PID LABEL --after S --secs S
"""
import argparse
import json
import os
import time
import urllib.request

parser = argparse.ArgumentParser()
parser.add_argument("base")
parser.add_argument("pid", type=int)
parser.add_argument("label")
parser.add_argument("--after", type=float, required=True, help="seconds of load before the stretch begins")
parser.add_argument("--secs", type=float, required=True)
arguments = parser.parse_args()


def counter(text, name):
    return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name + " "))


def look():
    with open(f"/proc/{arguments.pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    metrics = urllib.request.urlopen(arguments.base + "/metrics").read().decode()
    return {
        "at": time.monotonic(),
        "cpu_s": (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
        "delivered": counter(metrics, 'posthaste_attempts_total{class="ok"}'),
        "removed": counter(metrics, 'posthaste_retention_removed_total{what="deliveries"}'),
        "store_bytes": counter(metrics, "posthaste_store_bytes"),
    }


time.sleep(arguments.after)
before = look()
time.sleep(arguments.secs)
after = look()
took = {name: after[name] - before[name] for name in before}
print(
    json.dumps(
        {
            "label": arguments.label,
            "deliveries_per_cpu_s": round(took["delivered"] / took["cpu_s"]),
            "delivered_per_s": round(took["delivered"] / took["at"]),
            "removed_per_s": round(took["removed"] / took["at"]),
            "store_mib": round(after["store_bytes"] / 2**20),
        }
    )
)
