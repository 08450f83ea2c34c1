#!/usr/bin/env python3
"""`foretoken launch` in a pseudo-terminal, with stand-ins for the clients: their arguments and environment, and
the end of the server.

    python3 tests/cli/launch_test.py build/release/foretoken [CLASS]
"""

import fcntl
import json
import os
import pathlib
import pty
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from calibration_folder import calibration_folder  # noqa: E402
from free_port import free_port  # noqa: E402

PROGRAM = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build/release/foretoken").resolve()

# Every stand-in writes its arguments and environment to a file, asks the server, and follows the orders in its
# first argument.
STAND_IN = """#!{python}
import json, os, signal, sys, time, urllib.request
names = ("ANTHROPIC", "OPENAI", "CLAUDE", "GOOSE", "OPENCODE", "FORETOKEN_CLIENT", "ENABLE_OLLAMA", "DEFAULT_MODELS")
given = {{k: v for k, v in os.environ.items() if k.startswith(names)}}
url = {url}
interrupted = []
signal.signal(signal.SIGINT, lambda *_: interrupted.append(1))
order = sys.argv[-1]
if order.startswith("wait"):
    name = os.path.basename(sys.argv[0])
    for ready in ("ready", "ready-" + name):
        open({folder!r} + "/" + ready, "w").close()
    end = time.time() + 240
    while not interrupted and time.time() < end and not os.path.exists({folder!r} + "/end-" + name):
        time.sleep(0.02)
found = json.load(urllib.request.urlopen(url.rstrip("/") + "/v1/models")) if url else None
json.dump({{"arguments": sys.argv[1:], "given": given, "served": found, "interrupted": len(interrupted),
           "terminal": sys.stdin.isatty()}}, open({folder!r} + "/report", "w"))
if order == "die":
    os.kill(os.getpid(), signal.SIGTERM)
sys.exit(int(order[4:]) if order.startswith("exit") else 0)
"""
URLS = {
    "claude": 'os.environ["ANTHROPIC_BASE_URL"]',
    "codex": '[w for w in sys.argv if "base_url" in w][0].split(chr(34))[1].removesuffix("/v1")',
    "opencode": 'json.loads(os.environ["OPENCODE_CONFIG_CONTENT"])["provider"]["foretoken"]["options"]["baseURL"]'
                '.removesuffix("/v1")',
    "qwen": 'os.environ["OPENAI_BASE_URL"].removesuffix("/v1")',
    "goose": 'os.environ["OPENAI_HOST"]',
    "aider": 'os.environ["OPENAI_API_BASE"].removesuffix("/v1")',
    "open-webui": 'os.environ["OPENAI_API_BASE_URL"].removesuffix("/v1")',
}


