"""The hidden rows of tests/golden/odd that the package foretoken_tune compares its MTP head with, from transformers.

  python tools/make_tune_golden.py     in the root of the repository

Its drafts and their logits are in tests/golden/odd/golden.
"""

import json
import pathlib

import torch
from safetensors.torch import save_file

import reference_model

ODD = pathlib.Path("tests/golden/odd")
NAME = "odd_67"

golden = json.loads((ODD / "golden" / f"{NAME}.json").read_text())
reference = reference_model.Reference(str(ODD))
tokens = torch.tensor([golden["tokens"] + golden["greedy"]["tokens"]])
_, hidden, _ = reference.trunk(tokens)
save_file({"tokens": tokens[0].int(), "hidden": hidden[0].half()}, f"tests/golden/tune/{NAME}.safetensors",
          {"about": "tools/make_tune_golden.py"})
