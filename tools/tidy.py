#!/usr/bin/env python3
"""The tree's own rules, checked on the text alone: floors, lengths, names, words, identifiers, dead files, twins.

    tools/tidy.py [--root DIR]    prints `file:line: [rule] sentence` for each breach; exit code 1 if any

Only tracked files are read (all files if git is missing). Every exception is listed here with its reason.
tools/tidy_test.py plants each breach and checks that it is caught.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

from cpp_source import blank_literals, functions, line_of
from identifiers import check_identifiers
from other_sources import readable_text

MAX_COLUMNS = 110
MAX_PYTHON_COLUMNS = 120
MAX_DECISION_COLUMNS = 100  # pages of docs/decisions/, tables included
MAX_DECISION_LINES = 40
MAX_FUNCTION_LINES = 70
SOFT_FILE_LINES = 400  # noted, not refused
HARD_FILE_LINES = 500

# Paths that may be longer than HARD_FILE_LINES: path -> why.
LONG_FILES = {}
# "path:function" that may be longer than MAX_FUNCTION_LINES: why.
LONG_FUNCTIONS = {}
# Headers that nothing includes on purpose: path -> why.
UNINCLUDED_HEADERS = {}
# backends/cpu/<name>.cpp without a twin backends/ref/<name>.cpp: what only a fast backend has.
WITHOUT_TWIN = {
    *("backend", "features", "kernels", "pack", "packed_weights", "plan", "pool", "packed_cache", "barrier_plan"),
    "apart", "early_rows", "extra_head", "prepared_rows", "read_ahead",
}
# Instruction sets that may end the name of a kernel file: its twin is the name without them.
ISA_SUFFIX = re.compile(
    r"_(portable|sse4|avx2|avxvnni|avx512|avx512bf16|avx512vnni|bf16|vnni|amx|neon|neondot|neoni8mm|sve|i8mm)$"
)

# Headers whose types hold JSON by value.
HOLDS_JSON = {
    "api/anthropic/message_blocks.h",
    "api/openai/custom_tool.h",
    "base/ordered_json.h",
    "text/schema_graph.h",
}

# Headers with restricted includes: regular expression, place (a test of the path), sentence.
RESTRICTED_INCLUDES = [
    (
        re.compile(r"^(CLI/|spdlog/|toml\+\+/|toml\.hpp|nlohmann/(json|ordered_map)\.hpp)"),
        lambda path: path.suffix == ".cpp" or path.as_posix() in HOLDS_JSON,
        "is slow to compile: include it in a .cpp, never in a header",
    ),
    (
        re.compile(r"^(sys/socket\.h|sys/un\.h|netinet/|arpa/inet\.h|netdb\.h|boost/asio|boost/beast)"),
        lambda path: path.parts[0] in ("server", "hub") or is_test(path) or path.name in ("system.cpp", "peer.cpp"),
        "opens sockets, which only server/ may do",
    ),
]
# Calls allowed only in sched/ and above, and the lower files that may make them.
CLOCK_OR_ENVIRONMENT = re.compile(
    r"\b(?:(?:steady|system|high_resolution)_clock::now|(?:secure_)?getenv)\s*\("
)
MAY_READ_CLOCK = {"base/clock.h", "base/clock.cpp", "base/log.cpp", "base/thread_pool.cpp"}
SCHED_LEVEL = 6

BANNED_FILE_WORDS = {"util", "utils", "common", "helper", "helpers", "manager", "managers"}
# `common_prefix` says something; `common` alone does not
BANNED_NAME_WORDS = BANNED_FILE_WORDS - {"common"}
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" "DO", "FIX" "ME", "XX" "X", "HA" "CK")) + r")\b")

# Words of comments, strings and documentation: regular expression, the replacement.
WORDS = [
    (re.compile(r"\bstands?\b(?!-in)", re.IGNORECASE), "use is, is in or are"),
    (re.compile(r"(?<!there )\bis no\b(?! longer)", re.IGNORECASE), "use is not a"),
    (re.compile(r"(?<!there )\bare no\b(?! longer)", re.IGNORECASE), "use are not"),
    (re.compile(r"\bbehind\b", re.IGNORECASE), "use after"),
    (re.compile(r"\bgoes on\b", re.IGNORECASE), "use continues"),
    (re.compile(r"\bso many\b", re.IGNORECASE), "name the number"),
    (re.compile(r"\bso much\b", re.IGNORECASE), "name the amount"),
    (re.compile(r"\bratio rule\b", re.IGNORECASE), "use rejection sampling"),
    (re.compile(r"\bjudg\w+", re.IGNORECASE), "use check, compare, classify or decide"),
]
# The rule itself and its test, which plants the words.
SHOW_WORDS = {"tools/tidy.py", "tools/tidy_test.py"}
# Folders whose comments and strings are not converted to these words yet. Remove a folder once it is clean.
UNCONVERTED = set(
    "".split()
)

# nlohmann's own parser and writer: three seconds of every source that calls them.
JSON_CALLS = re.compile(r"\.dump\(|\b(?:ordered_)?[jJ]son::parse\(")
MAY_CALL_JSON = set(
    "base/json.cpp api/fields.cpp cli/commands/conversation.cpp format/quantisation.cpp format/writer.cpp "
    "text/chat_format/gemma4.cpp".split()
)

CHAT_TAGS = re.compile(r"</?think>|</?tool_call>|</?function[=>]|</?parameter[=>]|<\|fim_\w+\|>")

CPP = {".cpp", ".h"}
TEXT = CPP | set(".c .hpp .cu .cuh .metal .rs .py .sh .cmake .toml .js .ts .svelte .css .html".split())


def in_src(name):
    """The path as includes write it: code is in src/, which is the include directory."""
    path = Path(name)
    return path.relative_to("src") if path.parts[0] == "src" else path


def is_test(path):
    return path.parts[0] in ("tests", "bench") or re.search(r"_(test|fuzz|bench)$", path.stem) is not None


class Tree:
    """The files of a checkout, read once, and the breaches found in them."""

    def __init__(self, root):
        self.root = root
        self.breaches = []
        self.notes = []
        self.text = {}
        self.documents = {}
        for path in self.list_files():
            name = path.as_posix()
            if path.suffix == ".md":
                self.documents[name] = (root / path).read_text(encoding="utf-8", errors="replace")
            first = (root / path).read_bytes()[:2] if path.suffix == "" else b""
            if path.suffix in TEXT or path.name == "CMakeLists.txt" or first == b"#!":
                self.text[name] = (root / path).read_text(encoding="utf-8", errors="replace")

    def walks(self):
        return not (self.root / ".git").exists() or not self.git("rev-parse", "HEAD")

    def git(self, *arguments):
        command = ["git", "-c", "safe.directory=*", "-C", str(self.root), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    def list_files(self):
        names = (
            [path.relative_to(self.root) for path in self.root.rglob("*")]
            if self.walks()
            else [Path(name) for name in self.git("ls-files", "-z").split("\0") if name]
        )
        keep = [
            p
            for p in names
            if (self.root / p).is_file()
            and not p.parts[0].startswith("build")
            and "target" not in p.parts
            and not (p.parts[0].startswith(".") and p.parts[0] != ".ci")
        ]
        return sorted(set(keep))

    def breach(self, name, line, rule, sentence):
        self.breaches.append((name, line, rule, sentence))

    def sources(self):
        return {name: text for name, text in self.text.items() if Path(name).suffix in CPP}


# ---- floors ------------------------------------------------------------------------------------------------


def read_floors(tree):
    """folder of src/ -> (level, folders it may include besides itself), from tools/floors.txt."""
    floors = {}
    table = (tree.root / "tools/floors.txt").read_text(encoding="utf-8")
    for number, line in enumerate(table.splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        if len(words) < 2 or not re.fullmatch(r"F\d+", words[0]):
            tree.breach("tools/floors.txt", number, "floors", "is not `F<level> folder allowed...`")
            continue
        floors[words[1]] = (int(words[0][1:]), set(words[2:]))
    for folder, (level, allowed) in floors.items():
        for other in sorted(allowed):
            if other not in floors:
                tree.breach(
                    "tools/floors.txt", 1, "floors", f"{folder} may include {other}, which has no floor"
                )
            elif floors[other][0] > level or folder in floors[other][1]:
                tree.breach(
                    "tools/floors.txt", 1, "floors", f"{folder} (F{level}) and {other} are upside down"
                )
    return floors


def may_include(path, target, floors):
    """Whether the source at `path` may include the project header `target` (both relative to src/)."""
    here, there = path.parts[0], target.parts[0]
    if here == there:
        return True
    if there == "text_ffi":
        return here in ("text", "images")
    if there == "tests":
        return is_test(path)
    if here not in floors:
        return True  # tests/ and bench/ cross floors
    if there not in floors:
        return False
    level, allowed = floors[here]
    # A test may bring in what it is proved with, of its level or below: `timeline` against a real backend.
    return there in allowed or (is_test(path) and floors[there][0] <= level)


def check_includes(tree, floors):
    for name, text in tree.sources().items():
        path = in_src(name)
        for number, line in enumerate(text.splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if not match:
                continue
            target = match.group(2)
            for pattern, allowed_in, sentence in RESTRICTED_INCLUDES:
                if pattern.match(target) and not allowed_in(path):
                    tree.breach(name, number, "includes", f"<{target}> {sentence}")
            if match.group(1) == "<":
                continue
            if "/" not in target or target.startswith("."):
                tree.breach(
                    name, number, "includes", f'"{target}": write the path from src/'
                )
            elif not may_include(path, Path(target), floors):
                tree.breach(
                    name, number, "floors", f"{path.parts[0]} may not include {target}: see tools/floors.txt"
                )
            else:
                check_backend_walls(tree, name, number, path, Path(target))


def check_backend_walls(tree, name, number, path, target):
    """Twin backends do not include each other; only files directly in backends/ are shared."""
    if is_test(path) or path.parts[0] != "backends" or target.parts[0] != "backends":
        return
    if len(target.parts) > 2 and len(path.parts) > 2 and target.parts[1] != path.parts[1]:
        tree.breach(name, number, "floors", f"backends/{path.parts[1]} may not include {target.as_posix()}")


def check_clocks(tree, floors):
    """Nothing below sched/ reads a clock or the environment: an answer depends on its request alone."""
    for name, text in tree.sources().items():
        path = in_src(name)
        level = floors.get(path.parts[0], (SCHED_LEVEL, ()))[0]
        if level >= SCHED_LEVEL or is_test(path) or path.as_posix() in MAY_READ_CLOCK:
            continue
        blanked = blank_literals(text)
        for match in CLOCK_OR_ENVIRONMENT.finditer(blanked):
            tree.breach(
                name,
                line_of(blanked, match.start()),
                "clock",
                f"{match.group(0)}): below sched/ only base/clock reads clocks, and no file reads the environment",
            )


# ---- lengths -----------------------------------------------------------------------------------------------


def check_lines(tree):
    for name, text in tree.text.items():
        lines = text.split("\n")
        count = len(lines) - (lines[-1] == "")
        if Path(name).suffix in TEXT and count > HARD_FILE_LINES and name not in LONG_FILES:
            tree.breach(name, count, "file-length", f"{count} lines; split it (at most {HARD_FILE_LINES})")
        elif count > SOFT_FILE_LINES and name not in LONG_FILES:
            tree.notes.append(f"{name}: {count} lines, over the {SOFT_FILE_LINES} we aim at")
        allowed = MAX_PYTHON_COLUMNS if name.endswith(".py") else MAX_COLUMNS
        for number, line in enumerate(lines, 1):
            width = len(line)
            if width > allowed and not re.search(r"https?://\S+$", line):
                tree.breach(name, number, "line-length", f"{width} columns (at most {allowed})")
            if "\t" in line:
                tree.breach(name, number, "tab", "a tab; indent with spaces")
            if line != line.rstrip():
                tree.breach(name, number, "trailing-space", "spaces at the end of the line")
            marker = UNFINISHED.search(line)
            if marker:
                tree.breach(name, number, "unfinished", f"{marker.group(0)}: finish it, or write an issue")
        if text and not text.endswith("\n"):
            tree.breach(name, count, "trailing-space", "no newline at the end of the file")


def check_documents(tree):
    """Lines of Markdown outside tables and code; the size of a decision page."""
    for name, text in tree.documents.items():
        decision = re.fullmatch(r"docs/decisions/\d+[^/]*\.md", name) is not None
        allowed = MAX_DECISION_COLUMNS if decision else MAX_COLUMNS
        lines = text.split("\n")
        if decision and len(lines) - (lines[-1] == "") > MAX_DECISION_LINES:
            sentence = f"at most {MAX_DECISION_LINES} lines; move attempts and tables to bench/results/"
            tree.breach(name, MAX_DECISION_LINES + 1, "file-length", sentence)
        in_code = False
        for number, line in enumerate(lines, 1):
            fence = line.lstrip().startswith("```")
            in_code ^= fence
            free = in_code or fence or (line.startswith("|") and not decision)
            if len(line) > allowed and not free and not re.search(r"https?://\S+$", line):
                tree.breach(name, number, "line-length", f"{len(line)} columns (at most {allowed})")


def check_functions(tree):
    for name, text in tree.sources().items():
        for function, first, lines in functions(text):
            if lines > MAX_FUNCTION_LINES and f"{name}:{function}" not in LONG_FUNCTIONS:
                tree.breach(
                    name,
                    first,
                    "function-length",
                    f"{function} has {lines} lines (at most {MAX_FUNCTION_LINES})",
                )


# ---- names, dead files, twins ------------------------------------------------------------------------------


def words_of(identifier):
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", identifier)]


def check_names(tree):
    for name in tree.text:
        path = Path(name)
        bad = BANNED_FILE_WORDS & {word for part in path.parts for word in words_of(Path(part).stem)}
        if bad:
            tree.breach(
                name, 1, "banned-name", f"{sorted(bad)[0]} in a file name says nothing: name what it holds"
            )
    for name, text in tree.sources().items():
        blanked = re.sub(r"^\s*#\s*include[^\n]*", "", blank_literals(text), flags=re.MULTILINE)
        seen = set()
        for match in re.finditer(r"\b[A-Za-z_]\w*", blanked):
            identifier = match.group(0)
            if identifier in seen:
                continue
            seen.add(identifier)
            words = words_of(identifier)
            bad = BANNED_NAME_WORDS & set(words)
            if bad or words[-1:] == ["common"]:
                number = line_of(text, text.find(identifier))
                tree.breach(name, number, "banned-name", f"{identifier}: name what it holds or does")
            if words[:1] == ["k"] and words[1:2] in (["most"], ["least"]):
                number = line_of(text, text.find(identifier))
                tree.breach(name, number, "banned-name", f"{identifier}: limits are called kMax or kMin")


def blank_code(text):
    """Markdown without its code fences and code spans; every newline stays, so line numbers hold."""
    return re.sub(
        r"^```.*?^```|`[^`\n]*`",
        lambda match: re.sub(r"[^\n]", " ", match.group(0)),
        text,
        flags=re.DOTALL | re.MULTILINE,
    )


def check_words(tree):
    texts = {name: blank_code(text) for name, text in tree.documents.items()}
    for name, text in tree.text.items():
        readable = readable_text(Path(name).suffix, text)
        if readable is not None and in_src(name).parts[0] not in UNCONVERTED and name not in SHOW_WORDS:
            texts[name] = readable
    for name, text in texts.items():
        for word, instead in WORDS:
            for match in word.finditer(text):
                tree.breach(name, line_of(text, match.start()), "words", f"'{match.group(0)}': {instead}")


def check_chat_tags(tree):
    """The tags of a model's chat format are in its file alone; tests may write them."""
    for name, text in tree.sources().items():
        path = in_src(name)
        if is_test(path) or path.as_posix().startswith("text/chat_format/") or path.parts[0] == "webui":
            continue
        for match in CHAT_TAGS.finditer(text):
            tree.breach(
                name, line_of(text, match.start()), "chat-tags", f"{match.group(0)} belongs in text/chat_format/"
            )


