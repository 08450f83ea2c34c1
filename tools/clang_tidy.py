#!/usr/bin/env python3
"""Runs clang-tidy over the tracked sources of a build folder (tests left out), in parallel, and only
where something changed.

    tools/clang_tidy.py BUILD_FOLDER [FILE...] [--since COMMIT] [--binary clang-tidy-19] [--jobs 2] [--slow]

A source is read again when it, a header of ours that it reaches, its compile command, .clang-tidy or
clang-tidy itself changed: the names of what was clean are hashes in .cache/tidy, which checkouts may share.
With FILE: only those. --since: only sources that changed after COMMIT, or that reach a header that did.
--slow: also the checks that take half of the time. Exit code 1 if there is a finding.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache/tidy"
SLOW = (
    "bugprone-chained-comparison",
    "bugprone-forward-declaration-namespace",
    "bugprone-infinite-loop",
    "bugprone-sizeof-container",
    "bugprone-unused-raii",
    "bugprone-use-after-move",
    "performance-unnecessary-value-param",
)


def git_paths(*command):
    """The paths that `git COMMAND -z` prints."""
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "-C", str(ROOT), *command],
        capture_output=True,
        text=True,
        check=True,
    )
    return {ROOT / name for name in listed.stdout.split("\0") if name}


def tracked_sources():
    # Tests would take half of the time (headers of the framework); people and sanitizers check them.
    return {
        path
        for path in git_paths("ls-files", "-z", "*.cpp")
        if not path.name.endswith(("_test.cpp", "_fuzz.cpp"))
    }


def changed_since(commit):
    """Sources and headers that differ from `commit` in the work tree."""
    return git_paths("diff", "--name-only", "-z", commit, "--", "*.cpp", "*.h")


def reached(path, seen):
    """The sources and headers of ours that `path` includes, itself first, in a fixed order."""
    if path in seen or not path.is_file():
        return seen
    seen[path] = path.read_bytes()
    for target in re.findall(rb'#\s*include\s*"([^"]+)"', seen[path]):
        reached(ROOT / target.decode(), seen)
    return seen


def fingerprint(entry, settings):
    digest = hashlib.sha256(settings)
    digest.update(entry.get("command", "").replace(str(ROOT), "").encode())
    for path, content in reached(Path(entry["file"]), {}).items():
        digest.update(str(path.resolve().relative_to(ROOT)).encode() + b"\0" + content)
    return digest.hexdigest()


def examine(binary, build, entry, more):
    """Returns (findings as text, whether the source is clean)."""
    command = [binary, "-p", str(build), "--quiet", "--extra-arg=-Wno-error", *more]
    command += ["--extra-arg=-Wno-unknown-warning-option", entry["file"]]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return (run.stdout + (run.stderr if run.returncode else "")).strip(), run.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--binary", default="clang-tidy-19")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 8))
    parser.add_argument("--since", metavar="COMMIT")
    parser.add_argument("--slow", action="store_true")
    options = parser.parse_args()
    more = [f"--checks={','.join(SLOW)}"] if options.slow else []

    commands = json.loads((options.build / "compile_commands.json").read_text(encoding="utf-8"))
    tracked = tracked_sources()
    if options.files:
        tracked &= {path.resolve() for path in options.files}
    if options.since:
        changed = changed_since(options.since)
        tracked = {path for path in tracked if changed & reached(path, {}).keys()} if changed else set()
    entries = {entry["file"]: entry for entry in commands if Path(entry["file"]) in tracked}
    version = subprocess.run([options.binary, "--version"], capture_output=True, check=True).stdout
    settings = version + (ROOT / ".clang-tidy").read_bytes() + "".join(more).encode()
    CACHE.mkdir(parents=True, exist_ok=True)
    stale = []
    for entry in entries.values():
        stamp = CACHE / fingerprint(entry, settings)
        if not stamp.exists():
            stale.append((entry, stamp))

    print(f"clang-tidy: {len(entries)} sources, {len(stale)} changed", flush=True)
    failed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        results = pool.map(lambda work: (*examine(options.binary, options.build, work[0], more), *work), stale)
        for findings, clean, entry, stamp in results:
            if clean:
                stamp.touch()
            else:
                failed += 1
                print(f"{entry['file']}:\n{findings}", flush=True)
    print(f"clang-tidy: {failed} sources with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
