#!/usr/bin/env python3
"""Fills a server before a measurement: deliveries that wait, and endpoints that nobody publishes to.

usage: furnish.py BASE KEY --waiting N --endpoints N --cancelled N --to URL
"""
import argparse
import datetime
import http.client
import json
import urllib.parse

parser = argparse.ArgumentParser()
parser.add_argument("base")
parser.add_argument("key")
parser.add_argument("--waiting", type=int, default=0)
parser.add_argument("--endpoints", type=int, default=0)
parser.add_argument("--cancelled", type=int, default=0, help="in the app `again`, ready to be replayed")
parser.add_argument("--to", help="where those lead")
arguments = parser.parse_args()

connection = http.client.HTTPConnection(urllib.parse.urlsplit(arguments.base).netloc)
headers = {"authorization": "Bearer " + arguments.key, "content-type": "application/json"}


def post(path, body):
    connection.request("POST", path, json.dumps(body), headers)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status not in (200, 201):
        raise SystemExit(f"furnish: {path} answered {answer.status}: {text[:300]!r}")
    return json.loads(text)


app = None
for number in range(arguments.endpoints):
    # A hundred to an app; none of them wants what the measurement publishes.
    if number % 100 == 0:
        app = post("/v1/apps", {"name": f"furniture {number}"})["id"]
    post(f"/v1/apps/{app}/endpoints", {"url": "http://127.0.0.1:9/", "event_types": ["furniture.moved"]})


def publish(app, event, count):
    for start in range(0, count, 1000):
        events = [event] * min(1000, count - start)
        answers = post(f"/v1/apps/{app}/events/batch", {"events": events})["data"]
        if any(item["status"] != 202 for item in answers):
            raise SystemExit("furnish: not all events were accepted")


if arguments.waiting:
    app = post("/v1/apps", {"name": "waiting"})["id"]
    post(f"/v1/apps/{app}/endpoints", {"url": "http://127.0.0.1:9/"})
    later = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=29)).isoformat()
    publish(app, {"type": "furniture.waiting", "data": {"pad": "x" * 480}, "deliver_at": later}, arguments.waiting)

if arguments.cancelled:
    post("/v1/apps", {"id": "again", "name": "again"})
    off = {"off": {"waiting": "cancelled", "published": "cancelled"}}
    post("/v1/apps/again/endpoints", {"id": "sink", "url": arguments.to, "overrides": off})
    post("/v1/apps/again/endpoints/sink/disable", {})
    publish("again", {"type": "furniture.again", "data": {"pad": "x" * 480}}, arguments.cancelled)
    post("/v1/apps/again/endpoints/sink/enable", {})
