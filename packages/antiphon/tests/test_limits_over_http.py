"""Limits on what a client may send and leave unread, on real connections; and HTTPS."""

import asyncio
import contextlib
import datetime
import json
import socket
import ssl
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from antiphon.request_limits import in_time
from antiphon.tls import load_certificate, tls_context
from antiphon_turns.errors import ConfigError, RequestTimeout

SAY = [{"when": "", "say": "Hm.\n</think>\n\nHi."}]
CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def connected(server) -> socket.socket:
    """A bare connection to a server; the test closes it."""
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def all_of(connection: socket.socket) -> bytes:
    """What comes until the server closes."""
    received = b""
    while piece := connection.recv(65536):
        received += piece
    return received


def answer_of(received: bytes) -> tuple[int, dict[str, object]]:
    """Status and body of one answer."""
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


@pytest.mark.parametrize("path", [CHAT, MESSAGES, RESPONSES])
def test_too_many_messages_and_tools_name_the_setting(serve_mock, path):
    server = serve_mock(SAY, max_messages=3, max_tools=2)
    said = [{"role": role, "content": "x"} for role in ("user", "assistant", "user", "assistant", "user")]
    tools = [{**TOOL, "function": {**TOOL["function"], "name": f"f{number}"}} for number in range(3)]
    if path != CHAT:
        tools = [{"name": f"f{number}", "input_schema": {"type": "object"}} for number in range(3)]
    if path == RESPONSES:
        tools = [{"type": "function", "name": f"f{number}", "parameters": {"type": "object"}} for number in range(3)]
    key = "input" if path == RESPONSES else "messages"
    limit = {"max_output_tokens": 20} if path == RESPONSES else {"max_tokens": 20}
    base = {"model": "m", **limit}
    base["model"] = "gpt-5.5"
    for more, flag in (({key: said}, "--max-messages"), ({key: said[:1], "tools": tools}, "--max-tools")):
        refused = server.http.post(path, json=base | more)
        assert refused.status_code == 400
        assert flag in refused.json()["error"]["message"]
    assert server.http.post(path, json=base | {key: said[:3], "tools": tools[:2]}).status_code == 200


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_large_headers_are_a_431_in_the_envelope(serve_mock, path):
    server = serve_mock(SAY, max_header_bytes=2048)
    body = {"model": "gpt-5.5", "max_tokens": 20, "messages": [{"role": "user", "content": "x"}]}
    # Just under the limit on the line, and over it with what the application counts for each header.
    refused = server.http.post(path, json=body, headers={f"x-{number}": "y" * 40 for number in range(60)})
    assert refused.status_code == 431
    assert "--max-header-bytes" in refused.json()["error"]["message"]
    assert server.http.post(path, json=body, headers={"x-a": "y" * 1000}).status_code == 200


def test_headers_without_end_are_cut_off(serve_mock):
    server = serve_mock(SAY, max_header_bytes=4096)
    with connected(server) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n" + b"x-a: " + b"y" * 5000)
        status, body = answer_of(all_of(connection))
    assert (status, body["error"]["code"]) == (431, "headers_too_large")  # type: ignore[index]


def test_a_long_body_is_no_header(serve_mock):
    server = serve_mock(SAY, max_header_bytes=2048)
    body = {"model": "gpt-5.5", "max_tokens": 20, "messages": [{"role": "user", "content": "x " * 2000}]}
    for _ in range(3):  # on one connection
        assert server.http.post(CHAT, json=body).status_code == 200


