#!/usr/bin/env python3
"""tools/progress: a build is one line in a terminal, a line for each tenth elsewhere, and the log has everything."""

import os
import pathlib
import pty
import re
import struct
import subprocess
import tempfile
import termios
import unittest
from fcntl import ioctl

PROGRESS = pathlib.Path(__file__).resolve().parent / "progress"
BUILD = "".join(f"[{i}/440] Building CXX object src/a/very/long/path/{i}.cpp.o\n" for i in range(1, 441))


def run(text, columns=None):
    """The output of `progress` for `text`, and its log. `columns`: in a terminal of that width."""
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder, "log")
        command = [PROGRESS, log, "2/3 building foretoken"]
        if columns is None:
            done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=True)
            return done.stdout, log.read_text(encoding="utf-8")
        ours, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=theirs, stderr=theirs,
                              env={**os.environ, "TERM": "xterm"}) as process:
            os.close(theirs)
            process.stdin.write(text.encode())
            process.stdin.close()
            shown = b""
            try:
                while more := os.read(ours, 65536):
                    shown += more
            except OSError:  # the other end is closed
                pass
        os.close(ours)
        return shown.decode(), log.read_text(encoding="utf-8")


class Progress(unittest.TestCase):
    def test_a_build_is_one_line_of_a_terminal(self):
        for columns in (40, 80):
            shown, log = run(BUILD, columns)
            self.assertEqual(shown.count("\n"), 1)
            self.assertTrue(shown.endswith("\r\n"))
            drawn = [re.sub(r"\x1b\[K", "", one) for one in shown.strip().split("\r")]
            self.assertLess(max(map(len, drawn)), columns)
            self.assertIn("440 of 440", shown)
            self.assertEqual(log, BUILD)

    def test_elsewhere_it_is_a_line_for_each_tenth(self):
        shown, log = run(BUILD)
        self.assertEqual(len(shown.splitlines()), 10)
        self.assertRegex(shown.splitlines()[-1], r"^\d+:\d\d 2/3 building foretoken: 440 of 440$")
        self.assertNotIn("\x1b", shown)
        self.assertEqual(log, BUILD)

    def test_the_clock_ticks_while_a_command_says_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = pty.openpty()
            ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
            with subprocess.Popen([PROGRESS, pathlib.Path(folder, "log"), "1/4 installing"], stdin=subprocess.PIPE,
                                  stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"}) as process:
                os.close(theirs)
                process.stdin.write(b"setup: installing g++\n")
                process.stdin.flush()
                shown = b""
                while not re.search(rb"0:0[2-9] 1/4 installing: setup: installing g\+\+", shown):
                    shown += os.read(ours, 65536)
                process.stdin.close()
            os.close(ours)

    def test_lines_of_other_commands_are_shown(self):
        text = "setup: installing ninja-build\na last line without an end"
        shown, log = run(text)
        self.assertEqual(shown, text + "\n")
        self.assertEqual(log, text + "\n")


if __name__ == "__main__":
    unittest.main()
