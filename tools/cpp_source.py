"""Reads C++ sources as text: blanks literals and comments, finds functions by their braces."""

import re


LITERAL = re.compile(
    r'R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)"'  # raw string
    r"|//[^\n]*|/\*.*?\*/"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F'])'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)


def comments_and_strings(text):
    """The text with everything but comments and literals blanked; every newline stays, so line numbers hold."""
    pieces, end = [], 0
    for match in LITERAL.finditer(text):
        pieces += [re.sub(r"[^\n]", " ", text[end : match.start()]), match.group(0)]
        end = match.end()
    return "".join(pieces) + re.sub(r"[^\n]", " ", text[end:])


def blank_literals(text):
    """The text with comments, strings and characters blanked; every newline stays, so line numbers hold."""

    def blank(match):
        inner = re.sub(r"[^\n]", " ", match.group(0))
        return '""' + inner[2:] if match.group(0)[0] in '"R' else inner

    return LITERAL.sub(blank, text)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


SCOPE = re.compile(r'\b(namespace|class|struct|union|enum)\b|\bextern\s*""')
TEMPLATE = re.compile(
    r"\btemplate\s*<[^{};]*?>\s*(?=\b(?:class|struct|union|inline|static|constexpr|void|auto|\w))"
)


def kind_of_brace(header):
    """The kind of block that a `{` outside functions opens, from the text before it: 'scope', 'function' or 'value'."""
    head = header.strip()
    plain = TEMPLATE.sub("", head)
    if not head:
        return "function"  # the body after a constructor's brace initialisers
    if SCOPE.search(plain) and not re.search(r"\)\s*(const|noexcept|override|final|&|->|:|\s)*$", plain):
        return "scope"
    if re.search(
        r"\)\s*(mutable|const|noexcept|override|final|try|&|\s)*(->[^=]*|:.*|requires.*)?$", plain, re.DOTALL
    ):
        return "function"
    return "value"


def functions(text):
    """Yields (name, first line, lines) of each outermost function body of a C++ source."""
    code = re.sub(
        r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
        lambda m: re.sub(r"[^\n]", " ", m.group(0)),
        blank_literals(text),
        flags=re.MULTILINE,
    )
    stack, start, inside, name = [], 0, 0, "?"
    for match in re.finditer(r"[{};]", code):
        at, mark = match.start(), match.group(0)
        if mark == "{":
            header = code[start:at]
            kind = "block" if inside else kind_of_brace(header)
            if kind == "function":
                inside = len(stack) + 1
                found = re.search(r"([~\w:]+(?:\s*\[\])?)\s*\(([^()]*)", header)
                if found and found.group(1) in ("TEST", "TEST_F", "TEST_P", "RC_GTEST_PROP"):
                    name = re.sub(r"\s+", "", f"{found.group(1)}({found.group(2)})")
                elif found:
                    name = found.group(1)
            stack.append((kind, at))
        elif mark == "}" and stack:
            kind, opened = stack.pop()
            if kind == "function":
                inside = 0
                first = line_of(code, opened)
                yield name, first, line_of(code, at) - first + 1
        if not inside:
            start = at + 1