def test_slow_headers_are_a_408_and_an_idle_connection_just_ends(serve_mock):
    server = serve_mock(SAY, header_seconds=1.0)
    with connected(server) as slow, connected(server) as idle, connected(server) as second:
        slow.sendall(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\n")
        second.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
        answered = b""
        while b"}" not in answered:
            answered += second.recv(65536)
        assert answered.startswith(b"HTTP/1.1 200")
        second.sendall(b"GET /health HTTP/1.1\r\n")
        status, body = answer_of(all_of(slow))
        assert (status, body["error"]["code"]) == (408, "request_timeout")  # type: ignore[index]
        assert all_of(idle) == b""
        assert all_of(second).startswith(b"HTTP/1.1 408"), "a later request on the same connection has the same time"


@pytest.mark.parametrize("path", [CHAT, MESSAGES, RESPONSES, MESSAGES + "/count_tokens"])
def test_a_body_that_does_not_arrive_is_a_408_in_the_envelope(serve_mock, path):
    server = serve_mock(SAY, body_seconds=0.2)
    with connected(server) as connection:
        connection.sendall(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\nconnection: close\r\n\r\n".encode() + b'{"model"')
        status, body = answer_of(all_of(connection))
    assert status == 408
    assert "--body-seconds" in body["error"]["message"]  # type: ignore[index]


def test_the_time_of_a_body_does_not_run_on_behind_it():
    async def play() -> None:
        messages = [{"type": "http.request", "body": b"x", "more_body": True}, {"type": "http.request", "body": b"y"}]
        gone = asyncio.Event()

        async def receive() -> dict[str, object]:
            if messages:
                return messages.pop(0)
            await gone.wait()
            return {"type": "http.disconnect"}

        timed = in_time(receive, 0.0)
        with pytest.raises(RequestTimeout):
            await in_time(lambda: asyncio.sleep(1000), 0.0)()  # type: ignore[arg-type]
        timed = in_time(receive, 5.0)
        assert (await timed())["body"] == b"x"
        assert (await timed())["body"] == b"y"
        waiting = asyncio.create_task(timed())  # type: ignore[arg-type]
        gone.set()
        assert (await waiting)["type"] == "http.disconnect"

    asyncio.run(play())


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_client_that_does_not_read_is_let_go_and_its_turn_ends(serve_mock, certificate, scheme):
    files = {"tls_certificate": certificate[0], "tls_key": certificate[1]} if scheme == "https" else {}
    server = serve_mock(reader_seconds=0.3, context_length=200_000, **files)
    body = {"model": "gpt-5.5", "stream": True, "max_tokens": 150_000, "messages": [{"role": "user", "content": "@@REPEAT:100000@@"}]}
    data = json.dumps(body).encode()
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(socket.socket())
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        connection.settimeout(30)
        host, port = server.url.partition("://")[2].split(":")
        connection.connect((host, int(port)))
        if scheme == "https":
            trusting = ssl.create_default_context(cafile=str(certificate[0]))
            connection = stack.enter_context(trusting.wrap_socket(connection, server_hostname="localhost"))
        connection.sendall(f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data)
        assert connection.recv(1) == b"H"
        while server.pipeline.running:  # until the server has had enough
            pass
        received = b""
        with contextlib.suppress(ConnectionResetError, ssl.SSLError):
            while piece := connection.recv(65536):
                received = received[-64:] + piece
    assert not received.endswith(b"0\r\n\r\n"), "no end that could be taken for the end of a whole answer"
    (turn,) = server.traced()
    assert turn["finish"] == "cancelled"
    assert len(turn["output_ids"]) < 60_000, "the engine waited for the client, so that nothing piled up"


def test_a_websocket_that_is_not_read_is_let_go_too(serve_mock):
    server = serve_mock(reader_seconds=0.3, context_length=200_000)
    host, port = server.url.removeprefix("http://").split(":")
    frame = {"type": "response.create", "model": "gpt-5.5", "max_output_tokens": 150_000, "input": "@@REPEAT:100000@@"}
    with socket.socket() as bare:
        bare.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        bare.settimeout(30)
        bare.connect((host, int(port)))
        head = "GET /v1/responses HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        bare.sendall(f"{head}sec-websocket-key: {'A' * 22}==\r\nsec-websocket-version: 13\r\n\r\n".encode())
        assert bare.recv(12) == b"HTTP/1.1 101"
        data = json.dumps(frame).encode()
        # A masked text frame; a mask of zeros leaves the bytes as they are.
        bare.sendall(b"\x81" + bytes([0x80 | 126]) + len(data).to_bytes(2, "big") + bytes(4) + data)
        while not server.running_turns():
            pass
        while server.running_turns():  # until the server has had enough
            pass
    (turn,) = server.traced()
    assert turn["finish"] == "cancelled"
    assert len(turn["output_ids"]) < 60_000


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> tuple[Path, Path]:
    """A self-signed certificate for localhost and its key."""
    return certified(tmp_path_factory.mktemp("tls"), "localhost")


def certified(folder: Path, host: str) -> tuple[Path, Path]:
    """Writes a self-signed certificate and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    chain, private = folder / "chain.pem", folder / "key.pem"
    chain.write_bytes(built.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return chain, private


def test_https_serves_streams_and_refuses_old_tls(serve_mock, certificate):
    chain, key = certificate
    server = serve_mock(SAY, tls_certificate=chain, tls_key=key)
    trusting = ssl.create_default_context(cafile=str(chain))
    url = server.url.replace("127.0.0.1", "localhost")
    body = {"model": "gpt-5.5", "stream": True, "max_tokens": 20, "messages": [{"role": "user", "content": "x"}]}
    with httpx.Client(verify=trusting) as client:
        assert "message_stop" in client.post(url + MESSAGES, json=body).text
    old = ssl.create_default_context(cafile=str(chain))
    with pytest.deprecated_call():
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with httpx.Client(verify=old) as client, pytest.raises(httpx.ConnectError):
        client.get(url + "/health")


def test_bad_certificates_are_one_sentence(tmp_path, certificate):
    chain, key = certificate
    (tmp_path / "other").mkdir()
    _, other = certified(tmp_path / "other", "localhost")
    assert tls_context(None, None) is None
    for one, two, said in (
        (chain, None, "needs both"),
        (None, key, "needs both"),
        (tmp_path / "no.pem", key, "cannot read --tls-certificate"),
        (chain, tmp_path / "no.pem", "cannot read --tls-key"),
        (key, chain, "are not a certificate chain"),
        (chain, other, "are not a certificate chain"),
    ):
        with pytest.raises(ConfigError, match=said):
            tls_context(one, two)
    context = tls_context(chain, key)
    assert context is not None
    with pytest.raises(ConfigError):
        load_certificate(context, chain, other)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
