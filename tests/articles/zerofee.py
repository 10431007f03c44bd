"""zerofee's rule, in Python."""

import hashlib
import hmac
import time

from serve import serve

TOLERANCE_SECONDS = 300


def verify(headers, body, secret):
    header = headers.get("X-ZeroFee-Signature")
    if header is None:
        return "no signature"
    parts = dict(part.split("=", 1) for part in header.split(","))
    if set(parts) != {"t", "v1"}:
        return "not t and v1"
    if abs(time.time() - int(parts["t"])) > TOLERANCE_SECONDS:
        return "too old"
    signed = f"{parts['t']}.".encode() + body
    expected = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    return None if hmac.compare_digest(expected, parts["v1"]) else "wrong signature"


serve(verify)
