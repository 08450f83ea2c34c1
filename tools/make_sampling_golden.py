"""Golden file of rows after transformers' logits processors: tests/golden/sampling/processors.json.

  python tools/make_sampling_golden.py

Repetition penalty, temperature, top-k, top-p, min-p, in the order in which generate() applies them. Each case gives
the row, the tokens seen, the parameters, and the tokens that are left with their probabilities.

Conventions, compared with src/sampling/sample.h:
- top-p: transformers drops the low end while its mass is <= 1 - top_p, so it keeps the token that crosses top_p. That
  is the same shortest run whose mass reaches top_p.
- top-k: transformers keeps every token that ties with the k-th; ours keeps exactly k, lower ids first. The rows here
  have no ties.
- min-p: the same. Presence and frequency penalties, bias and mask have no such processor; they are not covered here.
"""

import json
import pathlib

import torch
import transformers
from transformers.generation import logits_process

ROOT = pathlib.Path(__file__).resolve().parent.parent
VOCABULARY = 48
SETTINGS = [
    {},
    {"temperature": 0.6},
    {"temperature": 1.7, "repetition": 1.3},
    {"repetition": 0.8},
    {"top_k": 1},
    {"top_k": 7, "temperature": 0.9},
    {"top_p": 0.9},
    {"top_p": 0.5, "temperature": 1.4},
    {"top_p": 0.05},
    {"min_p": 0.1},
    {"min_p": 0.02, "temperature": 2.0, "repetition": 1.1},
    {"top_k": 20, "top_p": 0.8, "temperature": 0.7},
    {"top_k": 12, "top_p": 0.95, "min_p": 0.05, "temperature": 1.2, "repetition": 1.5},
    {"top_p": 0.97, "min_p": 0.03, "temperature": 1.5},
]


def processed(logits, seen, setting):
    scores = logits.clone()[None]
    ids = torch.tensor([seen])
    chain = []
    if "repetition" in setting:
        chain.append(logits_process.RepetitionPenaltyLogitsProcessor(setting["repetition"]))
    chain.append(logits_process.TemperatureLogitsWarper(setting.get("temperature", 1.0)))
    if "top_k" in setting:
        chain.append(logits_process.TopKLogitsWarper(setting["top_k"]))
    if "top_p" in setting:
        chain.append(logits_process.TopPLogitsWarper(setting["top_p"]))
    if "min_p" in setting:
        chain.append(logits_process.MinPLogitsWarper(setting["min_p"]))
    for step in chain:
        scores = step(ids, scores)
    return scores[0]


def main():
    torch.manual_seed(5)
    cases = []
    for setting in SETTINGS:
        logits = (torch.randn(VOCABULARY) * 2.5 * 65536).round() / 65536
        assert len(set(logits.tolist())) == VOCABULARY, "a tie: choose another seed"
        seen = torch.randint(0, VOCABULARY, (10,)).tolist()
        scores = processed(logits, seen, setting)
        shares = scores.double().softmax(-1)
        left = [[i, float(f"{shares[i]:.8g}")] for i in range(VOCABULARY) if scores[i] > -torch.inf]
        cases.append({"setting": setting, "seen": seen, "logits": logits.tolist(), "left": left})
    about = (f"transformers {transformers.__version__} on torch {torch.__version__.split('+')[0]}, float32, made by "
             "tools/make_sampling_golden.py; seen: tokens of prompt and output; left: [token, probability]")
    out = ROOT / "tests" / "golden" / "sampling" / "processors.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(case) for case in cases)
    out.write_text('{"about": ' + json.dumps(about) + ',\n"cases": [\n' + lines + "\n]}\n")


if __name__ == "__main__":
    main()
