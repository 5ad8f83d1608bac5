"""`sublevel dashboard`."""

from __future__ import annotations

import argparse
import errno
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sublevel.cli.argument_types import count
from sublevel.cli.common import Command, CommandError, argument

if TYPE_CHECKING:
    from sublevel.dashboard.server import Server

LARGEST_PORT = 65535


def run_dashboard(given: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C."""
    server = make_server(given.files, given.port)
    print(f"dashboard: {server.url}\nCtrl-C ends the dashboard, not the runs.", flush=True)
    if not given.no_browser:
        open_browser(server.url)
    try:
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        print()
    finally:
        server.server_close()
    return 0


def make_server(files: Sequence[Path], port: int) -> Server:
    """A server of these files and directories; CommandError if one is missing or the port is taken."""
    from sublevel.dashboard.runs import Runs
    from sublevel.dashboard.server import Server
    from sublevel.store.output import is_stored_run

    for path in files:
        if not path.exists():
            raise CommandError(f"there is no file or directory {path}.")
        if not path.is_dir() and not is_stored_run(path):
            raise CommandError(f"{path} is not a stored run of sublevel.")
    runs = Runs(files)
    try:
        return Server(runs, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise CommandError(f"cannot listen on port {port}: {error.strerror or error}.") from error
        hint = "Choose another one with --port, or omit --port to use any free one."
        raise CommandError(f"port {port} is in use. {hint}") from error


def open_browser(url: str) -> None:
    """Open the page if there is a browser; its address is printed in any case."""
    import webbrowser

    try:
        webbrowser.open(url)
    except (webbrowser.Error, OSError):
        print("No browser was found; open the address above.", flush=True)


def port(text: str) -> int:
    """A port number, 0 for any free port."""
    if (number := count(text, least=0)) > LARGEST_PORT:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to {LARGEST_PORT}, got {text!r}")
    return number


FILES = argument("files", "files of stored runs, or directories of them", Path, "FILE", nargs="+")
PORT = argument("--port", "port to listen on (default: any free port)", port, "PORT", default=0)
NO_BROWSER = argument("--no-browser", "print the address only", action="store_true")
COMMAND = Command(
    "dashboard",
    "follow and compare stored runs in a browser",
    run_dashboard,
    (FILES, PORT, NO_BROWSER),
    "examples:\n  sublevel dashboard run.db\n  sublevel dashboard results/ --port 8000 --no-browser",
    "The page is served to this machine only, and the files are never changed. New runs in a directory appear by "
    "themselves.",
)
