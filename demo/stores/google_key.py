"""A fake service account: its key, and a token server.

The emulator needs no token; with the key everything else is as with Google: a connection has the key,
executors receive it, and each process signs with it and fetches its own token. (google-auth asks Google in
the background for the regions of the account, and continues without an answer.)
"""

import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

_EMAIL = "demo@dredge-demo.iam.gserviceaccount.com"
_PROJECT = "dredge-demo"


@contextmanager
def service_account() -> Iterator[str]:
    """Create an account and serve its tokens; yields the content of its key file."""
    private, public = _key_pair()

    class Tokens(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = parse_qs(self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode())
            status, answer = _token(asked.get("assertion", [""])[0], public)
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Tokens)
    server.daemon_threads = True
    uri = f"http://127.0.0.1:{server.server_port}/token"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield json.dumps(
            {
                "type": "service_account",
                "project_id": _PROJECT,
                "private_key_id": "demo",
                "private_key": private,
                "client_email": _EMAIL,
                "token_uri": uri,
            }
        )
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _token(assertion: str, public: str) -> tuple[int, dict[str, object]]:
    """Return the answer to a token request."""
    from google.auth import jwt

    try:
        jwt.decode(assertion, certs=public)  # type: ignore[no-untyped-call]
    except ValueError:
        return 401, {"error": "invalid_grant"}
    return 200, {"access_token": secrets.token_hex(16), "expires_in": 3600, "token_type": "Bearer"}


def _key_pair() -> tuple[str, str]:
    """Return a new private and public key as PEM."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return private.decode(), public.decode()
