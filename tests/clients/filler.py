"""Replaces long texts of other programs, so that no fixture holds them: a mark with their length in the
fixture, plain sentences of that length in the request."""
import re

MARK = re.compile(r"⟦(\d+)⟧")
SENTENCES = ("The tool reads a file and returns its lines. ", "Use short commands, one at a time. ",
             "Paths are relative to the project. ", "Say what was done and what is left.\n",
             "- Ask first where a step cannot be undone.\n", "An answer may hold `code` and *lists*. ",
             "Results that are too long are cut.\n\n")


def mark(length):
    return f"⟦{length}⟧"


def text(length):
    out, i = "", 0
    while len(out) < length:
        out += SENTENCES[i % len(SENTENCES)]
        i += 1
    return out[:length]


def expand(value, most):
    """`value` with every mark in its strings as text of at most `most` characters."""
    if isinstance(value, str):
        return MARK.sub(lambda found: text(min(most, int(found[1]))), value)
    if isinstance(value, list):
        return [expand(inner, most) for inner in value]
    if isinstance(value, dict):
        return {key: expand(inner, most) for key, inner in value.items()}
    return value
