"""`foretoken convert` on small random checkpoints: a GGUF file made by llama.cpp's rules, FP8, packed integers.

    python3 tests/cli/convert_test.py build/release/foretoken [CLASS]
"""

import array
import json
import math
import pathlib
import random
import struct
import sys
import unittest

import quantize_test
from quantize_test import H, LAYERS, TEXT, QuantizeTest, read_safetensors

BF16, F32, Q8_0 = 30, 0, 8
K, V, SIZE = 2, 4, 32  # key heads, value heads, the size of both
LAYER_NAMES = {
    "input_layernorm.weight": "attn_norm.weight", "post_attention_layernorm.weight": "post_attention_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight", "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight", "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight", "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.o_proj.weight": "attn_output.weight", "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.k_norm.weight": "attn_k_norm.weight", "linear_attn.in_proj_qkv.weight": "attn_qkv.weight",
    "linear_attn.in_proj_z.weight": "attn_gate.weight", "linear_attn.in_proj_a.weight": "ssm_alpha.weight",
    "linear_attn.in_proj_b.weight": "ssm_beta.weight", "linear_attn.conv1d.weight": "ssm_conv1d.weight",
    "linear_attn.norm.weight": "ssm_norm.weight", "linear_attn.out_proj.weight": "ssm_out.weight",
    "linear_attn.A_log": "ssm_a", "linear_attn.dt_bias": "ssm_dt.bias",
}
HEAD_NAMES = {"mtp.fc.weight": "nextn.eh_proj.weight", "mtp.pre_fc_norm_embedding.weight": "nextn.enorm.weight",
              "mtp.pre_fc_norm_hidden.weight": "nextn.hnorm.weight", "mtp.norm.weight": "nextn.shared_head_norm.weight"}


def floats(entry):
    dtype, _, content = entry
    if dtype == "F32":
        return list(struct.unpack(f"<{len(content) // 4}f", content))
    return [struct.unpack("<f", struct.pack("<I", bits << 16))[0] for bits in array.array("H", content)]


