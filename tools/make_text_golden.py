#!/usr/bin/env python3
"""Golden files of text/: token ids and rendered templates by transformers.

    .venv/bin/python tools/make_text_golden.py        writes tests/golden/text/{tokenizer,templates}.json
    .venv/bin/python tools/make_text_golden.py --published FOLDER
        writes FOLDER/templates.json for the .jinja files there, which
        FORETOKEN_TEMPLATES=FOLDER text_tests --gtest_filter='*PublishedTemplates' compares

Deterministic: a fixed seed and files of this repository. Texts of the tokenizer are stored as UTF-8 with the ids as one
string of numbers; templates as their source, conversations, and the rendering or null where transformers refuses.
"""

import datetime
import hashlib
import json
import pathlib
import random
import re
import sys

import jinja2
import transformers
from transformers.utils.chat_template_utils import render_jinja_template

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "assets/qwen3.5-tiny"
OUT = ROOT / "tests/golden/text"
SEED = 20250611

ALPHABETS = {
    "latin": "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ      ",
    "digits": "0123456789 .,-+eE",
    "accents": "éèàüößñçÅø İıſẞǅ",
    "combining": "aeo\u0301\u0300\u0327\u0308\u0323\u0483\u20dd\u093e",
    "cjk": "漢字仮名交じり文汉语한국어조선말，。「」　",
    "hangul_jamo": "\u1112\u1161\u11ab\u1100\u1173\u11af",
    "scripts": "русскийΕλληνικάעבריתعربيहिन्दीไทยქართული",
    "emoji": "😀👍🏽👨‍👩‍👧‍👦🇳🇴❤️🏳️‍🌈☃",
    "space": " \t\n\r\u00a0\u2003\u3000\u200b\u2028\u0085\u000b\u000c",
    "punct": "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    "numbers": "½²Ⅷ௧٣৪①",
    "controls": "".join(map(chr, range(0x20))) + "\x7f\ufeff\ufffd\ue000",
}
SPECIALS = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<tool_call>", "</tool_call>",
            "<tool_response>", "<|image_pad|>", "<|im_start", "im_end|>", "<think", "<|im_end|>>", " <think> "]
CONTRACTIONS = ["I'm", "don't", "WE'LL", "they'Ve", "o'clock", "'s", "'S'd", "it’s", "x'll y're", "'t't"]


def random_text(rng):
    kinds = rng.sample(sorted(ALPHABETS), rng.randint(1, 4))
    pool = "".join(ALPHABETS[kind] for kind in kinds)
    return "".join(rng.choice(pool) for _ in range(rng.randint(1, 40)))


def texts(rng):
    found = ["", " ", "\n", "\r\n", "a" * 500, " " * 300, "\n" * 100, "é", "e\u0301", "\u0301", "ﬁ", "Å", "\u212b"]
    found += SPECIALS + CONTRACTIONS
    found += [chr(i) for i in range(0, 0x250)]
    found += ["x" + " " * n + "y" for n in range(1, 40)] + ["\t" * n + "z\r\n" for n in range(1, 20)]
    # Code that changes with nothing but these files.
    for path in ["assets/qwen3.5-tiny/chat_template.jinja", "tests/golden/text/templates/qwen36_style.jinja",
                 "tests/golden/text/templates/gemma_style.jinja"]:
        lines = (ROOT / path).read_text().splitlines(keepends=True)
        found += ["".join(lines[i:i + 3]) for i in range(0, min(len(lines), 150), 3)]
    while len(found) < 1600:
        found.append(random_text(rng))
    while len(found) < 1800:  # special tokens as text between others
        found.append(random_text(rng) + rng.choice(SPECIALS) + random_text(rng)[:8])
    while len(found) < 2100:  # random bytes, as a server would read them
        data = bytes(rng.randrange(256) for _ in range(rng.randint(1, 24)))
        found.append(data.decode("utf-8", errors="replace"))
    while len(found) < 2300:  # any code points
        points = [rng.choice([rng.randrange(0x3000), rng.randrange(0x20000)]) for _ in range(rng.randint(1, 12))]
        found.append("".join(chr(p) for p in points if not 0xD800 <= p < 0xE000))
    return found


def tokenizer_golden():
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(MODEL / "tokenizer.json"))
    cases = []
    for text in texts(random.Random(SEED)):
        ids = tokenizer.encode(text, add_special_tokens=False)
        decoded = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        case = [text, " ".join(map(str, ids))]
        if len(case[1]) > 220:
            continue
        cases.append(case if decoded == text else case + [decoded])
    rng = random.Random(SEED + 1)
    for _ in range(300):  # any ids: unfinished characters and broken bytes
        ids = [rng.choice([rng.randrange(8192), rng.randrange(94, 256)]) for _ in range(rng.randint(1, 12))]
        decoded = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        cases.append([None, " ".join(map(str, ids)), decoded])
    return cases


def weather_tools():
    return [
        {"type": "function", "function": {"name": "get_weather", "description": "Wetter in <Städten> & \"more\" 'x'",
         "parameters": {"type": "object", "properties": {
             "city": {"type": "string", "description": "Stadt 🏙"},
             "days": {"type": "integer", "minimum": 1, "default": 3, "scale": 1.0, "tiny": 1e-05, "huge": 1e22}},
             "required": ["city"], "additionalProperties": False}}},
        {"type": "function", "function": {"name": "now", "description": "", "parameters": {}}},
    ]


