"""Names that documents and comments mention exist in the tree: identifiers, members of types, paths."""

import re
from pathlib import Path

from cpp_source import LITERAL, line_of

CPP = {".h", ".cpp", ".cu", ".cuh", ".metal"}
# Documents about the past, or about other projects' licences.
FREE_DOCUMENTS = ("bench/results/", "CHANGELOG.md", "THIRD_PARTY.md")
# Names and paths of other projects, instructions and programs that documents mention: name -> whose it is.
ELSEWHERE = {
    "autogen": "a client",
    "ncu": "NVIDIA Nsight Compute",
    "cuMemMap": "the CUDA driver",
    "tdpbf16ps": "an instruction of AMX",
    "vdpbf16ps": "an instruction of AVX-512",
    "envname": "CLI11",
    "set_config": "CLI11",
    "namespace__name": "how a client shows a tool of a namespace",
    "docs/src/snippets/configs/Qwen/qwen3.6-benchmarks.jsx": "sgl-project/sglang",
}
# Namespaces of libraries whose members comments mention.
LIBRARIES = {"std", "testing", "fmt", "boost", "beast", "asio", "nlohmann", "toml", "CLI", "ft", "simd", "metal"}

SPAN = re.compile(r"`([^`\n]+)`")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*(?:::~?[A-Za-z_]\w*)*(?:\(\))?")
QUALIFIED = re.compile(r"(?<![\w:<.])([A-Z]\w*)::([A-Za-z_]\w*)")
TYPE = re.compile(r"\b(?:struct|class|union|enum(?:\s+(?:class|struct))?|namespace)\s+(?:alignas\(\w+\)\s*)?(\w+)")
ALIAS = re.compile(r"\busing\s+(\w+)\s*=")
PATH = re.compile(r"(?:src|docs|tests|tools|bench|webui|deploy|packaging|cmake|assets|\.ci)/[\w./{},*-]*\w[\w./{},*-]*")


def without_comments(text):
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group(0)) if match.group(0)[:2] in ("//", "/*") else match.group(0)

    return LITERAL.sub(blank, text)


def blank_fences(text):
    return re.sub(
        r"^```.*?^```", lambda m: re.sub(r"[^\n]", " ", m.group(0)), text, flags=re.DOTALL | re.MULTILINE
    )


class Names:
    """The words of the tree's code, and in which files each type is defined."""

    def __init__(self, tree):
        self.words = set(ELSEWHERE)
        self.words_of = {}  # file -> words
        self.files_of = {}  # type -> files that define it
        self.members = set()  # "Type::member" as code writes it
        for name, text in tree.text.items():
            self.words.add(Path(name).stem)
            code = without_comments(text) if Path(name).suffix in CPP else text
            words = set(re.findall(r"[A-Za-z_]\w*", code))
            self.words |= words
            if Path(name).suffix not in CPP:
                continue
            self.words_of[name] = words
            for found in (*TYPE.findall(code), *ALIAS.findall(code)):
                self.files_of.setdefault(found, set()).add(name)
            self.members.update("::".join(pair) for pair in QUALIFIED.findall(code))

    def has_member(self, owner, member):
        """Whether a file that defines the type also names the member, or code writes it out."""
        if f"{owner}::{member}" in self.members:
            return True
        return any(member in self.words_of[file] for file in self.files_of.get(owner, ()))


def expand(path):
    """a/{b,c}.h -> a/b.h, a/c.h"""
    found = re.search(r"\{([^{}]*)\}", path)
    if not found:
        return [path]
    return [
        whole
        for part in found.group(1).split(",")
        for whole in expand(path[: found.start()] + part + path[found.end() :])
    ]


def check_members(tree, names, place, number, text):
    for owner, member in QUALIFIED.findall(text):
        if owner in LIBRARIES:
            continue
        if owner not in names.files_of and owner not in names.words:
            tree.breach(place, number, "identifier", f"{owner}::{member}: no type of that name")
        elif not names.has_member(owner, member):
            tree.breach(place, number, "identifier", f"{owner}::{member}: the type has no such member")


def check_path(tree, place, number, path):
    for each in expand(path):
        if not any(True for _ in tree.root.glob(each.rstrip("/") or ".")):
            tree.breach(place, number, "identifier", f"{each} is not in the tree")


def check_documents(tree, names):
    for name, text in tree.documents.items():
        if name.startswith(FREE_DOCUMENTS):
            continue
        blanked = blank_fences(text)
        for match in SPAN.finditer(blanked):
            span, number = match.group(1), line_of(blanked, match.start())
            if IDENTIFIER.fullmatch(span):
                missing = [word for word in re.findall(r"\w+", span) if word not in names.words]
                if missing:
                    tree.breach(name, number, "identifier", f"{', '.join(missing)} is not in the tree")
                else:
                    check_members(tree, names, name, number, span)
            elif PATH.fullmatch(span) and span not in ELSEWHERE:
                check_path(tree, name, number, span)


def check_comments(tree, names):
    for name, text in tree.text.items():
        if Path(name).suffix not in CPP:
            continue
        for match in LITERAL.finditer(text):
            if match.group(0)[:2] not in ("//", "/*"):
                continue
            for line, part in enumerate(match.group(0).split("\n"), line_of(text, match.start())):
                check_members(tree, names, name, line, part)


def check_identifiers(tree):
    names = Names(tree)
    check_documents(tree, names)
    check_comments(tree, names)
