#!/usr/bin/env python3
"""Checks the text of the Metal kernels without a Mac: the rules of src/backends/metal/kernels/language.h, address
spaces by clang, and that every selector and kernel that the host names exists.

    tools/metal_text.py [--root DIR]    prints `file:line: sentence` for each breach; exit code 1 if any

The address spaces are skipped without clang 18 or newer."""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cpp_source import blank_literals

KERNELS = "src/backends/metal/kernels"
INCLUDED = "backends/metal/kernels"
RULES = [
    (r"\bdouble\b", "Metal has no double"),
    (r"\bstatic\b", "a kernel has no static variable"),
    (r"\b(atomic_\w+|memory_order\w*)\b", "atomics would let the order of threads decide"),
    (r"\bsimd_(sum|max|min|product|prefix\w*)\b", "the order of its additions is Metal's own; use lanes_sum"),
    (r"\bsimdgroup_\w*matrix\w*\b", "its arithmetic is Metal's own"),
    (r"\[[&=]\]", "a kernel has no lambda"),
    (r"\b(new|delete|throw|try|virtual|std::)\b", "is not a word of Metal"),
    (r"(?<![\w.])(exp|log|sqrt|pow|sin|cos|tanh|rsqrt)\(", "use FT_EXP, FT_LOG or FT_SQRT, which are the precise ones"),
    (r"\b\d+\.\d*(?:e-?\d+)?(?![\dfFe.])", "a literal without f is a double"),
]
SPACES = r"\b(device|constant|threadgroup|thread)\b"
# `a * b + c` and `c + a * b` between floats; integer arithmetic has names that say so.
FLOAT_NAMES = r"(?:acc|dot|sum|total|scale|bias|score|best|old|now|value|own|far|o|in|q|g|d|out|beta)"
PRODUCT_SUM = re.compile(
    rf"\b{FLOAT_NAMES}(?:\[[^]]*\])?\s*\*\s*{FLOAT_NAMES}(?:\[[^]]*\])?\s*[-+](?![-+=])"
    rf"|[-+]=\s*{FLOAT_NAMES}(?:\[[^]]*\])?\s*\*\s*{FLOAT_NAMES}"
)


def is_language(path):
    return path.name in ("check_language.h", "language.h")


def lint(path, text):
    found = []
    code = blank_literals(text)
    for number, line in enumerate(code.splitlines(), 1):
        line = re.sub(r"//.*", "", line)
        if line.lstrip().startswith("#"):
            continue
        for rule, sentence in RULES:
            if re.search(rule, line) and not (path.name == "check_language.h"):
                found.append((path, number, sentence))
        if PRODUCT_SUM.search(line) and not is_language(path):
            found.append((path, number, "a product that is added is an fma()"))
        for match in re.finditer(r"[(,]\s*((?:const\s+)?[\w ]+?)\s*[*&]\s*\w+\s*(?=[,)\[])", line):
            words = match.group(1)
            # A parameter names a type before the star; a product names a value.
            if re.search(r"\b(float|int|uint|half|\w+Args)$", words) and not re.search(SPACES, words):
                found.append((path, number, f"`{words}`: a pointer or reference names its address space"))
    return found


def check_address_spaces(root):
    clang = next((name for name in ("clang++-19", "clang++-18", "clang++") if shutil.which(name)), None)
    if clang is None:
        print("metal_text: address spaces need clang; skipped")
        return []
    lines = [f'#include "{INCLUDED}/{name}.h"' for name in ("linear", "norm", "elementwise", "state", "draft")]
    lines += [
        "#define FT_PLAIN(name) auto* const use_##name = &name;",
        "#define FT_INSTANCE(name, ...) auto* const use_##name = &__VA_ARGS__;",
        f'#include "{INCLUDED}/list.inc"',
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
        source.write("\n".join(lines) + "\n")
        source.flush()
        command = [clang, "-std=c++17", "-fsyntax-only", "-DFT_CHECK", "-Wno-unknown-attributes"]
        command += ["-I", str(root / "src")]
        done = subprocess.run(
            [*command, "-Wno-ignored-attributes", source.name], capture_output=True, text=True, check=False
        )
    return [(Path(KERNELS), 0, line) for line in done.stderr.splitlines() if "error:" in line]


def check_selectors(root):
    known = set((root / "src/backends/metal/macos/selectors.txt").read_text(encoding="utf-8").split("\n"))
    found = []
    for path in sorted((root / "src/backends/metal/macos").glob("*.[ch]*")):
        text = re.sub(r'class_named\("\w+"\)', "class", path.read_text(encoding="utf-8"))
        for match in re.finditer(r'(?:message<[^;{}]*?>\(\s*[^;]*?|_\{)"([\w:]+)"', text):
            if match.group(1) not in known:
                line = text.count("\n", 0, match.start()) + 1
                found.append((path.relative_to(root), line, f"metal-cpp has no selector {match.group(1)}"))
    return found


def check_names(root):
    """Every kernel that the host names is in the list."""
    text = (root / KERNELS / "list.inc").read_text(encoding="utf-8")
    names = set(re.findall(r"FT_(?:PLAIN|INSTANCE)\((\w+)", text))
    found = []
    for path in sorted((root / "src/backends/metal").glob("*.cpp")):
        source = path.read_text(encoding="utf-8")
        named = list(re.finditer(r'(?:launch\(\s*step,|combine\(step,|\?)\s*"([a-z_0-9]+)"', source))
        table = re.search(r"struct Launched \{.*?\n\};", source, re.DOTALL)  # those that compile() makes
        if table:
            named += re.compile(r'"([a-z_0-9]+)"').finditer(source, table.start(), table.end())
        for match in named:
            if match.group(1) not in names and not path.stem.endswith("_test"):
                line = source.count("\n", 0, match.start()) + 1
                found.append((path.relative_to(root), line, f"there is no kernel {match.group(1)}"))
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root
    found = []
    for path in sorted((root / KERNELS).glob("*.h")):
        found += lint(path.relative_to(root), path.read_text(encoding="utf-8"))
    found += check_selectors(root) + check_names(root) + check_address_spaces(root)
    for path, line, sentence in found:
        print(f"{path}:{line}: {sentence}")
    if not found:
        print("metal_text: the kernels keep their rules")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
