"""What a server on this machine lets in: by which name it is called, with which token, and how much of it.

Other web sites can make a browser send requests to this machine. The ``Host`` header must name this machine, so a site
whose name is made to point here (DNS rebinding) is refused. Programs send the token in a header, which other sites
cannot do without asking first. Browsers send it in a cookie, which they do not add to requests from other sites; in
addition, the ``Origin`` header must be our own, and a request that changes something must be JSON.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import secrets
import socket
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Protocol
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["PAGE_HEADERS", "Bearer", "Cookie", "Guard", "is_loopback", "listen", "names_of", "receive_body"]

_DISCARDED = 4  # times the largest body

# Nothing is loaded from elsewhere, and no script or style that is part of a page is run.
PAGE_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Content-Security-Policy": (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }
)


class Admission(Protocol):
    """Decides who is admitted: `Bearer` or `Cookie`."""

    def check(self, scope: Scope) -> Response | None:
        """Return None for a request that is admitted, or another answer; raise HTTPException to refuse it."""
        ...


class Guard:
    """Middleware that refuses what must not reach an application, and adds headers to every answer.

    Parameters
    ----------
    app : ASGI application
        What is protected.
    admission : Bearer, Cookie or None
        Checks the token; None to admit everyone.
    refuse : callable
        Makes an answer of a status and a message.
    hosts : collection of str or None
        Names under which the server may be addressed, beside those of the loopback interface; None for any name.
    headers : mapping of str to str
        Headers of every answer that does not have them.
    """

    def __init__(
        self,
        app: ASGIApp,
        admission: Admission | None,
        refuse: Callable[[int, str], Response],
        *,
        hosts: Collection[str] | None,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._app, self._admission, self._refuse, self._headers = app, admission, refuse, headers
        self._hosts = None if hosts is None else {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        try:
            self._check_host(scope)
            answer = None if self._admission is None else self._admission.check(scope)
        except HTTPException as refusal:
            answer = self._refuse(refusal.status_code, refusal.detail)
            answer.headers.update(refusal.headers or {})

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        await (answer or self._app)(scope, receive, send_with_headers if self._headers else send)

    def _check_host(self, scope: Scope) -> None:
        given = Headers(scope=scope).getlist("host")
        if len(given) > 1:  # a proxy may have looked at another one than we do
            raise HTTPException(400, "the request has several Host headers")
        if self._hosts is None:
            return
        name = _hostname("".join(given))
        if not is_loopback(name) and name not in self._hosts:
            known = "requests under the names of this machine" if self._hosts else "requests to localhost"
            raise HTTPException(421, f"this server answers {known} only; start it with --host")


class Bearer:
    """Admits programs that send the token in the header ``Authorization``.

    Parameters
    ----------
    token : str
        The token.
    open_paths : collection of str
        Paths that need none: probes of container platforms send no token.
    """

    def __init__(self, token: str, open_paths: Collection[str] = ()) -> None:
        self._token, self._open = token.encode(), frozenset(open_paths)

    def check(self, scope: Scope) -> None:
        """Refuse a request without the token."""
        scheme, _, given = Headers(scope=scope).get("authorization", "").partition(" ")
        matches = secrets.compare_digest(given.encode("latin-1"), self._token)
        if scope["path"] not in self._open and not (matches and scheme.lower() == "bearer"):
            raise HTTPException(
                401,
                "missing or wrong token; send the header  Authorization: Bearer TOKEN",
                {"WWW-Authenticate": "Bearer"},
            )


class Cookie:
    """Admits browsers: turns the token in a link into a cookie, and refuses requests from other sites.

    Parameters
    ----------
    token : str
        The token in the link.
    name : str
        What the cookie's name begins with.
    reading : str
        The token of a link with which nothing can be changed; "" without such a link.
    """

    def __init__(self, token: str, name: str, reading: str = "") -> None:
        self._tokens, self._reading, self._name = (token, reading) if reading else (token,), reading, name
        self._tickets: set[str] = set()

    def ticket(self) -> str:
        """Return what opens the page once instead of the token, for links that are stored somewhere."""
        ticket = secrets.token_urlsafe(16)
        self._tickets.add(ticket)
        return ticket

    def check(self, scope: Scope) -> Response | None:
        """Refuse a request from another site or without the token."""
        request = Request(scope)
        _check_site(request)
        # Cookies do not depend on the port, and several pages may be open.
        cookie = f"{self._name}-{request.url.port or 80}"
        asked = request.query_params if request.method == "GET" else {}
        given, ticket = asked.get("token", ""), asked.get("ticket", "")
        if ticket in self._tickets:
            self._tickets.remove(ticket)
            given = self._tokens[0]
        if self._is_token(given):
            # The token does not stay in the address bar and the history.
            answer = RedirectResponse("/", 303)
            answer.set_cookie(cookie, given, httponly=True, samesite="strict", path="/")
            return answer
        found = request.cookies.get(cookie, "")
        if self._is_token(found):
            scope["reading"] = bool(self._reading) and found == self._reading
            if scope["reading"] and request.method not in ("GET", "HEAD"):
                raise HTTPException(403, "This link is for reading only; nothing was changed.")
            return None
        if ticket:
            raise HTTPException(
                403, "This link works once. Run the cell of the notebook again for a new one."
            )
        raise HTTPException(403, "Wrong or missing token. Open the link that was printed in the terminal.")

    def _is_token(self, given: str) -> bool:
        return any(secrets.compare_digest(given.encode(), token.encode()) for token in self._tokens)


def _check_site(request: Request) -> None:
    headers, reads = request.headers, request.method in ("GET", "HEAD")
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    foreign = origin is not None and _netloc(origin) != headers.get("host", "").lower()
    if foreign or (not reads and site in ("cross-site", "same-site")):
        raise HTTPException(403, "Requests from other web sites are not answered.")
    if not reads and headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "Requests must be JSON.")


def _netloc(origin: str) -> str:
    """Return the host and port of an origin; nothing if it is not one.

    Examples
    --------
    >>> _netloc("http://LOCALHOST:8000"), _netloc("http://[::1")
    ('localhost:8000', '')
    """
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def names_of(host: str) -> set[str]:
    """Return the names, beside those of the loopback interface, of a server that listens on an address.

    Examples
    --------
    >>> names_of("127.0.0.1")
    set()
    """
    return set() if is_loopback(host) else {host, socket.gethostname(), socket.getfqdn()}


def is_loopback(host: str) -> bool:
    """Return whether a host name or address means this machine.

    Examples
    --------
    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("example.org")
    (True, True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _hostname(header: str) -> str:
    """Return the name in a Host header, without the port; nothing if it is not a name and a port.

    Examples
    --------
    >>> _hostname("LOCALHOST:8000"), _hostname("[::1]:80"), _hostname("localhost:80@example.org")
    ('localhost', '::1', '')
    """
    found = re.fullmatch(r"(?:\[([\da-f:.]+)\]|([^\s:@/\[\]]+))(?::\d{0,5})?", header.strip().lower())
    return "" if found is None else found[1] or found[2]


async def receive_body(request: Request, most: int, seconds: float, hint: str = "") -> bytes:
    """Receive the body of a request, of limited size in bytes and in limited time."""
    closing = {"Connection": "close"}  # the rest of the body is not read
    too_large = HTTPException(413, f"the body is larger than {most:,} bytes{hint}", closing)
    # Many clients read the answer only when they have sent everything, so a body that is too large is received, up to
    # a second limit, but not kept; unless the client asks before it sends.
    last = most if "expect" in request.headers else _DISCARDED * most
    if int(request.headers.get("content-length", 0)) > last:
        raise too_large
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                size += len(part)
                if size <= most:
                    parts.append(part)
                elif size > last:
                    break
    except TimeoutError:
        if size <= most:
            late = f"the body did not arrive within {seconds:g} seconds"
            raise HTTPException(408, late, closing) from None
    if size > most:
        raise too_large
    return b"".join(parts)


def listen(host: str, port: int) -> tuple[socket.socket, str]:
    """Listen on an address; return the socket and its URL.

    From now on, clients can connect: a browser may be quicker than the server that takes the socket over.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        found = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
    shown = f"[{host}]" if family == socket.AF_INET6 else host
    return found, f"http://{shown}:{found.getsockname()[1]}"
