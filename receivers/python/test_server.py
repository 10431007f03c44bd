"""Tests that the example distinguishes a duplicate from a constraint that the receiver's own work violates."""

import base64
import hashlib
import hmac
import os
import sqlite3
import tempfile
import time
import unittest
from contextlib import closing
from pathlib import Path
from unittest import mock

SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()

with mock.patch.dict(os.environ, {"WEBHOOK_SECRET": SECRET}):
    import server


def signed(body: bytes) -> dict:
    now = str(int(time.time()))
    digest = hmac.new(b"s" * 32, f"msg_1.{now}.".encode() + body, hashlib.sha256).digest()
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": now,
        "webhook-signature": "v1," + base64.b64encode(digest).decode(),
    }


class Server(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        server.DATABASE = Path(folder.name) / "received.db"
        with closing(sqlite3.connect(server.DATABASE)) as database, database:
            database.execute("CREATE TABLE received (id TEXT PRIMARY KEY, body BLOB NOT NULL)")
            database.execute("CREATE TABLE totals (type TEXT PRIMARY KEY, count INTEGER NOT NULL)")

    def test_a_constraint_that_the_work_violates_is_no_duplicate(self) -> None:
        body = b'{"type":"t","data":{}}'
        with mock.patch.object(server, "work", side_effect=sqlite3.IntegrityError("yours")):
            with self.assertRaises(sqlite3.IntegrityError):
                server.receive(signed(body), body)
        self.assertEqual(server.receive(signed(body), body), (200, "received"), "nothing of it was kept")
        self.assertEqual(server.receive(signed(body), body), (200, "known already"))


if __name__ == "__main__":
    unittest.main()
