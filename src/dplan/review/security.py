"""Who may talk to the page's server: a browser on this machine that was given the token, and no other web site.

Other web sites can make a browser send requests to this machine. They are refused in four ways. The token is in a
cookie that browsers do not send along with requests from other sites. The ``Host`` header must name this machine, so a
site whose name is made to point here (DNS rebinding) is refused. The ``Origin`` header must be our own. And a request
that changes something must be JSON, which other sites cannot send without asking first.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Guard", "names_of"]

MOST_BYTES = 65_536  # of a request
_LOOPBACK = ("127.0.0.1", "localhost", "::1")

# Nothing is loaded from elsewhere, and no script or style that is part of a page is run.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def names_of(host: str) -> set[str]:
    """Return the names under which a server that listens on an address may be addressed.

    Examples
    --------
    >>> sorted(names_of("127.0.0.1"))
    ['127.0.0.1', '::1', 'localhost']
    """
    return {*_LOOPBACK} if host in _LOOPBACK else {*_LOOPBACK, host, socket.gethostname(), socket.getfqdn()}


class Guard:
    """Middleware that refuses what must not reach the page, and adds headers to every answer.

    Parameters
    ----------
    app : ASGI application
        What is protected.
    token : str
        The token in the link.
    hosts : collection of str
        Names under which the server may be addressed.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Collection[str]) -> None:
        self.app, self.token, self.hosts = app, token, {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refused = self._refused(scope) or self._admitted(scope)
        if refused is not None:
            await refused(scope, receive, send_with_headers)
            return
        await self.app(scope, _limited(receive), send_with_headers)

    def _refused(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if (urlsplit(f"//{host}").hostname or "").lower() not in self.hosts:
            return _no(421, "This server only answers under the name of this machine.")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return _no(403, "Requests from other web sites are not answered.")
        if headers.get("sec-fetch-site", "none") in ("cross-site", "same-site") and scope["method"] != "GET":
            return _no(403, "Requests from other web sites are not answered.")
        if scope["method"] not in ("GET", "HEAD"):
            if headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
                return _no(415, "Requests must be JSON.")
            length = headers.get("content-length", "")
            if length.isdecimal() and int(length) > MOST_BYTES:
                return _no(413, f"The request is larger than {MOST_BYTES:,} bytes.")
        return None

    def _admitted(self, scope: Scope) -> Response | None:
        """Return None for a request with the cookie, and turn the token in a link into the cookie."""
        request = Request(scope)
        # Cookies do not depend on the port, and several reviews may be open.
        cookie = f"dplan-review-{request.url.port or 80}"
        if secrets.compare_digest(request.cookies.get(cookie, "").encode(), self.token.encode()):
            return None
        given = request.query_params.get("token", "")
        if scope["method"] == "GET" and secrets.compare_digest(given.encode(), self.token.encode()):
            # The token does not stay in the address bar and the history.
            answer = RedirectResponse("/", 303)
            answer.set_cookie(cookie, self.token, httponly=True, samesite="strict", path="/")
            return answer
        return _no(403, "Wrong or missing token. Open the link that dplan review printed in the terminal.")


def _no(status: int, text: str) -> PlainTextResponse:
    return PlainTextResponse(text + "\n", status)


class TooLarge(Exception):
    """A request without a length that turns out to be too large."""


def _limited(receive: Receive) -> Receive:
    size = 0

    async def limited() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > MOST_BYTES:
            raise TooLarge
        return message

    return limited
