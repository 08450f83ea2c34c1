"""Starts `foretoken serve` on a free port for a test and ends it with SIGTERM, which must exit with 0.

    with Server() as server:                       # the shipped model, --port 0
        requests_to(server.url + "/v1/models")

The program is $FORETOKEN, or build/release/foretoken. `server.log()` is its output on stderr: one line per
request. A test that reads a server's final output calls `server.stop()` itself.
"""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from calibration_folder import calibration_folder  # noqa: E402

# Fixed sizes, since a start would choose by the memory that parallel tests leave; flags come first.
SIZES = {"FORETOKEN_CONTEXT": "4096", "FORETOKEN_SLOTS": "8", "FORETOKEN_CACHE_MB": "1024"}
START_S = 300  # with a cold disk and a busy machine
STOP_S = 240  # beyond the grace that serve gives its answers


def program():
    return os.environ.get("FORETOKEN", str(ROOT / "build/release/foretoken"))


class Server:
    """`arguments` are additional flags; `environment` contains additional variables."""

    def __init__(self, *arguments, environment=None):
        self.arguments = [program(), "serve", "--port", "0", "--json", "--log-json", *arguments]
        # Other tests take the cores, and threads of a server wait for each other. soak_test.py has several.
        self.environment = {"FORETOKEN_CALIBRATION": calibration_folder(program()), "FORETOKEN_RESPONSE_STORE": "off",
                            "FORETOKEN_THREADS": "1", **SIZES, **os.environ, **(environment or {})}
        self.facts = {}  # what it printed when it was ready
        self.url = ""
        self.process = None
        self._folder = None

    def start(self):
        self._folder = tempfile.TemporaryDirectory()
        with open(self._log_path(), "wb") as errors:
            self.process = subprocess.Popen(self.arguments, stdout=subprocess.PIPE, stderr=errors,
                                            env=self.environment, text=True)
        alarm = threading.Timer(START_S, self.process.kill)
        alarm.start()
        lines = []
        for line in self.process.stdout:  # the facts may be spread over several lines
            lines.append(line)
            try:
                self.facts = json.loads("".join(lines))
                break
            except json.JSONDecodeError:
                continue
        alarm.cancel()
        if "url" not in self.facts:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f"serve did not become ready: {''.join(lines)}{self.log()}")
        self.url = self.facts["url"].rstrip("/")
        return self

    def _log_path(self):
        return os.path.join(self._folder.name, "stderr")

    def log(self):
        with open(self._log_path(), encoding="utf-8", errors="replace") as errors:
            return errors.read()

    def requests(self):
        """The access log, oldest first: {id, method, path, status, ms, note} of each request answered."""
        return [json.loads(line) for line in self.log().splitlines() if line.startswith('{"time"')]

    def stop(self):
        """The exit code after SIGTERM; kills the server and raises if it does not exit."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f"serve did not end within {STOP_S} s of SIGTERM: {self.log()}") from None
        finally:
            self.process.stdout.close()
        return code

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, error, trace):
        code = self.stop()
        if kind is None:
            assert code == 0, f"serve ended with {code}: {self.log()}"
