"""Verifies webhooks sent by Posthaste. Copy this one file: Python 3.8 or newer, nothing else.

    verified = verify("standard", request_headers, raw_body, [secret])

`raw_body` is the body as it arrived, byte for byte, before any parser. Several secrets may be given, so that an old and a new
one both work while you change over. Every failure raises `VerificationError`, with a `reason` for programs and a message
for people. After `misconfigured` answer 5xx (the error is on this side), after every other reason 4xx.

A secret of the contract `standard` is `whsec_` and base64, for `v1` signatures; a public key, `whpk_` and base64, is for `v1a`
ones (ed25519). Python's standard library has no ed25519, so the end of this file implements its verification.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import time
from typing import Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union, cast

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
    """The values of a verified request. Deduplicate by `id`; if it is None, by the body's `id_field`.

    Not covered by the signature: the `id` of `orientedos` and the `timestamp` of `simpaisa`. An attacker with an old request
    of these can send it again with another id or time.
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
    """Returns the request's values, or raises `VerificationError`.

    `brand` replaces the contract's own name in `X-{brand}-Signature`. `tolerance` is in seconds, into the past and into the
    future. `orientedos` sends no time, so old requests are accepted like new ones: deduplicate.
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
        given = _listed(signature, rules, keys)
        prefix = f"{message_id}.{stamp}."
    else:
        given = [("v1", _hex(signature, rules))]
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


def _keys(rules: _Contract, secrets: Union[str, Sequence[str]]) -> List[Tuple[str, bytes]]:
    """The keys, each with the version of the signatures that it can check."""
    given = [secrets] if isinstance(secrets, str) else list(secrets or [])
    if not given or not all(isinstance(secret, str) for secret in given):
        raise VerificationError("misconfigured", "Give at least one secret, as text.")
    return [("v1", _text_key(secret)) if rules.key == "text" else _standard_key(secret) for secret in given]


def _text_key(secret: str) -> bytes:
    key = secret.encode("utf-8", "surrogatepass")
    if not 16 <= len(key) <= 512 or re.search(r"[\x00-\x1f\x7f]", secret):
        message = "A secret must be 16 to 512 bytes without control characters (is there a newline at its end?)."
        raise VerificationError("misconfigured", message)
    return key


def _standard_key(secret: str) -> Tuple[str, bytes]:
    prefix, encoded = secret[:6], secret[6:]
    if secret.startswith("whpk_"):
        prefix, encoded = secret[:5], secret[5:]
    is_base64 = re.fullmatch(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", encoded)
    key = base64.b64decode(encoded) if is_base64 else b""
    if prefix == "whpk_" and len(key) == 32:
        return "v1a", key
    if prefix == "whsec_" and 24 <= len(key) <= 64:
        return "v1", key
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


def _listed(value: str, rules: _Contract, keys: List[Tuple[str, bytes]]) -> List[Tuple[str, str]]:
    """Returns the signatures that a given key can check. Unknown versions are left out. A malformed one is an error."""
    versions = list(dict.fromkeys(version for version, _ in keys))
    usable = []
    for entry in value.split(" "):
        version, comma, text = entry.partition(",")
        digits = {"v1": r"[A-Za-z0-9+/]{43}=", "v1a": r"[A-Za-z0-9+/]{86}=="}.get(version, r"[!-~]+")
        if not version or not comma or not re.fullmatch(digits, text):
            raise _malformed(rules, "VERSION,BASE64, or several of these with single spaces between them")
        if version in versions:
            usable.append((version, text))
    if not usable:
        message = f"{rules.signature} has no signature of the kind that these secrets can check ({', '.join(versions)})."
        raise VerificationError("no_usable_signature", message)
    return usable


def _compare(given: List[Tuple[str, str]], keys: List[Tuple[str, bytes]], signed: bytes, rules: _Contract) -> None:
    matches = False
    for version, key in keys:
        texts = [text for kind, text in given if kind == version]
        if version == "v1a":
            matches |= any([_is_signed_by(key, signed, text) for text in texts])
            continue
        digest = hmac.new(key, signed, hashlib.sha256)
        expected = base64.b64encode(digest.digest()).decode() if rules.form == "list" else digest.hexdigest()
        for text in texts:
            # All pairs are compared, each in constant time, so that the duration reveals nothing about a match.
            matches |= hmac.compare_digest(expected, text)
    if not matches:
        message = (
            "No signature was made with a secret given here: the secret is another one, the body is not the raw one, "
            "or somebody else sent this."
        )
        raise VerificationError("signature_mismatch", message)


def _is_signed_by(public_key: bytes, signed: bytes, text: str) -> bool:
    signature = base64.b64decode(text)
    return base64.b64encode(signature).decode() == text and _ed25519_verify(public_key, signed, signature)


def _check_time(timestamp: int, now: int, tolerance: int) -> None:
    if now - timestamp > tolerance:
        message = f"The request is {now - timestamp} s old, at most {tolerance} s are allowed: sent again, or a clock is wrong."
        raise VerificationError("timestamp_too_old", message)
    if timestamp - now > tolerance:
        message = f"The request is {timestamp - now} s ahead of this clock, at most {tolerance} s are allowed: a clock is wrong."
        raise VerificationError("timestamp_too_new", message)


# Ed25519 (RFC 8032, without a context), verification only. All its inputs are public, so it does not take constant time:
# never use it for signing. A point (X, Y, Z, T) stands for x = X/Z, y = Y/Z, and T = XY/Z.
_Point = Tuple[int, int, int, int]

_P = 2**255 - 19
_L = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, _P - 2, _P) % _P


def _ed25519_verify(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether encode([s]B - [h]A) is R, byte for byte, for the signature (R, s)."""
    if len(public_key) != 32 or len(signature) != 64:
        return False
    key = _decompress(public_key)
    r, s = signature[:32], int.from_bytes(signature[32:], "little")
    if key is None or s >= _L:
        return False
    h = int.from_bytes(hashlib.sha512(r + public_key + message).digest(), "little") % _L
    x, y, z, t = key
    minus_key = (_P - x, y, z, _P - t)
    # Both products at once, bit by bit from the top: B, -A or their sum is added after each doubling.
    addends = {(1, 0): _BASE, (0, 1): minus_key, (1, 1): _add(_BASE, minus_key)}
    total = (0, 1, 1, 0)
    for bit in range(_L.bit_length() - 1, -1, -1):
        total = _add(total, total)
        addend = addends.get((s >> bit & 1, h >> bit & 1))
        if addend is not None:
            total = _add(total, addend)
    return _compress(total) == r


