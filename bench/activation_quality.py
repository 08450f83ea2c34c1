"""Perplexity of a text in float32 and with activations of 16 and 8 bits, by `foretoken score`.

    python3 bench/activation_quality.py build/release/foretoken --model MODEL [--text FILE] [--tokens 20000]

float32 is the backend `ref`. The text is read in windows that each start empty; all three precisions read the same
tokens. Default text: the reference of Python's language that `pydoc` shows, in alphabetical order of its topics.
Prints a table for bench/results/.
"""

import argparse
import hashlib
import json
import math
import pathlib
import pydoc_data.topics
import subprocess
import sys
import tempfile

PRECISIONS = {"float32 (`ref`)": ["--backend", "ref"],
              "16 bits (`cpu`)": ["--backend", "cpu", "--activations", "16"],
              "8 bits (`cpu`)": ["--backend", "cpu", "--activations", "8"]}


def scored(args, flags, text):
    """(negative log-likelihood, most likely token) of each position of the text but the last."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(text)
        file.flush()
        command = [args.foretoken, "score", "--model", args.model, "-f", file.name, "--top", "0", "--json", "--quiet"]
        done = subprocess.run(command + flags, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command + flags)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("foretoken")
    parser.add_argument("--model", required=True)
    parser.add_argument("--text", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=20000)
    parser.add_argument("--characters", type=int, default=2000, help="of a window")
    args = parser.parse_args()
    topics = pydoc_data.topics.topics
    text = args.text.read_text() if args.text else "\n\n".join(topics[name] for name in sorted(topics))
    sums = {name: [0.0, 0] for name in PRECISIONS}
    tokens = windows = 0
    read = hashlib.sha256()
    while tokens < args.tokens:
        window = text[windows * args.characters:(windows + 1) * args.characters]
        if not window:
            sys.exit(f"the text has {tokens} tokens, fewer than {args.tokens}; give a longer one with --text")
        windows += 1
        read.update(window.encode())
        exact = None
        for name, flags in PRECISIONS.items():
            result = scored(args, flags, window)
            choices = [position["argmax"] for position in result["positions"]]
            exact = exact or choices
            sums[name][0] -= result["log_likelihood"]
            sums[name][1] += sum(a == b for a, b in zip(choices, exact, strict=True))
        tokens += len(choices)
        print(f"{windows} windows, {tokens} tokens", file=sys.stderr, flush=True)
    print(f"{tokens} tokens in {windows} windows of {args.characters} characters, "
          f"sha256 of the text {read.hexdigest()[:16]}\n")
    print("| activations | perplexity | against float32 | same first choice |\n| --- | --- | --- | --- |")
    least = sums["float32 (`ref`)"][0] / tokens
    for name, (loss, same) in sums.items():
        print(f"| {name} | {math.exp(loss / tokens):.4f} | {100 * (math.exp(loss / tokens - least) - 1):+.3f}% | "
              f"{100 * same / tokens:.2f}% |")


if __name__ == "__main__":
    main()