class Launching(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="foretoken_launch")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        for name, url in URLS.items():
            self.stand_in(name, url)
        self.port = free_port()
        self.environment = {
            "PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.folder), "TERM": "xterm",
            "FORETOKEN_PORT": str(self.port), "FORETOKEN_SLOTS": "2", "FORETOKEN_CONTEXT": "2048",
            "FORETOKEN_CALIBRATION": calibration_folder(PROGRAM), "FORETOKEN_THREADS": "1",
            "ANTHROPIC_API_KEY": "another",
        }

    def stand_in(self, name, url):
        file = self.bin / name
        file.write_text(STAND_IN.format(python=sys.executable, url=url, folder=str(self.folder)))
        file.chmod(0o755)

    def start(self, *words):
        """`foretoken launch` in a separate terminal -> (process, the terminal's other end)."""
        mine, theirs = pty.openpty()
        process = subprocess.Popen([PROGRAM, "launch", *words], stdin=theirs, stdout=theirs, stderr=theirs,
                                   env=self.environment, start_new_session=True, cwd=self.folder,
                                   preexec_fn=lambda: fcntl.ioctl(0, 0x540E, 0))
        os.close(theirs)
        self.addCleanup(os.close, mine)
        self.addCleanup(process.kill)
        return process, mine

    def shown(self, terminal, process, timeout=240):
        text, end = b"", time.time() + timeout
        while time.time() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    piece = os.read(terminal, 4096)
                except OSError:
                    break
                if not piece:
                    break
                text += piece
            elif process.poll() is not None:
                break
        process.wait(timeout=240)
        return text.decode(errors="replace").replace("\r", "")

    def launch(self, *words):
        process, terminal = self.start(*words)
        text = self.shown(terminal, process)
        return process.returncode, text

    def report(self):
        return json.loads((self.folder / "report").read_text())

    def answers(self, port=None):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port or self.port}/health", timeout=2) as reply:
                return reply.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def eventually(self, condition, seconds=240):
        end = time.time() + seconds
        while time.time() < end:
            if condition():
                return True
            time.sleep(0.05)
        return False

    def serve(self):
        server = subprocess.Popen([PROGRAM, "serve", "--json"], env=self.environment, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        self.assertTrue(server.stdout.readline())
        return server


class WithoutAServer(Launching):
    def test_a_client_gets_a_server_that_ends_with_it(self):
        status, text = self.launch("claude", "--", "--resume", "--model", "x", "exit7")
        self.assertEqual(status, 7, text)
        report = self.report()
        self.assertEqual(report["arguments"], ["--resume", "--model", "x", "exit7"])
        self.assertTrue(report["terminal"])
        self.assertEqual(report["given"]["ANTHROPIC_MODEL"], report["served"]["data"][0]["id"])
        self.assertNotIn("ANTHROPIC_API_KEY", report["given"])
        self.assertIn("starting foretoken serve", text)
        self.assertIn("it cannot do an agent's work", " ".join(text.split()), "the shipped model's note")
        self.assertFalse(self.answers())

    def test_control_c_is_the_clients_and_the_server_stays_until_it_ends(self):
        process, terminal = self.start("qwen", "--", "wait")
        self.assertTrue(self.eventually(lambda: (self.folder / "ready").exists()))
        os.write(terminal, b"\x03")
        text = self.shown(terminal, process)
        self.assertEqual(process.returncode, 0, text)
        self.assertEqual(self.report()["interrupted"], 1)
        self.assertTrue(self.report()["served"]["data"], "the server still answered after Ctrl-C")
        self.assertFalse(self.answers())

    def test_a_killed_launch_leaves_no_server(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            (self.folder / "ready").unlink(missing_ok=True)
            process, _ = self.start("aider", "--", "wait")
            self.assertTrue(self.eventually(lambda: (self.folder / "ready").exists()))
            process.send_signal(number)
            process.wait(timeout=240)
            self.assertTrue(self.eventually(lambda: not self.answers()), number)

    def test_control_c_while_the_model_loads_ends_both(self):
        process, terminal = self.start("claude", "--model", "synth:qwen3.5-0.8b?bits=4")
        self.assertTrue(self.eventually(lambda: (self.folder / ".local/state/foretoken/launch.log").exists()))
        os.write(terminal, b"\x03")
        text = self.shown(terminal, process)
        self.assertEqual(process.returncode, 1, text)
        self.assertIn("stopped", text)
        self.assertFalse((self.folder / "report").exists())
        self.assertTrue(self.eventually(lambda: not self.answers()))

    def test_a_model_that_does_not_load_is_told_with_the_servers_words(self):
        status, text = self.launch("claude", "--model", "no/such-model")
        self.assertEqual(status, 1, text)
        self.assertIn("no/such-model", text)
        self.assertIn("foretoken pull no/such-model", " ".join(text.split()))
        self.assertFalse((self.folder / "report").exists())

    def test_another_program_on_the_port_is_left_alone(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", self.port))
            other.listen()
            import threading

            def reply():
                while True:
                    try:
                        connection, _ = other.accept()
                    except OSError:
                        return
                    connection.recv(4096)
                    connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
                    connection.close()

            threading.Thread(target=reply, daemon=True).start()
            status, text = self.launch("goose")
        self.assertEqual(status, 0, text)
        self.assertNotIn(str(self.port), self.report()["given"]["OPENAI_HOST"])
        self.assertTrue(self.report()["served"]["data"])

    def test_a_client_that_is_not_installed_is_named_with_its_installation(self):
        (self.bin / "codex").unlink()
        status, text = self.launch("codex")
        self.assertEqual(status, 1, text)
        self.assertIn("npm install -g @openai/codex", " ".join(text.split()))
        self.assertFalse((self.folder / ".local/state/foretoken/launch.log").exists(), "no server for nothing")


class TwoLaunches(Launching):
    """The server that the first one started is shared."""

    def waiting(self, name):
        process, terminal = self.start(name, "--", "wait")
        self.assertTrue(self.eventually(lambda: (self.folder / f"ready-{name}").exists()), name)
        return process, terminal

    def end(self, name, process, terminal):
        (self.folder / "report").unlink(missing_ok=True)
        (self.folder / f"end-{name}").touch()
        text = self.shown(terminal, process)
        self.assertEqual(process.returncode, 0, text)
        self.assertTrue(self.report()["served"]["data"], f"{name} is answered")
        return " ".join(text.split())

    def test_the_server_ends_with_the_last_of_them(self):
        first, second = self.waiting("aider"), self.waiting("qwen")
        self.assertIn("another launch uses it", self.end("aider", *first))
        self.assertTrue(self.answers())
        third = self.waiting("goose")
        self.assertNotIn("starting foretoken serve", self.end("qwen", *second))
        self.assertTrue(self.answers())
        self.end("goose", *third)
        self.assertTrue(self.eventually(lambda: not self.answers(), 60))

    def test_the_one_that_started_it_may_end_last(self):
        first, second = self.waiting("aider"), self.waiting("qwen")
        self.end("qwen", *second)
        self.assertNotIn("another launch", self.end("aider", *first))
        self.assertFalse(self.answers())

    def test_a_killed_launch_counts_no_more(self):
        first, second = self.waiting("aider"), self.waiting("qwen")
        first[0].kill()
        first[0].wait(timeout=60)
        time.sleep(1)
        self.assertTrue(self.answers(), "the second one still uses it")
        second[0].kill()
        second[0].wait(timeout=60)
        self.assertTrue(self.eventually(lambda: not self.answers(), 60))

    def test_two_at_the_same_time_use_one_server(self):
        both = [self.start(name, "--", "wait") for name in ("aider", "qwen")]
        for name in ("aider", "qwen"):
            self.assertTrue(self.eventually(lambda name=name: (self.folder / f"ready-{name}").exists()), name)
        for name, one in zip(("aider", "qwen"), both):
            self.end(name, *one)
        self.assertTrue(self.eventually(lambda: not self.answers(), 60))

    def test_one_that_comes_while_the_server_stops_waits_and_starts_another(self):
        place = self.folder / ".local/state/foretoken"
        place.mkdir(parents=True)
        with open(place / f"launch-127.0.0.1%3A{self.port}.lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            process, terminal = self.start("aider", "--", "wait")
            time.sleep(1)
            self.assertFalse((self.folder / "ready").exists())
        text = self.end("aider", process, terminal)
        self.assertIn("Waiting for the server of an earlier launch", text)
        self.assertIn("starting foretoken serve", text)


class WithAServer(Launching):
    def test_each_client_uses_the_server_that_runs_and_leaves_it(self):
        server = self.serve()
        for client in ("claude", "codex", "opencode", "qwen", "goose", "aider", "openwebui"):
            (self.folder / "report").unlink(missing_ok=True)
            status, text = self.launch(client)
            self.assertEqual(status, 0, text)
            self.assertTrue(self.report()["served"]["data"], client)
            self.assertNotIn("starting foretoken serve", text)
        self.assertIsNone(server.poll())
        status, text = self.launch("claude", "--", "die")
        self.assertEqual(status, 128 + signal.SIGTERM, text)
        # Its model by another name, and one that it does not serve.
        self.assertEqual(self.launch("claude", "--model", "qwen3.5-tiny")[0], 0)
        status, text = self.launch("claude", "--model", "another")
        self.assertEqual(status, 2, text)
        self.assertIn("not another", " ".join(text.split()))
        self.assertTrue(self.answers())

    def test_print_starts_nothing_and_a_shell_can_run_it(self):
        server = self.serve()
        done = subprocess.run([PROGRAM, "launch", "aider", "--print", "--", "it's", "exit3"], env=self.environment,
                              capture_output=True, text=True, timeout=240, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse((self.folder / "report").exists())
        ran = subprocess.run(["sh", "-c", done.stdout], env=self.environment, timeout=240, check=False)
        self.assertEqual(ran.returncode, 3)
        self.assertEqual(self.report()["arguments"][-2:], ["it's", "exit3"])
        server.terminate()
        server.wait(timeout=240)
        done = subprocess.run([PROGRAM, "launch", "claude", "--print"], env=self.environment, capture_output=True,
                              text=True, timeout=240, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("ANTHROPIC_MODEL=MODEL", done.stdout)
        self.assertFalse(self.answers())

    def test_an_address_without_a_server_is_refused(self):
        status, text = self.launch("claude", "--url", f"http://127.0.0.1:{free_port()}")
        self.assertEqual(status, 1, text)
        self.assertFalse((self.folder / "report").exists())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
