"""A real browser, driven by the DevTools protocol over a pair of pipes: no port, no driver, no further package."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import threading
import time
from collections import deque

BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--mute-audio"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions"),
    *("--disable-dev-shm-usage", "--disable-background-timer-throttling", "--disable-renderer-backgrounding"),
    "--remote-debugging-pipe",
]


class BrowserError(Exception):
    """The browser refused a command, did not answer, or a script threw an error."""


def move_up(file):
    """The same open file with a number above those that the browser uses; the old number is closed."""
    moved = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(file)
    return moved


class Browser:
    """A browser without windows. Use it in a `with` statement."""

    def __init__(self, profile, timeout=60.0):
        self.timeout, self.events = timeout, deque()
        theirs, self._commands = map(move_up, os.pipe())
        self._answers, ours = map(move_up, os.pipe())
        self._process = os.posix_spawn(
            BROWSER,
            [BROWSER, *FLAGS, f"--user-data-dir={profile}"],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs, 3),  # the browser reads commands here, and answers at 4
                (os.POSIX_SPAWN_DUP2, ours, 4),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
        )
        os.close(theirs)
        os.close(ours)
        self._number, self._found, self._arrived = 0, {}, threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.send("Browser.close")
        os.waitpid(self._process, 0)
        os.close(self._commands)
        self._reader.join(10)
        os.close(self._answers)

    def _read(self):
        rest = b""
        while data := os.read(self._answers, 2**16):
            *messages, rest = (rest + data).split(b"\0")
            with self._arrived:
                for message in map(json.loads, messages):
                    if "id" in message:
                        self._found[message["id"]] = message
                    else:
                        self.events.append(message)
                self._arrived.notify_all()

    def send(self, method, session=None, **parameters):
        """Send a command and return its result."""
        self._number += 1
        number = self._number
        command = {"id": number, "method": method, "params": parameters}
        if session is not None:
            command["sessionId"] = session
        data = json.dumps(command).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data) :]
        with self._arrived:
            if not self._arrived.wait_for(lambda: number in self._found, self.timeout):
                raise BrowserError(f"no answer to {method}")
            answer = self._found.pop(number)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']}")
        return answer["result"]

    def page(self, width=1200, height=900, dark=False):
        """A new page of this size."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, session, width, height, dark)


class Page:
    """A page of the browser."""

    def __init__(self, browser, session, width, height, dark):
        self.browser, self.session = browser, session
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.resize(width, height)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", features=scheme)

    def send(self, method, **parameters):
        """Send a command to this page."""
        return self.browser.send(method, self.session, **parameters)

    def resize(self, width, height):
        """Change the size of the window."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.send("Emulation.setDeviceMetricsOverride", **size)

    def open(self, url):
        """Open an address."""
        self.send("Page.navigate", url=url)

    def run(self, script):
        """The value of a JavaScript expression, which may be a promise."""
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise BrowserError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def wait(self, script, timeout=30.0):
        """Wait until an expression is true, and return its value."""
        until = time.monotonic() + timeout
        while not (value := self.run(script)):
            if time.monotonic() > until:
                raise BrowserError(f"not true within {timeout} s: {script}")
            time.sleep(0.02)
        return value

    def drag(self, begin, end):
        """Press the mouse at one place and release it at another."""
        moves = (("mousePressed", begin), ("mouseMoved", end), ("mouseReleased", end))
        for kind, (x, y) in moves:
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def allow_downloads(self, folder):
        """Save downloads in a folder."""
        self.browser.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))

    def screenshot(self, file, whole=True):
        """Save a picture of the page."""
        data = self.send("Page.captureScreenshot", captureBeyondViewport=whole, format="png")["data"]
        file.write_bytes(base64.b64decode(data))

    def complaints(self):
        """Errors that scripts threw, and errors and warnings in the log of this page, such as refused scripts."""
        found = []
        for event in list(self.browser.events):
            if event.get("sessionId") != self.session:
                continue
            method, facts = event["method"], event["params"]
            if method == "Runtime.exceptionThrown":
                found.append(facts["exceptionDetails"].get("exception", facts)["description"])
            if method == "Log.entryAdded" and facts["entry"]["level"] in ("error", "warning"):
                found.append(facts["entry"]["text"])
            if method == "Page.javascriptDialogOpening":
                found.append(f"dialog {facts['message']}")
        return found
