"""Writes the held-out texts tests/golden/model/heldout_{code,docs,chat,tool}.txt.

  python tools/make_heldout.py MODEL_DIR OUT_DIR

code and docs come from the Python 3.11 standard library (PSF licence). chat and tool are the prompts below, answered by
the model in MODEL_DIR (the bf16 original), sampled at temperature 0.8 with fixed seeds. Made once; kept in the tree.
"""

import pathlib
import sys

import torch
from transformers import AutoTokenizer

import reference_model

CODE = ["graphlib", "sched", "netrc", "filecmp"]
DOCS = ["import", "naming", "exceptions", "calls", "function", "context-managers"]

SINGLE = """Write a Python function `count_vowels` that counts the vowels in a string.
Write a Python function `flatten` that flattens a list of lists.
Write a Python function `is_leap_year` that says if a year is a leap year.
Write a Python function to compute the mean and the median of a list of numbers.
Write a Python function `merge_sorted` that merges two sorted lists into one.
Write a Python function that reads a CSV file and returns a list of dictionaries.
Write a Python class `Stack` with push, pop and peek.
Write a Python class `BankAccount` with deposit and withdraw.
Write a dataclass `Point` with x and y and a method that returns the distance to another point.
Write a Python function `remove_duplicates(items)` that keeps the order.
Write a Python function `celsius_to_fahrenheit`.
Write a test for a function `add(a, b)`.
Write pytest tests for `is_palindrome(text)`.
What is the capital of Norway?
What is the capital of Japan?
What is the chemical symbol of iron?
Which planet is the largest one?
Who wrote Hamlet?
What is 12 + 31?
What is 9 * 7?
What is 100 - 37?
How many days has a leap year?
Tell me a short story about a lighthouse and a boat.
Tell me a short story about a dog who lost its ball.
Write a short story about a baker and a fox.
Explain in one sentence what a hash table is.
What is the difference between a list and a tuple in Python?
Explain what a binary search does.
Convert to JSON: name Anna, age 31, city Oslo.
Extract the name and the email as JSON: Contact Peter Smith at peter.smith@example.org before Friday.
Extract the product and the price as JSON: The blue lamp costs 45 euros this week.
Give me a JSON array with three fruits.
Make a table with the columns name and price for apple 2, pear 3 and plum 4.
Sort these numbers: 5, 3, 9, 1.
Translate the variable names to snake_case: userName, totalPrice, itemCount.
Find the bug:\n\n```python\ndef last(items):\n    return items[len(items)]\n```
Find the bug:\n\n```python\ndef average(values):\n    total = 0\n    for value in values:\n        total = value\n\
    return total / len(values)\n```
Add type hints:\n\n```python\ndef join_words(words, separator):\n    return separator.join(words)\n```
Add a docstring:\n\n```python\ndef clamp(x, low, high):\n    return max(low, min(x, high))\n```
Rename `a` to `width` and `b` to `height`:\n\n```python\ndef area(a, b):\n    return a * b\n```""".split("\n")
SINGLE = [line.replace("\\n", "\n") for line in SINGLE]

FOLLOW_UPS = ["Rename the function to `compute`.", "Add a docstring.", "Now write a test for it.", "Thank you!"]

