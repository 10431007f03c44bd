"""orientedos's rule, in Python: the signature is over the body alone."""

import hashlib
import hmac

from serve import serve


def verify(headers, body, secret):
    received = headers.get("X-OrientedOS-Signature", "")
    expected = "sha256=" + hmac.new(secret.encode("utf-8"), body, hashlib.sha256).hexdigest()
    return None if hmac.compare_digest(expected, received) else "wrong signature"


serve(verify)
