"""`foretoken start` in a pseudo-terminal, through every path, and without a terminal.

    python3 tests/cli/start_test.py build/release/foretoken [CLASS]
"""

import fcntl
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/hub"))
from fake_hub import FakeHub  # noqa: E402

PROGRAM = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None
SHIPPED = ROOT / "assets/qwen3.5-tiny"
TIMEOUT_S = 120
UP, DOWN, ENTER, CONTROL_C, CONTROL_D = "\x1b[A", "\x1b[B", "\r", "\x03", "\x04"


class Screen:
    """The program in a pseudo-terminal: what it wrote, and keys for it."""

    def __init__(self, arguments, environment, columns=80):
        self.text = ""
        self.status = None
        self.child, self.file = pty.fork()
        if self.child == 0:
            os.execve(PROGRAM, [PROGRAM, *arguments], environment)
        fcntl.ioctl(self.file, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def read(self, seconds):
        ready, _, _ = select.select([self.file], [], [], seconds)
        if not ready:
            return False
        try:
            got = os.read(self.file, 65536)
        except OSError:
            got = b""
        self.text += got.decode(errors="replace")
        return bool(got)

    def wait(self, words, seconds=TIMEOUT_S):
        """Until `words` appear after what was waited for before."""
        end = time.monotonic() + seconds
        while words not in self.text:
            if time.monotonic() > end or not self.read(1) and self.ended():
                raise AssertionError(f"no {words!r} in:\n{self.text}")
        at = self.text.index(words) + len(words)
        before, self.text = self.text[:at], self.text[at:]
        return before

    def send(self, keys):
        os.write(self.file, keys.encode())

    def ended(self):
        if self.status is None:
            pid, status = os.waitpid(self.child, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is not None

    def end(self):
        """The exit status, with everything that was written in `text`."""
        end = time.monotonic() + TIMEOUT_S
        while not self.ended() and time.monotonic() < end:
            self.read(0.2)
        while self.read(0.2):
            pass
        return self.status

    def stop(self):
        if not self.ended():
            os.kill(self.child, signal.SIGKILL)
            os.waitpid(self.child, 0)
        os.close(self.file)


class StartTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="foretoken-start-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.models = self.folder / "models"
        shutil.copytree(SHIPPED, self.models / "little", copy_function=os.link if os.environ.get("CI") else shutil.copy)
        self.environment = {"HOME": str(self.folder), "PATH": os.environ.get("PATH", ""), "TERM": "xterm",
                            "FORETOKEN_MODELS": str(self.models), "FORETOKEN_PORT": "0", "HF_ENDPOINT": "http://127.0.0.1:1",
                            "FORETOKEN_CALIBRATION": "measure"}
        self.memory = self.folder / ".local/state/foretoken/last_start.json"

    def start(self, *arguments, columns=80, **environment):
        screen = Screen(["start", *arguments], {**self.environment, **environment}, columns)
        self.addCleanup(screen.stop)
        return screen

    def remember(self, **choice):
        self.memory.parent.mkdir(parents=True, exist_ok=True)
        self.memory.write_text(json.dumps({"model": "little", "where": "chat", "client": "", **choice}))

    def chat(self, screen):
        screen.wait("Ctrl-D to leave")
        screen.send("Hello\n")
        screen.wait("tokens/s")
        self.leave(screen)

    def leave(self, screen):
        """Ctrl-D may come before the editor takes the terminal back."""
        screen.send(CONTROL_D)
        self.assertEqual(screen.end(), 0, screen.text)

    def leaves(self, screen):
        self.assertEqual(screen.end(), 130, screen.text)
        self.assertIn("nothing was changed", screen.text)


class Paths(StartTest):
    def test_two_times_enter_is_a_chat_and_the_next_time_one(self):
        screen = self.start()
        seen = screen.wait("1 of 2  A model")
        seen += screen.wait("[1] ")
        self.assertNotIn("Same as last time", seen)
        self.assertRegex(seen, r"> +1  little")
        screen.send(ENTER)
        screen.wait("2 of 2  Where")
        screen.send(ENTER)
        self.chat(screen)
        expected = {"model": "little", "where": "chat", "client": "", "max": False}
        self.assertEqual(json.loads(self.memory.read_text()), expected)
        again = self.start()
        again.wait("Same as last time?  little, chat here")
        again.send(ENTER)
        self.chat(again)

    def test_typing_ahead_is_kept(self):
        self.remember()
        screen = self.start()
        screen.send("\nHello there\n")
        screen.wait("tokens/s")
        self.leave(screen)

    def test_a_settings_file_is_passed_on(self):
        (self.folder / "settings.toml").write_text('[chat]\nmax-tokens = 3\n')
        screen = self.start("--model", "little", "--where", "chat", "--config", str(self.folder / "settings.toml"))
        screen.wait("Ctrl-D to leave")
        screen.send("Tell a long story\n")
        self.assertIn("3 tokens", screen.wait("tokens/s"))
        self.leave(screen)

    def test_control_d_typed_during_an_answer_is_not_lost(self):
        self.remember()
        screen = self.start()
        screen.send("\nTell a long story\n")
        screen.wait("story")
        self.leave(screen)

    def test_arrow_keys_and_numbers_choose(self):
        screen = self.start()
        screen.wait("[1] ")
        screen.send(DOWN + DOWN + UP + UP + UP)  # round the end
        screen.wait("another: a folder")
        screen.send("1")
        screen.wait("[1] ")
        screen.send(ENTER)
        screen.wait("2 of 2  Where")
        screen.send("2" + ENTER)
        screen.wait("http://127.0.0.1:")
        screen.send(CONTROL_C)
        self.assertEqual(screen.end(), 0, screen.text)
        self.assertEqual(json.loads(self.memory.read_text())["where"], "page")

    def test_a_server_for_a_named_client(self):
        screen = self.start()
        screen.wait("[1] ")
        screen.send(ENTER)
        screen.wait("2 of 2  Where")
        screen.send("3" + ENTER)
        screen.wait("Which client")
        screen.send("2" + ENTER)
        screen.wait("http://127.0.0.1:")
        screen.wait("little")
        screen.send(CONTROL_C)
        screen.end()
        self.assertNotEqual(json.loads(self.memory.read_text())["client"], "")

    def test_another_model_by_folder_and_by_a_wrong_name(self):
        screen = self.start()
        screen.wait("[1] ")
        screen.send(UP + ENTER)
        screen.wait("a folder, ORG/NAME or a name: ")
        screen.send("litle\n")
        screen.wait("did you mean little?")
        screen.wait("a folder, ORG/NAME or a name: ")
        screen.send(str(self.models / "little") + "\n")
        screen.wait("2 of 2  Where")
        screen.send(ENTER)
        self.chat(screen)

    def test_a_repository_is_fetched_after_a_yes(self):
        files = {path.name: path.read_bytes() for path in SHIPPED.iterdir()}
        with FakeHub({"org/fetched": files}) as hub:
            screen = self.start("--model", "org/fetched", HF_ENDPOINT=hub.endpoint)
            screen.wait("org/fetched is not on this machine; fetch it?")
            screen.send("n\n")
            self.leaves(screen)
            self.assertEqual(hub.requests, [])
            screen = self.start("--model", "org/fetched", "--where", "chat", HF_ENDPOINT=hub.endpoint)
            self.assertEqual(screen.end(), 1)
            self.assertIn("foretoken pull org/fetched", screen.text)
            screen = self.start("--model", "org/fetched", HF_ENDPOINT=hub.endpoint)
            screen.wait("fetch it?")
            screen.send("\n")
            screen.wait("2 of 2  Where")
            screen.send(ENTER)
            self.chat(screen)

    def test_leaving_changes_nothing(self):
        for keys in ("q", CONTROL_C, CONTROL_D):
            screen = self.start()
            screen.wait("[1] ")
            screen.send(keys)
            self.leaves(screen)
            screen = self.start()
            screen.wait("[1] ")
            screen.send(ENTER)
            screen.wait("2 of 2  Where")
            screen.send(keys)
            self.leaves(screen)
        self.assertFalse(self.memory.exists())

    def test_no_to_last_time_and_fresh_ask_again(self):
        self.remember(where="page")
        screen = self.start()
        screen.wait("Same as last time?")
        screen.send("n\n")
        screen.wait("1 of 2  A model")
        screen.wait("[1] ")
        screen.send("?")
        screen.wait("neither changes an answer")
        screen.send("q")
        self.leaves(screen)
        screen = self.start("--fresh")
        self.assertNotIn("Same as", screen.wait("1 of 2  A model"))
        screen.send("q")
        self.leaves(screen)

    def test_cli_and_model_leave_fewer_questions(self):
        screen = self.start("cli")
        screen.wait("1 of 2  A model")
        screen.wait("[1] ")
        screen.send(ENTER)
        self.chat(screen)
        screen = self.start("--model", "little")
        screen.wait("2 of 2  Where")
        screen.send(ENTER)
        self.chat(screen)
        self.chat(self.start("cli", "--model", "little"))

    def test_a_model_that_vanished_is_said(self):
        self.remember(model="/mnt/unplugged/model")
        screen = self.start()
        screen.wait("Same as last time?")
        screen.send(ENTER)
        screen.wait("there is no model at /mnt/unplugged/model")
        screen.wait("1 of 2  A model")
        screen.send("q")
        self.leaves(screen)

    def test_a_damaged_memory_is_no_memory(self):
        for text in ("", "{}", "[]", '{"model": 3, "where": "chat", "client": ""}', '{"where": "moon"}'):
            self.memory.parent.mkdir(parents=True, exist_ok=True)
            self.memory.write_text(text)
            screen = self.start()
            self.assertNotIn("Same as", screen.wait("1 of 2  A model"))
            screen.send("q")
            self.leaves(screen)

    def test_a_dumb_terminal_takes_numbers(self):
        screen = self.start(TERM="dumb")
        seen = screen.wait("[1] > ")
        self.assertNotIn("\x1b", seen)
        screen.send("99\n")
        screen.wait("a number from 1 to")
        screen.send("1\n")
        screen.wait("2 of 2  Where")
        screen.send("\n")
        self.chat(screen)

    def test_lines_keep_to_the_width(self):
        for columns in (40, 80, 120):
            screen = self.start(columns=columns)
            seen = screen.wait("[1] ")
            for line in re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", seen).replace("\r", "\n").split("\n"):
                self.assertLess(len(line), columns, line)
            screen.send("q")
            self.leaves(screen)

    def test_the_first_token_comes_soon(self):
        self.remember()
        begin = time.monotonic()
        screen = self.start()
        screen.send("\nHello\n")
        screen.wait("tokens/s")
        self.assertLess(time.monotonic() - begin, 30)
        self.leave(screen)


class NoTerminal(StartTest):
    def run_program(self, *arguments):
        return subprocess.run([PROGRAM, "start", *arguments], env=self.environment, input=b"", capture_output=True,
                              timeout=TIMEOUT_S, check=False)

    def test_it_prints_what_it_would_ask(self):
        done = self.run_program()
        self.assertEqual(done.returncode, 2)
        for words in (b"which model?", b"--model NAME", b"--where chat|page|serve", b"or --yes"):
            self.assertIn(words, done.stderr)
        self.assertEqual(done.stdout, b"")
        self.remember()
        self.assertIn(b"same as last time (little, chat here)", self.run_program().stderr)

    def test_yes_takes_the_largest_that_fits_or_the_last(self):
        done = self.run_program("--yes", "--json")
        expected = {"model": "little", "where": "chat", "client": "", "max": False}
        self.assertEqual(json.loads(done.stdout), expected, done.stderr)
        self.remember(where="page")
        self.assertEqual(json.loads(self.run_program("--yes", "--json").stdout)["where"], "page")
        self.assertEqual(json.loads(self.run_program("--yes", "--json", "--fresh").stdout)["where"], "chat")

    def test_yes_without_a_model_names_one(self):
        shutil.rmtree(self.models)
        done = self.run_program("--yes")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"--model", done.stderr)
        self.remember(model="/mnt/gone")
        self.assertIn(b"there is no model at /mnt/gone", self.run_program("--yes").stderr)

    def test_flags_answer_every_question(self):
        done = subprocess.run([PROGRAM, "start", "cli", "--model", "little"], env=self.environment, input=b"Hello\n",
                              capture_output=True, timeout=TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.strip())

    def test_wrong_flags(self):
        for arguments in (("moon",), ("--client", "nobody"), ("--model",)):
            self.assertEqual(self.run_program(*arguments).returncode, 2)


if __name__ == "__main__":
    unittest.main()
