"""Controls headless Chromium over the DevTools protocol.

Opens pages, evaluates JavaScript, takes screenshots, and collects console errors.
"""

import base64
import contextlib
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import httpx
from websockets.sync.client import ClientConnection, connect

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_browser() -> str | None:
    """The command of an installed Chromium."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One tab."""

    def __init__(self, command: str, width: int = 1400, height: int = 900) -> None:
        self._profile = tempfile.TemporaryDirectory()
        self._process = subprocess.Popen(
            [
                command, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--mute-audio",
                "--autoplay-policy=no-user-gesture-required", f"--user-data-dir={self._profile.name}",
                f"--window-size={width},{height}", "--remote-debugging-port=0", "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.console: list[str] = []
        self._count = 0
        self._stack = contextlib.ExitStack()
        self._socket = self._stack.enter_context(self._attach())
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self._stack.close()
        self._process.terminate()
        self._process.wait(10)
        with contextlib.suppress(OSError):
            self._profile.cleanup()

    def open(self, url: str, ready: str, seconds: float = 180) -> None:
        """Open a page and wait until a JavaScript expression is true."""
        self.console.clear()
        self.call("Page.navigate", url=url)
        self.wait(ready, seconds)

    def wait(self, ready: str, seconds: float = 180) -> None:
        """Wait until a JavaScript expression is true."""
        deadline = time.monotonic() + seconds
        while self.ask(ready) is not True:
            if time.monotonic() > deadline:
                page = f"{self.ask('location.href')} says: {self.ask(_TEXT)[:1500]}"
                raise AssertionError(f"{ready} did not come true; {page}")
            time.sleep(0.25)

    def ask(self, expression: str) -> object:
        """The value of a JavaScript expression. Waits for promises."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        return found["result"].get("value")

    def dark(self, is_dark: bool) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def size(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)

    def photograph(self, path: Path) -> None:
        """A screenshot as PNG."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def call(self, method: str, **parameters: object) -> dict:
        self._count += 1
        self._socket.send(json.dumps({"id": self._count, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=60))
            if message.get("id") == self._count:
                assert "error" not in message, message
                return message["result"]
            self._note(message)

    def _note(self, message: dict) -> None:
        parameters = message.get("params", {})
        if message.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.console.append(parameters["entry"]["text"])
        if message.get("method") == "Runtime.exceptionThrown":
            self.console.append(str(parameters["exceptionDetails"].get("exception", {}).get("description")))

    def _attach(self) -> ClientConnection:
        """Find the browser's port and its only tab."""
        port_file = Path(self._profile.name, "DevToolsActivePort")
        deadline = time.monotonic() + 90
        while not port_file.exists() or not port_file.read_text().strip():
            if time.monotonic() > deadline:
                raise AssertionError("the browser did not start")
            time.sleep(0.1)
        port = port_file.read_text().splitlines()[0]
        tabs = httpx.get(f"http://127.0.0.1:{port}/json/list", timeout=10).json()
        page = next(tab for tab in tabs if tab["type"] == "page")
        return connect(page["webSocketDebuggerUrl"], max_size=None)


_TEXT = "document.body ? document.body.innerText : ''"
