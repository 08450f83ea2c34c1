#!/usr/bin/env python3
"""The libraries of a program for macOS: tools/macho.py FILE lists them and refuses those that are not a part
of macOS, another processor and a macOS newer than 14. Reads the load commands of the Mach-O format (loader.h of
Apple's open sources)."""

import struct
import sys
from pathlib import Path

MAGIC_64, ARM64, EXECUTE = 0xFEEDFACF, 0x0100000C, 2
LOAD_DYLIB = {0x0C, 0x80000018, 0x8000001F}  # plain, weak, re-exported
BUILD_VERSION, SIGNATURE = 0x32, 0x1D
SYSTEM = ("/usr/lib/", "/System/Library/Frameworks/")
NEWEST = (14, 0)


def load_commands(data):
    """(command, its bytes), in order."""
    magic, processor, _, kind, count = struct.unpack_from("<5I", data)
    if magic != MAGIC_64 or processor != ARM64 or kind != EXECUTE:
        sys.exit("macho: this is not a program for arm64 macOS")
    at = 32
    for _ in range(count):
        command, size = struct.unpack_from("<2I", data, at)
        yield command, data[at : at + size]
        at += size


def main():
    data = Path(sys.argv[1]).read_bytes()
    libraries, oldest, signed = [], None, False
    for command, body in load_commands(data):
        if command in LOAD_DYLIB:
            begin = struct.unpack_from("<I", body, 8)[0]
            libraries.append(body[begin:].split(b"\0")[0].decode())
        elif command == BUILD_VERSION:
            version = struct.unpack_from("<I", body, 12)[0]
            oldest = (version >> 16, version >> 8 & 255)
        elif command == SIGNATURE:
            signed = True
    problems = [f"{name} is not a part of macOS" for name in libraries if not name.startswith(SYSTEM)]
    if oldest is None or oldest > NEWEST:
        problems.append(f"it needs macOS {oldest}, newer than {NEWEST}")
    if not signed:
        problems.append("it has no signature, without which arm64 macOS refuses a program")
    for problem in problems:
        print(f"macho: {problem}")
    print(f"macho: {len(data) / 1e6:.0f} MB, macOS {'.'.join(map(str, oldest or ()))}, {', '.join(libraries)}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
