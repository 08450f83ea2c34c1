#!/usr/bin/env python3
"""Links the portable program: CMake gives the compiler's link command, this one runs zig's linker instead.

    link.py PYTHON COMPILER [flags and objects ...] -o PROGRAM [libraries ...]

PYTHON has the package ziglang (tools/setup package), whose linker knows every version of glibc. The program needs
glibc 2.28 and nothing else: each shared library is replaced by the static one next to it, libstdc++ and libgcc by the
compiler's. fmt, spdlog and toml++ have no static one in the distribution: libraries.cpp is among the objects.
"""
import pathlib
import re
import subprocess
import sys

GLIBC = "2.28"
COMPILED_IN = {"libfmt", "libspdlog", "libtomlplusplus"}  # libraries.cpp
# A static library does not name what it needs in turn; these do need something.
NEEDS = {"libedit": ["libbsd.a", "libmd.a", "libtinfo.a"], "libpng": ["libz.a"], "libpng16": ["libz.a"],
         "libwebp": ["libsharpyuv.a"]}


def of_compiler(compiler, name):
    found = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def found_beside(shared, name, compiler):
    """In the folder of another library, where a cross compiler does not look, else where the compiler looks."""
    beside = pathlib.Path(shared).parent / name
    return str(beside) if beside.exists() else of_compiler(compiler, name)


def static_libraries(shared, compiler):
    """The replacement of a shared library: the static one next to it and its dependencies."""
    stem = re.match(r"lib[^.]+", pathlib.Path(shared).name)[0]
    if stem in COMPILED_IN:
        return []
    found = [shared.split(".so")[0] + ".a", *(found_beside(shared, need, compiler) for need in NEEDS.get(stem, []))]
    # libsharpyuv is part of libwebp before 1.3.
    found = [path for path in found if path != "libsharpyuv.a"]
    absent = [path for path in found if not pathlib.Path(path).exists()]
    if absent:
        raise SystemExit(f"link.py: {shared} has no static library ({absent[0]}): say in NEEDS or COMPILED_IN of "
                         "packaging/portable/link.py how a portable program gets it")
    return found


def main():
    python, compiler, *arguments = sys.argv[1:]
    linked, seen = [], set()
    for argument in arguments:
        if argument.startswith(("-O", "-g", "-D", "-W", "-s")):  # rpath too: nothing shared is left
            continue
        if argument.startswith("-l") and argument not in ("-ldl", "-lpthread", "-lm"):
            argument = of_compiler(compiler, f"lib{argument[2:]}.so")
        if re.search(r"\.so(\.\d+)*$", argument):
            if argument not in seen:
                linked += static_libraries(argument, compiler)
            seen.add(argument)
        else:
            linked.append(argument)
    triple = subprocess.run([compiler, "-dumpmachine"], capture_output=True, text=True, check=True).stdout
    machine = triple.split("-")[0]
    runtime = [of_compiler(compiler, name) for name in ("libstdc++.a", "libgcc_eh.a", "libgcc.a")]
    return subprocess.run([python, "-m", "ziglang", "cc", "-target", f"{machine}-linux-gnu.{GLIBC}", "-pie", "-s",
                           "-Wl,--gc-sections", *linked, *runtime, "-ldl", "-lpthread", "-lm"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
