"""Golden files from transformers in float32: the prompts of PROMPTS_DIR on the weights of MODEL_DIR.

  python tools/make_golden.py MODEL_DIR OUT_DIR [--prompts PROMPTS_DIR] [--heldout DIR] [--weights TEXT] [--compare]

One JSON file a prompt: argmax, logit, logsumexp and top 8 at every position (top 20 at the last eight),
64 greedy tokens with their margin over the second choice, chained MTP drafts of depth 3 at eight positions with each
draft's own margin. With --heldout also heldout.json: nll of the held-out texts by window. PROMPTS_DIR holds files with
`name`, `text` and `tokens` (golden files themselves, or prompts.json). --compare checks what both have within 2e-4.
"""

import argparse
import json
import pathlib

import torch

import reference_model

ABOUT = ("Hugging Face transformers, float32, CPU; {weights}. Greedy continuation does not stop at end tokens. "
         "mtp: base "
         "hidden is the post-final-norm state of pending_index - 1, paired with pending_token; the head has seen all "
         "earlier true pairs; recursion feeds back the vector after mtp.norm. margin: first choice minus second.")


def rounded(values):
    return [round(float(v), 5) for v in values]


def top(row, count):
    values, ids = row.topk(count)
    return [[i, v] for i, v in zip(ids.tolist(), rounded(values))]


def margin(row):
    first, second = row.topk(2).values
    return round(float(first - second), 5)


def greedy_cached(reference, prompt, count):
    """-> tokens, margins; prefill, then one token at a time with the cache"""
    feed, cache, tokens, margins = torch.tensor([prompt]), None, [], []
    for _ in range(count):
        logits, _, cache = reference.trunk(feed, cache, use_cache=True)
        tokens.append(int(logits[0, -1].argmax()))
        margins.append(margin(logits[0, -1]))
        feed = torch.tensor([[tokens[-1]]])
    return tokens, margins


def golden(reference, prompt, weights, decode, continuation=64, depth=3):
    tokens = prompt["tokens"]
    greedy, margins = greedy_cached(reference, tokens, continuation)
    ids = torch.tensor(tokens + greedy)
    logits, hiddens, _ = reference.trunk(ids[None])
    logits, hiddens = logits[0], hiddens[0]
    recomputed = logits[len(tokens) - 1:-1].argmax(-1).tolist()
    rows = logits[:len(tokens)]
    drafts = []
    for pending in range(len(tokens), len(tokens) + 50, 7):
        chain = reference.chain(ids[:pending + 1], hiddens[:pending], depth)
        drafts.append({"pending_index": pending, "pending_token": int(ids[pending]),
                       "drafts": [int(r.argmax()) for r in chain], "margin": [margin(r) for r in chain],
                       "top5": [top(r, 5) for r in chain]})
    tops = [top(r, 20) for r in rows]
    first = max(0, len(tokens) - 8)
    return {"about": ABOUT.format(weights=weights), "name": prompt["name"], "text": prompt.get("text"),
            "tokens": tokens,
            "positions": {"argmax": rows.argmax(-1).tolist(), "logit": rounded(rows.max(-1).values),
                          "logsumexp": rounded(rows.logsumexp(-1)), "top8": [row[:8] for row in tops]},
            "last8_top20": [{"position": p, "top": tops[p]} for p in range(first, len(tokens))],
            "greedy": {"tokens": greedy, "text": decode(greedy), "margin": margins,
                       "cached_equals_recomputed": recomputed == greedy},
            "mtp": drafts}


def numbers(tree):
    """Leaves of the parts that both files have, in order."""
    if isinstance(tree, list):
        for item in tree:
            yield from numbers(item)
    elif isinstance(tree, dict):
        for key in tree:
            yield from numbers(tree[key])
    else:
        yield tree


def compare(mine, given):
    """Largest difference of the logits, with every token equal."""
    worst = 0.0
    pairs = [(mine["positions"][k], given["positions"][k]) for k in ("argmax", "logit", "logsumexp")]
    pairs += [(mine["last8_top20"], given["last8_top20"]),
              (mine["greedy"]["tokens"], given["greedy"]["tokens"]),
              (mine["greedy"]["margin"], given["greedy"]["margin"])]
    pairs += [(a[k], b[k]) for a, b in zip(mine["mtp"], given["mtp"], strict=True)
              for k in ("pending_index", "pending_token", "drafts", "top5")]
    for a, b in pairs:
        for x, y in zip(numbers(a), numbers(b), strict=True):
            if isinstance(x, int) and x != y:
                raise SystemExit(f"{mine['name']}: token {x} where {y} is given")
            worst = max(worst, abs(x - y))
    if worst > 2e-4:  # one logit of the bf16 set is 1.5e-4 away, all others under 5e-5
        raise SystemExit(f"{mine['name']}: {worst} from the given golden file")
    return worst


def read_prompts(folder):
    if (folder / "prompts.json").exists():
        return json.loads((folder / "prompts.json").read_text())
    files = [json.loads(f.read_text()) for f in sorted(folder.glob("*.json"))]
    return [f for f in files if isinstance(f, dict) and "greedy" in f]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--prompts", type=pathlib.Path)
    parser.add_argument("--heldout", type=pathlib.Path)
    parser.add_argument("--weights", default="weights upcast to float32", help="text for `about`")
    parser.add_argument("--compare", action="store_true")
    args = parser.parse_args()
    reference = reference_model.Reference(args.model)
    tokenizer = None
    if (args.model / "tokenizer.json").exists():
        from transformers import AutoTokenizer
        tokenizer = AutoTokenizer.from_pretrained(args.model)
    args.out.mkdir(parents=True, exist_ok=True)
    write = lambda name, data: (args.out / name).write_text(json.dumps(data, separators=(",", ":")) + "\n")
    for prompt in read_prompts(args.prompts) if args.prompts else []:
        mine = golden(reference, prompt, args.weights, tokenizer.decode if tokenizer else lambda ids: None)
        said = f", {compare(mine, prompt):.1e} from the given" if args.compare else ""
        agrees = mine["greedy"]["cached_equals_recomputed"]
        print(f"{mine['name']}: {len(mine['tokens'])} tokens, least greedy margin {min(mine['greedy']['margin'])}, "
              f"cached == recomputed: {agrees}{said}", flush=True)
        write(mine["name"] + ".json", mine)
    if reference.least_margin < 5e-6:  # an implementation that adds in another order may choose another expert
        raise SystemExit(f"a router is nearly undecided, margin {reference.least_margin:.1e}: take another seed")
    if args.heldout:
        write("heldout.json", {text.stem: reference_model.measure(reference, tokenizer.encode(text.read_text()))
                               for text in sorted(args.heldout.glob("heldout_*.txt"))})


if __name__ == "__main__":
    main()
