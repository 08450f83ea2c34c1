"""`inspect --remote` on the names of the catalogue, against answers built by hand (catalogue_answers.py): one of
each family and kind of drafter, and all of them with FORETOKEN_FULL.

    python3 tests/hub/catalogue_test.py build/release/foretoken [CLASS]
"""

import json
import math
import os
import pathlib
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from catalogue_answers import CONFIGS, Tensors  # noqa: E402
from fake_hub import FakeHub, Hole  # noqa: E402
from remote_test import ROOT, RemoteTest  # noqa: E402

WIDTHS = {"U8": 1, "BF16": 2, "U32": 4, "F32": 4}
CATALOGUE = json.loads((ROOT / "src/cli/library/catalogue.json").read_text())["models"]


def weight_file(tensors):
    header, at = {"__metadata__": {"format": "mlx"}}, 0
    for name, (dtype, shape) in tensors.items():
        size = WIDTHS[dtype] * math.prod(shape)
        header[name], at = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}, at + size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return Hole(struct.pack("<Q", len(text)) + text, 8 + len(text) + at)


def files_of(repository):
    tensors = Tensors(repository)
    files = {"config.json": json.dumps(tensors.config).encode(), "tokenizer.json": b"{}"}
    return files | {name: weight_file(each) for name, each in tensors.files.items()}


class Catalogue(RemoteTest):
    def setUp(self):
        super().setUp()
        self.hub = FakeHub({repository: files_of(repository) for repository in CONFIGS})
        self.enterContext(self.hub)

    def test_names_are_checked_before_a_download(self):
        self.assertEqual({model["repository"] for model in CATALOGUE}, set(CONFIGS))
        kinds = {(model["family"], model["drafter"]): model for model in reversed(CATALOGUE)}
        for model in CATALOGUE if os.environ.get("FORETOKEN_FULL") else kinds.values():
            with self.subTest(model["repository"]):
                found = self.json("inspect", "--remote", model["repository"], "--context", "8192")
                self.assertEqual(found["family"], model["family"])
                self.check_head(model, found)
                self.check_sizes(model, found)

    def check_head(self, model, found):
        if model["drafter"] == "includes MTP head":
            self.assertEqual((found["head"]["state"], found["tier"]), ("ready", "compatible"))
        elif model["family"] in ("qwen3_5", "qwen3_next", "glm4_moe"):  # conversions drop it
            self.assertIn(found["head"]["state"], ("missing", "none"))
            self.assertEqual(found["tier"], "compatible, no head")
        else:
            self.assertEqual((found["head"]["state"], found["tier"]), ("none", "compatible"))

    def check_sizes(self, model, found):
        """The network has its shape and the catalogue's bytes, except for mixed widths and vision towers."""
        shape = self.json("inspect", f"synth:{model['shape']}")
        for key in ("layers", "hidden", "experts", "heads", "kv_heads", "vocabulary", "max_context", "tied"):
            self.assertEqual(found["sizes"][key], shape["sizes"][key], key)
        if model["bytes"]:
            ratio = model["bytes"] / found["file_bytes"]
            self.assertGreater(ratio, 0.995)
            more = 1.4 if model["family"] in ("qwen3_5", "gemma4") else 1.005
            self.assertLess(ratio, more)
        self.assertLess(abs(model["memory_8k"] - (model["bytes"] or found["memory"]["weight_bytes"])
                            - found["memory"]["state_bytes"]), 0.1 * found["memory"]["state_bytes"] + 1e7)


if __name__ == "__main__":
    unittest.main(verbosity=2)
