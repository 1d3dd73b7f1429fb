"""HTTP calls that end at a time, however slowly a server answers."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import urllib.request
from collections.abc import Callable
from typing import IO, Any


class CallsWithEnd:
    """Makes calls one at a time; another thread, or the time, may end the one that is under way.

    A socket's own time-out is about a single read: a server that sends a byte now and then never meets it.
    """

    def __init__(self) -> None:
        self._last = _LastConnection()
        self._opener = urllib.request.build_opener(_NoRedirection, _Http(self._last), _Https(self._last))

    def make(self, request: urllib.request.Request, seconds: float) -> None:
        """Make one call; what the server answers beside its status is not read.

        Raises:
            TimeoutError: it took longer.
            OSError: whatever else went wrong (``urllib.error``'s exceptions are such).
            http.client.HTTPException: what came back is no HTTP.
        """
        is_late = threading.Event()

        def hang_up() -> None:
            is_late.set()
            self.end()

        timer = threading.Timer(seconds, hang_up)
        timer.daemon = True
        timer.start()
        try:
            self._opener.open(request, timeout=seconds).close()
        except (OSError, http.client.HTTPException):
            if is_late.is_set():
                raise TimeoutError from None
            raise
        finally:
            timer.cancel()

    def end(self) -> None:
        """Hang up, wherever the call is; finding the server's address by its name goes on."""
        self._last.hang_up()


class _LastConnection:
    """Remembers the connection that was made last."""

    def __init__(self) -> None:
        self._connection: http.client.HTTPConnection | None = None

    def of(self, kind: Callable[..., http.client.HTTPConnection]) -> Callable[..., http.client.HTTPConnection]:
        """What makes such a connection, and lets it be remembered."""

        def made(*args: Any, **options: Any) -> http.client.HTTPConnection:
            connection = self._connection = kind(*args, **options)
            return connection

        return made

    def hang_up(self) -> None:
        """End what is said over it, in both directions."""
        sock = None if self._connection is None else self._connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):  # it has just ended by itself
                # Not an encrypted socket's own, which changes what the other thread is reading from.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)


class _Http(urllib.request.HTTPHandler):
    def __init__(self, last: _LastConnection) -> None:
        super().__init__()
        self._last = last

    def do_open(self, http_class: Any, req: urllib.request.Request, **options: Any) -> http.client.HTTPResponse:
        """As its parent does, over a connection that is remembered."""
        return super().do_open(self._last.of(http_class), req, **options)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, last: _LastConnection) -> None:
        super().__init__()
        self._last = last

    def do_open(self, http_class: Any, req: urllib.request.Request, **options: Any) -> http.client.HTTPResponse:
        """As its parent does, over a connection that is remembered."""
        return super().do_open(self._last.of(http_class), req, **options)


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    """A redirected POST becomes a GET without its data: it is a failure instead."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> None:
        """Follow none."""
        return