TOOLS = {
    "get_weather": ("Get the current weather of a city", {"city": ("string", "Name of the city")}),
    "add_numbers": ("Add two numbers", {"a": ("number", "First number"), "b": ("number", "Second number")}),
    "search_files": ("Search files by name", {"pattern": ("string", "Glob pattern"), "folder": ("string", "Where")}),
    "send_email": ("Send an email", {"to": ("string", "Address"), "subject": ("string", "Subject line")}),
    "get_time": ("Get the local time of a city", {"city": ("string", "Name of the city")}),
    "convert_currency": ("Convert money", {"amount": ("number", "Amount"), "source": ("string", "From"),
                                           "target": ("string", "To")}),
    "read_file": ("Read a text file", {"path": ("string", "Path of the file")}),
    "create_event": ("Create a calendar event", {"title": ("string", "Title"), "date": ("string", "Day")}),
}
TOOL_TASKS = [
    (["get_weather", "add_numbers"], "What is the weather in Bergen?", '{"temperature": 11, "sky": "rain"}'),
    (["get_weather", "get_time"], "What time is it in Madrid?", '{"time": "14:20"}'),
    (["add_numbers"], "Add 17 and 25.", '{"result": 42}'),
    (["search_files", "read_file"], "Find all Python files in src.", '["src/main.py", "src/model.py"]'),
    (["read_file"], "Read the file notes.txt.", "Buy milk and bread."),
    (["send_email"], "Send an email to anna@example.org with the subject Lunch.", '{"status": "sent"}'),
    (["convert_currency"], "Convert 20 euros to dollars.", '{"amount": 21.6}'),
    (["create_event", "send_email"], "Create an event called Meeting on Monday.", '{"id": 7}'),
    (["get_weather"], "What is the capital of Italy?", None),
    (["get_time", "convert_currency"], "How late is it in Tokyo?", '{"time": "03:05"}'),
    (["get_weather", "create_event"], "Is it warm in Rome today?", '{"temperature": 29, "sky": "clear"}'),
    (["search_files"], "Are there any text files in docs?", "[]"),
    (["add_numbers", "convert_currency"], "How much is 50 dollars in pounds?", '{"amount": 39.5}'),
    (["read_file", "send_email"], "Show me config.json.", '{"debug": true, "port": 8080}'),
    (["get_weather", "get_time", "add_numbers"], "Add 3 and 99.", '{"result": 102}'),
    (["create_event"], "Write a haiku about rain.", None),
]


def tool_schema(name):
    description, fields = TOOLS[name]
    properties = {k: {"type": t, "description": d} for k, (t, d) in fields.items()}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {
        "type": "object", "properties": properties, "required": list(fields)}}}


class Writer:
    def __init__(self, folder):
        self.reference = reference_model.Reference(folder)
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.generator = torch.Generator().manual_seed(7)

    def answer(self, text, limit=160):
        """Continues text up to <|im_end|> (included)."""
        ids = self.tokenizer.encode(text)
        feed, cache, out = torch.tensor([ids]), None, []
        for _ in range(limit):
            logits, _, cache = self.reference.trunk(feed, cache, use_cache=True)
            token = torch.multinomial((logits[0, -1] / 0.8).softmax(-1), 1, generator=self.generator)
            out.append(token.item())
            if self.tokenizer.decode(out[-1:]) == "<|im_end|>":
                break
            feed = token.view(1, 1)
        text = self.tokenizer.decode(out)
        return text if text.endswith("<|im_end|>") else text + "<|im_end|>"

    def converse(self, turns, tools=None, thinking=False):
        """turns: texts of the user, or (role, text); the rendered conversation with the model's answers"""
        template = self.tokenizer.apply_chat_template
        messages = []
        for turn in turns:
            role, content = ("user", turn) if isinstance(turn, str) else turn
            messages.append({"role": role, "content": content})
            if role == "system":
                continue
            prompt = template(messages, tools=tools, tokenize=False, add_generation_prompt=True,
                              enable_thinking=thinking)
            reply = self.answer(prompt)
            messages.append({"role": "assistant", "content": reply.removesuffix("<|im_end|>")})
        return prompt + reply + "\n<|endoftext|>"


def main():
    folder, out = sys.argv[1], pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    library = pathlib.Path(graphlib_path()).parent
    (out / "heldout_code.txt").write_text("<|endoftext|>".join((library / f"{n}.py").read_text() for n in CODE))
    from pydoc_data import topics
    (out / "heldout_docs.txt").write_text("<|endoftext|>".join(topics.topics[n] for n in DOCS))
    writer = Writer(folder)
    chats = []
    for i, prompt in enumerate(SINGLE):
        turns = [prompt] + ([FOLLOW_UPS[i % 4]] if i < 12 else [])
        if i % 5 == 0:
            turns.insert(0, ("system", "You are a helpful assistant."))
        chats.append(writer.converse(turns, thinking=18 <= i <= 21))
    (out / "heldout_chat.txt").write_text("".join(chats))
    calls = [writer.converse([prompt] + ([("tool", result)] if result else []), [tool_schema(n) for n in names])
             for names, prompt, result in TOOL_TASKS]
    (out / "heldout_tool.txt").write_text("".join(calls))


def graphlib_path():
    import graphlib
    return graphlib.__file__


if __name__ == "__main__":
    main()
