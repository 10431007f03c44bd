"""A complete receiver:  WEBHOOK_SECRET=whsec_… python3 server.py

Settings, all from the environment: WEBHOOK_SECRET, WEBHOOK_SECRET_OLD (accepted too while you change over), WEBHOOK_CONTRACT
(standard), WEBHOOK_BRAND, PORT (8000; 0 takes a free one), DATA (the folder of the database, ./received).

Answers: 2xx for a request that was handled or is known already, 4xx for one that can never be accepted, 5xx to get it again.
"""

import json
import os
import sqlite3
import sys
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Dict, Tuple

from posthaste_webhooks import VerificationError, verify

CONTRACT = os.environ.get("WEBHOOK_CONTRACT", "standard")
BRAND = os.environ.get("WEBHOOK_BRAND") or None
SECRETS = [os.environ[name] for name in ("WEBHOOK_SECRET", "WEBHOOK_SECRET_OLD") if os.environ.get(name)]
DATABASE = Path(os.environ.get("DATA", "received")) / "received.db"
BODY_BYTES_MAX = 1024 * 1024


def connect() -> sqlite3.Connection:
    # mode=rw: a missing database is an error. A new empty one would treat every delivery as new.
    return sqlite3.connect(f"file:{DATABASE}?mode=rw", uri=True, timeout=2)


def work(database: sqlite3.Connection, event: Dict[str, Any]) -> None:
    """Does your own work, in the transaction that marks the delivery as received: both happen, or neither.

    Do only quick work here, in the same database. Put longer work into a table for a worker of your own, which retries
    failures and stores those that keep failing: your own dead letters.
    """
    name = str(event.get("type") or event.get("event") or event.get("event_type"))
    database.execute("INSERT INTO totals VALUES (?, 1) ON CONFLICT (type) DO UPDATE SET count = count + 1", (name,))


def receive(headers: Any, body: bytes) -> Tuple[int, str]:
    try:
        verified = verify(CONTRACT, headers, body, SECRETS, brand=BRAND)
    except VerificationError as error:
        return (500 if error.reason == "misconfigured" else 400), f"{error.reason}: {error}"
    # The body is parsed only after verification.
    try:
        event = json.loads(body)
        key = verified.id or event[verified.id_field]
        if not isinstance(key, str) or not isinstance(event, dict):
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError):
        return 422, "not an event that this receiver understands"
    with closing(connect()) as database, database:
        # The UNIQUE constraint decides, not an earlier SELECT: of two simultaneous requests one adds no row. A constraint
        # that your own work violates is no duplicate and must be answered with 5xx.
        added = database.execute("INSERT INTO received (id, body) VALUES (?, ?) ON CONFLICT (id) DO NOTHING", (key, body))
        if added.rowcount == 0:
            return 200, "known already"
        work(database, event)
    return 200, "received"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10

    def do_GET(self) -> None:
        if self.path != "/healthz":
            return self.answer(404, "POST to /webhooks")
        try:
            with closing(connect()) as database:
                database.execute("SELECT 1 FROM received LIMIT 1")
        except sqlite3.Error as error:
            return self.answer(503, f"no database: {error}")
        self.answer(200, "healthy")

    def do_POST(self) -> None:
        length = self.headers.get("content-length", "")
        # If the body was not read completely, the connection cannot be reused for another request.
        self.close_connection = True
        if self.path != "/webhooks":
            return self.answer(404, "POST to /webhooks")
        if not (length.isascii() and length.isdigit()):
            return self.answer(411, "a content-length is needed")
        if int(length) > BODY_BYTES_MAX:
            return self.answer(413, f"at most {BODY_BYTES_MAX} bytes")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            return None
        self.close_connection = False
        try:
            status, text = receive(self.headers, body)
        except Exception as error:  # any other error is on this side, so the sender should retry
            self.log_error("%s: %s", type(error).__name__, error)
            status, text = 500, "trouble here, please send it again"
        self.answer(status, text)

    def answer(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("content-type", "text/plain; charset=utf-8")
        self.send_header("content-length", str(len(body)))
        if self.close_connection:
            self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    try:
        verify(CONTRACT, {}, b"", SECRETS, brand=BRAND)
    except VerificationError as error:
        if error.reason == "misconfigured":
            sys.exit(f"WEBHOOK_CONTRACT, WEBHOOK_BRAND or WEBHOOK_SECRET: {error}")
    DATABASE.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(DATABASE)) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS received (id TEXT PRIMARY KEY, body BLOB NOT NULL)")
        database.execute("CREATE TABLE IF NOT EXISTS totals (type TEXT PRIMARY KEY, count INTEGER NOT NULL)")
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8000"))), Handler)
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
