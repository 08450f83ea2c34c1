"""Shared by the tests of the package foretoken_tune: PyTorch, tiny jobs and a small language.

They need PyTorch. FORETOKEN_TORCH names an interpreter that has it; without one the status is 77 (skipped).
"""

import os
import pathlib
import random
import shutil
import sys
import tempfile
import unittest

try:
    import torch
except ImportError:
    other = os.environ.get("FORETOKEN_TORCH")
    if not other:
        print("skipped: PyTorch is missing; FORETOKEN_TORCH may name an interpreter that has it")
        sys.exit(77)
    os.execve(other, [other, *sys.argv], {k: v for k, v in os.environ.items() if k != "FORETOKEN_TORCH"})

PACKAGE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PACKAGE))

from foretoken_tune import job, tensors  # noqa: E402
from foretoken_tune.layers import frequencies_of  # noqa: E402

torch.set_num_threads(1)
CPU = torch.device("cpu")
KINDS = {"eagle3": {}, "mtp": {"kind": "mtp", "layers": [], "draft_vocabulary": 40, "gated": True,
                               "frequencies": frequencies_of(4, 100.0)},
         "dflash2": {"kind": "dflash2", "draft_vocabulary": 40, "target_layers": 5, "drafter_layers": 2, "block": 5,
                     "blocks": 6, "group": 4, "rank": 3, "candidates": 4, "layers": [0, 1, 3]}}


def tiny(folder, **changes):
    fields = {"shards": [f"{folder}/shard-0.safetensors", f"{folder}/shard-1.safetensors"],
              "target": f"{folder}/target.safetensors", "out": f"{folder}/drafter",
              "checkpoint": f"{folder}/checkpoint.pt", "hidden": 16, "heads": 2, "kv_heads": 1, "head_dim": 8,
              "intermediate": 24, "vocabulary": 40, "context": 128, "layers": [-1, 1, 3], "draft_vocabulary": 30,
              "steps": 40, "rows": 2, "length": 48, "threads": 1, "rate": 1e-2, "eos": [39], "depth": 3}
    return job.Job(**{**fields, **changes})


def write_data(one, texts=12):
    """A language in which a token mostly decides the next one."""
    chance, vectors = random.Random(3), torch.randn(one.vocabulary, one.hidden, generator=torch.manual_seed(5))
    for path in one.shards:
        documents, ids = [], []
        for _ in range(texts):
            size, token = chance.randrange(20, 70), chance.randrange(30)
            documents.append([size, chance.randrange(1, 8)])
            for _ in range(size):
                ids.append(token)
                token = (token * 7 + 3) % 30 if chance.random() < 0.9 else chance.randrange(40)
        # Rows that the table, which is the LM head too, makes likely successors of.
        last = vectors[torch.tensor([(token * 7 + 3) % 30 for token in ids])]
        rows = vectors[torch.tensor(ids)].repeat(1, len(one.layers)).half()
        tensors.write(path, {"documents": torch.tensor(documents, dtype=torch.int32),
                             "tokens": torch.tensor(ids, dtype=torch.int32), "rows": rows,
                             "hidden": last.half(), "checksum": torch.zeros(1, dtype=torch.int64)}, {})
    tensors.write(one.target, {"embedding": vectors.half()}, {})


class PackageTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="foretoken-tune-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        torch.manual_seed(0)
