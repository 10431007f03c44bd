"""simpaisa's rule, in Python: the signature is over the body alone, the time in a header beside it."""

import hashlib
import hmac
import time

from serve import serve


def verify(headers, body, secret):
    if abs(time.time() - int(headers["X-Simpaisa-Timestamp"])) > 300:
        return "too old"
    algorithm, _, signature = headers["X-Simpaisa-Signature"].partition("=")
    expected = hmac.new(secret.encode("utf-8"), body, hashlib.sha256).hexdigest()
    return None if algorithm == "sha256" and hmac.compare_digest(expected, signature) else "wrong signature"


serve(verify)
