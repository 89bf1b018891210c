"""A real browser without a window, for checking what people will see."""

import base64
import fcntl
import json
import os
import shutil
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from run_benches import processes

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
DEADLINE_S = 60.0
"""Longer than anything here takes, also on a busy machine."""

_BEGIN = "import os, sys; [os.dup2(int(given), at) for given, at in zip(sys.argv[1:3], (3, 4))]; [os.close(int(given)) for given in sys.argv[1:3]]; os.execv(sys.argv[3], sys.argv[3:])"
"""Begins the browser, which reads commands from descriptor 3 and answers on 4. In a process of its own: between the
fork of this one and the next program, libraries close what they have open there."""


def found() -> str | None:
    """The browser of this machine, if there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def shown(browser: str, file: Path, profile: Path) -> tuple[str, str]:
    """The document as it stands once the browser has shown the file, and what the browser complained about."""
    options = [*OPTIONS, f"--user-data-dir={profile}", "--enable-logging=stderr", "--virtual-time-budget=10000"]
    done = processes.captured([browser, *options, "--dump-dom", file.as_uri()], limit_s=120)
    assert done.returncode == 0, done.stderr
    return done.stdout, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)


class Tab:
    """A page that is used as a person would, over the DevTools protocol of Chromium; a pipe, so that it takes no port
    and no library."""

    def __init__(self, browser: str, profile: Path) -> None:
        (commands, self._commands), (self._answers, answers) = os.pipe(), os.pipe()
        # From above, since the one may be where the other is to be.
        given = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 10) for descriptor in (commands, answers)]
        options = [*OPTIONS, f"--user-data-dir={profile}", "--remote-debugging-pipe"]
        begin = [sys.executable, "-I", "-S", "-c", _BEGIN, *map(str, given)]
        self._process = processes.start([*begin, browser, *options], pass_fds=given, stderr=processes.DEVNULL)
        for descriptor in (commands, answers, *given):
            os.close(descriptor)
        self._unread, self._number, self._session = b"", 0, ""
        self.errors: list[str] = []
        """Errors and warnings on the page's console, uncaught exceptions, and what the browser refused."""
        self.requests: list[str] = []
        """Where the page has sent requests to."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        processes.end(self._process)
        os.close(self._commands)
        os.close(self._answers)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol, and its answer."""
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters} | (
            {"sessionId": self._session} if self._session else {}
        )
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while True:
            while b"\0" not in self._unread:
                more = os.read(self._answers, 1 << 16)
                assert more, "the browser has ended"
                self._unread += more
            message, _, self._unread = self._unread.partition(b"\0")
            answer: dict[str, Any] = json.loads(message)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def open(self, url: str) -> None:
        """Goes to an address."""
        self.call("Page.navigate", url=url)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression of JavaScript, waited for."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, f"{expression}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Waits until an expression of JavaScript is true."""
        deadline = time.monotonic() + DEADLINE_S
        while not self.evaluate(f"Boolean({condition})"):
            assert time.monotonic() < deadline, (
                f"never: {condition}\n{self.errors}\n{self.evaluate('document.body.innerText')}"
            )
            time.sleep(0.05)

    def press(self, key: str, code: int, control: bool = False) -> None:
        """A key goes down and up."""
        pressed = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": 2 if control else 0}
        self.call("Input.dispatchKeyEvent", type="rawKeyDown", **pressed)
        self.call("Input.dispatchKeyEvent", type="keyUp", **pressed)

    def type(self, text: str) -> None:
        """Text goes where the cursor is, in place of what is chosen."""
        self.call("Input.insertText", text=text)

    def look(self, width: int, height: int, dark: bool = False) -> None:
        """Sets the size of the window, and whether the person likes it dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, file: Path) -> None:
        """Writes what is seen into a file, as PNG."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def _note(self, event: dict[str, Any]) -> None:
        """Keeps what tells something about the page."""
        about = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(about["request"]["url"])
            case "Runtime.exceptionThrown":
                self.errors.append(str(about["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if about["type"] in ("error", "warning", "assert"):
                self.errors.append(str(about["args"]))
            case "Log.entryAdded" if about["entry"]["level"] in ("error", "warning"):
                self.errors.append(str(about["entry"]))
