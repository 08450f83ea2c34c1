#!/usr/bin/env python3
"""Max mode with a fake ThermalForge: tests/cli/max_test.py PROGRAM [CLASS]. The fake keeps the state of two fans
in a file and logs its commands. The socket must be root's, so these tests run as root and are skipped else."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

PROGRAM = ""
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


def eventually(claim, seconds=60):
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
        self.addCleanup(folder.cleanup)
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


class Guard(Fans):
    def owner(self):
        process = subprocess.Popen(["sleep", "600"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_the_end_of_the_server_puts_the_fans_back(self):
        guard = self.guard(self.owner().pid)
        self.assertEqual(self.modes(), {"manual"})
        guard.stdin.close()
        self.assertEqual(guard.wait(10), 0)
        self.assertEqual(self.modes(), {"auto"})
        self.assertFalse(self.marker.exists())

    def test_a_killed_guard_and_server_are_found_by_the_next_command(self):
        owner = self.owner()
        guard = self.guard(owner.pid)
        guard.kill()
        owner.kill()
        guard.wait()
        owner.wait()
        done = self.run_program("tokenize", "--help")
        self.assertIn("the fans are automatic again", done.stderr)
        self.assertEqual(self.modes(), {"auto"})
        self.assertFalse(self.marker.exists())

    def test_a_closed_terminal_and_ctrl_c_do_not_end_the_guard(self):
        guard = self.guard(self.owner().pid)
        for number in (signal.SIGHUP, signal.SIGINT):
            guard.send_signal(number)
        time.sleep(0.6)
        self.assertIsNone(guard.poll())
        self.assertEqual(self.modes(), {"manual"})

    def test_sigterm_puts_the_fans_back_first(self):
        guard = self.guard(self.owner().pid)
        guard.terminate()
        self.assertEqual(guard.wait(10), 0)
        self.assertEqual(self.modes(), {"auto"})

    def test_idle_drops_and_busy_raises_the_fans(self):
        guard = self.guard(self.owner().pid, idle_s="0.5")
        guard.stdin.write(b"i")
        guard.stdin.flush()
        self.assertTrue(eventually(lambda: self.modes() == {"auto"}))
        guard.stdin.write(b"b")
        guard.stdin.flush()
        self.assertTrue(eventually(lambda: self.modes() == {"manual"}))

    def test_a_refused_auto_is_tried_again(self):
        guard = self.guard(self.owner().pid)
        state = json.loads((self.home / "state.json").read_text())
        self.state(**dict(state, fail_auto=2))
        guard.stdin.close()
        self.assertEqual(guard.wait(20), 0)
        self.assertEqual(self.commands().count("auto"), 3)
        self.assertEqual(self.modes(), {"auto"})

    def test_the_last_of_two_servers_turns_the_fans_back(self):
        first, second = self.guard(self.owner().pid), self.guard(self.owner().pid)
        self.assertEqual(len(self.users()), 2)
        first.stdin.close()
        self.assertEqual(first.wait(10), 0)
        self.assertEqual(self.modes(), {"manual"})
        second.stdin.close()
        self.assertEqual(second.wait(10), 0)
        self.assertEqual(self.modes(), {"auto"})

    def test_a_marker_that_is_cut_puts_the_fans_back(self):
        self.marker.parent.mkdir(parents=True)
        self.marker.write_text('{"users":[{"proc')
        self.assertIn("automatic again", self.run_program("tokenize", "--help").stderr)
        self.assertEqual(self.commands(), ["auto", "status"])

    def test_a_server_restarts_its_guard_and_leaves_nothing(self):
        model = ["--model", MODEL, "--port", "0", "--max", "--context", "512"]
        server = subprocess.Popen(
            [PROGRAM, "serve", *model, "--json"],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            self.assertIn("url", server.stdout.readline())
            self.assertEqual(self.modes(), {"manual"})
            guard = self.users()[0]["guard"]
            os.kill(guard, signal.SIGKILL)
            self.assertTrue(eventually(lambda: any(user["guard"] not in (0, guard) for user in self.users())))
            server.kill()
            server.wait()
            self.assertTrue(eventually(lambda: self.modes() == {"auto"}))
            self.assertTrue(eventually(lambda: not self.marker.exists()))
        finally:
            server.kill()
            server.communicate()


class Tool(Fans):
    def refuses(self, words, *arguments, **environment):
        done = self.run_program(*arguments, **environment)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(words, done.stderr)

    def test_status_shows_the_fans(self):
        self.assertIn("1350 of 5777 rpm", self.run_program("max").stdout)
        self.assertEqual(len(json.loads(self.run_program("max", "--status", "--json").stdout)["fans"]), 2)

    def test_on_and_off(self):
        done = self.run_program("max", "--on")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.modes(), {"manual"})
        self.assertEqual(len(self.users()), 1)
        self.assertEqual(self.run_program("max", "--off").returncode, 0)
        self.assertEqual(self.modes(), {"auto"})
        self.assertTrue(eventually(lambda: not self.marker.exists()))

    def test_a_missing_tool(self):
        self.refuses("not installed", "max", THERMALFORGE=str(self.home / "none"))

    def test_a_hanging_tool(self):
        self.state(fans=fans(), hang=True)
        self.refuses("did not answer in 3 s", "max")

    def test_garbage(self):
        self.state(fans=fans(), garbage=True)
        self.refuses("no list of fans", "max")

    def test_a_mac_without_fans(self):
        self.state(fans=[])
        self.refuses("no fans", "max", "--on")

    def test_fans_that_are_asked_for_too_little(self):
        self.state(fans=fans(), obeys=0.5)
        model = ["--model", MODEL, "--port", "0", "--context", "512"]
        self.refuses("less than 85 %", "serve", "--max", *model)
        self.assertTrue(eventually(lambda: self.modes() == {"auto"}))

    def test_a_socket_of_somebody_else(self):
        os.chown(self.home / "sock", 65534, 65534)
        self.refuses("not a socket of root", "max")

    def test_no_daemon(self):
        self.refuses("daemon does not run", "max", THERMALFORGE_SOCKET=str(self.home / "none"))

    def test_two_actions_at_once(self):
        self.refuses("give one of", "max", "--on", "--off")


class Start(Fans):
    """`foretoken start` offers Max mode where ThermalForge answers."""

    def choice(self):
        return json.loads((self.home / "state/foretoken/last_start.json").read_text())

    def start(self, *arguments):
        return self.run_program("start", "--model", MODEL, *arguments)

    def test_by_a_flag(self):
        done = self.start("--where", "page", "--max", "--json")
        self.assertTrue(json.loads(done.stdout)["max"], done.stderr)
        self.assertTrue(self.choice()["max"])
        self.assertFalse(json.loads(self.start("--where", "page", "--json").stdout)["max"])

    def test_refused_for_a_chat_and_without_the_tool(self):
        self.assertIn("belongs to a server", self.start("--where", "chat", "--max", "--json").stderr)
        self.environment["THERMALFORGE"] = str(self.home / "none")
        self.assertIn("not installed", self.start("--where", "page", "--max", "--json").stderr)

    def test_by_a_question(self):
        sys.path.insert(0, str(Path(__file__).parent))
        sys.argv[1:] = [PROGRAM]
        import start_test  # noqa: PLC0415: it reads the arguments

        environment = dict(self.environment, TERM="xterm", FORETOKEN_PORT="0", FORETOKEN_CALIBRATION="measure")
        screen = start_test.Screen(["start", "--model", MODEL], environment)
        self.addCleanup(screen.stop)
        screen.wait("2 of 2")
        screen.send(start_test.DOWN + start_test.ENTER)
        screen.wait("Fans")
        screen.send(start_test.DOWN + start_test.ENTER)
        self.assertTrue(eventually(lambda: "max" in self.commands(), 60), screen.text)
        self.assertTrue(self.choice()["max"])
        screen.send(start_test.CONTROL_C)
        self.assertTrue(eventually(lambda: "auto" in self.commands(), 20))


class Elsewhere(unittest.TestCase):
    def test_one_sentence(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        environment = dict(os.environ, HOME=home.name, XDG_STATE_HOME=home.name)
        environment.pop("THERMALFORGE", None)
        for arguments in (["max"], ["max", "--on"], ["max", "--install"]):
            done = subprocess.run(
                [PROGRAM, *arguments], env=environment, capture_output=True, text=True, check=False
            )
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1)
            self.assertIn("this is not one", done.stderr)


if __name__ == "__main__":
    PROGRAM = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
