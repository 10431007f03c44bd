"""Checks requests with the official PyPI library.

Reads a JSON object {secret, headers, body} a line, body in base64; answers each with a line `ok` or `bad`.
"""

import base64
import json
import sys

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

for line in sys.stdin:
    request = json.loads(line)
    try:
        Webhook(request["secret"]).verify(base64.b64decode(request["body"]), request["headers"], json_parse=False)
        print("ok", flush=True)
    except WebhookVerificationError:
        print("bad", flush=True)
