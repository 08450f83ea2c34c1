"""A fake ThermalForge for tests of Max mode: it keeps the state of two fans in a file and logs its commands.
The socket must be root's, so these tests need root and are skipped otherwise. The first argument of the test is
the program."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

PROGRAM = str(Path(sys.argv.pop(1)).resolve())
MODEL = str(Path(__file__).parents[2] / "assets" / "qwen3.5-tiny")
FAKE = """#!/usr/bin/env python3
import json, sys, time
from pathlib import Path
home = Path(__file__).parent
state = json.loads((home / "state.json").read_text())
word = sys.argv[1]

def keep():
    written = home / "state.written"
    written.write_text(json.dumps(state))
    written.replace(home / "state.json")

with open(home / "log", "a") as log:
    log.write(word + "\\n")
marker = home / "state/foretoken/max-active.json"
if word == "max" and marker.exists():
    guards = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            guards += [1] if b"fan-guard" in (process / "cmdline").read_bytes() else []
        except OSError:
            pass  # it has ended
    (home / "before_max").write_text(json.dumps({"marker": marker.read_text(), "guards": len(guards)}))
if state.get("hang"):
    time.sleep(60)
if state.get("garbage"):
    print("fans? which fans?")
    sys.exit(0)
if word == "auto" and state.get("fail_auto", 0) > 0:
    state["fail_auto"] -= 1
    keep()
    print("error: busy")
    sys.exit(0)
if word in ("max", "auto"):
    for fan in state["fans"]:
        rpm = fan["max_rpm"] if word == "max" else fan["min_rpm"]
        fan["target_rpm"] = rpm * state.get("obeys", 1)
        fan["actual_rpm"] = fan["target_rpm"] if state.get("follows", True) else fan["min_rpm"]
        fan["mode"] = "manual" if word == "max" else "auto"
    keep()
    print("ok")
elif word == "status":
    print(json.dumps({"fans": state["fans"], "temperatures": {}}))
"""


def fans(count=2):
    fan = {"index": 0, "actual_rpm": 1350, "target_rpm": 1350, "min_rpm": 1350, "max_rpm": 5777, "mode": "auto"}
    return [dict(fan, index=i) for i in range(count)]


def eventually(claim, seconds=240):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if claim():
            return True
        time.sleep(0.05)
    return claim()


class Fans(unittest.TestCase):
    def setUp(self):
        if os.getuid() != 0:
            self.skipTest("a socket of root needs root")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.remove, folder)
        self.home = Path(folder.name)
        self.tool = self.home / "thermalforge"
        self.tool.write_text(FAKE)
        self.tool.chmod(0o755)
        self.state(fans=fans())
        self.listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(self.listener.close)
        self.listener.bind(str(self.home / "sock"))
        self.environment = dict(
            os.environ,
            HOME=str(self.home),
            XDG_STATE_HOME=str(self.home / "state"),
            THERMALFORGE=str(self.tool),
            THERMALFORGE_SOCKET=str(self.home / "sock"),
        )
        self.marker = self.home / "state/foretoken/max-active.json"
        self.guards = []
        self.addCleanup(self.end_guards)

    def remove(self, folder):
        """A guard whose server was killed may still write a file, so the removal is tried again."""

        def removed():
            try:
                folder.cleanup()
            except OSError:
                return False
            return True

        self.assertTrue(eventually(removed))

    def end_guards(self):
        for guard in self.guards:
            guard.kill()
            guard.wait()
            if guard.stdin:
                guard.stdin.close()

    def state(self, **words):
        written = self.home / "state.of_test"
        written.write_text(json.dumps(words))
        written.replace(self.home / "state.json")

    def modes(self):
        return {fan["mode"] for fan in json.loads((self.home / "state.json").read_text())["fans"]}

    def commands(self):
        log = self.home / "log"
        return log.read_text().split() if log.exists() else []

    def run_program(self, *arguments, **environment):
        command = [PROGRAM, *arguments]
        everything = dict(self.environment, **environment)
        return subprocess.run(command, env=everything, capture_output=True, text=True, timeout=120, check=False)

    def users(self):
        return json.loads(self.marker.read_text())["users"] if self.marker.exists() else []

    def guard(self, owner, idle_s="900"):
        """A guard as `serve` starts it, and the fans at maximum."""
        guard = subprocess.Popen(
            [PROGRAM, "fan-guard", str(owner), idle_s], env=self.environment, stdin=subprocess.PIPE
        )
        self.guards.append(guard)
        self.assertTrue(eventually(lambda: any(user["guard"] == guard.pid for user in self.users())))
        subprocess.run([self.tool, "max"], check=True, capture_output=True)
        return guard
