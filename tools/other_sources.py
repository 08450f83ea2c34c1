"""Comments, strings and page text of Rust, Python, JavaScript and Svelte sources; the rest is blanked."""

import io
import re
import tokenize

from cpp_source import comments_and_strings

RUST = re.compile(r'r(?P<hashes>#*)".*?"(?P=hashes)|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"', re.DOTALL)
SCRIPT = re.compile(
    r"//[^\n]*|/\*.*?\*/|<!--.*?-->"
    r'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|`(?:\\.|[^`\\])*`'
    r"|(?<=>)[^<>{}]+(?=[<{])",  # text between two tags
    re.DOTALL,
)


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def matches_of(pattern, text):
    pieces, end = [], 0
    for match in pattern.finditer(text):
        pieces += [blank(text[end : match.start()]), match.group(0)]
        end = match.end()
    return "".join(pieces) + blank(text[end:])


def python_text(text):
    """Comments and strings of a Python source; nothing of one that does not parse."""
    lines = text.splitlines(keepends=True)
    kept = [blank(line) for line in lines]
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (SyntaxError, tokenize.TokenError):
        return blank(text)
    for token in tokens:
        literal = token.type in (tokenize.COMMENT, tokenize.STRING)
        if not literal and not tokenize.tok_name[token.type].startswith("FSTRING"):
            continue
        (first, begin), (last, end) = token.start, token.end
        for row in range(first - 1, last):
            line = lines[row]
            left, right = begin if row == first - 1 else 0, end if row == last - 1 else len(line)
            kept[row] = kept[row][:left] + line[left:right] + kept[row][right:]
    return "".join(kept)


READERS = {
    **dict.fromkeys((".h", ".cpp", ".cu", ".cuh", ".metal"), comments_and_strings),
    ".py": python_text,
    ".rs": lambda text: matches_of(RUST, text),
    ".js": lambda text: matches_of(SCRIPT, text),
    ".svelte": lambda text: matches_of(SCRIPT, text),
}


def readable_text(suffix, text):
    """The text that people read in a source with this suffix; newlines are kept. None: unknown suffix."""
    return READERS[suffix](text) if suffix in READERS else None
