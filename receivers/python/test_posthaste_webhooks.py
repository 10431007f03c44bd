"""python3 -m unittest discover receivers/python"""

import ast
import base64
import hashlib
import hmac
import json
import time
import typing
import unittest
from pathlib import Path

import posthaste_webhooks
from posthaste_webhooks import CONTRACTS, REASONS, VerificationError, Verified, verify

VECTORS = json.loads((Path(__file__).parent.parent / "vectors.json").read_text("utf-8"))["cases"]
SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()


def judge(case):
    try:
        verified = verify(
            case["contract"],
            [(name, value) for name, value in case["headers"]],
            base64.b64decode(case["body"]),
            case["secrets"],
            brand=case["brand"],
            now=case["now"],
            tolerance=case["tolerance"],
        )
    except VerificationError as error:
        assert error.reason in REASONS and len(str(error)) > 20, error
        return error.reason, None
    return "ok", verified


def signed_now(body, at=None):
    stamp = str(int(time.time()) if at is None else at)
    digest = hmac.new(b"k" * 32, b"id." + stamp.encode() + b"." + body, hashlib.sha256).digest()
    signature = "v1," + base64.b64encode(digest).decode()
    return {"Webhook-Id": "id", "Webhook-Timestamp": stamp, "Webhook-Signature": signature}


class Vectors(unittest.TestCase):
    def test_every_vector_is_judged_as_it_should_be(self):
        for case in VECTORS:
            with self.subTest(case["name"]):
                verdict, verified = judge(case)
                # The standard library has no ed25519.
                self.assertEqual(verdict, case["expect_without_ed25519"])
                if verified is not None:
                    self.assertEqual(verified._asdict(), case["verified"])
        print(f"ran {len(VECTORS)} vectors")

    def test_every_contract_and_every_reason_has_a_vector(self):
        self.assertEqual({case["contract"] for case in VECTORS}, set(CONTRACTS))
        self.assertEqual({case["expect_without_ed25519"] for case in VECTORS}, {"ok", *REASONS})


class Calling(unittest.TestCase):
    def refusal(self, *args, **options):
        with self.assertRaises(VerificationError) as caught:
            verify(*args, **options)
        return caught.exception.reason

    def test_without_a_time_the_clock_is_asked(self):
        self.assertEqual(verify("standard", signed_now(b"{}"), b"{}", SECRET).id, "id")
        old = signed_now(b"{}", int(time.time()) - 400)
        self.assertEqual(self.refusal("standard", old, b"{}", SECRET), "timestamp_too_old")

    def test_headers_may_be_a_mapping_of_texts_or_of_lists(self):
        headers = signed_now(b"{}")
        listed = {name: [value] for name, value in headers.items()}
        self.assertEqual(verify("standard", listed, b"{}", [SECRET]), verify("standard", headers, b"{}", [SECRET]))

    def test_what_is_called_wrongly_is_refused_with_a_reason_too(self):
        headers = signed_now(b"{}")
        for args in [
            ("no such contract", headers, b"{}", SECRET),
            ("standard", headers, "{}", SECRET),
            ("standard", headers, {}, SECRET),
            ("standard", headers, b"{}", None),
            ("standard", headers, b"{}", [None]),
            ("standard", {b"webhook-id": b"id"}, b"{}", SECRET),
        ]:
            self.assertEqual(self.refusal(*args), "misconfigured", args)
        self.assertEqual(self.refusal("standard", headers, b"{}", SECRET, tolerance=-1), "misconfigured")

    def test_no_message_repeats_a_secret(self):
        marked = "whsec_marker" + "x" * 40
        for contract in CONTRACTS:
            with self.assertRaises(VerificationError) as caught:
                verify(contract, {}, b"", [marked])
            self.assertNotIn("marker", str(caught.exception))

    def test_the_types_can_be_read(self):
        hints = typing.get_type_hints(verify)
        self.assertEqual(hints["return"], Verified)
        self.assertEqual(hints["body"], bytes)
        for name in posthaste_webhooks.__all__:
            self.assertTrue(hasattr(posthaste_webhooks, name))

    def test_old_pythons_can_read_it(self):
        for name in ("posthaste_webhooks.py", "server.py"):
            ast.parse((Path(__file__).parent / name).read_text("utf-8"), feature_version=(3, 8))


if __name__ == "__main__":
    unittest.main()