def _add(left: _Point, right: _Point) -> _Point:
    """Adds two points on -x^2 + y^2 = 1 + d x^2 y^2. Valid for any two points of the curve, also for equal ones."""
    x1, y1, z1, t1 = left
    x2, y2, z2, t2 = right
    a = (y1 - x1) * (y2 - x2) % _P
    b = (y1 + x1) * (y2 + x2) % _P
    c = 2 * _D * t1 % _P * t2 % _P
    d = 2 * z1 * z2 % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _compress(point: _Point) -> bytes:
    x, y, z, _ = point
    inverse = pow(z, _P - 2, _P)
    return (y * inverse % _P | (x * inverse % _P & 1) << 255).to_bytes(32, "little")


def _decompress(encoded: bytes) -> Optional[_Point]:
    """Decodes a point. Returns None if there is no such point, or if the encoding is not canonical."""
    number = int.from_bytes(encoded, "little")
    sign, y = number >> 255, number & (1 << 255) - 1
    if y >= _P:
        return None
    square = (y * y - 1) * pow(_D * y * y + 1, _P - 2, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if x * x % _P != square:
        x = x * pow(2, (_P - 1) // 4, _P) % _P
    if x * x % _P != square or (x == 0 and sign == 1):
        return None
    if x & 1 != sign:
        x = _P - x
    return x, y, 1, x * y % _P


_BASE = cast(_Point, _decompress((4 * pow(5, _P - 2, _P) % _P).to_bytes(32, "little")))
