"""The fault proxy: what it lets through it does not change, and what it is told to break it breaks."""

from __future__ import annotations

import errno
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError

from tests.support.fault_proxy import Fault, FaultProxy
from tests.support.raising import raising

DEADLINE = 60.0
BIG = bytes(range(256)) * 8192  # 2 MB, in no encoding


class _Server(BaseHTTPRequestHandler):
    """Keeps what it is asked word for word, and answers with what only a server would have."""

    protocol_version = "HTTP/1.1"
    asked: list[tuple[str, str, dict[str, str], bytes]]

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.asked.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        found = BIG if self.command in ("GET", "HEAD") else b""
        self.send_response_only(206 if "range" in self.headers else 200, "Its own words")
        self.send_header("ETag", '"abc"')
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(found)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(found)

    do_GET = do_PUT = do_HEAD = do_POST = answer  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Silent."""


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    _Server.asked = []
    made = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    thread = threading.Thread(target=made.serve_forever, args=(0.05,))
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


@pytest.fixture
def proxy(server: ThreadingHTTPServer) -> Iterator[FaultProxy]:
    with FaultProxy(f"http://127.0.0.1:{server.server_port}") as made:
        yield made


def ask(
    proxy: FaultProxy, method: str, target: str, body: bytes | None = None, **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection(proxy.url.removeprefix("http://"), timeout=DEADLINE)
    connection.request(method, target, body, headers)
    answer = connection.getresponse()
    read = answer.read()
    connection.close()
    return answer, read


def test_what_passes_is_not_changed(proxy: FaultProxy) -> None:
    target = "/warehouse/lake/a%20b/%2Fc=d+e/f%c3%BC%7E%41?x-id=PutObject&partNumber=1&empty="
    answer, _ = ask(proxy, "PUT", target, BIG, **{"Content-MD5": "m", "X-Amz-Date": "d"})
    assert (answer.status, answer.getheader("ETag")) == (200, '"abc"')
    ((method, path, headers, body),) = _Server.asked
    assert (method, path) == ("PUT", target)
    assert body == BIG
    assert headers.pop("host") == proxy.url.removeprefix("http://"), "what the client signed"
    sent = {"content-length": str(len(BIG)), "content-md5": "m", "x-amz-date": "d"}
    assert headers == sent | {"accept-encoding": "identity"}, "nothing added, nothing lost"


def test_answers_pass_as_they_are(proxy: FaultProxy) -> None:
    answer, body = ask(proxy, "GET", "/b/k", Range="bytes=0-1")
    assert (answer.status, answer.reason, body) == (206, "Its own words", BIG)
    assert answer.getheader("Content-Encoding") == "gzip"
    answer, body = ask(proxy, "HEAD", "/b/k")
    assert (answer.status, answer.getheader("Content-Length"), body) == (200, str(len(BIG)), b"")


def test_a_status_for_one_prefix_and_method_so_many_times(proxy: FaultProxy) -> None:
    proxy.add(Fault(pattern="^/warehouse/lake/", method="PUT", status=503, times=2))
    put = [ask(proxy, "PUT", "/warehouse/lake/x", b"body") for _ in range(3)]
    assert [answer.status for answer, _ in put] == [503, 503, 200]
    assert b"<Code>SlowDown</Code>" in put[0][1]
    assert ask(proxy, "GET", "/warehouse/lake/x")[0].status == 200
    assert ask(proxy, "PUT", "/warehouse/ledger/x", b"body")[0].status == 200
    assert len(_Server.asked) == 3, "a refused request never reaches the server"
    assert proxy.matches() == 2
    assert [request.status for request in proxy.requests] == [503, 503, 200, 200, 200]


def test_the_first_rule_counts_and_none_after_clear(proxy: FaultProxy) -> None:
    proxy.add(Fault(pattern="x", status=500, times=1))
    proxy.add(Fault(status=403))
    assert [ask(proxy, "GET", "/b/x")[0].status for _ in range(2)] == [500, 403]
    proxy.clear()
    assert ask(proxy, "GET", "/b/x")[0].status == 200


def test_a_cut_request_never_arrives_and_a_cut_answer_was_carried_out(proxy: FaultProxy) -> None:
    proxy.add(Fault(method="PUT", pattern="/request$", cut="request"))
    proxy.add(Fault(method="PUT", pattern="/answer$", cut="answer"))
    for target in ("/b/request", "/b/answer"):
        with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
            ask(proxy, "PUT", target, b"body")
    assert [path for _, path, _, _ in _Server.asked] == ["/b/answer"]


def test_a_body_is_cut_off_behind_its_first_bytes(proxy: FaultProxy) -> None:
    proxy.add(Fault(method="GET", cut="body", body_bytes=100_000, times=1))
    with pytest.raises(http.client.IncompleteRead) as caught:
        ask(proxy, "GET", "/b/k")
    assert caught.value.partial == BIG[:100_000]
    assert ask(proxy, "GET", "/b/k")[1] == BIG


def test_a_client_that_waits_for_leave_to_send_gets_it(proxy: FaultProxy) -> None:
    host, port = proxy.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=DEADLINE) as raw:
        raw.sendall(b"PUT /b/k HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
        answers = raw.makefile("rb")
        assert [answers.readline(), answers.readline()] == [b"HTTP/1.1 100 Continue\r\n", b"\r\n"]
        raw.sendall(b"body")
        assert answers.readline() == b"HTTP/1.1 200 Its own words\r\n"
    assert _Server.asked[-1][3] == b"body"


def test_a_delay(proxy: FaultProxy) -> None:
    proxy.add(Fault(pattern="slow", delay=0.4))
    began = time.monotonic()
    assert ask(proxy, "GET", "/b/slow")[0].status == 200
    assert time.monotonic() - began >= 0.4


def test_a_server_that_is_gone_is_a_cut(proxy: FaultProxy, server: ThreadingHTTPServer) -> None:
    server.shutdown()
    server.server_close()
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        ask(proxy, "GET", "/b/k")


def test_boto3_understands_a_fault(proxy: FaultProxy) -> None:
    client = boto3.client(
        "s3",
        endpoint_url=proxy.url,
        region_name="us-east-1",
        aws_access_key_id="a",
        aws_secret_access_key="b",
        config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
    )
    proxy.add(Fault(pattern="/lake/", status=503, times=1))
    with pytest.raises(ClientError) as caught:
        client.put_object(Bucket="warehouse", Key="lake/x", Body=b"body")
    assert caught.value.response["Error"]["Code"] == "SlowDown"
    client.put_object(Bucket="warehouse", Key="lake/x", Body=b"body")
    proxy.add(Fault(pattern="/lake/", cut="request"))
    with pytest.raises(ConnectionClosedError):
        client.put_object(Bucket="warehouse", Key="lake/x", Body=b"body")


@pytest.mark.parametrize("given", [{}, {"status": 500, "cut": "answer"}])
def test_a_rule_that_says_nothing_or_two_things(given: dict[str, Any]) -> None:
    with raising(ValueError, *given):
        Fault(pattern="x", **given)


def test_a_port_that_is_taken(proxy: FaultProxy) -> None:
    port = int(proxy.url.rpartition(":")[2])
    # Which error it is says its number.
    with pytest.raises(OSError) as caught, FaultProxy("http://127.0.0.1:1", port=port):  # noqa: PT011
        pass
    assert caught.value.errno == errno.EADDRINUSE
