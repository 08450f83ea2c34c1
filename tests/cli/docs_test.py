"""The commands that README.md and docs/ show: they exist, run, and print what is shown.

    python3 tests/cli/docs_test.py build/release/foretoken [CLASS]
"""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/server")]
from calibration_folder import calibration_folder  # noqa: E402
PROGRAM = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None
os.environ["FORETOKEN"] = PROGRAM or ""
from server_process import Server  # noqa: E402

PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
NAMES = ("foretoken", "build/release/foretoken")
TIMEOUT_S = 300


def commands(text):
    """Every command of the program in a block or between backticks, as words."""
    blocks = re.findall(r"```(?:sh)?\n(.*?)```", text, re.S)
    lines = [line.strip() for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    prose = re.sub(r"```.*?```", "", text, flags=re.S)
    lines += [re.sub(r"\s+", " ", code) for code in re.findall(r"`([^`]+)`", prose)]
    for line in lines:
        for part in re.split(r"\s&&\s|\s\|\s", line):
            try:
                words = shlex.split(part, comments=True)
            except ValueError:
                continue
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                words.pop(0)
            if words and words[0] in NAMES and len(words) > 1:
                yield words[1:]


class Docs(unittest.TestCase):
    def setUp(self):
        self.home = self.enterContext(tempfile.TemporaryDirectory(prefix="foretoken-docs-"))
        self.environment = {"HOME": self.home, "PATH": os.environ.get("PATH", ""), "TERM": "dumb",
                            "FORETOKEN_CALIBRATION": calibration_folder(PROGRAM), "FORETOKEN_THREADS": "1"}

    def run_program(self, *words):
        return subprocess.run([PROGRAM, *words], env=self.environment, cwd=ROOT, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=TIMEOUT_S, check=False)

    def test_every_command_and_flag_that_is_shown_exists(self):
        helps, seen = {}, 0
        for page in PAGES:
            for words in commands(page.read_text(encoding="utf-8")):
                name = next((" ".join(words[:n]) for n in (2, 1) if self.help(" ".join(words[:n]), helps)), None)
                with self.subTest(f"{page.name}: {' '.join(words)}"):
                    if words[0].startswith("-"):
                        continue
                    self.assertIsNotNone(name, "there is no such command")
                    for flag in (word.split("=")[0] for word in words if re.match(r"--[a-z]", word)):
                        self.assertRegex(helps[name], rf"(?m)(^|[\s,]){flag}\b", flag)
                    seen += 1
        self.assertGreater(seen, 30)

    def help(self, name, helps):
        if name not in helps:
            plain = re.fullmatch(r"[a-z]+( [a-z]+)?", name)
            done = self.run_program(*name.split(), "--help") if plain else None
            helps[name] = done.stdout if done and done.returncode == 0 and f"foretoken {name}" in done.stdout else ""
        return helps[name]

    def test_answers_that_are_shown_are_the_answers(self):
        pairs = re.findall(r"`(?:build/release/)?foretoken (run [^`]+)`\s+answers\s+\"([^\"]+)\"",
                           (ROOT / "README.md").read_text(encoding="utf-8"))
        self.assertTrue(pairs)
        for command, answer in pairs:
            for _ in range(3):
                done = self.run_program(*shlex.split(command))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stdout.strip(), re.sub(r"\s+", " ", answer), command)

    def test_the_request_that_is_shown_is_answered(self):
        line = re.search(r"^curl http://127.0.0.1:8080(/v1/chat/completions) \\\n  -d '(.*)'$",
                         (ROOT / "README.md").read_text(encoding="utf-8"), re.M)
        with Server() as server:
            answer = subprocess.run(["curl", "-sS", server.url + line[1], "-d", line[2]], capture_output=True,
                                    timeout=TIMEOUT_S, check=True).stdout
        self.assertIn("Paris", json.loads(answer)["choices"][0]["message"]["content"])


if __name__ == "__main__":
    unittest.main()