def tiled(values, block):
    """Value head j * K + k of the file is head k * (V / K) + j of the checkpoint."""
    out = []
    for position in range(V):
        head = position % K * (V // K) + position // K
        out += values[head * block:(head + 1) * block]
    return out


def rearranged(name, shape, values):
    """The values in the order of llama.cpp's conversion."""
    columns = shape[-1] if len(shape) > 1 else 1
    if name.endswith(("in_proj_qkv.weight", "conv1d.weight")):
        keys = 2 * K * SIZE * columns
        return values[:keys] + tiled(values[keys:], SIZE * columns)
    if name.endswith("in_proj_z.weight"):
        return tiled(values, SIZE * columns)
    if name.endswith(("in_proj_a.weight", "in_proj_b.weight", "A_log", "dt_bias")):
        return tiled(values, columns)
    if name.endswith("out_proj.weight"):
        rows = [values[i:i + columns] for i in range(0, len(values), columns)]
        return [value for row in rows for value in tiled(row, SIZE)]
    return values


def gguf_name(name):
    if name in HEAD_NAMES:
        return f"blk.{LAYERS}." + HEAD_NAMES[name]
    if name.startswith("mtp.layers.0."):
        return f"blk.{LAYERS}." + LAYER_NAMES[name.removeprefix("mtp.layers.0.")]
    rest = name.removeprefix("model.language_model.")
    if rest.startswith("layers."):
        _, layer, leaf = rest.split(".", 2)
        return f"blk.{layer}." + LAYER_NAMES[leaf]
    return {"embed_tokens.weight": "token_embd.weight", "norm.weight": "output_norm.weight"}[rest]


def q8_0(values):
    content = b""
    for i in range(0, len(values), 32):
        scale = max(abs(value) for value in values[i:i + 32]) / 127 or 1.0
        half = struct.pack("<e", scale)
        scale = struct.unpack("<e", half)[0]
        content += half + struct.pack("<32b", *(max(-127, min(127, round(v / scale))) for v in values[i:i + 32]))
    return content


def encoded(name, entry, matrix_type):
    """-> ggml's type, shape, bytes"""
    dtype, shape, content = entry
    values = rearranged(name, shape, floats(entry))
    if name.endswith("conv1d.weight"):
        shape = (shape[0], shape[2])
    if name.endswith("norm.weight") and "linear_attn" not in name or ".pre_fc_norm" in name:
        values = [struct.unpack("<f", struct.pack("<f", 1 + value))[0] for value in values]
    if name.endswith("A_log"):
        values = [-math.exp(value) for value in values]
    if len(shape) < 2 or name.endswith("conv1d.weight"):
        return F32, shape, struct.pack(f"<{len(values)}f", *values)
    if matrix_type == Q8_0:
        return Q8_0, shape, q8_0(values)
    return BF16, shape, b"".join(struct.pack("<f", value)[2:] for value in values)


def string(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


def write_gguf(path, tensors, matrix_type, architecture="qwen35"):
    rope = TEXT["rope_parameters"]
    whole = {"block_count": LAYERS + 1, "nextn_predict_layers": 1, "context_length": 512, "embedding_length": H,
             "feed_forward_length": 96, "attention.head_count": 2, "attention.head_count_kv": 1,
             "attention.key_length": 32, "rope.dimension_count": 16, "ssm.conv_kernel": 4, "ssm.state_size": SIZE,
             "ssm.group_count": K, "ssm.time_step_rank": V, "ssm.inner_size": V * SIZE, "full_attention_interval": 4}
    keys = [string("general.architecture") + struct.pack("<I", 8) + string(architecture),
            string("tokenizer.ggml.eos_token_id") + struct.pack("<II", 4, 1)]
    keys += [string(f"qwen35.{key}") + struct.pack("<II", 4, value) for key, value in whole.items()]
    keys.append(string("qwen35.rope.freq_base") + struct.pack("<If", 6, rope["rope_theta"]))
    keys.append(string("qwen35.rope.dimension_sections") + struct.pack("<IIQ4i", 9, 5, 4, *rope["mrope_section"], 0))
    table, data = b"", b""
    for name, entry in tensors.items():
        kind, shape, content = encoded(name, entry, matrix_type)
        sides = struct.pack(f"<{len(shape)}Q", *reversed(shape))
        table += string(gguf_name(name)) + struct.pack("<I", len(shape)) + sides + struct.pack("<IQ", kind, len(data))
        data += content + bytes(-len(content) % 32)
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys) + table
    path.write_bytes(header + bytes(-len(header) % 32) + data)


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
TOKENIZER = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
             "pre_tokenizer": BYTE_LEVEL, "post_processor": BYTE_LEVEL, "decoder": BYTE_LEVEL,
             "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                       "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                       "vocab": {f"t{i}": i for i in range(quantize_test.VOCABULARY)}, "merges": []}}


