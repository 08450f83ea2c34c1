"""`foretoken quantize` on a small random checkpoint in the layout of Hugging Face.

    python3 tests/cli/quantize_test.py build/release/foretoken [CLASS]

The class AgainstMlx needs the packages mlx, mlx-lm and numpy and is skipped without them; its source is the trained
model of the folder in FORETOKEN_TRAINED.
"""

import array
import hashlib
import importlib.util
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = None
TIMEOUT_S = 900
H, LAYERS, VOCABULARY = 64, 4, 160  # the last of four layers is full attention
LINEAR = {"in_proj_qkv": (256, H), "in_proj_z": (128, H), "in_proj_a": (4, H), "in_proj_b": (4, H),
          "out_proj": (H, 128)}
FULL = {"q_proj": (128, H), "k_proj": (32, H), "v_proj": (32, H), "o_proj": (H, 64)}
MLP = {"gate_proj": (96, H), "up_proj": (96, H), "down_proj": (H, 96)}
TEXT = {
    "model_type": "qwen3_5_text", "vocab_size": VOCABULARY, "hidden_size": H, "intermediate_size": 96,
    "num_hidden_layers": LAYERS, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32,
    "max_position_embeddings": 512, "full_attention_interval": 4, "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 32, "linear_value_head_dim": 32, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "mtp_num_hidden_layers": 1, "tie_word_embeddings": True, "eos_token_id": 1,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000, "partial_rotary_factor": 0.5,
                        "mrope_section": [3, 3, 2]},
}


def bf16(count, rng):
    """Random numbers of both signs, mostly between 2^-7 and 1."""
    return array.array("H", [rng.getrandbits(1) << 15 | rng.randint(120, 126) << 7 | rng.getrandbits(7)
                             for _ in range(count)]).tobytes()


def add_layer(tensors, prefix, full, rng):
    def add(name, *shape):
        count = 1
        for side in shape:
            count *= side
        tensors[prefix + name] = ("BF16", shape, bf16(count, rng))

    for name in ("input_layernorm", "post_attention_layernorm"):
        add(f"{name}.weight", H)
    for name, shape in MLP.items():
        add(f"mlp.{name}.weight", *shape)
    for name, shape in (FULL if full else LINEAR).items():
        add(f"{'self_attn' if full else 'linear_attn'}.{name}.weight", *shape)
    if full:
        add("self_attn.q_norm.weight", 32)
        add("self_attn.k_norm.weight", 32)
        return
    add("linear_attn.conv1d.weight", 256, 1, 4)
    add("linear_attn.norm.weight", 32)
    add("linear_attn.dt_bias", 4)
    tensors[prefix + "linear_attn.A_log"] = ("F32", (4,), struct.pack("<4f", 0.25, 1.5, -0.5, 0))


def make_tensors():
    rng, tensors = random.Random(7), {}
    for name, shape in (("embed_tokens.weight", (VOCABULARY, H)), ("norm.weight", (H,))):
        tensors["model.language_model." + name] = ("BF16", shape, bf16(shape[0] * (shape + (1,))[1], rng))
    for layer in range(LAYERS):
        add_layer(tensors, f"model.language_model.layers.{layer}.", layer % 4 == 3, rng)
    add_layer(tensors, "mtp.layers.0.", True, rng)
    tensors["mtp.fc.weight"] = ("BF16", (H, 2 * H), bf16(2 * H * H, rng))
    for name in ("mtp.norm.weight", "mtp.pre_fc_norm_embedding.weight", "mtp.pre_fc_norm_hidden.weight"):
        tensors[name] = ("BF16", (H,), bf16(H, rng))
    return tensors


def write_safetensors(path, tensors, metadata):
    header, data = {"__metadata__": metadata}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], tuple(entry["shape"]),
                   content[8 + length + entry["data_offsets"][0]:8 + length + entry["data_offsets"][1]])
            for name, entry in header.items()}


def hashes(folder):
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


class QuantizeTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="foretoken-quantize-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.environment = {"HOME": str(self.folder), "PATH": os.environ.get("PATH", ""), "TERM": "dumb",
                            "FORETOKEN_THREADS": "1"}
        self.source, self.out = self.folder / "tiny", self.folder / "out"
        self.source.mkdir()
        self.tensors = make_tensors()
        self.write_source()

    def write_source(self, **config):
        write_safetensors(self.source / "model.safetensors", self.tensors, {"format": "pt"})
        whole = {"model_type": "qwen3_5", "architectures": ["Qwen3_5ForCausalLM"], "text_config": TEXT, **config}
        (self.source / "config.json").write_text(json.dumps(whole))
        (self.source / "tokenizer.json").write_text("{}")
        (self.source / "LICENSE").write_text("as is\n")
        (self.source / "README.md").write_text("---\nlicense: apache-2.0\nlanguage:\n- en\ntags:\n- x\n---\n# Tiny\n")

    def run_program(self, *arguments):
        return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, timeout=TIMEOUT_S, check=False,
                              env=self.environment)

    def quantize(self, *arguments, out=None):
        done = self.run_program("quantize", self.source, out or self.out, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def refused(self, status, words, *arguments):
        done = self.run_program("quantize", *arguments)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn(words, done.stderr.decode())


class Layout(QuantizeTest):
    def test_names_and_kept_bytes(self):
        self.quantize("--bits", "4", "--group-size", "32")
        made, head = read_safetensors(self.out / "model.safetensors"), read_safetensors(self.out / "mtp.safetensors")
        for name, entry in self.tensors.items():
            if name.startswith("mtp."):
                self.assertEqual(head.pop(name), entry)
        self.assertEqual(head, {})
        layer = "language_model.model.layers.0."
        hf = "model.language_model.layers.0."
        for name in ("linear_attn.A_log", "linear_attn.dt_bias", "linear_attn.norm.weight"):
            self.assertEqual(made[layer + name], self.tensors[hf + name])
        conv = made[layer + "linear_attn.conv1d.weight"]
        self.assertEqual(conv[1], (256, 4, 1))
        self.assertEqual(conv[2], self.tensors[hf + "linear_attn.conv1d.weight"][2])
        for name, rows, cols, bits, group in (("mlp.gate_proj", 96, H, 4, 32), ("linear_attn.in_proj_a", 4, H, 8, 64)):
            shapes = [made[f"{layer}{name}.{leaf}"][:2] for leaf in ("weight", "scales", "biases")]
            self.assertEqual(shapes, [("U32", (rows, cols * bits // 32)), *[("BF16", (rows, cols // group))] * 2])
        self.assertEqual(made["language_model.model.embed_tokens.weight"][1], (VOCABULARY, H * 6 // 32))

    def test_norms_are_one_more(self):
        self.quantize()
        made = read_safetensors(self.out / "model.safetensors")
        dtype, shape, content = made["language_model.model.norm.weight"]
        self.assertEqual((dtype, shape), ("F32", (H,)))
        stored = array.array("H", self.tensors["model.language_model.norm.weight"][2])
        widened = [struct.unpack("<f", struct.pack("<I", bits << 16))[0] for bits in stored]
        wanted = [struct.unpack("<f", struct.pack("<f", 1 + value))[0] for value in widened]
        self.assertEqual(list(struct.unpack(f"<{H}f", content)), wanted)

    def test_config_index_and_card(self):
        self.quantize("--format", "mxfp4")
        config = json.loads((self.out / "config.json").read_text())
        self.assertEqual(config["quantization"], config["quantization_config"])
        self.assertEqual({key: config["quantization"][key] for key in ("bits", "group_size", "mode")},
                         {"bits": 4, "group_size": 32, "mode": "mxfp4"})
        self.assertEqual(config["quantization"]["language_model.model.embed_tokens"],
                         {"bits": 6, "group_size": 64, "mode": "affine"})
        self.assertEqual(config["mtplx_mtp_norm_encoding"], "delta")
        index = json.loads((self.out / "model.safetensors.index.json").read_text())["weight_map"]
        self.assertEqual(set(index), set(read_safetensors(self.out / "model.safetensors")))
        card = (self.out / "README.md").read_text()
        self.assertIn("license: apache-2.0\nlanguage:\n- en\n", card)
        self.assertIn('base_model: "tiny"', card)
        self.assertEqual((self.out / "LICENSE").read_text(), "as is\n")
        self.assertFalse((self.out / "convert.state").exists())

    def test_the_result_loads(self):
        for mode, bits in (("affine", 2), ("affine", 3), ("affine", 5), ("mxfp8", None), ("nvfp4", None)):
            out = self.folder / f"{mode}-{bits}"
            self.quantize("--format", mode, *(["--bits", bits] if bits else []), "--mtp", "8", out=out)
            done = self.run_program("inspect", out, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["head"]["state"], "ready")

    def test_head_choices(self):
        self.quantize("--mtp", "drop")
        self.assertFalse((self.out / "mtp.safetensors").exists())
        self.assertEqual(json.loads((self.out / "config.json").read_text())["text_config"]["mtp_num_hidden_layers"], 0)
        self.quantize("--mtp", "8", "--force")
        head = read_safetensors(self.out / "mtp.safetensors")
        self.assertEqual(head["mtp.layers.0.mlp.up_proj.weight"][1], (96, H * 8 // 32))
        self.assertEqual(head["mtp.fc.weight"], self.tensors["mtp.fc.weight"])
        self.assertEqual(head["mtp.norm.weight"][0], "F32")

    def test_experts_are_split_and_vision_is_kept(self):
        rng, name = random.Random(1), "model.language_model.layers.0.mlp.experts."
        gates, downs = bf16(3 * 64 * H, rng), bf16(3 * H * 32, rng)
        self.tensors[name + "gate_up_proj"] = ("BF16", (3, 64, H), gates)
        self.tensors[name + "down_proj"] = ("BF16", (3, H, 32), downs)
        self.tensors["model.visual.merger.weight"] = ("BF16", (64, 64), bf16(4096, rng))
        up = b"".join(gates[(e * 64 + 32) * H * 2:(e + 1) * 64 * H * 2] for e in range(3))
        self.tensors["model.language_model.layers.1.mlp.twin.weight"] = ("BF16", (96, H), up)
        self.write_source(vision_config={"depth": 1})
        self.quantize()
        made = read_safetensors(self.out / "model.safetensors")
        for leaf in ("weight", "scales", "biases"):
            fused = made[f"language_model.model.layers.0.mlp.switch_mlp.up_proj.{leaf}"]
            alone = made[f"language_model.model.layers.1.mlp.twin.{leaf}"]
            self.assertEqual(fused[2], alone[2])
            self.assertEqual(fused[1][:2], (3, 32))
        self.assertEqual(made["model.visual.merger.weight"], self.tensors["model.visual.merger.weight"])
        self.assertIn("vision_config", json.loads((self.out / "config.json").read_text()))
        self.quantize("--vision", "drop", "--force")
        self.assertNotIn("model.visual.merger.weight", read_safetensors(self.out / "model.safetensors"))


class Recipes(QuantizeTest):
    def test_a_file_decides_and_verify_reads_back(self):
        recipe = self.folder / "r.toml"
        recipe.write_text('bits = 4\n[[rule]]\nmatch = "up_proj$"\nkeep = true\n'
                          '[[rule]]\nmatch = "down_proj$"\nformat = "mxfp8"\n')
        report = json.loads(self.quantize("--recipe", recipe, "--verify", "--json").stdout)
        made = read_safetensors(self.out / "model.safetensors")
        self.assertEqual(made["language_model.model.layers.0.mlp.up_proj.weight"][0], "BF16")
        self.assertEqual(made["language_model.model.layers.0.mlp.down_proj.scales"][0], "U8")
        self.assertTrue(any(note.startswith("mxfp8") and "lowest cosine 0.99" in note for note in report["notes"]))
        self.assertTrue(any("byte for byte" in note for note in report["notes"]))

    def test_names_and_refusals(self):
        self.quantize("--recipe", "mixed-3-6")
        self.refused(2, "found 'mixed'", self.source, self.folder / "x", "--recipe", "mixed")
        self.refused(2, "--recipe replaces", self.source, self.folder / "x", "--recipe", "q4", "--bits", "4")


class Work(QuantizeTest):
    def test_threads_do_not_change_a_byte(self):
        self.quantize("--threads", "1")
        other = self.folder / "other"
        self.quantize("--threads", "3", out=other)
        self.assertEqual(hashes(self.out), hashes(other))

    def test_a_killed_run_continues(self):
        self.quantize()
        wanted = hashes(self.out)
        for delay in (0, 0.005, 0.01, 0.02, 0.04):
            other = self.folder / f"killed-{delay}"
            with subprocess.Popen([PROGRAM, "quantize", str(self.source), str(other)], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, env=self.environment) as process:
                time.sleep(delay)
                process.kill()
            if not (other / "config.json").exists():
                self.quantize(out=other)
            self.assertEqual(hashes(other), wanted)

    def test_plan_writes_nothing(self):
        done = self.quantize("--plan", "--json")
        report = json.loads(done.stdout)
        self.assertFalse(report["written"])
        self.assertFalse(self.out.exists())


class Calibrate(QuantizeTest):
    """The random model with a tokenizer of 160 words."""

    def setUp(self):
        super().setUp()
        words = {f"w{i}": i for i in range(VOCABULARY)}
        (self.source / "tokenizer.json").write_text(json.dumps({
            "version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"},
            "post_processor": None,
            "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
            "model": {"type": "WordLevel", "vocab": words, "unk_token": "w0"}}))
        rng = random.Random(3)
        self.text = self.folder / "text"
        self.text.write_text(" ".join(f"w{rng.randrange(VOCABULARY)}" for _ in range(200)))

    def weights(self, folder):
        return (folder / "model.safetensors").read_bytes()

    def test_the_size_is_that_of_the_format_and_the_recipe_repeats_it(self):
        uniform, again = self.folder / "uniform", self.folder / "again"
        wanted = json.loads(self.quantize("--bits", "4", "--json", out=uniform).stdout)
        report = json.loads(self.quantize("--bits", "4", "--calibrate", self.text, "--json").stdout)
        self.assertLessEqual(report["bytes"], wanted["bytes"])
        self.assertGreater(report["bytes"], 0.95 * wanted["bytes"])
        self.assertTrue(any("measured alone" in note for note in report["notes"]), report["notes"])
        widths = json.loads((self.out / "config.json").read_text())["quantization"]
        self.assertGreater(len({entry["bits"] for entry in widths.values() if isinstance(entry, dict)}), 1)
        self.quantize("--recipe", self.out / "recipe.toml", out=again)
        self.assertEqual(self.weights(again), self.weights(self.out))

    def test_threads_change_nothing_and_average_bits_give_the_size(self):
        self.quantize("--calibrate", self.text, "--threads", "1", "--average-bits", "5.5")
        other = self.folder / "other"
        report = json.loads(self.quantize("--calibrate", self.text, "--threads", "2", "--average-bits", "5.5", "--json",
                                          out=other).stdout)
        self.assertEqual(self.weights(other), self.weights(self.out))
        self.assertEqual((other / "recipe.toml").read_text(), (self.out / "recipe.toml").read_text())
        self.assertGreater(report["bits_per_weight"], 5)

    def test_verify_tells_perplexity_and_acceptance(self):
        self.text.write_text(self.text.read_text() * 2)
        report = json.loads(self.quantize("--bits", "8", "--verify", "--text", self.text, "--json").stdout)
        quality = report["quality"]
        self.assertAlmostEqual(quality["perplexity_after"] / quality["perplexity_before"], 1, delta=0.1)
        self.assertEqual((len(quality["acceptance_before"]), len(quality["acceptance_after"])), (3, 3))
        names = {tensor["name"] for tensor in report["tensors"]}
        self.assertIn("language_model.model.layers.0.mlp.gate_proj.weight", names)
        self.assertGreater(min(tensor["cosine"] for tensor in report["tensors"]), 0.999)

    def test_what_cannot_be_measured_is_refused(self):
        self.refused(2, "leave --format at affine", self.source, self.out, "--calibrate", self.text, "--format",
                     "mxfp4")
        self.refused(2, "--average-bits needs --calibrate", self.source, self.out, "--average-bits", "4")
        self.refused(2, "--text needs --verify", self.source, self.out, "--text", self.text)
        self.text.write_text("w1 w2")
        self.refused(2, "has 2 tokens; give 64 or more", self.source, self.out, "--calibrate", self.text)
        self.assertFalse(self.out.exists())


class Refused(QuantizeTest):
    def test_wrong_usage(self):
        self.refused(2, "needs two arguments", self.source)
        self.refused(2, "--bits: 7", self.source, self.out, "--bits", "7")
        self.refused(2, "groups of 16", self.source, self.out, "--format", "nvfp4", "--group-size", "64")
        self.refused(1, "there is no model at", self.folder / "absent", self.out)
        self.refused(2, "is the source itself", self.source, self.source, "--force")

    def test_what_is_there_is_not_replaced(self):
        self.quantize()
        self.refused(2, "already contains a model", self.source, self.out)
        self.refused(1, "quantised already", self.out, self.folder / "again")
        (self.out / "convert.state").write_text("other")
        self.refused(2, "stopped conversion of another source", self.source, self.out)

    def test_bad_sources(self):
        name = "model.language_model.layers.0.mlp.up_proj.weight"
        dtype, shape, content = self.tensors[name]
        for bits in (0x7F80, 0x7FC0):
            self.tensors[name] = (dtype, shape, content[:-2] + struct.pack("<H", bits))
            self.write_source()
            self.refused(1, "layers.0.mlp.up_proj.weight: has an infinity or a NaN", self.source, self.out)
        self.assertFalse((self.out / "config.json").exists())
        self.write_source(model_type="gpt2")
        self.refused(1, "found 'gpt2'", self.source, self.out)


MLX = all(importlib.util.find_spec(name) for name in ("mlx", "mlx_lm", "numpy"))
TRAINED = os.environ.get("FORETOKEN_TRAINED")


@unittest.skipUnless(MLX and TRAINED, "needs mlx, mlx-lm and FORETOKEN_TRAINED")
class AgainstMlx(QuantizeTest):
    """Bits of mx.quantize, and the logits that mlx-lm computes from the same files."""

    def setUp(self):
        super().setUp()
        self.source = pathlib.Path(TRAINED) / "qwen3.5-tiny"

    def check_bits(self, mx):
        stored, made = mx.load(str(self.source / "model.safetensors")), mx.load(str(self.out / "model.safetensors"))
        widths = json.loads((self.out / "config.json").read_text())["quantization"]
        common = {key: widths[key] for key in ("group_size", "bits", "mode")}
        modules = [name.removesuffix(".scales") for name in made if name.endswith(".scales")]
        for module in modules:
            name = module.replace("language_model.model.", "model.language_model.") + ".weight"
            parts = mx.quantize(stored[name], **{**common, **widths.get(module, {})})
            for leaf, part in zip(("weight", "scales", "biases"), parts):
                own = made[f"{module}.{leaf}"]
                self.assertEqual(own.dtype, part.dtype)
                self.assertTrue(mx.array_equal(own.view(mx.uint8), part.view(mx.uint8)).item(), f"{module}.{leaf}")
        self.assertEqual(len(modules), 125)

    def check_logits(self, mx, load):
        model, _ = load(str(self.out))
        ids = list(range(300, 340))
        theirs = mx.argmax(model(mx.array([ids]))[0].astype(mx.float32), -1).tolist()
        done = self.run_program("score", "--model", self.out, "--prompt-ids", ",".join(map(str, ids)), "--json",
                                "--activations", "16")
        own = [position["argmax"] for position in json.loads(done.stdout)["positions"]]
        # With two bits there are many near ties, which mlx-lm's bf16 arithmetic breaks differently.
        self.assertGreaterEqual(sum(a == b for a, b in zip(own, theirs)), len(ids) - 6)

    def test_every_format(self):
        import mlx.core as mx
        from mlx_lm import load

        mx.set_default_device(mx.cpu)
        formats = [("affine", bits, group) for bits in (2, 3, 4, 5, 6, 8) for group in (32, 64, 128)]
        for mode, bits, group in [*formats, *((mode, None, None) for mode in ("mxfp4", "mxfp8", "nvfp4"))]:
            with self.subTest(mode=mode, bits=bits, group=group):
                self.quantize("--force", "--format", mode, *(["--bits", bits, "--group-size", group] if bits else []))
                self.check_bits(mx)
                self.check_logits(mx, load)


@unittest.skipUnless(TRAINED and os.environ.get("FORETOKEN_FULL"), "needs FORETOKEN_TRAINED and FORETOKEN_FULL")
class Trained(QuantizeTest):
    def test_calibrated_widths_beat_a_uniform_one_of_equal_size(self):
        golden = pathlib.Path(__file__).resolve().parents[1] / "golden/model"
        calibration, held_out = self.folder / "calibration", self.folder / "held-out"
        texts = [(golden / f"heldout_{kind}.txt").read_text() for kind in ("code", "chat", "docs", "tool")]
        # Windows of all four kinds; the texts measured later were not used for calibration.
        calibration.write_text("".join(text[:1000] for text in texts))
        held_out.write_text("".join(text[len(text) // 2:len(text) // 2 + 3600] for text in texts))
        for model, bits in (("qwen3.5-tiny", 3), ("qwen3.5-moe-tiny", 3)):
            self.source = pathlib.Path(TRAINED) / model
            found = []
            for more in ((), ("--calibrate", calibration)):
                report = json.loads(self.quantize("--force", "--bits", bits, *more, "--threads", "1", "--verify",
                                                  "--text", held_out, "--json").stdout)
                found.append((report["quality"]["perplexity_after"], report["bytes"], report["quality"]["divergence"]))
            before = report["quality"]["perplexity_before"]
            print(f"{model} {bits} bits, perplexity: source {before:.4f}, uniform {found[0]}, calibrated {found[1]}")
            self.assertLess(found[1][0], found[0][0])
            self.assertLessEqual(found[1][1], found[0][1])


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main(verbosity=2)
