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
from posthaste_webhooks import CONTRACTS, REASONS, VerificationError, Verified, _decompress, _ed25519_verify, verify

VECTORS = json.loads((Path(__file__).parent.parent / "vectors.json").read_text("utf-8"))["cases"]
SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()


def verify_case(case):
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
    def test_every_vector_has_the_expected_result(self):
        for case in VECTORS:
            with self.subTest(case["name"]):
                verdict, verified = verify_case(case)
                self.assertEqual(verdict, case["expect"])
                if verified is not None:
                    self.assertEqual(verified._asdict(), case["verified"])
        print(f"ran {len(VECTORS)} vectors")

    def test_every_contract_and_every_reason_has_a_vector(self):
        self.assertEqual({case["contract"] for case in VECTORS}, set(CONTRACTS))
        self.assertEqual({case["expect"] for case in VECTORS}, {"ok", *REASONS})


# RFC 8032, section 7.1: the public key, the message, the signature.
RFC_8032 = {
    "TEST 1": (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        b"",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    "TEST 2": (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        b"\x72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    "TEST 3": (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        b"\xaf\x82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
        "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
    "TEST SHA(abc)": (
        "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
        hashlib.sha512(b"abc").digest(),
        "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b589"
        "09351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704",
    ),
}


class Ed25519(unittest.TestCase):
    def setUp(self):
        self.cases = [(bytes.fromhex(key), text, bytes.fromhex(signature)) for key, text, signature in RFC_8032.values()]

    def test_the_examples_of_the_rfc_are_right(self):
        for name, case in zip(RFC_8032, self.cases):
            self.assertTrue(_ed25519_verify(*case), name)

    def test_every_flipped_bit_is_refused(self):
        key, text, signature = self.cases[2]
        whole = key + text + signature
        for bit in range(len(whole) * 8):
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            flipped = bytes(flipped)
            self.assertFalse(_ed25519_verify(flipped[:32], flipped[32:-64], flipped[-64:]), bit)

    def test_a_scalar_of_the_order_or_more_is_refused(self):
        order = 2**252 + 27742317777372353535851937790883648493
        for key, text, signature in self.cases:
            scalar = int.from_bytes(signature[32:], "little")
            for more in range(1, (2**256 - 1 - scalar) // order + 1):
                other = (scalar + more * order).to_bytes(32, "little")
                self.assertFalse(_ed25519_verify(key, text, signature[:32] + other), more)
        neutral = (1).to_bytes(32, "little")
        self.assertTrue(_ed25519_verify(neutral, b"", neutral + bytes(32)))
        self.assertFalse(_ed25519_verify(neutral, b"", neutral + order.to_bytes(32, "little")))

    def test_a_point_can_be_written_in_one_way_only(self):
        # With the neutral point as the key and s = 0, R must be the neutral point: each of these would be, if read leniently.
        p, sign = 2**255 - 19, 1 << 255
        neutral = (1).to_bytes(32, "little")
        for lenient in (p + 1, 1 | sign, p + 1 | sign):
            lenient = lenient.to_bytes(32, "little")
            self.assertFalse(_ed25519_verify(lenient, b"", neutral + bytes(32)))
            self.assertFalse(_ed25519_verify(neutral, b"", lenient + bytes(32)))
        for number in [*range(p, 2**255), *range(p | sign, 2**256), 1 | sign, p - 1 | sign]:
            self.assertIsNone(_decompress(number.to_bytes(32, "little")), number)
        self.assertIsNone(_decompress((2).to_bytes(32, "little")), "there is no point with y = 2")
        self.assertEqual(_decompress((p - 1).to_bytes(32, "little")), (0, p - 1, 1, 0))

    def test_base64_with_bits_left_over_is_refused(self):
        case = next(case for case in VECTORS if case["name"] == "standard: ed25519, the public key is known")
        self.assertEqual(verify_case(case)[0], "ok")
        headers = [[name, value.replace("==", "")] for name, value in case["headers"]]
        verdicts = []
        for digit in "AQgwBRhx":
            changed = [[name, value[:-1] + digit + "=="] if value.startswith("v1a,") else [name, value] for name, value in headers]
            verdicts.append(verify_case({**case, "headers": changed})[0])
        self.assertEqual(sorted(verdicts), ["ok"] + ["signature_mismatch"] * 7)

    def test_a_public_key_checks_no_v1_signature_and_a_secret_no_v1a(self):
        public_key = "whpk_" + base64.b64encode(self.cases[0][0]).decode()
        hmac_only = signed_now(b"{}")
        ed25519_only = {**hmac_only, "Webhook-Signature": "v1a," + base64.b64encode(self.cases[0][2]).decode()}
        for headers, secret in [(hmac_only, public_key), (ed25519_only, SECRET)]:
            with self.assertRaises(VerificationError) as caught:
                verify("standard", headers, b"{}", secret)
            self.assertEqual(caught.exception.reason, "no_usable_signature")

    def test_other_lengths_are_refused(self):
        key, text, signature = self.cases[0]
        for wrong in [(key[:31], text, signature), (key + b"\0", text, signature), (key, text, signature[:63])]:
            self.assertFalse(_ed25519_verify(*wrong))
        self.assertFalse(_ed25519_verify(key, text, signature + b"\0"))
        self.assertFalse(_ed25519_verify(key, text, b""))


class Calling(unittest.TestCase):
    def refusal(self, *args, **options):
        with self.assertRaises(VerificationError) as caught:
            verify(*args, **options)
        return caught.exception.reason

    def test_without_a_time_the_clock_is_used(self):
        self.assertEqual(verify("standard", signed_now(b"{}"), b"{}", SECRET).id, "id")
        old = signed_now(b"{}", int(time.time()) - 400)
        self.assertEqual(self.refusal("standard", old, b"{}", SECRET), "timestamp_too_old")

    def test_headers_may_be_a_mapping_of_texts_or_of_lists(self):
        headers = signed_now(b"{}")
        listed = {name: [value] for name, value in headers.items()}
        self.assertEqual(verify("standard", listed, b"{}", [SECRET]), verify("standard", headers, b"{}", [SECRET]))

    def test_a_wrong_call_is_rejected_with_a_reason(self):
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
