"""Servers with one certain failure, for every client: no listener, no accept, an untrusted certificate, or an error of
their service.
"""

import datetime
import ipaddress
import json
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from tests.support.http import HTTPServer


@dataclass(frozen=True)
class Answer:
    """An error of a service: HTTP status, the service's code and its message."""

    status: int
    code: str
    message: str = "the store's own words"


class FailingServer(HTTPServer):
    """Answers each request with one error, in the form of all the services at once."""

    def __init__(self, answer: Answer, form: str) -> None:
        self.requests = 0
        self._answer = answer
        self._form = form

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        self.requests += 1
        request.rfile.read(int(request.headers.get("Content-Length") or 0))
        code, message = self._answer.code, self._answer.message
        bodies = {
            "xml": f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{message}</Message></Error>',
            "dynamodb": json.dumps({"__type": f"com.amazonaws#{code}", "message": message}),
            "google": json.dumps({"error": {"message": message, "errors": [{"reason": code}]}}),
            "lakefs": json.dumps({"message": message}),
        }
        body = bodies[self._form].encode()
        request.send_response(self._answer.status)
        request.send_header("x-ms-error-code", code)
        request.send_header("Content-Type", "application/xml" if self._form == "xml" else "application/json")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(body)


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def port_without_answer() -> Iterator[int]:
    """A port with a full queue: connecting never ends."""
    with ExitStack() as kept:
        server = kept.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(4):
            client = kept.enter_context(socket.socket())
            client.setblocking(False)
            with suppress(BlockingIOError):
                client.connect(server.getsockname())
        yield server.getsockname()[1]


@contextmanager
def port_with_unknown_certificate(folder: Path, postgres: bool = False) -> Iterator[int]:
    """A TLS port with a certificate of the authority `folder/ca.pem`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*make_certificate(folder))
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with suppress(OSError), client:
                    if postgres:
                        client.recv(8)
                        client.sendall(b"S")
                    with context.wrap_socket(client, server_side=True) as encrypted:
                        encrypted.recv(1000)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


@contextmanager
def postgres_that_refuses(code: str, message: str) -> Iterator[int]:
    """A PostgreSQL ending every connection with an error."""
    body = b"".join(f"{word}\0".encode() for word in ("SFATAL", "VFATAL", f"C{code}", f"M{message}")) + b"\0"
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with suppress(OSError), client:
                    while True:
                        (length, kind) = struct.unpack("!II", client.recv(8))
                        if kind == 196608:
                            client.recv(length - 8)
                            break
                        client.sendall(b"N")
                    client.sendall(b"E" + struct.pack("!I", len(body) + 4) + body)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Make an authority (`folder/ca.pem`) and a certificate for this machine; returns certificate and key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    now = datetime.datetime.now(datetime.UTC)

    def built(
        name: str, issuer: x509.Name | None, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer or subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=9))
        )

    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    usage = dict.fromkeys(
        (
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    ca = (
        built("Test CA", None, ca_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, **usage), critical=True
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    leaf = (
        built("server", ca.subject, key)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "ca.pem").write_bytes(ca.public_bytes(pem))
    (folder / "server.pem").write_bytes(leaf.public_bytes(pem))
    (folder / "server.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder / "server.pem", folder / "server.key"
