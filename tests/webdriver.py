"""Headless Chromium, driven through chromedriver's HTTP protocol (W3C WebDriver), as much as the tests need of it."""

import base64
import contextlib
import json
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import cluster

CHROMIUM = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--window-size=1240,1500"]


class Browser:
    def __init__(self):
        self.session = None
        self.profile = tempfile.mkdtemp(prefix="weft-browser-")
        self.log = f"{self.profile}/chromedriver.log"
        self.driver = cluster.launch(["chromedriver", "--port=0"], self.log)
        self.base = f"http://127.0.0.1:{self.port()}"
        options = {"args": [*CHROMIUM, f"--user-data-dir={self.profile}/data"]}
        self.session = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}})["sessionId"]

    def port(self):
        end = time.monotonic() + 30
        while time.monotonic() < end:
            found = re.search(r"started successfully on port (\d+)", cluster.text_of(self.log))
            if found:
                return int(found.group(1))
            time.sleep(0.05)
        raise RuntimeError(f"chromedriver does not start: {cluster.text_of(self.log)}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.session:
            with contextlib.suppress(OSError):
                self.call("DELETE", f"/session/{self.session}")
        self.driver.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.driver.wait(timeout=10)
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data=data, method=method,
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{path}: {error.read().decode()[:500]}") from error

    def ask(self, method, path, body=None):
        return self.call(method, f"/session/{self.session}{path}", body)

    def open(self, url):
        self.ask("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        """What the JavaScript function's body returns."""
        return self.ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def prefer(self, scheme):
        self.ask("POST", "/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]}})

    def console(self):
        """What the page complained about, but for pages that did not answer."""
        return [entry for entry in self.ask("POST", "/se/log", {"type": "browser"})
                if entry["level"] == "SEVERE" and "Failed to load resource" not in entry["message"]]

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.ask("GET", "/screenshot")))
