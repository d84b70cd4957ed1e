"""Debian's headless Chromium, driven by the W3C WebDriver protocol over plain HTTP."""
import base64
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))
from cria_cli import PATIENCE_S  # noqa: E402

CHROMIUM = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's name for a reference to an element
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "Tab": "\ue004", "Shift": "\ue008", "Control": "\ue009"}


class Browser:
    def __init__(self):
        self._profile = tempfile.mkdtemp(prefix="cria_web_")
        # A process group of its own: whatever happens, nothing of it is left running.
        self._driver = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True, start_new_session=True)
        try:
            self._port = self._announced_port()
            options = {"binary": CHROMIUM, "args": [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                "--disable-background-networking", "--disable-component-update", "--window-size=1200,800",
                f"--user-data-dir={self._profile}"]}
            made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": {
                "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"},
                "unhandledPromptBehavior": "accept"}}})
            self._session = "/session/" + made["sessionId"]
            self._command("POST", "/timeouts", {"script": PATIENCE_S * 1000})
        except BaseException:
            self._end()
            raise

    def _announced_port(self):
        for line in self._driver.stdout:
            found = re.search(r"started successfully on port (\d+)", line)
            if found:
                return int(found[1])
        raise RuntimeError("chromedriver does not start")

    def _call(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)
        connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        value = json.loads(response.read())["value"]
        connection.close()
        if response.status != 200:
            raise RuntimeError(f"{method} {path}: {value['error']}: {value['message'].splitlines()[0]}")
        return value

    def _command(self, method, path, body=None):
        return self._call(method, self._session + path, body)

    def _end(self):
        try:
            os.killpg(self._driver.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._driver.wait()
        self._driver.stdout.close()
        shutil.rmtree(self._profile, ignore_errors=True)

    def close(self):
        try:
            self._command("DELETE", "")
        finally:
            self._end()

    def go(self, url):
        self._command("POST", "/url", {"url": url})

    def reload(self):
        self._command("POST", "/refresh", {})

    def run(self, script, *arguments):
        """The body of a function, run in the page; gives what it returns."""
        return self._command("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, expression, *arguments, seconds=PATIENCE_S):
        """Until an expression of JavaScript is true; gives its value."""
        end = time.monotonic() + seconds
        while True:
            value = self.run(f"return ({expression});", *arguments)
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"not within {seconds} s: {expression}\n{self.run('return document.body.innerText;')}")
            time.sleep(0.03)

    def find(self, selector):
        return self._command("POST", "/element", {"using": "css selector", "value": selector})

    def click(self, selector):
        self._command("POST", f"/element/{self.find(selector)[ELEMENT]}/click", {})

    def type(self, selector, text):
        """Into a field."""
        self._command("POST", f"/element/{self.find(selector)[ELEMENT]}/value", {"text": text})

    def press(self, *keys, held=()):
        """Keys by their names or characters, at what has the focus."""
        actions = [{"type": "keyDown", "value": KEYS.get(key, key)} for key in held]
        for key in keys:
            actions += [{"type": kind, "value": KEYS.get(key, key)} for kind in ("keyDown", "keyUp")]
        actions += [{"type": "keyUp", "value": KEYS.get(key, key)} for key in reversed(held)]
        self._command("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def devtools(self, command, **parameters):
        return self._command("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def console(self):
        """What the console said since this was last asked."""
        return self._command("POST", "/se/log", {"type": "browser"})

    def new_tab(self):
        return self._command("POST", "/window/new", {"type": "tab"})["handle"]

    def tab(self):
        return self._command("GET", "/window")

    def to_tab(self, handle):
        self._command("POST", "/window", {"handle": handle})

    def close_tab(self):
        self._command("DELETE", "/window")

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self._command("GET", "/screenshot")))
