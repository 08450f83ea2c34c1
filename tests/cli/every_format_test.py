"""Quantises the trained models to every format and checks the results.

    FORETOKEN_TRAINED=FOLDER python3 tests/cli/every_format_test.py build/release/foretoken [CLASS]

It is started by hand (some minutes). For each model and format: vision, MTP and state tensors have the bytes of the
source, `foretoken verify` passes, and mlx-lm (Dense, Mixture) or mlx-vlm (Vision) loads the folder and gives the same
likeliest tokens in float32, up to near ties. FORMATS=q4g64,mxfp8 chooses some.
"""

import importlib.util
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None
TRAINED = os.environ.get("FORETOKEN_TRAINED")
HAS = {name for name in ("mlx_lm", "mlx_vlm") if importlib.util.find_spec("mlx") and importlib.util.find_spec(name)}
TIMEOUT_S = 600
FORMATS = {f"q{bits}g{group}": ("--bits", str(bits), "--group-size", str(group)) for bits in (2, 3, 4, 5, 6, 8)
           for group in (32, 64, 128)} | {name: ("--format", name) for name in ("mxfp4", "mxfp8", "nvfp4")} | {
               "mixed-4-6+gdn": ("--recipe", "mixed-4-6+gdn")}
CHOSEN = os.environ.get("FORMATS", ",".join(FORMATS)).split(",")
KEPT = ("A_log", "dt_bias", "conv1d.weight", "linear_attn.norm.weight")
IDS = list(range(300, 348))
NEAR_TIE = 0.02  # of logits, both in float32: a rounded router may choose other experts


def read_folder(folder):
    """-> {name: (dtype, bytes)} of all weight files."""
    tensors = {}
    for path in folder.glob("*.safetensors"):
        content = path.read_bytes()
        length = struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8:8 + length])
        header.pop("__metadata__", None)
        for name, entry in header.items():
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            tensors[name] = (entry["dtype"], content[begin:end])
    return tensors


def made_name(name):
    """MLX's name of a tensor that is kept."""
    if name.startswith(("mtp.", "model.visual.")):
        return name
    return name.replace("model.language_model.", "language_model.model.")


@unittest.skipUnless(TRAINED, "needs FORETOKEN_TRAINED")
class EveryFormat:
    """The checks; each class below names its model."""

    MODEL, LOADS_IN, KEPT_COUNT = "", "mlx_lm", 0

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="foretoken-formats-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.source = cls.make_source()
        cls.tensors = read_folder(cls.source)

    @classmethod
    def make_source(cls):
        return pathlib.Path(TRAINED) / cls.MODEL

    def run_program(self, *arguments):
        environment = {"HOME": str(self.folder), "PATH": os.environ["PATH"], "TERM": "dumb"}
        done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, timeout=TIMEOUT_S, check=False,
                              env=environment)
        self.assertEqual(done.returncode, 0, done.stderr[-1000:])
        return done.stdout

    def check_kept_bytes(self, out):
        made, kept = read_folder(out), 0
        for name, entry in self.tensors.items():
            if name.startswith(("mtp.", "model.visual.")) or name.endswith(KEPT):
                self.assertEqual(made[made_name(name)], entry, name)
                kept += 1
        self.assertEqual(kept, self.KEPT_COUNT)

    def likeliest(self, out):
        report = self.run_program("score", "--model", out, "--prompt-ids", ",".join(map(str, IDS)), "--json",
                                  "--backend", "ref")
        return [position["argmax"] for position in json.loads(report)["positions"]]

    def logits_in_mlx(self, out, ids):
        import mlx.core as mx
        from mlx_lm import load

        model = load(str(out))[0]
        model.set_dtype(mx.float32)
        return model(ids)

    def check_in_mlx(self, out):
        import mlx.core as mx

        mx.set_default_device(mx.cpu)
        logits = self.logits_in_mlx(out, mx.array([IDS]))[0]
        ours = mx.array(self.likeliest(out))
        gaps = (mx.max(logits, -1) - mx.take_along_axis(logits, ours[:, None], -1)[:, 0]).tolist()
        self.assertLessEqual(max(gaps), NEAR_TIE)
        same = sum(gap == 0 for gap in gaps)
        return f"{same} of {len(IDS)} positions, elsewhere within {max(gaps):.3f}"

    def test_every_format(self):
        for name in CHOSEN:
            out = self.folder / name
            with self.subTest(format=name):
                self.run_program("quantize", self.source, out, *FORMATS[name])
                self.check_kept_bytes(out)
                verdict = json.loads(self.run_program("verify", "--model", out, "--prompts", "1", "--tokens", "8",
                                                      "--threads", "1", "--json"))
                self.assertTrue(verdict["identical"])
                note = f"{verdict['compared']} tokens verified"
                if self.LOADS_IN in HAS:
                    note += f", {self.LOADS_IN} agrees at {self.check_in_mlx(out)}"
                print(f"{self.MODEL} {name}: {note}", flush=True)
            shutil.rmtree(out, ignore_errors=True)


class Dense(EveryFormat, unittest.TestCase):
    MODEL, KEPT_COUNT = "qwen3.5-tiny", 15 + 12 * 4


class Mixture(EveryFormat, unittest.TestCase):
    MODEL, KEPT_COUNT = "qwen3.5-moe-tiny", 19 + 6 * 4


class Vision(EveryFormat, unittest.TestCase):
    MODEL, LOADS_IN, KEPT_COUNT = "qwen3.5-tiny-vision", "mlx_vlm", 15 + 12 * 4 + 57

    def logits_in_mlx(self, out, ids):
        """Of the whole model: its tower must load too."""
        import mlx.core as mx
        from mlx_vlm.utils import load_model

        model = load_model(out)
        model.set_dtype(mx.float32)
        return model.language_model(ids).logits

    @classmethod
    def make_source(cls):
        """The tower's folder is complete with the files of the text model."""
        folder = cls.folder / "source"
        shutil.copytree(pathlib.Path(TRAINED) / cls.MODEL, folder)
        for name in ("model.safetensors", "tokenizer.json", "generation_config.json"):
            shutil.copyfile(pathlib.Path(TRAINED) / "qwen3.5-tiny" / name, folder / name)
        return folder


if __name__ == "__main__":
    unittest.main(verbosity=2)
