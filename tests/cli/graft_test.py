"""`foretoken graft`: the MTP head of another checkpoint, and drafters in separate folders.

    python3 tests/cli/graft_test.py build/release/foretoken [CLASS]

The class Trained needs the trained models in FORETOKEN_TRAINED.
"""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from calibration_folder import calibration_folder  # noqa: E402

PROGRAM = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None
SHIPPED, ODD = ROOT / "assets/qwen3.5-tiny", ROOT / "tests/golden/odd"
TRAINED = os.environ.get("FORETOKEN_TRAINED")
TIMEOUT_S = 300


def read_safetensors(path):
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    metadata = header.pop("__metadata__", {})
    begin = 8 + length
    return metadata, {name: (entry["dtype"], entry["shape"],
                             content[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]])
                      for name, entry in header.items()}


def write_safetensors(path, metadata, tensors):
    header, data = {"__metadata__": metadata}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.unlink(missing_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def state_of(folder):
    return {file.name: (file.stat().st_mtime_ns, file.stat().st_size) for file in sorted(folder.iterdir())}


class GraftTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="foretoken-graft-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.models = self.folder / "models"
        self.models.mkdir()
        self.environment = {"HOME": str(self.folder), "PATH": os.environ.get("PATH", ""), "TERM": "dumb",
                            "FORETOKEN_MODELS": str(self.models), "FORETOKEN_CALIBRATION": calibration_folder(PROGRAM),
                            "FORETOKEN_THREADS": "1",
                            "HF_ENDPOINT": "http://127.0.0.1:1"}

    def headless(self, source, name, **config):
        """A copy without its MTP head, as conversions leave it."""
        folder = self.models / name
        shutil.copytree(source, folder, copy_function=shutil.copyfile)
        (folder / "mtp.safetensors").unlink(missing_ok=True)
        for file in folder.glob("model*.safetensors"):
            metadata, tensors = read_safetensors(file)
            write_safetensors(file, metadata, {n: t for n, t in tensors.items() if not n.startswith("mtp.")})
        index = folder / "model.safetensors.index.json"
        if index.exists():
            text = json.loads(index.read_text())
            text["weight_map"] = {n: f for n, f in text["weight_map"].items() if not n.startswith("mtp.")}
            index.write_text(json.dumps(text))
        settings = json.loads((folder / "config.json").read_text())
        for key in [key for key in settings if key.startswith("mtplx_") or key == "mlx_lm_extra_tensors"]:
            settings.pop(key)
        settings.get("text_config", settings).update(config)
        (folder / "config.json").write_text(json.dumps(settings))
        return folder

    def expect(self, status, *arguments):
        done = subprocess.run([PROGRAM, *map(str, arguments)], env=self.environment, input=b"", capture_output=True,
                              timeout=TIMEOUT_S, check=False, cwd=self.folder)
        self.assertEqual(done.returncode, status, f"{arguments}: {done.stdout[-800:]} {done.stderr[-800:]}")
        return done

    def json(self, *arguments):
        return json.loads(self.expect(0, *arguments, "--json").stdout)

    def refused(self, words, *arguments, status=2):
        self.assertIn(words, self.expect(status, "graft", *arguments).stderr.decode())
        self.assertFalse([*self.folder.glob(".local/share/foretoken/heads/*")], "something was kept")

    def ask(self, model):
        return self.json("run", "Write a function that adds two numbers", "-m", model, "-n", "24", "--temperature", "0",
                         "--depth", "3")


class Heads(GraftTest):
    def test_a_grafted_head_drafts_and_changes_no_token_and_no_file(self):
        quant = self.headless(SHIPPED, "quant", mtp_num_hidden_layers=0)
        plain, before = self.ask("quant"), state_of(quant)
        shown = self.json("inspect", "quant")
        self.assertEqual(shown["head"]["state"], "none")
        shutil.copytree(SHIPPED, self.models / "original")
        self.assertEqual(self.json("inspect", "quant")["head"]["donors"],
                         ["foretoken graft --head original --onto quant"])
        report = self.json("graft", "--head", "original", "--onto", "quant")
        self.assertGreater(report["acceptance"][0], 0.6)
        self.assertEqual(state_of(quant), before)
        shown = self.json("inspect", "quant")
        self.assertEqual((shown["head"]["state"], shown["head"]["donors"]), ("ready", []))
        drafted = self.ask("quant")
        self.assertEqual(drafted["token_ids"], plain["token_ids"])
        self.assertGreater(drafted["speculation"]["accepted"], 0)
        listed = {model["name"]: model for model in self.json("models")["models"]}
        self.assertEqual((listed["quant"]["tier"], listed["quant"]["drafted_by"]), ("compatible", "MTP head"))
        self.expect(0, "graft", "--onto", "quant", "--remove")
        self.assertEqual(self.json("inspect", "quant")["head"]["state"], "none")

    def test_a_head_of_odd_sizes_keeps_its_values_and_its_norms_become_final(self):
        self.headless(ODD, "quant")
        self.json("graft", "--head", ODD, "--onto", "quant", "--out", self.folder / "mtp.safetensors")
        _, made = read_safetensors(self.folder / "mtp.safetensors")
        given = {}
        for file in ODD.glob("model*.safetensors"):
            given |= {n: t for n, t in read_safetensors(file)[1].items() if n.startswith("mtp.")}
        self.assertEqual(set(made), set(given))
        for name, (dtype, shape, content) in given.items():
            if len(shape) > 1:
                self.assertEqual(made[name], (dtype, shape, content), name)
            else:
                self.assertEqual(made[name][0], "F32", name)
        report = self.json("graft", "--head", ODD, "--onto", "quant")
        self.assertIn("acceptance was not measured: the model has no tokenizer.json", report["notes"])
        self.assertEqual(self.json("inspect", "quant")["head"]["state"], "ready")
        self.expect(0, "verify", "--model", "quant", "--prompts", "2", "--tokens", "8")

    def test_a_sidecar_in_the_folder_is_found_by_itself(self):
        quant = self.headless(SHIPPED, "quant")
        self.expect(0, "graft", "--head", SHIPPED, "--onto", "quant", "--out", quant / "mtp.safetensors")
        shown = self.json("inspect", "quant")
        self.assertEqual((shown["head"]["state"], shown["head"]["file"]), ("ready", "mtp.safetensors"))

    def test_the_card_names_the_original(self):
        quant = self.headless(SHIPPED, "quant")
        (quant / "README.md").write_text("---\nlicense: mit\nbase_model:\n- An-Org/Original\n---\n# Quant\n")
        self.assertEqual(self.json("inspect", "quant")["head"]["donors"],
                         ["foretoken graft --head An-Org/Original --onto quant"])


class Refused(GraftTest):
    def test_heads_that_do_not_fit(self):
        self.headless(SHIPPED, "quant")
        self.refused("its hidden size is", "--head", ODD, "--onto", "quant")
        shutil.copytree(SHIPPED, self.models / "whole")
        self.refused("already has an MTP head (mtp.safetensors)", "--head", "whole", "--onto", SHIPPED)
        self.refused("name the same model", "--head", "quant", "--onto", "quant")
        self.headless(SHIPPED, "bare")
        self.refused("bare has no usable head: MTP head: missing", "--head", "bare", "--onto", "quant")
        self.refused("--onto is missing", "--head", "whole")
        self.refused("either --head FROM or --remove", "--onto", "quant")

    def test_a_head_of_another_parent(self):
        self.headless(SHIPPED, "quant")
        other = self.models / "other"
        shutil.copytree(SHIPPED, other, copy_function=shutil.copyfile)
        metadata, tensors = read_safetensors(other / "model.safetensors")
        name = next(n for n in tensors if n.endswith("embed_tokens.weight"))
        dtype, shape, content = tensors[name]
        tensors[name] = (dtype, shape, content[::-1])
        write_safetensors(other / "model.safetensors", metadata, tensors)
        self.refused("their embeddings differ", "--head", "other", "--onto", "quant")

    def test_another_tokenizer(self):
        self.headless(SHIPPED, "quant")
        other = self.models / "other"
        shutil.copytree(SHIPPED, other, copy_function=shutil.copyfile)
        tokenizer = json.loads((other / "tokenizer.json").read_text())
        tokenizer["model"]["merges"] = tokenizer["model"]["merges"][:100]
        (other / "tokenizer.json").write_text(json.dumps(tokenizer))
        self.refused("their tokenizers give different ids", "--head", "other", "--onto", "quant")

    def test_a_head_whose_drafts_are_rejected(self):
        """Two parts that are swapped have the right shapes."""
        self.headless(SHIPPED, "quant")
        other = self.models / "other"
        shutil.copytree(SHIPPED, other, copy_function=shutil.copyfile)
        metadata, tensors = read_safetensors(other / "mtp.safetensors")
        a, b = "mtp.layers.0.mlp.gate_proj.", "mtp.layers.0.mlp.up_proj."
        swapped = {name.replace(a, b) if a in name else name.replace(b, a): tensor for name, tensor in tensors.items()}
        fc = next(name for name in swapped if name.startswith("mtp.fc."))
        dtype, shape, content = swapped[fc]
        swapped[fc] = (dtype, shape, content[len(content) // 2:] + content[:len(content) // 2])
        write_safetensors(other / "mtp.safetensors", metadata, swapped)
        self.refused("of the first drafts of other", "--head", "other", "--onto", "quant")
        self.json("graft", "--head", "other", "--onto", "quant", "--force")

    def test_a_folder_of_something_else(self):
        self.headless(SHIPPED, "quant")
        (self.models / "text").mkdir()
        (self.models / "text/config.json").write_text('{"model_type": "gpt2"}')
        self.refused("is neither a checkpoint nor a drafter of quant", "--head", self.models / "text", "--onto",
                     "quant")


@unittest.skipUnless(TRAINED, "needs FORETOKEN_TRAINED")
class Trained(GraftTest):
    def test_the_head_of_the_original_for_each_quant(self):
        for name, least in (("qwen3.5-tiny", 0.5), ("qwen3.5-moe-tiny", 0.5)):
            original, quant = pathlib.Path(TRAINED) / name, self.models / name
            self.expect(0, "quantize", original, quant, "--bits", "4", "--mtp", "drop")
            plain = self.ask(quant)
            report = self.json("graft", "--head", original, "--onto", quant)
            self.assertGreater(report["acceptance"][0], least, name)
            self.assertEqual(self.ask(quant)["token_ids"], plain["token_ids"])
            self.expect(0, "verify", "--model", quant, "--prompts", "1", "--tokens", "8")

    def test_drafters_in_their_own_folders(self):
        for head, onto, drafter in (("qwen3.5-tiny-dflash", "qwen3.5-tiny", "dflash"),
                                    ("gemma4-tiny-eagle3", "gemma4-tiny", "eagle3")):
            onto, head = pathlib.Path(TRAINED) / onto, pathlib.Path(TRAINED) / head
            plain = self.json("run", "Name a river", "-m", onto, "-n", "24", "--temperature", "0", "--drafter", "none")
            report = self.json("graft", "--head", head, "--onto", onto)
            self.assertEqual(report["drafter"], drafter)
            drafted = self.json("run", "Name a river", "-m", onto, "-n", "24", "--temperature", "0")
            self.assertEqual(drafted["token_ids"], plain["token_ids"])
            self.assertIn(drafter, drafted["speculation"]["drafter"].split("+"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
