from __future__ import annotations

import contextlib
import http.server
import json
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from mixprec.monitor.export import Exporter, Exporters, IncidentWebhook
from mixprec.records import record_line
from tests.monitor.export.made_records import event, finding, incident, step
from tests.monitor.export.waiting import hear_failures, times_until_failure, until


class Server:
    """Listens on this machine; answers as its path says."""

    def __init__(self) -> None:
        self.heard, self.released = list[tuple[str, str, bytes]](), threading.Event()
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                server.heard.append((self.path, self.headers["Content-Type"], body))
                if self.path == "/hangs":
                    server.released.wait(20)
                self.send_response({"/503": 503, "/moved": 302}.get(self.path, 204))
                self.send_header("Location", "/there")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    own = Server()
    yield own
    own.close()


def test_the_server_gets_each_record_of_an_incident(server: Server):
    hook = IncidentWebhook(f"{server.url}/hook?key=1")
    assert isinstance(hook, Exporter)
    seen, settled = incident(), incident(outcome="recovered", resolved=60)
    for record in (step(), finding(), seen, event(), incident(batches=(39, 40, 41)), settled, settled):
        hook.take(record)
    hook.close()
    assert [(path, kind) for path, kind, _ in server.heard] == [("/hook?key=1", "application/json")] * 2
    assert [body.decode() for _, _, body in server.heard] == [record_line(seen), record_line(settled)]
    assert json.loads(server.heard[1][2])["outcome"] == "recovered"


@pytest.mark.parametrize(
    ("path", "told"),
    [("/503", "the server answered 503 Service Unavailable"), ("/moved", "the server answered 302 Found")],
)
def test_a_server_that_refuses_is_told_once(server: Server, path: str, told: str):
    hook = IncidentWebhook(server.url + path)
    exporters = Exporters([hook])
    # The first failure is told at whichever record comes after it, be it the second incident or a step.
    with pytest.warns(
        RuntimeWarning, match=rf"IncidentWebhook failed at incident 0 \({told}\).*training goes on"
    ) as warned:
        hear_failures(exporters, hook, 2)
    assert len(warned) == 1
    assert {path for path, _, _ in server.heard} == {path}, "a redirection is not followed"
    with pytest.warns(RuntimeWarning, match="2 calls failed"):
        exporters.close()


def test_a_server_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        hook = IncidentWebhook(f"http://127.0.0.1:{taken.getsockname()[1]}/")
        hook.take(incident())
        with pytest.warns(RuntimeWarning, match=r"incident 1 \(no connection: .*refused\)"):
            hook.close()


def test_a_server_that_does_not_encrypt_is_told(server: Server):
    hook = IncidentWebhook(server.url.replace("http:", "https:"))
    hook.take(incident())
    with pytest.warns(RuntimeWarning, match=r"incident 1 \(no connection: .*SSL"):
        hook.close()


def test_a_server_that_hangs_up_without_an_answer_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("no_proxy", "*")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        hook = IncidentWebhook(f"http://127.0.0.1:{listening.getsockname()[1]}/")
        hook.take(incident())
        peer, _ = listening.accept()
        peer.recv(10_000)
        peer.close()
        with pytest.warns(RuntimeWarning, match=r"incident 1 \(no connection: "):
            hook.close()


def test_a_server_that_hangs_is_left_at_the_time_out_and_training_waits_for_none(server: Server):
    hook = IncidentWebhook(f"{server.url}/hangs", timeout=0.4)
    hook.take(incident(1))
    assert until(lambda: server.heard)
    with pytest.warns(RuntimeWarning, match=r"incident 1 \(no answer within 0.4 s\)"):
        taken = times_until_failure(hook)
    assert sorted(taken)[-5] < 1e-3, "records go by while the server hangs"
    start = time.monotonic()
    with pytest.warns(RuntimeWarning, match=r"records did not reach it"):
        hook.close()
    assert time.monotonic() - start < 3


def test_a_server_that_drips_is_hung_up_on_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("no_proxy", "*")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        hook = IncidentWebhook(f"http://127.0.0.1:{listening.getsockname()[1]}/", timeout=0.4)
        start = time.monotonic()
        hook.take(incident())
        peer, _ = listening.accept()
        with peer, contextlib.suppress(OSError):  # a line that was hung up cannot be sent over
            for letter in b"HTTP/1.1 200 OK\r\nServer: a snail that never ends its line":
                if hook._queue._failures or time.monotonic() - start > 10:
                    break
                peer.send(bytes([letter]))
                time.sleep(0.05)
        assert time.monotonic() - start < 2
        with pytest.warns(RuntimeWarning, match=r"incident 1 \(no answer within 0.4 s\)"):
            hook.close()


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/hosts",
        "ftp://a/b",
        "//a/b",
        "hooks.example",
        "",
        "http://",
        "http:///a",
        "http://a:x/",
        "http://[a/",
    ],
)
def test_what_is_no_web_address_is_refused(url: str):
    with pytest.raises(ValueError, match=r"IncidentWebhook: url is "):
        IncidentWebhook(url)


def test_a_time_out_of_nothing_is_refused():
    with pytest.raises(ValueError, match=r"timeout is -1 s: expected more than 0"):
        IncidentWebhook("https://hooks.example/a", timeout=-1)