def check_json_calls(tree):
    for name, text in tree.sources().items():
        path = in_src(name)
        if is_test(path) or path.as_posix() in MAY_CALL_JSON or path.suffix not in CPP:
            continue
        for match in JSON_CALLS.finditer(blank_literals(text)):
            tree.breach(name, line_of(text, match.start()), "json", "is slow to compile: use base/json.h")


def check_headers(tree):
    included = set()
    for text in tree.sources().values():
        included.update(re.findall(r'#\s*include\s*[<"]([^>"]+)[>"]', text))
    for name, text in tree.sources().items():
        if not name.endswith(".h"):
            continue
        if not re.search(r"^#pragma once$", text, re.MULTILINE):
            tree.breach(name, 1, "header", "has no #pragma once")
        opening = [line for line in text.split("\n") if line.strip() and line.strip() != "#pragma once"][:1]
        if not opening or not opening[0].startswith(("//", "/*")):
            tree.breach(
                name, 1, "header", "does not open with a comment that says what it is"
            )
        path = in_src(name).as_posix()
        if path not in included and path not in UNINCLUDED_HEADERS:
            tree.breach(name, 1, "dead-file", "no source includes this header")


def floor_folders(lists):
    """The subfolders that an ft_floor of this CMakeLists.txt names after FOLDERS."""
    found = re.findall(r"\bFOLDERS((?:\s+(?![A-Z_]+\b)[\w/]+)+)", lists)
    return {folder for words in found for folder in words.split()}


