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
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/hub")]
from calibration_folder import calibration_folder  # noqa: E402
from fake_hub import FakeHub  # noqa: E402
from free_port import free_port  # noqa: E402

PROGRAM = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None
SHIPPED = ROOT / "assets/qwen3.5-tiny"
TIMEOUT_S = 300
UP, DOWN, ENTER, CONTROL_C, CONTROL_D = "\x1b[A", "\x1b[B", "\r", "\x03", "\x04"


class Screen:
    """The program in a pseudo-terminal: its output so far, and a way to send keys."""

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
        """Waits until `words` appear after the words of the last wait; a line may end between two of them."""
        end = time.monotonic() + seconds
        wanted = re.compile(r"\s+".join(map(re.escape, words.split(" "))).removesuffix(r"\s+") +
                            (" " if words.endswith(" ") else ""))
        while (found := wanted.search(self.text)) is None:
            if time.monotonic() > end or not self.read(1) and self.ended():
                raise AssertionError(f"no {words!r} in:\n{self.text}")
        before, self.text = self.text[:found.end()], self.text[found.end():]
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
        """The exit status; `text` then has all output."""
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
                            "FORETOKEN_CALIBRATION": calibration_folder(PROGRAM), "FORETOKEN_THREADS": "1"}
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
        self.assertIn("stopped; nothing was changed", screen.text)

    def lines(self, text):
        """The screen of the terminal, line by line."""
        return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).replace("\r", "\n").split("\n")]


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

    def test_control_c_says_the_same_at_every_question(self):
        self.remember()
        last = self.memory.read_text()
        for keys, until in (("", "Same as last time?"), ("n\n", "1 of 2  A model"),
                            ("n\n" + UP + ENTER, "a folder, ORG/NAME or a name: "),
                            ("n\n1" + ENTER, "2 of 2  Where"), ("n\n1" + ENTER + "3" + ENTER, "Which client")):
            with self.subTest(until):
                screen = self.start()
                if keys:
                    screen.wait("Same as last time?")
                    screen.send(keys[:2])
                if len(keys) > 2:
                    screen.wait("[1] ")
                    first, _, rest = keys[2:].partition(ENTER)
                    screen.send(first + ENTER)
                    if rest:
                        screen.wait("2 of 2  Where")
                        screen.wait("[1] ")
                        screen.send(rest)
                screen.wait(until)
                time.sleep(0.3)
                screen.send(CONTROL_C)
                self.leaves(screen)
                self.assertEqual([line for line in self.lines(screen.text) if "stopped" in line],
                                 ["stopped; nothing was changed"])
        self.assertEqual(self.memory.read_text(), last)

    def test_control_c_during_a_download_says_what_is_kept(self):
        files = {path.name: path.read_bytes() for path in SHIPPED.iterdir()}
        with FakeHub({"org/fetched": files}, rate=1_000_000) as hub:
            screen = self.start("--model", "org/fetched", HF_ENDPOINT=hub.endpoint)
            screen.wait("fetch it?")
            screen.send("\n")
            screen.wait("%")
            time.sleep(1)
            screen.send(CONTROL_C)
            self.assertEqual(screen.end(), 130, screen.text)
            said = [line for line in self.lines(screen.text) if "stopped" in line]
            self.assertEqual(len(said), 1, screen.text)
            self.assertRegex(said[0], r"^stopped; [0-9.]+ [kM]B are kept, and the same command continues from there$")
            self.assertNotIn("nothing was changed", screen.text)
        self.assertFalse(self.memory.exists())

    def test_a_folder_that_does_not_run_is_said_before_the_next_question(self):
        self.remember()
        last = self.memory.read_text()
        (self.folder / "empty").mkdir()
        shutil.copytree(SHIPPED, self.folder / "dumb")
        (self.folder / "dumb/tokenizer.json").unlink()
        (self.models / "other").mkdir()
        (self.models / "other/config.json").write_text('{"model_type":"gpt2","architectures":["GPT2LMHeadModel"]}')
        screen = self.start("--fresh")
        screen.wait("[1] ")
        screen.send(UP + ENTER)
        for typed, words in ((self.folder / "empty", "does not run: config.json is missing"),
                             (self.folder / "dumb", "does not run: tokenizer.json is missing"),
                             (self.models / "other", "GPT2LMHeadModel"), ("other", "GPT2LMHeadModel")):
            screen.wait("a folder, ORG/NAME or a name: ")
            screen.send(f"{typed}\n")
            screen.wait(words)
        screen.wait("a folder, ORG/NAME or a name: ")
        screen.send(CONTROL_C)
        self.leaves(screen)
        self.assertEqual(self.memory.read_text(), last)

    def test_a_choice_is_kept_only_once_its_model_is_loaded(self):
        self.remember()
        last = self.memory.read_text()
        bad = self.models / "bad"
        shutil.copytree(SHIPPED, bad)
        (bad / "tokenizer.json").write_text("{}")  # an inspection does not read it
        screen = self.start("cli", "--model", str(bad))
        self.assertNotEqual(screen.end(), 0)
        self.assertNotIn("saved; run", screen.text)
        self.assertEqual(self.memory.read_text(), last)
        screen = self.start("page", "--model", "little")
        screen.wait("saved; run `foretoken start`")
        screen.wait("http://127.0.0.1:")
        screen.send(CONTROL_C)
        self.assertEqual(screen.end(), 0)
        self.assertEqual(json.loads(self.memory.read_text())["where"], "page")

    def test_the_settings_of_a_client_are_those_that_serve_resolved(self):
        port = free_port()
        config = self.folder / ".config/foretoken/config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(f'[serve]\nport = {port}\napi-key = ["from-the-file"]\nalias = ["mine"]\ncontext = 2048\n')
        self.environment.pop("FORETOKEN_PORT")
        screen = self.start("serve", "--model", "little", "--client", "opencode", columns=200)
        seen = screen.wait('"model": "foretoken/little"')
        for words in (f'"baseURL": "http://127.0.0.1:{port}/v1"', '"apiKey": "from-the-file"', '"context": 2048'):
            self.assertIn(words, seen)
        connected = subprocess.run([PROGRAM, "connect", "opencode"], env=self.environment, capture_output=True,
                                   text=True, timeout=TIMEOUT_S, check=True).stdout
        self.assertIn(connected.replace("\n", "\r\n").strip(), (seen + screen.text).strip())
        screen.send(CONTROL_C)
        self.assertEqual(screen.end(), 0)
        later = subprocess.run([PROGRAM, "connect", "opencode"], env=self.environment, capture_output=True, text=True,
                               timeout=TIMEOUT_S, check=True)
        self.assertIn(f"http://127.0.0.1:{port}/v1", later.stdout)

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
            for line in self.lines(self.shown(columns)):
                self.assertLess(len(line), columns, line)

    def test_names_keep_maker_and_size_and_no_word_is_broken(self):
        long = "mlx-community/Qwen3.5-4B-OptiQ-4bit"
        shutil.move(self.models / "little", self.models / long)
        # Each start measures the memory anew, so another one may offer other models of the catalogue.
        catalogue = (ROOT / "src/cli/library/catalogue.json").read_text()
        wide = " ".join([*self.lines(self.shown(200)), catalogue])
        for columns, name in ((60, long), (54, long), (48, "mlx-community/Qwen3.5-4B"), (40, "mlx-community/Qwe")):
            seen = self.shown(columns)
            self.assertRegex(seen, rf"> +1  {re.escape(name)}")
            row = next(line for line in self.lines(seen) if "> " in line and name in line)
            self.assertRegex(row, r"[0-9.]+ [MG]B", f"{columns} columns keep the size")
            for line in self.lines(seen):
                self.assertLess(len(line), columns, line)
                for word in line.replace("...", " ").split()[1:]:
                    if not re.fullmatch(r"[0-9.]+", word):
                        self.assertIn(word, wide, line)
            self.assertRegex(row, r"(MB|tokens/s|drafted|head|folder)$", "it ends after a phrase")

    def shown(self, columns):
        screen = self.start(columns=columns)
        seen = screen.wait("[1] ")
        screen.send("q")
        self.leaves(screen)
        return seen


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

    def test_yes_and_fetch_take_what_the_menu_offers_first(self):
        shutil.rmtree(self.models)
        said = self.run_program("--yes", "--json").stderr.decode()
        self.assertIn("add --fetch to fetch mlx-community/Qwen3.5-4B-OptiQ-4bit (3.3 GB)", said)
        said = self.run_program("--yes", "--fetch", "--json").stderr.decode()
        self.assertIn("http://127.0.0.1:1", said)  # the hub that cannot be reached
        self.assertNotIn("27B", said)

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

    def test_a_name_of_the_catalogue_is_its_repository(self):
        said = self.run_program("--model", "QWEN3.5-0.8b", "--where", "chat").stderr
        self.assertIn(b"foretoken pull mlx-community/Qwen3.5-0.8B-OptiQ-4bit", said)


if __name__ == "__main__":
    unittest.main()
