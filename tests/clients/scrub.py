"""Makes a fixture of a recorded session: no text of the program's maker, no path of the machine, no id.

    python3 tests/clients/scrub.py .cache/clients/recorded/codex.json --version 0.169.0 --date 2026-11-28

Descriptions, prompts and notices become marks with their length (filler.py). Names, schemas, types and the
short texts of our own script stay. A part that several bodies share is written once.
"""
import argparse
import collections
import json
import pathlib
import re

import filler

HERE = pathlib.Path(__file__).parent
SHORT = 20  # descriptions of tools and texts of a system's prompt
LONG = 90  # everything else
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
HEX = re.compile(r"\b[0-9a-f]{16,}\b")
FOLDER = re.compile(r"/tmp/record-[\w-]+?/(project|home)")
ANY_FOLDER = re.compile(r"/tmp/record-[\w-]+|/work/[\w/.+-]*|/root[\w/.+-]*")
TAG = re.compile(r"(?s)(<[a-z_-]+>)?(.*?)(</[a-z_-]+>)?\s*")
PATCH = ('start: "*** Begin Patch" LF line+ "*** End Patch" LF?\nline: /[^*\\n][^\\n]*/ LF\n\n'
         "%import common.LF\n")
VERBATIM = {"data", "url", "image_url", "signature", "name", "id", "call_id", "tool_call_id", "tool_use_id", "type",
            "pattern", "format", "$ref", "$schema", "const", "enum", "required", "role"}


def clean(text):
    """`text` without paths and names of the machine."""
    text = FOLDER.sub(lambda found: "/home/me" + ("/project" if found[1] == "project" else ""), text)
    text = ANY_FOLDER.sub("/home/me", text)
    text = UUID.sub("00000000-0000-4000-8000-000000000000", text)
    return HEX.sub(lambda found: "0" * len(found[0]), text)


def shortened(text, most):
    if len(text) <= most:
        return text
    head, inside, tail = TAG.fullmatch(text).groups()
    return f"{head or ''}{filler.mark(len(inside))}{tail or ''}"


def scrub(value, key="", most=LONG):
    if isinstance(value, str):
        if key in ("data", "url", "image_url") and len(value) > 200:
            return value  # the picture of assets/
        if key == "definition":
            return PATCH
        value = clean(value)
        return value if key in VERBATIM else shortened(value, most)
    if isinstance(value, list):
        return [scrub(inner, key, most) for inner in value]
    if isinstance(value, dict):
        if key == "client_metadata":
            return {name: "0" for name in value}
        if value.get("role") in ("system", "developer"):
            most = SHORT
        return {name: scrub(inner, name, SHORT if name in ("description", "tools", "system", "instructions") else most)
                for name, inner in value.items()}
    return value


def parts_of(bodies):
    """The lists and objects that may be shared: each message, each tool, and the other long members."""
    for body in bodies:
        for key, value in body.items():
            if key in ("messages", "input", "tools") and isinstance(value, list):
                yield from value
            if isinstance(value, (list, dict)):
                yield value


def shared(bodies):
    """The bodies with {"$part": n} in place of repeated parts, and the parts."""
    def text_of(value):
        return json.dumps(value, ensure_ascii=False)

    counts = collections.Counter(text_of(part) for part in parts_of(bodies))
    numbers, parts = {}, []

    def put(value):
        text = text_of(value)
        if counts.get(text, 0) > 1 and len(text) > 60:
            if text not in numbers:
                inner = [put(one) for one in value] if isinstance(value, list) else value
                numbers[text] = len(parts)
                parts.append(inner)
            return {"$part": numbers[text]}
        return [put(one) for one in value] if isinstance(value, list) else value

    return [{key: put(value) for key, value in body.items()} for body in bodies], parts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("recorded", type=pathlib.Path)
    parser.add_argument("--version", required=True)
    parser.add_argument("--date", required=True)
    options = parser.parse_args()
    posts = [one for one in json.loads(options.recorded.read_text()) if one["method"] == "POST"]
    bodies, parts = shared([scrub(one["body"]) for one in posts])
    lines = [json.dumps({"session": f"{one['session']} {one['step']}", "path": one["path"],
                         "headers": {name: clean(text) for name, text in one["headers"].items()
                                     if name != "user-agent"},
                         "body": body}, ensure_ascii=False) for one, body in zip(posts, bodies)]
    text = json.dumps({"program": options.recorded.stem, "version": options.version, "date": options.date})[:-1]
    text += ',\n"parts": [\n' + ",\n".join(json.dumps(part, ensure_ascii=False) for part in parts)
    text += '],\n"requests": [\n' + ",\n".join(lines) + "]}\n"
    json.loads(text)
    out = HERE / "bodies" / options.recorded.name
    out.parent.mkdir(exist_ok=True)
    out.write_text(text)
    print(f"{out}: {len(lines)} requests, {len(text.encode())} bytes")


if __name__ == "__main__":
    main()
