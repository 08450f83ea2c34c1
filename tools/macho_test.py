#!/usr/bin/env python3
"""tools/macho.py on small files with the load commands of a program: its list and its refusals."""

import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parent / "macho.py"
ARM64, X86_64 = 0x0100000C, 0x01000007


def library(name):
    text = name.encode() + b"\0" * (8 - len(name) % 8)
    return struct.pack("<6I", 0x0C, 24 + len(text), 24, 0, 0, 0) + text


def program(libraries, version=(14, 0), signed=True, processor=ARM64):
    commands = [library(name) for name in libraries]
    commands.append(struct.pack("<6I", 0x32, 24, 1, version[0] << 16 | version[1] << 8, 0, 0))
    if signed:
        commands.append(struct.pack("<4I", 0x1D, 16, 0, 0))
    head = struct.pack("<8I", 0xFEEDFACF, processor, 0, 2, len(commands), sum(map(len, commands)), 0, 0)
    return head + b"".join(commands)


SYSTEM = ["/usr/lib/libSystem.B.dylib", "/System/Library/Frameworks/Security.framework/Versions/A/Security"]


class Listing(unittest.TestCase):
    def run_on(self, data):
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            done = subprocess.run([sys.executable, TOOL, file.name], capture_output=True, text=True, check=False)
            return done.returncode, done.stdout + done.stderr

    def test_system_libraries_are_listed(self):
        code, said = self.run_on(program(SYSTEM))
        self.assertEqual(code, 0, said)
        for name in (*SYSTEM, "macOS 14.0"):
            self.assertIn(name, said)

    def test_any_other_library_is_refused(self):
        code, said = self.run_on(program([*SYSTEM, "/opt/homebrew/lib/libfmt.9.dylib"]))
        self.assertEqual(code, 1)
        self.assertIn("/opt/homebrew/lib/libfmt.9.dylib is not a part of macOS", said)
        self.assertEqual(self.run_on(program(["@rpath/libcurl.4.dylib"]))[0], 1)

    def test_a_newer_system_no_signature_and_another_processor_are_refused(self):
        self.assertIn("newer than", self.run_on(program(SYSTEM, version=(15, 0)))[1])
        self.assertIn("no signature", self.run_on(program(SYSTEM, signed=False))[1])
        self.assertIn("not a program for arm64", self.run_on(program(SYSTEM, processor=X86_64))[1])


if __name__ == "__main__":
    unittest.main()