def conversations():
    call = {"id": "call_1", "type": "function",
            "function": {"name": "get_weather", "arguments": {"city": "Oslo", "days": 2, "flag": True, "none": None,
                                                              "list": [1, "a", None], "f": 1.5, "o": {"k": "v's"}}}}
    user = {"role": "user", "content": "  What's the weather?\n"}
    system = {"role": "system", "content": "Be brief.\n"}
    tool = {"role": "tool", "content": "12°C\n<rain>", "tool_call_id": "call_1"}
    reasoned = {"role": "assistant", "content": "Fine.", "reasoning_content": "\nI think.\n"}
    inline = {"role": "assistant", "content": "<think>\nhidden\n</think>\n\nShown."}
    calling = {"role": "assistant", "content": "", "tool_calls": [call]}
    talking = {"role": "assistant", "content": "Let me look. ", "tool_calls": [call, call]}
    parts = {"role": "user", "content": [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]}
    return [
        [user], [system, user], [user, reasoned, user], [user, inline, user], [user, reasoned], [parts],
        [system, user, calling, tool], [system, user, talking, tool, tool], [user, talking, tool, tool, reasoned, user],
        [user, calling, tool, inline], [system, user, reasoned, user, talking, tool],
        [{"role": "user", "content": "<tool_response>\nx\n</tool_response>"}, user, inline],
        [system], [], [user, system], [{"role": "robot", "content": "x"}],
    ]


def variants():
    return [{}, {"enable_thinking": True}, {"enable_thinking": False}, {"preserve_thinking": True},
            {"add_generation_prompt": False}]


def has_neighbours(messages):
    """Two texts of one role in a row."""
    return any(one["role"] == two["role"] in ("user", "assistant") for one, two in zip(messages, messages[1:]))


def rendering(source, messages, tools, kwargs):
    kwargs = dict(kwargs)
    prompt = kwargs.pop("add_generation_prompt", True)
    try:
        found, _ = render_jinja_template([messages], tools=tools, chat_template=source, add_generation_prompt=prompt,
                                         eos_token="<|im_end|>", **kwargs)
        return found[0]
    except (jinja2.exceptions.TemplateError, TypeError, AttributeError):
        return None


def template_golden():
    sources = {path.name: path.read_text() for path in sorted((OUT / "templates").glob("*.jinja"))}
    sources["tiny"] = (MODEL / "chat_template.jinja").read_text()
    cases = []
    for name, source in sources.items():
        if name.startswith("feature"):
            for line in source.split("\n=====\n"):
                cases.append({"source": line, "messages": 7, "tools": True, "kwargs": {},
                              "rendered": rendering(line, conversations()[7], weather_tools(), {})})
            continue
        for index, messages in enumerate(conversations()):
            if name.startswith("mistral") and has_neighbours(messages):
                continue  # the program joins them first
            for tools in [None, weather_tools()]:
                for kwargs in variants():
                    cases.append({"template": name, "messages": index, "tools": tools is not None, "kwargs": kwargs,
                                  "rendered": rendering(source, messages, tools, kwargs)})
    return cases


def is_prepared(source, messages, kwargs):
    """The program changes such messages on purpose before it renders them (src/text/chat_format/)."""
    calls = any("tool_calls" in message for message in messages)
    if "[TOOL_CALLS]" in source:  # ids of nine letters, one text of a role at a time
        return calls or has_neighbours(messages)
    if "<|channel|>" in source:  # one call a message; without thinking the least effort; parts of a text are joined
        parts = any(isinstance(message["content"], list) for message in messages)
        return calls or parts or kwargs.get("enable_thinking") is False
    return "<|tool_call|>" in source and "tool_calls" not in source and calls


def as_named(source, kwargs):
    """Granite's variable has another name, which the program sets too."""
    if "<response>" not in source or "enable_thinking" not in kwargs:
        return kwargs
    return {**kwargs, "thinking": kwargs["enable_thinking"]}


def published_golden(folder):
    """Renderings of every .jinja file of a folder, on the day 1970-01-01, as the test has it."""
    class FirstDay(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(1970, 1, 1, tzinfo=tz)

    transformers.utils.chat_template_utils.datetime = FirstDay
    cases = []
    for path in sorted(folder.glob("*.jinja")):
        source = path.read_text()
        print(hashlib.sha256(source.encode()).hexdigest()[:16], path.name)
        for index, messages in enumerate(conversations()):
            for tools in [None, weather_tools()]:
                cases += [{"template": path.name, "messages": index, "tools": tools is not None, "kwargs": kwargs,
                           "rendered": rendering(source, messages, tools, as_named(source, kwargs))}
                          for kwargs in variants() if not is_prepared(source, messages, kwargs)]
    return cases


def write_renderings(rendered):
    texts = list(dict.fromkeys(case["rendered"] for case in rendered if case["rendered"] is not None))
    for case in rendered:
        case["rendered"] = None if case["rendered"] is None else texts.index(case["rendered"])
    write("templates.json", "*.jinja rendered by transformers; "
          "messages: index of conversations; rendered: index of texts, null: refused",
          rendered, conversations=conversations(), tools=weather_tools(), texts=texts)


def write(name, about, cases, **shared):
    head = {"about": about, "made_by": "tools/make_text_golden.py", "transformers": transformers.__version__,
            "tokenizers": __import__("tokenizers").__version__, "jinja2": jinja2.__version__, "seed": SEED, **shared}
    lines = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    text = json.dumps(head, ensure_ascii=False)[:-1] + ',\n "cases": [\n' + lines + "\n]}\n"
    (OUT / name).write_text(re.sub(r"[\u0085\u2028\u2029]", lambda m: f"\\u{ord(m[0]):04x}", text))
    print(name, len(cases), "cases,", (OUT / name).stat().st_size, "bytes")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--published"]:
        OUT = pathlib.Path(sys.argv[2])
        write_renderings(published_golden(OUT))
    else:
        write("tokenizer.json", "[text, ids] or [text, ids, what the ids decode to]; text null: only decoded",
              tokenizer_golden())
        write_renderings(template_golden())
