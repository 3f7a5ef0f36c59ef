"""A headless Chromium, controlled over its DevTools pipe."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import subprocess
import sys
from pathlib import Path
from time import monotonic

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
]
TIMEOUT = 30  # seconds for an answer
# Chromium reads commands from descriptor 3 and writes answers to 4.
LAUNCH = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)


class Browser:
    def __init__(self, profile: Path) -> None:
        child_in, self._to = self._pipe()
        self._from, child_out = self._pipe()
        command = [sys.executable, "-c", LAUNCH, str(child_in), str(child_out), CHROMIUM, *FLAGS]
        self._process = subprocess.Popen(
            [*command, f"--user-data-dir={profile}"], pass_fds=(child_in, child_out), stderr=subprocess.DEVNULL
        )
        os.close(child_in)
        os.close(child_out)
        self._number, self._buffer, self._session = 0, b"", None
        self.requests: list[str] = []
        self.messages: list[str] = []

    def __enter__(self) -> Browser:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._to)  # Chromium exits when its pipe is closed
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._from)

    def open(
        self,
        page: Path,
        fragment: str = "",
        width: int = 1200,
        height: int = 900,
        dark: bool = False,
        phone: bool = False,
    ) -> None:
        """Open a page and wait until its script has run. A phone has a touch screen, and a viewport of its own."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1 + phone}
        self.call("Emulation.setDeviceMetricsOverride", **size, mobile=phone)
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self._go("about:blank")  # else an address with only another fragment would not be loaded again
        self.requests.clear()
        self.messages.clear()
        self._go(page.absolute().as_uri() + fragment)
        assert self.evaluate("document.documentElement.dataset.ready") == "true", f"no script ran: {self.messages}"

    def evaluate(self, expression: str) -> object:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def text(self, selector: str) -> str:
        return str(self.evaluate(f"document.querySelector({selector!r}).textContent"))

    def count(self, selector: str) -> int:
        return int(str(self.evaluate(f"document.querySelectorAll({selector!r}).length")))

    def point_at(self, selector: str, across: float = 0.5) -> None:
        """Move the mouse onto an element; `across` is the fraction of its width."""
        box = self.evaluate(
            f"(() => {{ const e = document.querySelector({selector!r}); e.scrollIntoView({{block: 'center', behavior: "
            "'instant'}); const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()"
        )
        left, top, width, height = box  # type: ignore[misc]
        self._place = left + across * width, top + height / 2
        self._mouse("mouseMoved")

    def click(self, selector: str) -> None:
        self.point_at(selector)
        self._mouse("mousePressed", button="left", clickCount=1)
        self._mouse("mouseReleased", button="left", clickCount=1)

    def touch(self, *places: tuple[float, float]) -> None:
        """Touch the screen at a place (x, y), move the finger to the others, and lift it."""
        for kind, (x, y) in [("touchStart", places[0]), *(("touchMove", place) for place in places[1:])]:
            self.call("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def tap(self, selector: str) -> None:
        self.point_at(selector)
        self.touch(self._place)

    def screenshot(self, path: Path) -> bytes:
        shot = base64.b64decode(self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"])
        path.write_bytes(shot)
        return shot

    def call(self, method: str, **parameters: object) -> dict:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session and not method.startswith("Target."):
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive(method)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._note(answer)

    def _go(self, address: str) -> None:
        self._loaded = False
        self.call("Page.navigate", url=address)
        while not self._loaded:
            self._note(self._receive(f"the loading of {address}"))

    def _note(self, event: dict) -> None:
        kind, details = event.get("method"), event.get("params", {})
        if kind == "Page.loadEventFired":
            self._loaded = True
        elif kind == "Network.requestWillBeSent":
            self.requests.append(details["request"]["url"])
        elif kind in ("Runtime.exceptionThrown", "Log.entryAdded") or (
            kind == "Runtime.consoleAPICalled" and details["type"] == "error"
        ):
            self.messages.append(json.dumps(details))

    def _receive(self, waiting_for: str) -> dict:
        deadline = monotonic() + TIMEOUT
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(0.0, deadline - monotonic()))
            assert ready, f"Chromium did not answer {waiting_for} in {TIMEOUT} s"
            part = os.read(self._from, 1 << 20)
            assert part, "Chromium ended"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _mouse(self, kind: str, **more: object) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=self._place[0], y=self._place[1], **more)

    @staticmethod
    def _pipe() -> tuple[int, int]:
        """Return both ends, with descriptors from 20 on, so that 3 and 4 stay free."""
        ends = []
        for end in os.pipe():
            ends.append(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20))
            os.close(end)
        return ends[0], ends[1]