def check_built(tree):
    """Every .cpp is in a folder with a CMakeLists.txt, or a folder above names the file or its folder."""
    for name in tree.sources():
        path = Path(name)
        if path.suffix != ".cpp" or (path.parent / "CMakeLists.txt").as_posix() in tree.text:
            continue
        built = False
        for above in path.parents:
            lists = tree.text.get((above / "CMakeLists.txt").as_posix(), "")
            inner = path.relative_to(above)
            folder = f"{inner.parent.as_posix()}/*" if len(inner.parts) > 1 else inner.as_posix()
            in_floor = inner.parent.as_posix() in floor_folders(lists)
            built = built or in_floor or inner.as_posix() in lists or folder in lists
        if name == "src/main.cpp":
            built = "../main.cpp" in tree.text.get("src/cli/CMakeLists.txt", "")
        if not built:
            tree.breach(name, 1, "dead-file", "no CMakeLists.txt builds this source")


def check_twins(tree):
    """The same step has the same file name in each backend, so that two of them can be read side by side."""
    reference = {Path(name).stem for name in tree.text if name.startswith("src/backends/ref/")}
    if not reference:
        return
    for name in tree.text:
        path = Path(name)
        if not name.startswith("src/backends/cpu/") or path.suffix != ".cpp" or is_test(path):
            continue
        stem = path.stem
        while ISA_SUFFIX.search(stem):
            stem = ISA_SUFFIX.sub("", stem)
        if stem not in reference and stem not in WITHOUT_TWIN and path.stem not in WITHOUT_TWIN:
            tree.breach(
                name, 1, "twin", f"backends/ref has no {stem}.cpp; name it like its twin or in WITHOUT_TWIN"
            )


def examine(root):
    """Reads the tree at `root` and returns it with its breaches and notes."""
    tree = Tree(root)
    floors = read_floors(tree)
    check_includes(tree, floors)
    check_clocks(tree, floors)
    check_lines(tree)
    check_documents(tree)
    check_functions(tree)
    check_names(tree)
    check_words(tree)
    check_identifiers(tree)
    check_chat_tags(tree)
    check_json_calls(tree)
    check_headers(tree)
    check_built(tree)
    check_twins(tree)
    return tree


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    tree = examine(parser.parse_args().root)
    for note in tree.notes:
        print(f"note: {note}")
    for name, line, rule, sentence in sorted(tree.breaches):
        print(f"{name}:{line}: [{rule}] {sentence}")
    print(f"tidy: {len(tree.text)} files read, {len(tree.breaches)} breaches")
    return 1 if tree.breaches else 0


if __name__ == "__main__":
    sys.exit(main())
