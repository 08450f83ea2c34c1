#!/usr/bin/env python3
"""Max mode's guard and its commands, with a fake ThermalForge: tests/cli/max_test.py PROGRAM [CLASS]."""

import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from fake_fans import MODEL, PROGRAM, Fans, eventually, fans


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

    def test_an_idle_server_leaves_the_fans_to_a_busy_one(self):
        idle, busy = self.guard(self.owner().pid, idle_s="0.5"), self.guard(self.owner().pid)
        idle.stdin.write(b"i")
        idle.stdin.flush()
        self.assertTrue(eventually(lambda: any(user["idle"] for user in self.users())))
        time.sleep(0.5)
        self.assertEqual(self.modes(), {"manual"})
        busy.stdin.close()
        self.assertEqual(busy.wait(10), 0)
        self.assertEqual(self.modes(), {"auto"})

    def test_a_tool_that_hangs_at_the_end_is_asked_again(self):
        guard = self.guard(self.owner().pid)
        before = json.loads((self.home / "state.json").read_text())
        self.state(**dict(before, hang=True))
        guard.stdin.close()
        self.assertTrue(eventually(lambda: "auto" in self.commands()))
        self.state(**before)
        self.assertEqual(guard.wait(30), 0)
        self.assertEqual(self.modes(), {"auto"})


    def test_a_tool_that_speaks_garbage_at_the_end_is_asked_again(self):
        guard = self.guard(self.owner().pid)
        before = json.loads((self.home / "state.json").read_text())
        self.state(**dict(before, garbage=True))
        guard.stdin.close()
        self.assertTrue(eventually(lambda: self.commands().count("auto") > 1))
        self.state(**before)
        self.assertEqual(guard.wait(60), 0)
        self.assertEqual(self.modes(), {"auto"})

    @unittest.skipUnless(os.environ.get("FORETOKEN_FULL"), "waits for a minute")
    def test_fans_that_stay_for_a_minute_are_left_to_the_next_command(self):
        owner = self.owner()
        guard = self.guard(owner.pid)
        state = json.loads((self.home / "state.json").read_text())
        self.state(**dict(state, fail_auto=1000))
        guard.stdin.close()
        self.assertEqual(guard.wait(120), 1)
        self.assertLess(self.commands().count("auto"), 20, "the pauses grow")
        self.assertTrue(self.marker.exists())
        self.state(**state)
        owner.kill()
        owner.wait()
        self.assertIn("automatic again", self.run_program("tokenize", "--help").stderr)
        self.assertEqual(self.modes(), {"auto"})


class Recovery(Fans):
    """The next command after all processes were killed."""

    def leave_marker(self, process, start):
        self.marker.parent.mkdir(parents=True)
        user = {"process": process, "start": start, "guard": process, "guard_start": start, "idle": 0}
        self.marker.write_text(json.dumps({"users": [user]}))
        subprocess.run([self.tool, "max"], check=True, capture_output=True)

    def test_a_number_that_another_process_has_now(self):
        self.leave_marker(os.getpid(), 1)
        self.assertIn("automatic again", self.run_program("tokenize", "--help").stderr)
        self.assertEqual(self.modes(), {"auto"})
        self.assertFalse(self.marker.exists())

    def test_fans_that_stay_are_tried_by_the_command_after(self):
        self.leave_marker(os.getpid(), 1)
        state = json.loads((self.home / "state.json").read_text())
        self.state(**dict(state, fail_auto=100))
        self.assertIn("cannot be restored", self.run_program("tokenize", "--help").stderr)
        self.assertTrue(self.marker.exists())
        self.state(**state)
        self.assertIn("automatic again", self.run_program("tokenize", "--help").stderr)
        self.assertEqual(self.modes(), {"auto"})
        self.assertFalse(self.marker.exists())


