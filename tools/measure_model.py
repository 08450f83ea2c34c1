"""Held-out perplexity and depth-1 draft agreement of a model folder, by transformers in float32.

  python tools/measure_model.py MODEL_DIR TEXT... [--tokens N]
"""

import argparse
import pathlib

from transformers import AutoTokenizer

import reference_model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("texts", nargs="+", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, help="max tokens of each text")
    args = parser.parse_args()
    reference = reference_model.Reference(args.model)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    for text in args.texts:
        ids = tokenizer.encode(text.read_text())[:args.tokens]
        figures = reference_model.measure(reference, ids)
        print(f"{text.stem}: {figures['predicted_tokens']} tokens, nll {figures['nll_per_token']:.4f}, "
              f"perplexity {figures['perplexity']:.4f}, draft agrees {figures['draft_agrees']:.4f}", flush=True)


if __name__ == "__main__":
    main()
