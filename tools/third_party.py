#!/usr/bin/env python3
"""Writes THIRD_PARTY.md: every library that foretoken is built with, its licence, and who ships it.

    tools/third_party.py            writes the file, after a change of a lock (src/text_ffi, webui)
    tools/third_party.py --check    exit code 1 if the file is not what would be written
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "THIRD_PARTY.md"
CRATE = ROOT / "src/text_ffi/Cargo.toml"

# Library, version in Debian 12, licence, where it is used. The build links what the distribution ships.
LIBRARIES = [
    ("fmt", "9.1", "MIT", "program: text formatting"),
    ("spdlog", "1.10", "MIT", "program: log"),
    ("nlohmann/json", "3.11", "MIT", "program: JSON"),
    ("CLI11", "2.1", "BSD-3-Clause", "program: command line"),
    ("toml++", "3.3", "MIT", "program: settings file"),
    ("libedit", "3.1", "BSD-3-Clause", "program: line editing"),
    ("libcurl", "7.88", "curl", "program: fetching models; opened at run time"),
    ("OpenSSL (libcrypto)", "3.0", "Apache-2.0", "program: hashes of fetched files"),
    ("xxHash", "0.8", "BSD-2-Clause", "program: hashes of prefixes and files"),
    ("SQLite", "3.40", "blessing", "program: stored responses"),
    ("Boost (Beast, Asio and what they include)", "1.81", "BSL-1.0", "program: the server"),
    ("GoogleTest", "1.12", "BSD-3-Clause", "tests only"),
    ("RapidCheck", "0~1033", "BSD-2-Clause", "tests only"),
    ("LLVM libFuzzer and sanitizers", "19.1", "Apache-2.0 WITH LLVM-exception", "checks only"),
]

# The packages of webui/package.json that are part of the embedded page; the others only build or test it.
PAGE_PACKAGES = ["svelte", "markdown-it", "dompurify", "highlight.js", "katex"]


def page_packages():
    """(name, version, licence) of each npm package that the page holds, with what those bring along."""
    lock = json.loads((ROOT / "webui/package-lock.json").read_text(encoding="utf-8"))["packages"]
    found, waiting = set(), list(PAGE_PACKAGES)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += lock[f"node_modules/{name}"].get("dependencies", {})
    return sorted((one, *(lock[f"node_modules/{one}"].get(key, "not stated") for key in ("version", "license")))
                  for one in found)


def crates():
    """(name, version, licence) of each crate that the static library text_ffi holds, ours left out."""
    if not CRATE.exists():
        return []
    command = ["cargo", "metadata", "--format-version=1", "--locked", "--manifest-path", str(CRATE)]
    metadata = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    linked, waiting = set(), [metadata["resolve"]["root"]]
    while waiting:
        current = waiting.pop()
        if current in linked:
            continue
        linked.add(current)
        for dependency in nodes[current]["deps"]:
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    found = [packages[one] for one in linked if packages[one]["source"]]
    return sorted((one["name"], one["version"], licence(one)) for one in found)


def licence(package):
    if package["license"]:
        return package["license"].replace("/", " OR ")
    return f"see its file {package['license_file']}" if package["license_file"] else "not stated"


def page():
    lines = ["# Third-party software", ""]
    lines += ["Written by `tools/third_party.py`. foretoken itself is Apache-2.0 (LICENSE).", ""]
    lines += ["## C++ libraries, from the distribution", ""]
    lines += ["| library | version | licence | used in |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in LIBRARIES]
    found = crates()
    if found:
        lines += ["", "## Rust crates of src/text_ffi/, on any platform, linked in or run while it is built", ""]
        lines += ["| crate | version | licence |", "|---|---|---|"]
        lines += [f"| {' | '.join(row)} |" for row in found]
    lines += ["", "## npm packages of webui/, in the page or run while it is built", ""]
    lines += ["| package | version | licence |", "|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in page_packages()]
    return "\n".join(lines) + "\n"


def main():
    text = page()
    if sys.argv[1:] == ["--check"]:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
            return 0
        print("THIRD_PARTY.md is out of date; run tools/third_party.py")
        return 1
    PAGE.write_text(text, encoding="utf-8")
    print(f"{PAGE.name}: {text.count(chr(10))} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
