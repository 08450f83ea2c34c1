#!/usr/bin/env python3
"""The exercise of a new instruction: clamp.patch must still apply, and touch as many files and lines as
docs/decisions/029-files-per-feature.md says.

    python3 tests/exercise/instruction_test.py

To update the patch: repair it by hand, build and run backends_tests, then `git diff -U1 > clamp.patch`.
Exit code 77, which ctest counts as skipped, without git.
"""

import shutil
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATCH = Path(__file__).with_name("clamp.patch")


def added_lines():
    """File -> lines that the patch adds; it removes none."""
    added, name = {}, None
    for line in PATCH.read_text(encoding="utf-8").splitlines():
        if line.startswith("+++ b/"):
            name = line[len("+++ b/"):]
            added[name] = 0
        elif line.startswith("+") and name is not None:
            added[name] += 1
    return added


class Instruction(unittest.TestCase):
    def test_the_patch_applies_to_this_tree(self):
        done = subprocess.run(["git", "apply", "--check", str(PATCH)], cwd=ROOT, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_two_files_describe_it_and_one_in_each_of_ref_and_cpu_computes_it(self):
        added = {name: lines for name, lines in added_lines().items() if not name.endswith("_test.cpp")}
        needed = {name for name in added if not name.startswith(("src/backends/cuda/", "src/backends/metal/"))}
        self.assertEqual(needed, {"src/program/instructions.h", "src/program/instructions.cpp",
                                  "src/backends/ref/elementwise.cpp", "src/backends/cpu/ops/elementwise.cpp"})
        self.assertLessEqual(sum(added[name] for name in needed), 50)
        # A backend that lacks it refuses it with a sentence, in the places that the compiler names.
        self.assertLessEqual(sum(added[name] for name in set(added) - needed), 10)


if __name__ == "__main__":
    if shutil.which("git") is None:
        sys.exit(77)
    unittest.main()
