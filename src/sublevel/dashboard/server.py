"""The server of the page: read-only, on the loopback interface, and only for clients that know the address.

The path of every address begins with a random token, so other users of the machine and other pages cannot read
anything. The Host header must name the loopback interface, which refuses names that were rebound to it. Runs are
numbers: no text of a request is ever used as a path of the file system.
"""

from __future__ import annotations

import hmac
import json
import secrets
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from socket import SHUT_RDWR, socket
from socketserver import TCPServer
from typing import Any
from urllib.parse import parse_qs, quote

from sublevel.dashboard.runs import DAMAGED, Entry, Runs, as_csv, as_json

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")
"""Names by which a browser may call the server."""
TYPES = {
    "index.html": "text/html; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "charts.js": "text/javascript; charset=utf-8",
    "app.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
"""The files of the page; no others are served."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
TIMEOUT = 20.0
"""Seconds after which an idle connection is closed."""
MOST_CONNECTIONS = 100
"""Most connections at a time, a browser has about six; more close the oldest ones."""
LONGEST_FILTER = 200
WRONG_ADDRESS = "There is no page at this address. Open the one that `sublevel dashboard` printed.\n"


@dataclass(frozen=True, slots=True)
class Site:
    """What the server serves."""

    runs: Runs
    token: str = field(default_factory=lambda: secrets.token_urlsafe(18))
    files: dict[str, bytes] = field(default_factory=lambda: page_files())


def page_files() -> dict[str, bytes]:
    """The files of the page by name."""
    folder = resources.files("sublevel.dashboard") / "assets"
    return {name: (folder / name).read_bytes() for name in TYPES}


class Server(ThreadingHTTPServer):
    """A server on the loopback interface; port 0 is any free port."""

    daemon_threads = True

    def __init__(self, runs: Runs, port: int = 0) -> None:
        self.site = Site(runs)
        self._connections = list[socket]()  # the oldest first
        self._guard = threading.Lock()
        super().__init__((HOST, port), Handler)

    def server_bind(self) -> None:
        """Bind without a look-up of the host's name, which may take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer the requests of a connection in a thread; the oldest connection is ended if there are too many."""
        with self._guard:
            self._connections.append(request)
            if len(self._connections) > MOST_CONNECTIONS:
                with suppress(OSError):  # it may be closed already
                    self._connections.pop(0).shutdown(SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._guard, suppress(ValueError):  # it may be one that was ended
            self._connections.remove(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print a defect of ours; nothing if the connection was lost."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    @property
    def connections(self) -> int:
        """The number of open connections."""
        with self._guard:
            return len(self._connections)

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{HOST}:{self.server_port}/{self.site.token}/"


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "sublevel", ""
    timeout = TIMEOUT

    def do_GET(self) -> None:
        """Answer a request; one that is interrupted by the browser ends quietly."""
        with suppress(ConnectionError, TimeoutError):
            self._answer()

    def refuse(self) -> None:
        """Refuse every other method."""
        self.close_connection = True
        self.send_text(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET is allowed.\n")

    do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = refuse

    def _answer(self) -> None:
        if not self.is_local():
            self.close_connection = True
            self.send_text(
                HTTPStatus.FORBIDDEN, "This page can only be opened at the address that `sublevel dashboard` printed.\n"
            )
            return
        path, _, text = self.path.partition("?")
        token, *names = path.removeprefix("/").split("/")
        if not names or not hmac.compare_digest(token.encode(), self.server.site.token.encode()):
            self.send_text(HTTPStatus.NOT_FOUND, WRONG_ADDRESS)
            return
        query = {name: values[-1] for name, values in parse_qs(text).items()}
        match names:
            case [name] if (name or "index.html") in TYPES:
                name = name or "index.html"
                self.send_content(HTTPStatus.OK, TYPES[name], self.server.site.files[name])
            case ["api", "update"]:
                self.send_json(update(self.server.site.runs, query))
            case ["api", "runs", number, name] if (entry := self.entry(number)) is not None:
                self.send_download(entry, name)
            case _:
                self.send_text(HTTPStatus.NOT_FOUND, WRONG_ADDRESS)

    def is_local(self) -> bool:
        """Whether the request was made to the loopback interface by name, and not by another page."""
        hosts = self.headers.get_all("Host", [])
        allowed = {f"{name}:{self.server.server_port}" for name in NAMES}
        is_own = self.headers.get("Sec-Fetch-Site", "none") in ("same-origin", "none")
        origin = self.headers.get("Origin")
        return len(hosts) == 1 and hosts[0] in allowed and is_own and origin in (None, f"http://{hosts[0]}")

    def entry(self, text: str) -> Entry | None:
        """The run of a number in a request."""
        number = as_number(text)
        return None if number is None else self.server.site.runs.entry(number)

    def send_download(self, entry: Entry, name: str) -> None:
        """Send all evaluations as CSV, or the result as JSON."""
        try:
            if name == "evaluations.csv":
                self.send_parts("text/csv; charset=utf-8", f"{entry.path.stem}.csv", as_csv(entry.path))
            elif name == "run.json":
                self.send_json(as_json(entry.path), f"{entry.path.stem}.json")
            else:
                self.send_text(HTTPStatus.NOT_FOUND, WRONG_ADDRESS)
        except DAMAGED as error:
            self.send_text(HTTPStatus.INTERNAL_SERVER_ERROR, f"{error}\n")

    def send_text(self, status: HTTPStatus, text: str) -> None:
        """Send plain text."""
        self.send_content(status, "text/plain; charset=utf-8", text.encode(errors="replace"))

    def send_json(self, content: dict[str, object], name: str | None = None) -> None:
        """Send JSON, as a download if it has a name."""
        body = json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
        self.send_content(HTTPStatus.OK, "application/json; charset=utf-8", body, name)

    def send_content(self, status: HTTPStatus, kind: str, body: bytes, name: str | None = None) -> None:
        """Send a response."""
        self.start(status, kind, name)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_parts(self, kind: str, name: str, parts: Iterable[bytes]) -> None:
        """Send a download in parts; after an error the connection is closed before the last one."""
        self.start(HTTPStatus.OK, kind, name)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for part in parts:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")
        except DAMAGED:
            self.close_connection = True

    def start(self, status: HTTPStatus, kind: str, name: str | None) -> None:
        """Begin a response with the headers that all of them have."""
        self.send_response(status)
        for header, value in HEADERS.items():
            self.send_header(header, value)
        self.send_header("Content-Type", kind)
        if name is not None:
            encoded = quote(name, safe="", errors="replace")  # names of files need not be UTF-8
            self.send_header("Content-Disposition", f"attachment; filename*=UTF-8''{encoded}")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a malformed request without repeating it."""
        self.close_connection = True
        with suppress(ConnectionError, TimeoutError):
            self.send_text(HTTPStatus(code), f"{HTTPStatus(code).phrase}\n")

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def as_number(text: str) -> int | None:
    """A number of at most six digits."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 6 else None


def update(runs: Runs, query: dict[str, str]) -> dict[str, object]:
    """The list of runs, one of them in detail, and the curves of those that are compared."""
    runs.look_for_files()
    found, number = dict[str, object](), as_number(query.get("run", "0"))
    if number is not None and (entry := runs.entry(number)) is not None:
        found["run"] = runs.detail(entry, query.get("filter", "")[:LONGEST_FILTER], query.get("seen", ""))
    if compared := query.get("compare"):
        numbers = [as_number(word) for word in compared.split(",")]
        found["comparison"] = runs.compare([number for number in numbers if number is not None])
    return {"runs": runs.overviews(), **found}
