#!/usr/bin/env python3
"""The verdicts of tools/speed_guard.py, with programs that only say how fast they are."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

GUARD = Path(__file__).resolve().parent / "speed_guard.py"

# Each run reads one speed from a list next to the program, cyclically.
PROGRAM = """#!{python}
import json, pathlib, sys
if "--help" in sys.argv:
    print("{help}")
    sys.exit(0)
here = pathlib.Path(__file__)
speeds = json.loads(here.with_suffix(".speeds").read_text())
counter = here.with_suffix(".count")
run = int(counter.read_text()) if counter.exists() else 0
counter.write_text(str(run + 1))
speed = speeds[run % len(speeds)]
print(json.dumps({{"plain_tokens_per_second": speed, "prompt_tokens_per_second": 100.0,
                  "forced": [{{"tokens_per_second": 50.0}}]}}))
"""


class SpeedGuard(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def program(self, name, speeds, words="--forced-acceptance"):
        path = self.folder / name
        path.write_text(PROGRAM.format(python=sys.executable, help=words))
        path.chmod(0o755)
        path.with_suffix(".speeds").write_text(str(speeds))
        return path

    def guard(self, before, after):
        command = [sys.executable, GUARD, "--before", before, "--after", after, "--pairs", "3", "--seed", "1"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_the_same_speed_passes_at_once(self):
        done = self.guard(self.program("old", [100.0]), self.program("new", [97.0]))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("try 1"), 2)
        self.assertNotIn("try 2", done.stdout)

    def test_a_loss_in_three_tries_fails_and_is_named(self):
        done = self.guard(self.program("old", [100.0]), self.program("new", [90.0]))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("shipped: plain under 0.95 in 3 tries", done.stdout)

    def test_one_good_try_is_enough(self):
        done = self.guard(self.program("old", [100.0]), self.program("new", [80.0, 80.0, 80.0, 100.0, 100.0, 100.0]))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("try 2", done.stdout)

    def test_a_slow_moment_does_not_move_the_median(self):
        done = self.guard(self.program("old", [100.0]), self.program("new", [100.0, 40.0, 100.0]))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("try 2", done.stdout)

    def test_a_commit_that_cannot_measure_is_no_failure(self):
        done = self.guard(self.program("old", [100.0], words="nothing"), self.program("new", [1.0]))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("nothing to compare", done.stdout)


if __name__ == "__main__":
    unittest.main()