class Install(Fans):
    """`max --install` with stand-ins for brew and sudo."""

    def setUp(self):
        super().setUp()
        self.bin = self.home / "bin"
        self.bin.mkdir()
        for name in ("brew", "sudo"):
            program = self.bin / name
            log, fail = self.home / "ran", self.home / f"fail_{name}"
            program.write_text(f'#!/bin/sh\necho {name} "$@" >>{log}\n[ ! -e {fail} ]\n')
            program.chmod(0o755)

    def ran(self):
        log = self.home / "ran"
        return log.read_text().splitlines() if log.exists() else []

    def answer(self, words):
        """Runs it in a terminal and gives this answer to its question."""
        child, terminal = pty.fork()
        if child == 0:
            path = f"{self.bin}:{os.environ['PATH']}"
            os.execve(PROGRAM, [PROGRAM, "max", "--install"], dict(self.environment, PATH=path))
        os.write(terminal, words.encode() + b"\n")
        said = b""
        while True:
            try:
                got = os.read(terminal, 4096)
            except OSError:
                break
            if not got:
                break
            said += got
        os.close(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said.decode()

    def test_without_a_terminal_it_only_shows_both_commands(self):
        done = self.run_program("max", "--install", PATH=f"{self.bin}:{os.environ['PATH']}")
        self.assertIn("brew install ProducerGuy/tap/thermalforge", done.stdout)
        self.assertIn("sudo thermalforge install", done.stdout)
        self.assertEqual(self.ran(), [])

    def test_nothing_runs_before_a_yes(self):
        for words in ("", "n", "maybe"):
            self.assertEqual(self.answer(words)[0], 0)
        self.assertEqual(self.ran(), [])

    def test_a_yes_runs_both_and_nothing_else(self):
        status, said = self.answer("y")
        self.assertEqual(status, 0, said)
        self.assertEqual(
            self.ran(), ["brew install ProducerGuy/tap/thermalforge", "sudo thermalforge install"]
        )

    def test_a_failed_command_is_named_and_ends_it(self):
        (self.home / "fail_brew").touch()
        status, said = self.answer("y")
        self.assertNotEqual(status, 0)
        self.assertIn("`brew install ProducerGuy/tap/thermalforge` failed", " ".join(said.split()))
        self.assertEqual(len(self.ran()), 1)


SERVE = ["serve", "--max", "--model", MODEL, "--port", "0", "--context", "512"]


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
        self.assertLess(abs(time.time() - self.users()[0]["since"]), 60)
        status = json.loads(self.run_program("max", "--status", "--json").stdout)
        self.assertEqual(status["since"], self.users()[0]["since"])
        self.assertIn("on for 1 process, since 0 min", self.run_program("max").stdout)
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
        self.refuses("less than 85 %", *SERVE)
        self.assertTrue(eventually(lambda: self.modes() == {"auto"}))

    def test_a_socket_of_somebody_else(self):
        os.chown(self.home / "sock", 65534, 65534)
        for arguments in (["max"], ["max", "--on"], ["max", "--off"], SERVE):
            self.refuses("not a socket owned by root", *arguments)
        (self.home / "sock").unlink()
        (self.home / "sock").touch()
        self.refuses("not a socket owned by root", "max")
        self.assertEqual(self.commands(), [])

    def test_a_server_is_refused_by_a_tool_that_hangs_or_speaks_garbage_and_without_fans(self):
        self.state(fans=fans(), hang=True)
        self.refuses("did not answer in 3 s", *SERVE)
        self.state(fans=fans(), garbage=True)
        self.refuses("no list of fans", *SERVE)
        self.state(fans=[])
        self.refuses("no fans", *SERVE)
        self.assertNotIn("max", self.commands())
        self.assertFalse(self.marker.exists())

    def test_without_a_place_for_the_marker_no_fan_is_asked(self):
        (self.home / "state").write_text("a file where the folder should be")
        self.refuses("cannot write it", *SERVE)
        self.refuses("its guard exited at once", "max", "--on")
        self.assertNotIn("max", self.commands())

    def test_on_ends_after_its_time_or_by_off(self):
        self.assertEqual(self.run_program("max", "--on").returncode, 0)
        guard = self.users()[0]["guard"]
        words = Path(f"/proc/{guard}/cmdline").read_bytes().split(b"\0")
        self.assertEqual(words[1:4], [b"fan-guard", b"0", b"900"])
        self.assertEqual(os.getsid(guard), guard)
        os.kill(guard, signal.SIGTERM)
        self.assertTrue(eventually(lambda: self.modes() == {"auto"}))
        self.assertTrue(eventually(lambda: not self.marker.exists()))

    def test_serve_asks_for_the_tool_before_it_reads_the_model(self):
        self.refuses("not installed", "serve", "--max", "--model", "/none", THERMALFORGE=str(self.home / "none"))

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
        self.assertFalse((self.home / "state/foretoken/last_start.json").exists(), "nothing was loaded")
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
        serve = ["serve", "--max", "--model", MODEL, "--port", "0"]
        for arguments in (["max"], ["max", "--on"], ["max", "--off"], ["max", "--install"], serve):
            done = subprocess.run(
                [PROGRAM, *arguments], env=environment, capture_output=True, text=True, check=False
            )
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1)
            self.assertIn("needs a Mac", done.stderr)


if __name__ == "__main__":
    unittest.main()
