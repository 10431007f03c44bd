"""Verifies webhooks sent by Posthaste. Copy this one file: Python 3.8 or newer, nothing else.

    verified = verify("standard", request_headers, raw_body, [secret])

`raw_body` is what arrived, byte for byte, before anything parsed it. Several secrets may be given, so that an old and a new
one both work while you change over. Whatever is wrong raises `VerificationError`, with a `reason` for programs and a message
for people; after `misconfigured` answer 5xx (the fault is on this side), after every other reason 4xx.

Python's standard library has no ed25519: `v1a` signatures of the contract `standard` are skipped here, a `v1` one is needed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import time
from typing import Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

__all__ = ["CONTRACTS", "REASONS", "Headers", "VerificationError", "Verified", "verify"]

Headers = Union[Mapping[str, Union[str, Sequence[str]]], Iterable[Tuple[str, str]]]

REASONS = (
    "misconfigured",
    "missing_header",
    "repeated_header",
    "malformed_id",
    "malformed_timestamp",
    "malformed_signature",
    "no_usable_signature",
    "signature_mismatch",
    "timestamp_too_old",
    "timestamp_too_new",
)

_HEADER_MAX = 2048


class VerificationError(Exception):
    """The request must not be trusted. `reason` is one of `REASONS`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Verified(NamedTuple):
    """What a verified request says about itself. Deduplicate by `id`; where that is None, by the body's `id_field`.

    Not covered by the signature: the `id` of `orientedos` and the `timestamp` of `simpaisa`. Whoever holds an old request of
    these can send it again under another id or time.
    """

    id: Optional[str]
    id_field: Optional[str]
    timestamp: Optional[int]


class _Contract(NamedTuple):
    form: str  # list: `v1,base64 v1,base64`; stamped: `t=1,v1=hex`; plain: `sha256=hex`
    key: str  # base64: what follows `whsec_`, decoded; text: the whole secret
    brand: Optional[str]
    signature: str
    timestamp: Optional[str]
    id: Optional[str]
    id_field: Optional[str]


CONTRACTS: Mapping[str, _Contract] = {
    "standard": _Contract("list", "base64", None, "webhook-signature", "webhook-timestamp", "webhook-id", None),
    "sendnomi": _Contract("list", "text", None, "webhook-signature", "webhook-timestamp", "webhook-id", None),
    "zerofee": _Contract("stamped", "text", "ZeroFee", "x-{}-signature", None, None, "id"),
    "bastionary": _Contract("stamped", "text", "Bastionary", "x-{}-signature", None, None, "delivery_id"),
    "orientedos": _Contract("plain", "text", "OrientedOS", "x-{}-signature", None, "x-{}-delivery-id", None),
    "simpaisa": _Contract("plain", "text", "Simpaisa", "x-{}-signature", "x-{}-timestamp", None, "event_id"),
}


def verify(
    contract: str,
    headers: Headers,
    body: bytes,
    secrets: Union[str, Sequence[str]],
    *,
    brand: Optional[str] = None,
    now: Optional[float] = None,
    tolerance: int = 300,
) -> Verified:
    """Returns what the request says about itself, or raises `VerificationError`.

    `brand` replaces the contract's own name in `X-{brand}-Signature`. `tolerance` is in seconds, into the past and into the
    future. `orientedos` sends no time at all, so there an old request is as good as a new one: deduplicate.
    """
    rules = _rules(contract, brand)
    keys = _keys(rules, secrets)
    if not isinstance(body, (bytes, bytearray, memoryview)):
        raise VerificationError("misconfigured", "The body must be the raw bytes that arrived, not text or parsed JSON.")
    if tolerance < 0:
        raise VerificationError("misconfigured", "The tolerance must not be negative.")

    signature = _header(headers, rules.signature)
    message_id = None if rules.id is None else _header(headers, rules.id)
    stamp = None if rules.timestamp is None else _header(headers, rules.timestamp)
    if len(signature) > _HEADER_MAX:
        raise _malformed(rules, f"at most {_HEADER_MAX} characters long")
    if rules.form == "stamped":
        stamp, signature = _stamped(signature, rules)
    if message_id is not None and not re.fullmatch(r"[!-~]{1,256}", message_id):
        raise VerificationError("malformed_id", f"{rules.id} must be 1 to 256 printable ASCII characters.")
    if stamp is not None and not re.fullmatch(r"[0-9]{1,12}", stamp):
        raise VerificationError("malformed_timestamp", "The timestamp must be whole seconds since 1970, in plain digits.")

    if rules.form == "list":
        given = _listed(signature, rules)
        prefix = f"{message_id}.{stamp}."
    else:
        given = [_hex(signature, rules)]
        prefix = f"{stamp}." if rules.form == "stamped" else ""
    _compare(given, keys, prefix.encode() + bytes(body), rules)
    timestamp = None if stamp is None else int(stamp)
    if timestamp is not None:
        _check_time(timestamp, int(time.time() if now is None else now), tolerance)
    return Verified(message_id, rules.id_field, timestamp)


def _rules(contract: str, brand: Optional[str]) -> _Contract:
    rules = CONTRACTS.get(contract)
    if rules is None:
        raise VerificationError("misconfigured", f"The contract must be one of {', '.join(CONTRACTS)}.")
    if rules.brand is None:
        if brand is not None:
            raise VerificationError("misconfigured", f"The header names of {contract} have no brand in them.")
        return rules
    brand = rules.brand if brand is None else brand
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", brand):
        raise VerificationError("misconfigured", "The brand must be 1 to 64 characters out of A-Z a-z 0-9 _ -.")
    named = {
        name: template.format(brand.lower())
        for name, template in rules._asdict().items()
        if name in ("signature", "timestamp", "id") and template is not None
    }
    return rules._replace(**named)


