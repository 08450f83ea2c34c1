"""Popular frameworks, each in a separate virtual environment, against one built server.

    tools/framework_test [NAME ...]

requirements.tsv names each framework's file and its packages. The last line is `N passed, N failed, N skipped`:
skipped are frameworks that cannot be installed.
"""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "server"))

from server_process import ROOT, Server  # noqa: E402

FOLDER = ROOT / ".cache/frameworks"
TIMEOUT_S = 900


def install(name, packages):
    """The framework's Python, or None without PyPI."""
    place = FOLDER / name
    python, mark = place / "bin/python", place / "installed"
    if mark.exists() and mark.read_text() == packages:
        return python
    uv = pathlib.Path(sys.executable).with_name("uv")
    environment = {**os.environ, "UV_CACHE_DIR": str(FOLDER / "cache")}
    for command in ([uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, place],
                    [uv, "pip", "install", "--quiet", "--python", python, *packages.split()]):
        if subprocess.run(command, env=environment, check=False).returncode != 0:
            return None
    mark.write_text(packages)
    return python


def main():
    rows = [line.split("\t") for line in (HERE / "requirements.tsv").read_text().splitlines()]
    wanted = sys.argv[1:] or [name for name, _ in rows]
    unknown = set(wanted) - {name for name, _ in rows}
    if unknown:
        sys.exit(f"framework_test: no framework is called {', '.join(sorted(unknown))}")
    passed = failed = skipped = 0
    with Server("--api-key", "secret", "--context", "16384") as server:
        environment = {**os.environ, "SERVER_URL": server.url, "SERVER_KEY": "secret",
                       "SERVER_MODEL": server.facts["model"], "OPENAI_API_KEY": "secret", "HF_HUB_OFFLINE": "1",
                       "DO_NOT_TRACK": "1", "HAYSTACK_TELEMETRY_ENABLED": "False",
                       "LITELLM_LOCAL_MODEL_COST_MAP": "True", "DSPY_CACHEDIR": str(FOLDER / "dspy-cache")}
        for name, packages in rows:
            if name not in wanted:
                continue
            print(f"{name}: {packages}", flush=True)
            python = install(name, packages)
            if python is None:
                print("  skipped: it cannot be installed", flush=True)
                skipped += 1
                continue
            done = subprocess.run([python, HERE / f"{name}.py"], env=environment, stdout=subprocess.PIPE, text=True,
                                  timeout=TIMEOUT_S, check=False)
            print(done.stdout, end="", flush=True)
            lines = done.stdout.splitlines()
            passed += sum(line.startswith("  ok ") for line in lines)
            bad = sum(line.startswith("  FAIL ") for line in lines)
            failed += bad or (done.returncode != 0)  # it may fail before its first test
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 77 if not passed else 0


if __name__ == "__main__":
    sys.exit(main())
