"""What the Python receivers share: the server around their `verify`, which says None or why not."""

import base64
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def serve(verify):
    port_file, secret = sys.argv[1:]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            why = verify(self.headers, body, secret)
            headers = {}
            for name, value in self.headers.items():
                headers.setdefault(name.lower(), []).append(value)
            line = {
                "accepted": why is None,
                "why": why,
                "method": self.command,
                "path": self.path,
                "headers": headers,
                "body_base64": base64.b64encode(body).decode(),
                "parsed": json.loads(body) if why is None else None,
            }
            print(json.dumps(line), flush=True)
            status = 200 if why is None else 400
            if self.path.startswith("/answer/"):
                status = int(self.path[len("/answer/") :])
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with open(port_file, "w") as file:
        file.write(f"{server.server_port}\n")
    server.serve_forever()
