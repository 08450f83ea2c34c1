"""`verify` that ends early: by a signal, by its time limit, or after a part of the cells.

    python3 tests/cli/verify_test.py build/release/foretoken
"""

import json
import os
import signal
import subprocess
import sys
import time
import unittest

import cli_test


class Verify(cli_test.CliTest):
    def test_an_interrupted_verify_reports_what_it_has_compared(self):
        odd = str(cli_test.ROOT / "tests" / "golden" / "odd")
        for signals in (1, 2):  # timeout sends one to the program and one to its group
            process = subprocess.Popen([cli_test.PROGRAM, "verify", "--full", "--json", "--model", odd],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment)
            time.sleep(3)
            for _ in range(signals):
                process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=cli_test.TIMEOUT_S)
            if process.returncode == -signal.SIGTERM:
                self.skipTest("the signal came before the matrix began")
            self.assertEqual(process.returncode, 1)
            report = json.loads(out)
            self.assertFalse(report["complete"])
            self.assertTrue(report["cells"])

    def test_verify_stops_after_its_seconds_and_runs_in_parts(self):
        odd = ("--model", str(cli_test.ROOT / "tests" / "golden" / "odd"))
        report = self.expect_json(1, "verify", "--full", "--seconds", "1", *odd)
        self.assertFalse(report["complete"])
        some = self.expect_json(0, "verify", "--part", "2/3", "--prompts", "1", "--tokens", "3", *odd)
        self.assertTrue(some["identical"] and some["complete"])
        self.expect_error(2, "expected I/N such as 2/8", "verify", "--part", "4/3")

    def test_the_kernels_for_apple_gpus_change_no_token(self):
        """A part of the matrix on their twin; FORETOKEN_FULL: all of it, some minutes."""
        odd = ("--model", str(cli_test.ROOT / "tests" / "golden" / "odd"))
        part = () if os.environ.get("FORETOKEN_FULL") else ("--part", "3/16")
        few = ("--prompts", "1", "--tokens", "4")
        report = self.expect_json(0, "verify", "--backend", "metal-twin", *few, *part, *odd)
        self.assertTrue(report["identical"] and report["complete"])
        self.assertIn("the Metal kernels as C++", report["backend"])
        self.assertGreater(sum(cell["compared"] for cell in report["cells"]), 0)


if __name__ == "__main__":
    cli_test.PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
