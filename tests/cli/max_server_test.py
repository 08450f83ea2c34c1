#!/usr/bin/env python3
"""Max mode of a server that is killed, stopped or left alone: tests/cli/max_server_test.py PROGRAM."""

import json
import os
import pty
import signal
import socket
import subprocess
import unittest
import urllib.request
from pathlib import Path

from fake_fans import MODEL, PROGRAM, Fans, eventually, fans


class Server(Fans):
    """`serve --max` with its own guard."""

    def serve(self, number=1):
        """The server that becomes user `number` of the marker."""
        model = ["--model", MODEL, "--port", "0", "--max", "--context", "512"]
        with open(self.home / "stderr", "a") as errors:  # a pipe without a reader would fill
            server = subprocess.Popen(
                [PROGRAM, "serve", *model, "--json"],
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.addCleanup(server.communicate)
        self.addCleanup(server.kill)
        self.url = json.loads(server.stdout.readline())["url"]
        self.assertTrue(eventually(lambda: [user["guard"] > 0 for user in self.users()].count(True) == number))
        return server

    def guard_of_server(self):
        users = self.users()
        return users[0]["guard"] if users else 0

    def fans_come_back(self):
        self.assertTrue(eventually(lambda: self.modes() == {"auto"}))
        self.assertTrue(eventually(lambda: not self.marker.exists()))

    def test_marker_and_guard_are_there_before_the_fans_are_asked(self):
        server = self.serve()
        before = json.loads((self.home / "before_max").read_text())
        self.assertEqual(json.loads(before["marker"])["users"][0]["process"], server.pid)
        self.assertGreater(before["guards"], 0)
        guard = self.guard_of_server()
        self.assertEqual(os.getsid(guard), guard)
        server.terminate()
        self.assertEqual(server.wait(20), 0)
        self.fans_come_back()

    def test_a_killed_guard_is_replaced_and_leaves_nothing(self):
        server = self.serve()
        self.assertEqual(self.modes(), {"manual"})
        guard = self.guard_of_server()
        os.kill(guard, signal.SIGKILL)
        self.assertTrue(eventually(lambda: self.guard_of_server() not in (0, guard)))
        server.kill()
        server.wait()
        self.fans_come_back()

    def test_a_guard_that_is_told_to_end_is_replaced_and_the_fans_are_asked_again(self):
        self.serve()
        guard = self.guard_of_server()
        os.kill(guard, signal.SIGTERM)
        self.assertTrue(eventually(lambda: self.guard_of_server() not in (0, guard)))
        self.assertTrue(eventually(lambda: self.commands().count("max") == 2))
        self.assertIn("auto", self.commands())
        self.assertTrue(eventually(lambda: self.modes() == {"manual"}))

    def test_server_and_guard_killed_together(self):
        server = self.serve()
        os.kill(server.pid, signal.SIGSTOP)  # it cannot replace its guard meanwhile
        os.kill(self.guard_of_server(), signal.SIGKILL)
        server.kill()
        server.wait()
        self.assertEqual(self.modes(), {"manual"})
        self.assertIn("automatic again", self.run_program("max", "--status").stderr)
        self.fans_come_back()

    def test_the_last_of_two_servers_puts_the_fans_back(self):
        first, second = self.serve(), self.serve(2)
        self.assertEqual([user["process"] for user in self.users()], [first.pid, second.pid])
        status = json.loads(self.run_program("max", "--status", "--json").stdout)
        self.assertEqual(status["users"], 2)
        first.kill()
        first.wait()
        self.assertTrue(eventually(lambda: len(self.users()) == 1))
        self.assertEqual(self.modes(), {"manual"})
        self.assertNotIn("auto", self.commands())
        second.kill()
        second.wait()
        self.fans_come_back()

    def test_off_leaves_the_fans_to_a_server(self):
        server = self.serve()
        off = self.run_program("max", "--off")
        self.assertNotEqual(off.returncode, 0)
        self.assertIn(f"a server (process {server.pid}) keeps the fans at maximum", off.stderr)
        self.assertEqual(self.modes(), {"manual"})

    def test_the_guard_waits_for_15_idle_minutes(self):
        server = self.serve()
        words = Path(f"/proc/{self.guard_of_server()}/cmdline").read_bytes().split(b"\0")
        self.assertEqual(words[1:4], [b"fan-guard", str(server.pid).encode(), b"900"])

    def test_a_request_after_the_idle_drop_turns_the_fans_up_again(self):
        self.environment["THERMALFORGE_IDLE_S"] = "1"
        self.serve()
        since = self.users()[0]["since"]
        self.assertTrue(eventually(lambda: self.modes() == {"auto"}))
        self.assertEqual(self.users()[0]["idle"], 1)
        self.assertEqual(self.commands().count("max"), 1)

        def answer():
            body = json.dumps({"prompt": "Hi", "max_tokens": 400, "ignore_eos": True}).encode()
            request = urllib.request.Request(
                f"{self.url}/v1/completions", body, {"Content-Type": "application/json"}
            )
            urllib.request.urlopen(request, timeout=240).read()
            return self.commands().count("max") == 2  # the server looks once a second

        self.assertTrue(eventually(answer))
        self.assertTrue(eventually(lambda: self.modes() == {"auto"}), "idle again")
        self.assertEqual(self.users()[0]["since"], since)

    def test_a_tool_that_hangs_does_not_keep_the_guard_waiting_for_the_end(self):
        # A child of the server that inherited the pipe would keep it open.
        self.state(fans=fans(), follows=False)
        server = self.serve()
        state = json.loads((self.home / "state.json").read_text())
        self.state(**dict(state, hang=True))
        asked = len(self.commands())
        self.assertTrue(eventually(lambda: len(self.commands()) > asked))
        server.kill()
        server.wait()
        self.state(**state)
        self.assertTrue(eventually(lambda: self.modes() == {"auto"}, 40), "the tool would hang for 60 s")
        self.fans_come_back()

    def test_a_server_that_cannot_start_puts_the_fans_back(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            arguments = ["serve", "--max", "--model", MODEL, "--port", port, "--context", "512"]
            self.assertNotEqual(self.run_program(*arguments).returncode, 0)
        self.fans_come_back()

    def test_a_closed_terminal(self):
        arguments = [PROGRAM, "serve", "--model", MODEL, "--port", "0", "--max", "--context", "512", "--json"]
        child, terminal = pty.fork()
        if child == 0:
            os.execve(PROGRAM, arguments, self.environment)
        self.assertTrue(eventually(lambda: self.modes() == {"manual"}))
        os.close(terminal)
        os.waitpid(child, 0)
        self.fans_come_back()

    @unittest.skipUnless(os.environ.get("FORETOKEN_FULL"), "waits for 20 s")
    def test_fans_that_never_turn_are_automatic_after_20_s(self):
        self.state(fans=fans(), follows=False)
        self.serve()
        on = subprocess.Popen(
            [PROGRAM, "max", "--on"], env=self.environment, stderr=subprocess.PIPE, text=True
        )
        self.assertIn("did not reach 85 %", on.communicate(timeout=240)[1])
        self.assertNotEqual(on.returncode, 0)
        self.fans_come_back()
        self.assertTrue(eventually(lambda: "did not reach 85 %" in (self.home / "stderr").read_text()))


if __name__ == "__main__":
    unittest.main()