def _keys(rules: _Contract, secrets: Union[str, Sequence[str]]) -> List[bytes]:
    given = [secrets] if isinstance(secrets, str) else list(secrets or [])
    if not given or not all(isinstance(secret, str) for secret in given):
        raise VerificationError("misconfigured", "Give at least one secret, as text.")
    if rules.key == "text":
        return [_text_key(secret) for secret in given]
    # Public keys are checked, so that a broken one is noticed here too, and then left out.
    keys = [_standard_key(secret) for secret in given]
    usable = [key for key in keys if key is not None]
    if not usable:
        message = "This file cannot check ed25519 signatures, which is all a whpk_ key is for: give a whsec_ secret."
        raise VerificationError("misconfigured", message)
    return usable


def _text_key(secret: str) -> bytes:
    key = secret.encode("utf-8", "surrogatepass")
    if not 16 <= len(key) <= 512 or re.search(r"[\x00-\x1f\x7f]", secret):
        message = "A secret must be 16 to 512 bytes without control characters (is there a newline at its end?)."
        raise VerificationError("misconfigured", message)
    return key


def _standard_key(secret: str) -> Optional[bytes]:
    prefix, encoded = secret[:6], secret[6:]
    if secret.startswith("whpk_"):
        prefix, encoded = secret[:5], secret[5:]
    is_base64 = re.fullmatch(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", encoded)
    key = base64.b64decode(encoded) if is_base64 else b""
    if prefix == "whpk_" and len(key) == 32:
        return None
    if prefix == "whsec_" and 24 <= len(key) <= 64:
        return key
    message = "A secret must be whsec_ and base64 of 24 to 64 bytes, or whpk_ and base64 of a 32-byte ed25519 public key."
    raise VerificationError("misconfigured", message)


def _header(headers: Headers, name: str) -> str:
    found: List[str] = []
    pairs = headers.items() if hasattr(headers, "items") else headers
    for key, value in pairs:
        values = [value] if isinstance(value, str) else list(value)
        if not isinstance(key, str) or not all(isinstance(text, str) for text in values):
            raise VerificationError("misconfigured", "Names and values of headers must be text.")
        if key.lower() == name:
            found.extend(values)
    if len(found) > 1:
        raise VerificationError("repeated_header", f"The header {name} came {len(found)} times; it must come once.")
    if not found or not found[0]:
        raise VerificationError("missing_header", f"The header {name} is missing or empty.")
    return found[0]


def _malformed(rules: _Contract, expected: str) -> VerificationError:
    return VerificationError("malformed_signature", f"{rules.signature} must be {expected}.")


def _stamped(value: str, rules: _Contract) -> Tuple[str, str]:
    parts = value.split(",")
    if len(parts) != 2 or not parts[0].startswith("t=") or not parts[1].startswith("v1="):
        raise _malformed(rules, "t=SECONDS,v1=HEX, each once")
    return parts[0][2:], parts[1][3:]


def _hex(value: str, rules: _Contract) -> str:
    if rules.form == "plain":
        if not value.startswith("sha256="):
            raise _malformed(rules, "sha256= and 64 lower-case hex digits")
        value = value[7:]
    if not re.fullmatch(r"[0-9a-f]{64}", value):
        raise _malformed(rules, "a signature of 64 lower-case hex digits")
    return value


def _listed(value: str, rules: _Contract) -> List[str]:
    """The `v1` signatures of the list. Versions that are unknown are left out, but none may be malformed."""
    usable = []
    for entry in value.split(" "):
        version, comma, text = entry.partition(",")
        digits = {"v1": r"[A-Za-z0-9+/]{43}=", "v1a": r"[A-Za-z0-9+/]{86}=="}.get(version, r"[!-~]+")
        if not version or not comma or not re.fullmatch(digits, text):
            raise _malformed(rules, "VERSION,BASE64, or several of these with single spaces between them")
        if version == "v1":
            usable.append(text)
    if not usable:
        message = f"{rules.signature} has no v1 signature, and this file can check no other kind."
        raise VerificationError("no_usable_signature", message)
    return usable


def _compare(given: List[str], keys: List[bytes], signed: bytes, rules: _Contract) -> None:
    matches = False
    for key in keys:
        digest = hmac.new(key, signed, hashlib.sha256)
        expected = base64.b64encode(digest.digest()).decode() if rules.form == "list" else digest.hexdigest()
        for signature in given:
            # Every pair is compared, each in constant time: how long it takes says nothing about what would match.
            matches |= hmac.compare_digest(expected, signature)
    if not matches:
        message = (
            "No signature was made with a secret given here: the secret is another one, the body is not the raw one, "
            "or somebody else sent this."
        )
        raise VerificationError("signature_mismatch", message)


def _check_time(timestamp: int, now: int, tolerance: int) -> None:
    if now - timestamp > tolerance:
        message = f"The request is {now - timestamp} s old, at most {tolerance} s are allowed: sent again, or a clock is wrong."
        raise VerificationError("timestamp_too_old", message)
    if timestamp - now > tolerance:
        message = f"The request is {timestamp - now} s ahead of this clock, at most {tolerance} s are allowed: a clock is wrong."
        raise VerificationError("timestamp_too_new", message)