class ConvertTest(QuantizeTest):
    def convert(self, source, out, *arguments):
        done = self.run_program("convert", source, out, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def positions(self, model):
        ids = ",".join(str(i) for i in range(20, 60))
        done = self.run_program("score", "--model", model, "--prompt-ids", ids, "--json", "--activations", "16")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["positions"]


class Gguf(ConvertTest):
    def test_scores_like_its_source(self):
        file = self.folder / "tiny.gguf"
        write_gguf(file, self.tensors, BF16)
        self.convert(file, self.out)
        for folder in (self.out, self.source):
            (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
        made, source = self.positions(self.out), self.positions(self.source)
        for a, b in zip(made, source):
            self.assertEqual(a["argmax"], b["argmax"])
            self.assertAlmostEqual(a["logsumexp"], b["logsumexp"], places=3)
        done = self.run_program("inspect", self.out, "--json")
        self.assertEqual(json.loads(done.stdout)["head"]["state"], "ready")

    def test_codes_of_q8_0_are_kept(self):
        file = self.folder / "tiny.gguf"
        write_gguf(file, self.tensors, Q8_0)
        said = self.convert(file, self.out).stdout.decode()
        self.assertIn("keep their codes, exactly", said)
        made = read_safetensors(self.out / "model.safetensors")
        name = "layers.1.mlp.up_proj"
        stored = q8_0(floats(self.tensors[f"model.language_model.{name}.weight"]))
        codes = b"".join(bytes(b ^ 128 for b in stored[i + 2:i + 34]) for i in range(0, len(stored), 34))
        self.assertEqual(made[f"language_model.model.{name}.weight"][2], codes)
        scales = b"".join(stored[i:i + 2] for i in range(0, len(stored), 34))
        self.assertEqual(made[f"language_model.model.{name}.scales"], ("F16", (96, H // 32), scales))

    def test_refusals(self):
        file = self.folder / "tiny.gguf"
        write_gguf(file, self.tensors, BF16, architecture="gpt2")
        self.assertIn(b"found 'gpt2'", self.run_program("convert", file, self.out).stderr)
        file.write_bytes(b"GGUF" + bytes(40))
        self.assertIn(b"version 0", self.run_program("convert", file, self.out).stderr)


class Folders(ConvertTest):
    def test_fp8_blocks(self):
        rng, decoded = random.Random(3), {}
        for name, (_, shape, _) in list(self.tensors.items()):
            if len(shape) != 2 or "proj" not in name or "in_proj_a" in name or "in_proj_b" in name:
                continue
            content = bytes(rng.choice((0x00, 0x80)) + rng.randint(8, 0x50) for _ in range(shape[0] * shape[1]))
            blocks = (-(-shape[0] // 128), -(-shape[1] // 128))
            count = blocks[0] * blocks[1]
            scales = struct.pack(f"<{count}f", *[0.01 + 0.001 * i for i in range(count)])
            self.tensors[name] = ("F8_E4M3", shape, content)
            self.tensors[name + "_scale_inv"] = ("F32", blocks, scales)
            decoded[name] = content
        self.write_source(quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]})
        refused = self.run_program("run", "--model", self.source, "-p", "x")
        self.assertIn(b"foretoken convert", refused.stderr)
        said = self.convert(self.source, self.out).stdout.decode()
        self.assertIn("have new codes of 8 bits", said)
        config = json.loads((self.out / "config.json").read_text())
        self.assertEqual(config["quantization"], {"bits": 8, "group_size": 64, "mode": "affine",
                                                  **{key: value for key, value in config["quantization"].items()
                                                     if key.startswith("language_model") or key.startswith("mtp")}})
        done = self.run_program("inspect", self.out, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        # Four bits of eight are allowed; of four they are not.
        self.quantize(out=self.folder / "four")

    def test_codes_of_few_bits_are_not_made_again(self):
        name = "model.language_model.layers.0.mlp.up_proj"
        rng = random.Random(5)
        del self.tensors[name + ".weight"]
        self.tensors[name + ".weight_packed"] = ("I32", (96, H // 8), rng.randbytes(96 * H // 2))
        self.tensors[name + ".weight_scale"] = ("BF16", (96, H // 32), quantize_test.bf16(96 * H // 32, rng))
        self.tensors[name + ".weight_shape"] = ("I64", (2,), struct.pack("<2q", 96, H))
        self.write_source(quantization_config={"quant_method": "compressed-tensors", "config_groups": {
            "group_0": {"weights": {"num_bits": 4}}}})
        self.refused(1, "keep them with foretoken convert", self.source, self.out)
        self.convert(self.source, self.out)
        made = read_safetensors(self.out / "model.safetensors")
        mlx = "language_model.model.layers.0.mlp.up_proj"
        self.assertEqual(made[mlx + ".weight"][2], self.tensors[name + ".weight_packed"][2])
        self.assertEqual(made[mlx + ".scales"][2], self.tensors[name + ".weight_scale"][2])


if __name__ == "__main__":
    quantize_test.PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main(verbosity=2)
