"""Incidents to a web address of the user's."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.parse
import urllib.request

from ...records import IncidentRecord, Record, record_line
from ._calls_with_end import CallsWithEnd
from ._hook_queue import HookQueue


class IncidentWebhook:
    """Posts the record of each incident, as JSON, to a web address: when it is seen, and again with its outcome.

    It runs beside the training, one call at a time; a server that hangs is left at the time-out. A failure (no
    connection, a time-out, a status that is not 2xx; redirections count, for they would lose the record) is told once
    as a ``RuntimeWarning``. What the server answers is not read. The address gets the record and nothing else.

    Args:
        url: ``http://`` or ``https://``; proxies are those of the environment.
        timeout: seconds that one call may take; ``close`` waits no longer for all that are left.

    Raises:
        ValueError: another kind of address, one without a host, or a time-out that is not above 0.

    Example:
        >>> IncidentWebhook("file:///etc/passwd")
        Traceback (most recent call last):
            ...
        ValueError: IncidentWebhook: url is 'file:///etc/passwd': expected http://HOST/... or https://HOST/...
    """

    def __init__(self, url: str, timeout: float = 10.0) -> None:
        _check(url)
        if not timeout > 0:
            raise ValueError(f"IncidentWebhook: timeout is {timeout} s: expected more than 0")
        self._url, self._timeout = url, timeout
        self._calls = CallsWithEnd()
        self._queue = HookQueue("IncidentWebhook", self._post, abort=self._calls.end, wait=timeout)

    def take(self, record: Record) -> None:
        """Have news of an incident posted; other records are passed over."""
        self._queue.take(record)

    def close(self) -> None:
        """Wait for what is left, at most a time-out long."""
        self._queue.close()

    def _post(self, incident: IncidentRecord) -> None:
        request = urllib.request.Request(
            self._url,
            data=record_line(incident).encode(),
            headers={"Content-Type": "application/json", "User-Agent": "mixprec"},
            method="POST",
        )
        try:
            self._calls.make(request, self._timeout)
        except urllib.error.HTTPError as error:
            error.close()
            raise RuntimeError(f"the server answered {error.code} {error.reason}") from None
        except urllib.error.URLError as error:
            raise RuntimeError(self._words(error.reason)) from None
        except (OSError, http.client.HTTPException) as error:
            raise RuntimeError(self._words(error)) from None

    def _words(self, reason: object) -> str:
        if isinstance(reason, TimeoutError):
            return f"no answer within {self._timeout:g} s"
        return f"no connection: {reason}"


def _check(url: str) -> None:
    try:
        parts = urllib.parse.urlsplit(url)
        host = parts.hostname if parts.port != 0 else None
    except ValueError as error:
        raise ValueError(f"IncidentWebhook: url is {url!r}, which is no address: {error}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError(f"IncidentWebhook: url is {url!r}: expected http://HOST/... or https://HOST/...")
