"""A mail server for the tests, with aiosmtpd as the server.

It keeps every mail as a file in its folder and answers as the file `answers.json` there says at that moment, for example
{"rcpt": {"gone@a.example": "550 no such user"}, "data": "451 later", "data_takes": 2}. It prints its port when it is ready.
"""

import argparse
import asyncio
import itertools
import json
import pathlib
import ssl

from aiosmtpd.smtp import SMTP, AuthResult

arguments = argparse.ArgumentParser()
arguments.add_argument("--folder", type=pathlib.Path, required=True)
arguments.add_argument("--port", type=int, default=0)
arguments.add_argument("--security", choices=["starttls", "tls", "none"], required=True)
arguments.add_argument("--certificate")
arguments.add_argument("--key")
arguments.add_argument("--user")
arguments.add_argument("--password")
given = arguments.parse_args()


def say(step):
    try:
        return json.loads((given.folder / "answers.json").read_text()).get(step)
    except FileNotFoundError:
        return None


class Handler:
    async def handle_MAIL(self, server, session, envelope, address, options):
        if answer := say("mail"):
            return answer
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(self, server, session, envelope, address, options):
        if answer := (say("rcpt") or {}).get(address):
            return answer
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        if answer := say("data"):
            return answer
        taken = next(path for n in itertools.count() if not (path := given.folder / f"{n:04}.eml").exists())
        part = taken.with_suffix(".part")
        part.write_bytes(f"X-To: {envelope.rcpt_tos[0]}\r\n".encode() + envelope.content)
        part.rename(taken)
        # The mail is taken, and its sender does not know yet.
        await asyncio.sleep(say("data_takes") or 0)
        return "250 taken"


def let_in(server, session, envelope, mechanism, login):
    fits = (login.login.decode(), login.password.decode()) == (given.user, given.password)
    return AuthResult(success=fits, handled=False)


async def main():
    context = None
    if given.security != "none":
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(given.certificate, given.key)
    by_login = {"authenticator": let_in, "auth_required": True, "auth_require_tls": given.security == "starttls"}
    starts_tls = given.security == "starttls"

    def session():
        return SMTP(
            Handler(),
            hostname="localhost",
            tls_context=context if starts_tls else None,
            require_starttls=starts_tls,
            **(by_login if given.user else {}),
        )

    loop = asyncio.get_running_loop()
    at_once = context if given.security == "tls" else None
    server = await loop.create_server(session, "127.0.0.1", given.port, ssl=at_once)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
