"""Records the requests of real programs, each in a separate home and project: see README.md.

    python3 tests/clients/record.py claude-code --program .cache/clients/claude-code/node_modules/.bin/claude

The bodies go to .cache/clients/recorded/NAME.json as they came, with prompts and paths; scrub.py makes the
fixtures of them.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from scripted_server import Answer, ScriptedServer
import sessions

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIMEOUT_S = 600  # Open WebUI takes minutes to create its database


class Place:
    """A separate home and project, both removed at the end."""

    def __init__(self, name):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"record-{name}-"))
        self.home, self.project = self.folder / "home", self.folder / "project"
        self.home.mkdir(), self.project.mkdir()
        (self.project / "notes.txt").write_text("The first note.\nThe second note: naïve café ☕.\n")
        (self.project / "add.py").write_text("def add(a, b):\n    return a - b\n")
        shutil.copy(ROOT / "assets/shapes.png", self.project / "shapes.png")
        shutil.copy(pathlib.Path(__file__).with_name("tool_server.py"), self.folder / "tool_server.py")
        for command in (["init", "-q"], ["add", "."],
                        ["-c", "user.name=A", "-c", "user.email=a@localhost", "commit", "-qm", "Start"]):
            subprocess.run(["git", *command], cwd=self.project, check=True)

    def write(self, path, text):
        place = self.home / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text if isinstance(text, str) else json.dumps(text))

    def run(self, command, environment, text=None):
        clean = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
        clean.update(HOME=str(self.home), TMPDIR=str(self.folder), NO_PROXY="*", **environment)
        done = subprocess.run([str(part) for part in command], cwd=self.project, env=clean, input=text or "",
                              capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        print(f"$ {' '.join(map(str, command))[:150]}\n  exit {done.returncode}: {done.stdout[-600:]}"
              f"{done.stderr[-600:]}", file=sys.stderr)
        return done


def filling(server, place):
    """A function that fills in {url}, {folder} and {project}, anywhere in a value."""
    names = {"{url}": server.url, "{folder}": str(place.folder), "{project}": str(place.project)}

    def put(value):
        if isinstance(value, Answer):
            return dataclasses.replace(value, calls=put(value.calls))
        if isinstance(value, dict):
            return {key: put(inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple)):
            return [put(inner) for inner in value]
        if isinstance(value, (str, pathlib.Path)):
            value = str(value)
            for name, text in names.items():
                value = value.replace(name, text)
        return value
    return put


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=sorted(sessions.ALL))
    parser.add_argument("--program", required=True, help="the client's executable")
    parser.add_argument("--keep", action="store_true", help="leave its home and project")
    options = parser.parse_args()
    place = Place(options.name)
    recorded = []
    with ScriptedServer([]) as server:
        put = filling(server, place)
        for session, steps in sessions.ALL[options.name](place, pathlib.Path(options.program).absolute()):
            for step, (script, command, environment) in enumerate(steps):
                server.script, first = put(script), len(server.requests)
                server.always_plays = options.name in sessions.WITHOUT_TOOLS
                for path in list(place.home.rglob("*.in")):
                    path.with_suffix("").write_text(put(path.read_text()))
                place.run(put(command), put(environment))
                for request in server.requests[first:]:
                    recorded.append({"session": session, "step": step, **request})
    out = ROOT / f".cache/clients/recorded/{options.name}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(recorded, indent=1, ensure_ascii=False))
    print(f"{out}: {len(recorded)} requests")
    if options.keep:
        print(place.folder)
    else:
        shutil.rmtree(place.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
