#!/usr/bin/env python3
"""The folders of the two npm packages, ready for `npm pack`: assemble.py FOLDER VERSION CPU PROGRAM

`foretoken` has the command and names the package of each platform as optional; npm installs the one that fits.
`foretoken-linux-CPU` has the program and its model.
"""
import json
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CPUS = ["x64", "arm64"]


def package(name, version, **more):
    return {"name": name, "version": version, "license": "Apache-2.0",
            "description": "Runs and serves local language models with exact speculative decoding", **more}


def write(folder, content):
    (folder / "package.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    for name in ("LICENSE", "THIRD_PARTY.md"):
        shutil.copy(ROOT / name, folder)
    shutil.copy(HERE / "README.md", folder)


def main():
    target, version, cpu, program = pathlib.Path(sys.argv[1]), *sys.argv[2:]
    if cpu not in CPUS:
        raise SystemExit(f"assemble.py: {cpu} is not a platform of the npm package ({', '.join(CPUS)}); add it to CPUS")
    command = target / "foretoken"
    command.mkdir()
    shutil.copy(HERE / "cli.js", command)
    (command / "cli.js").chmod(0o755)
    write(command, package("foretoken", version, bin={"foretoken": "cli.js"}, engines={"node": ">=18"},
                           files=["cli.js", "THIRD_PARTY.md"],
                           optionalDependencies={f"foretoken-linux-{one}": version for one in CPUS}))
    platform = target / f"foretoken-linux-{cpu}"
    (platform / "bin").mkdir(parents=True)
    shutil.copy(program, platform / "bin/foretoken")
    (platform / "bin/foretoken").chmod(0o755)
    shutil.copytree(ROOT / "assets", platform / "share/foretoken/assets")
    write(platform, package(platform.name, version, os=["linux"], cpu=[cpu], libc=["glibc"],
                            files=["bin", "share", "THIRD_PARTY.md"]))


if __name__ == "__main__":
    main()
