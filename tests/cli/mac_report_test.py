#!/usr/bin/env python3
"""The commands that docs/mac.md gives a Mac's owner exist, and the issue template takes their output.

    python3 tests/cli/mac_report_test.py build/release/foretoken
"""

import os
import re
import sys
import unittest

import cli_test

DOC = cli_test.ROOT / "docs" / "mac.md"
TEMPLATE = cli_test.ROOT / ".github" / "ISSUE_TEMPLATE" / "mac.yml"
ISSUE_CHARACTERS = 65536  # GitHub's limit for the text of an issue


def asked():
    """(words of a command, the file that takes its output) of the first block of docs/mac.md."""
    block = re.search(r"```sh\n(.*?)```", DOC.read_text(encoding="utf-8"), re.DOTALL).group(1)
    return [(words.split(), file) for words, file in re.findall(r"^foretoken (.+) > (\S+)", block, re.MULTILINE)]


class MacReport(cli_test.CliTest):
    def test_every_command_and_flag_exists(self):
        self.assertEqual(len(asked()), 4)
        for words, _ in asked():
            name = [word for word in words if word[0] != "-" and word != "metal"]
            help_text = self.expect(0, *name, "--help").stdout.decode()
            for flag in words:
                if flag.startswith("--"):
                    self.assertIn(f"{flag} ", help_text + " ", f"foretoken {' '.join(words)}")

    def test_the_template_names_every_command(self):
        template = TEMPLATE.read_text(encoding="utf-8")
        for words, file in asked():
            self.assertIn("foretoken " + " ".join(words), template)
            self.assertIn(file, DOC.read_text(encoding="utf-8").split("zip ", 1)[1])

    def test_what_is_pasted_fits_into_an_issue(self):
        """The others are attached: `bench kernels` alone is longer than an issue may be."""
        text = TEMPLATE.read_text(encoding="utf-8")
        pasted = re.findall(r"label: foretoken (.+)\n(?:.*\n){0,2}? +render: json", text)
        self.assertEqual(pasted, ["doctor --json"])
        done = self.expect(0, "doctor", "--json", "--no-probe")
        self.assertLess(len(done.stdout), ISSUE_CHARACTERS // 4)


if __name__ == "__main__":
    cli_test.PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
