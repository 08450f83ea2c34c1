"""Llama's relatives, Qwen3-Next and GLM: the odd checkpoints of tests/golden as GGUF files by llama.cpp's rules, which
score like their folders, and as conversions, which have MLX's names.

    python3 tests/cli/families_test.py build/release/foretoken [CLASS]
"""

import array
import json
import math
import pathlib
import struct
import sys
import unittest

import convert_test
import quantize_test
from convert_test import ConvertTest, floats
from gguf_test import BOOL, FLOAT, TEXT_KIND, WHOLE, key, key_list, write_file
from quantize_test import read_safetensors, write_safetensors

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
TYPES = {"F32": 0, "F16": 1, "BF16": 30}
LAYER = {
    "input_layernorm.weight": "attn_norm.weight", "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.k_norm.weight": "attn_k_norm.weight", "mlp.gate.weight": "ffn_gate_inp.weight",
    "mlp.gate.e_score_correction_bias": "exp_probs_b.bias",
    "mlp.shared_expert_gate.weight": "ffn_gate_inp_shexp.weight",
    "linear_attn.in_proj_qkvz.weight": "ssm_in.weight", "linear_attn.in_proj_ba.weight": "ssm_ba.weight",
    "linear_attn.conv1d.weight": "ssm_conv1d.weight", "linear_attn.norm.weight": "ssm_norm.weight",
    "linear_attn.out_proj.weight": "ssm_out.weight", "linear_attn.A_log": "ssm_a", "linear_attn.dt_bias": "ssm_dt.bias",
    "eh_proj.weight": "nextn.eh_proj.weight", "enorm.weight": "nextn.enorm.weight",
    "hnorm.weight": "nextn.hnorm.weight",
    "shared_head.norm.weight": "nextn.shared_head_norm.weight",
    "shared_head.head.weight": "nextn.shared_head_head.weight", "embed_tokens.weight": "nextn.embed_tokens.weight",
}
LAYER |= {f"self_attn.{one}_proj.{leaf}": f"attn_{'output' if one == 'o' else one}.{leaf}"
          for one in "qkvo" for leaf in ("weight", "bias")}
LAYER |= {f"mlp.{module}{one}_proj.weight": f"ffn_{one}{end}.weight" for one in ("gate", "up", "down")
          for module, end in (("", ""), ("shared_expert.", "_shexp"), ("shared_experts.", "_shexp"),
                              ("experts.", "_exps"))}
LAYER |= {f"mlp.{one}_proj.bias": f"ffn_{one}.bias" for one in ("gate", "up", "down")}
MODEL = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
         "lm_head.weight": "output.weight"}


def stacked(tensors):
    """Experts that are stored one by one, as one tensor."""
    out, parts = {}, {}
    for name, (dtype, shape, content) in tensors.items():
        before, middle, rest = name.partition("mlp.experts.")
        if not middle:
            out[name] = (dtype, shape, content)
            continue
        expert, leaf = rest.split(".", 1)
        parts.setdefault((before + middle + leaf, dtype, shape), {})[int(expert)] = content
    for (name, dtype, shape), experts in parts.items():
        out[name] = (dtype, (len(experts), *shape), b"".join(experts[e] for e in sorted(experts)))
    return out


def in_pairs(entry, heads):
    """Row 2 j + s of a head is row s D/2 + j of the checkpoint."""
    dtype, shape, content = entry
    size, half = len(content) // shape[0], shape[0] // heads // 2
    rows = [content[i * size:(i + 1) * size] for i in range(shape[0])]
    order = [2 * half * h + s * half + j for h in range(heads) for j in range(half) for s in (0, 1)]
    return dtype, shape, b"".join(rows[i] for i in order)


def as_f32(entry):
    dtype, shape, content = entry
    values = floats(entry) if dtype != "F16" else list(struct.unpack(f"<{len(content) // 2}e", content))
    return shape, values


def with_fused(tensors):
    """q, k and v of a layer as one tensor, as converters write them on request."""
    by_name = {name: rest for name, *rest in tensors}
    fused = []
    for name, *rest in tensors:
        before, middle, leaf = name.partition("attn_")
        if not middle or leaf.split(".")[0] not in ("q", "k", "v"):
            fused.append((name, *rest))
        elif leaf.startswith("q."):
            parts = [as_kind(by_name[f"{before}attn_{one}.{leaf[2:]}"]) for one in "qkv"]
            rows = sum(shape[0] for shape, _ in parts)
            content = b"".join(content for _, content in parts)
            fused.append((f"{before}attn_qkv.{leaf[2:]}", 0, (rows, *parts[0][0][1:]), content))
    return fused


def with_gate_up(tensors):
    """Gate and up of a block's experts as one tensor, gate first, as converters write them on request."""
    by_name = {name: rest for name, *rest in tensors}
    fused = []
    for name, *rest in tensors:
        before, middle, _ = name.partition("ffn_gate_exps.weight")
        if middle:
            kind, (experts, rows, cols), gate = rest
            up = by_name[before + "ffn_up_exps.weight"][2]
            size = len(gate) // experts
            content = b"".join(part[e * size:(e + 1) * size] for e in range(experts) for part in (gate, up))
            fused.append((before + "ffn_gate_up_exps.weight", kind, (experts, 2 * rows, cols), content))
        elif "ffn_up_exps.weight" not in name:
            fused.append((name, *rest))
    return fused


def as_kind(entry):
    """(shape, float32) of a tensor of the file."""
    kind, shape, content = entry
    if kind == TYPES["F32"]:
        return shape, content
    dtype = {number: name for name, number in TYPES.items()}[kind]
    return shape, array.array("f", as_f32((dtype, shape, content))[1]).tobytes()


def divisors(rope, head_dim):
    """The factors of Llama 3's rotation, as llama.cpp's converter writes them."""
    low, high, factor = rope["low_freq_factor"], rope["high_freq_factor"], rope["factor"]
    out = []
    for j in range(head_dim // 2):
        waves = rope["original_max_position_embeddings"] * rope["rope_theta"] ** (-2 * j / head_dim) / (2 * math.pi)
        smooth = min(1, max(0, (waves - low) / (high - low)))
        out.append(1 / ((1 - smooth) / factor + smooth))
    return out


class FamilyTest(ConvertTest):
    def prepare(self, folder, **changes):
        """The checkpoint with another config, and with a tokenizer that `score` can load."""
        self.config = json.loads((folder / "config.json").read_text())
        nested = self.config.get("text_config")
        if nested:
            self.config = {**nested, "architectures": ["TextForCausalLM"]}
        for name, value in changes.items():
            if value is None:
                self.config.pop(name, None)
            else:
                self.config[name] = value
        layers = self.config["num_hidden_layers"] + self.config.get("num_nextn_predict_layers", 0)
        tensors = {name.replace("model.language_model.", "model."): entry
                   for name, entry in read_safetensors(folder / "model.safetensors").items()}
        self.tensors = {name: entry for name, entry in tensors.items()
                        if not name.startswith("model.layers.") or int(name.split(".")[2]) < layers}
        write_safetensors(self.source / "model.safetensors", self.tensors, {"format": "pt"})
        (self.source / "config.json").write_text(json.dumps(self.config))
        vocabulary = {f"t{i}": i for i in range(self.config["vocab_size"])}
        tokenizer = json.loads(json.dumps(convert_test.TOKENIZER))
        tokenizer["model"]["vocab"] = vocabulary
        (self.source / "tokenizer.json").write_text(json.dumps(tokenizer))

    def tokenizer_keys(self):
        texts = ["a", "b", "ab", *(f"t{i}" for i in range(3, self.config["vocab_size"]))]
        return [key("tokenizer.ggml.model", TEXT_KIND, "gpt2"), key("tokenizer.ggml.pre", TEXT_KIND, "qwen2"),
                key_list("tokenizer.ggml.tokens", TEXT_KIND, texts),
                key_list("tokenizer.ggml.merges", TEXT_KIND, ["a b"]),
                key_list("tokenizer.ggml.token_type", WHOLE, [1] * len(texts)),
                key("tokenizer.ggml.eos_token_id", WHOLE, 2), key("tokenizer.ggml.add_bos_token", BOOL, 0)]

    def tensor(self, name, entry, paired):
        if paired and ".q_proj." in name:
            entry = in_pairs(entry, self.config["num_attention_heads"])
        if paired and ".k_proj." in name:
            entry = in_pairs(entry, self.config["num_key_value_heads"])
        if name in MODEL:
            own, layer = MODEL[name], ""
        else:
            _, _, layer, leaf = name.split(".", 3)
            own = f"blk.{layer}." + self.layer_names[leaf]
        dtype, shape, content = entry
        if len(shape) > 1 and "conv1d" not in name and "shared_expert_gate" not in name:
            return own, TYPES[dtype], shape, content
        shape, values = as_f32(entry)
        if self.shifted and name.endswith("norm.weight") and "linear_attn" not in name:
            values = [1 + value for value in values]
        if name.endswith("A_log"):
            values = [-math.exp(value) for value in values]
        if "conv1d" in name:
            shape = (shape[0], shape[2])
        if "shared_expert_gate" in name:
            shape = shape[1:]
        return own, 0, shape, array.array("f", values).tobytes()

    def write(self, architecture, keys, *, paired=False, norm="ffn_norm.weight", shifted=False, fused=False,
              divisors=()):
        config, self.shifted = self.config, shifted
        self.layer_names = {**LAYER, "post_attention_layernorm.weight": norm}
        heads = config["num_attention_heads"]
        blocks = config["num_hidden_layers"] + config.get("num_nextn_predict_layers", 0)
        whole = {"block_count": blocks, "context_length": 2048, "embedding_length": config["hidden_size"],
                 "feed_forward_length": config["intermediate_size"], "attention.head_count": heads,
                 "attention.head_count_kv": config["num_key_value_heads"],
                 "attention.key_length": config.get("head_dim", config["hidden_size"] // heads)}
        metadata = [key("general.architecture", TEXT_KIND, architecture),
                    *(key(f"{architecture}.{name}", WHOLE, number) for name, number in whole.items()),
                    key(f"{architecture}.attention.layer_norm_rms_epsilon", FLOAT, config["rms_norm_eps"])]
        kinds = {int: WHOLE, float: FLOAT, bool: BOOL, str: TEXT_KIND}
        metadata += [key(f"{architecture}.{name}", kinds[type(value)], value) for name, value in keys.items()]
        self.file = self.folder / "odd.gguf"
        tensors = [self.tensor(name, entry, paired) for name, entry in stacked(self.tensors).items()]
        if divisors:
            tensors.append(("rope_freqs.weight", 0, (len(divisors),), array.array("f", divisors).tobytes()))
        tensors = with_gate_up(tensors) if fused == "experts" else with_fused(tensors) if fused else tensors
        write_file(self.file, metadata + self.tokenizer_keys(), tensors)

    def expect_like_the_folder(self, places=7):
        for ours, theirs in zip(self.positions(self.file), self.positions(self.source), strict=True):
            self.assertEqual(ours["argmax"], theirs["argmax"])
            self.assertAlmostEqual(ours["logsumexp"], theirs["logsumexp"], places=places)

    def head_state(self):
        done = self.run_program("inspect", self.file, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["head"]["state"]


class Llamas(FamilyTest):
    def test_smollm3_and_granite_have_their_rows_in_pairs(self):
        self.prepare(GOLDEN / "llama" / "smollm3", use_sliding_window=False, no_rope_layers=None)
        self.write("smollm3", {"rope.freq_base": 5e6, "rope.dimension_count": 14}, paired=True)
        self.expect_like_the_folder()
        self.prepare(GOLDEN / "llama" / "granite")
        self.write("granite", {"rope.freq_base": 1e4, "embedding_scale": 1.3, "residual_scale": 0.9, "logit_scale": 1.5,
                               "attention.scale": 0.35}, paired=True)
        self.expect_like_the_folder(places=4)  # the multipliers are float32 here

    def test_ministral_keeps_its_temperature(self):
        self.prepare(GOLDEN / "llama" / "ministral3")
        self.write("mistral3", {
            "rope.freq_base": 1e6, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
            "rope.scaling.original_context_length": 40, "rope.scaling.yarn_beta_fast": 32.0,
            "rope.scaling.yarn_beta_slow": 1.0, "rope.scaling.yarn_log_multiplier": 1.0,
            "attention.temperature_scale": 0.3}, paired=True)
        self.expect_like_the_folder(places=5)  # beta is float32 here

    def test_fused_projections_and_stretched_rotations(self):
        self.prepare(GOLDEN / "llama" / "llama")
        rope = self.config["rope_parameters"]
        self.write("llama", {"rope.freq_base": rope["rope_theta"]}, paired=True, fused=True,
                   divisors=divisors(rope, self.config["head_dim"]))
        self.expect_like_the_folder(places=5)
        self.write("llama", {"rope.freq_base": rope["rope_theta"]}, paired=True,
                   divisors=[1.0, 2.0, 3.0] + 7 * [9.0])
        done = self.run_program("run", "--model", self.file, "-p", "x", "-n", "1")
        self.assertIn(b"rope_freqs.weight", done.stderr)

    def test_a_vocabulary_of_scored_pieces(self):
        self.prepare(GOLDEN / "llama" / "llama")
        bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
        pieces = ["ab", "\u2581a", "\u2581ab", "abc", "\u2581", "a", "b", "c"]
        texts = ["<unk>", "<s>", "</s>", *bytes_, *pieces]
        texts += [f"t{i}" for i in range(len(texts), self.config["vocab_size"])]
        kinds = [2, 3, 3, *[6] * 256, *[1] * (len(texts) - 259)]
        self.tokenizer_keys = lambda: [
            key("tokenizer.ggml.model", TEXT_KIND, "llama"), key("tokenizer.ggml.pre", TEXT_KIND, "default"),
            key_list("tokenizer.ggml.tokens", TEXT_KIND, texts), key_list("tokenizer.ggml.token_type", WHOLE, kinds),
            key_list("tokenizer.ggml.scores", FLOAT, [-float(i) for i in range(len(texts))]),
            key("tokenizer.ggml.bos_token_id", WHOLE, 1), key("tokenizer.ggml.unknown_token_id", WHOLE, 0)]
        rope = self.config["rope_parameters"]
        self.write("llama", {"rope.freq_base": rope["rope_theta"]}, paired=True,
                   divisors=divisors(rope, self.config["head_dim"]))
        wanted = [texts.index(piece) for piece in ("\u2581ab", "\u2581ab", "c", "\u2581", "<0xC3>", "<0xA9>")]
        for flags, first in (((), []), (("--special",), [1])):
            done = self.run_program("tokenize", "--model", self.file, "--json", *flags, "ab abc \u00e9")
            self.assertEqual(json.loads(done.stdout)["ids"], first + wanted, done.stderr)
        done = self.run_program("tokenize", "--model", self.file, "--ids", ",".join(map(str, wanted)))
        self.assertEqual(done.stdout.decode().strip(), "ab abc \u00e9")  # pieces keep the space before a text

    def test_qwens_have_their_rows_in_order(self):
        self.prepare(GOLDEN / "llama" / "qwen2", use_sliding_window=False)
        self.write("qwen2", {"rope.freq_base": 1e4, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
                             "rope.scaling.original_context_length": 64})
        self.expect_like_the_folder()
        self.prepare(GOLDEN / "llama" / "qwen3")
        self.write("qwen3", {"rope.freq_base": 1e4, "rope.scaling.type": "linear", "rope.scaling.factor": 2.0})
        self.expect_like_the_folder()

    def test_a_mixture_of_experts_has_stacks(self):
        self.prepare(GOLDEN / "llama" / "qwen3_moe", num_hidden_layers=1, mlp_only_layers=[], norm_topk_prob=True)
        self.write("qwen3moe", {"rope.freq_base": 1e4, "expert_count": 7, "expert_used_count": 3,
                                "expert_feed_forward_length": 24})
        self.expect_like_the_folder()
        self.write("qwen3moe", {"rope.freq_base": 1e4, "expert_count": 7, "expert_used_count": 3,
                                "expert_feed_forward_length": 24}, fused="experts")
        self.expect_like_the_folder()


class Heads(FamilyTest):
    """Families with an MTP head."""

    def test_glm_keeps_its_head_as_the_last_block(self):
        for name, factor, dense, shared in (("glm4_moe", 2.5, 2, 2), ("glm4_air", 1.0, 1, 1)):
            self.prepare(GOLDEN / "mtp" / name)
            keys = {"rope.freq_base": 1e4, "rope.dimension_count": 10, "nextn_predict_layers": 1, "expert_count": 11,
                    "expert_used_count": 3, "expert_shared_count": shared, "expert_feed_forward_length": 24,
                    "leading_dense_block_count": dense, "expert_gating_func": 2, "expert_weights_scale": factor,
                    "expert_weights_norm": True}
            self.write("glm4moe", keys, norm="post_attention_norm.weight")
            self.expect_like_the_folder()
            self.assertEqual(self.head_state(), "ready")
            self.write("glm4moe", keys, norm="post_attention_norm.weight", fused="experts")
            self.expect_like_the_folder()
            self.assertEqual(self.head_state(), "ready")
            self.write("glm4moe", {**keys, "expert_gating_func": 1}, norm="post_attention_norm.weight")
            done = self.run_program("run", "--model", self.file, "-p", "x", "-n", "1")
            self.assertIn(b"glm4moe.expert_gating_func", done.stderr)

    def test_qwen3_next_keeps_the_order_of_its_heads(self):
        self.prepare(GOLDEN / "mtp" / "qwen3_next")
        self.tensors = {name: entry for name, entry in self.tensors.items() if not name.startswith("mtp.")}
        self.config["layer_types"] = None
        keys = {"rope.freq_base": 1e4, "rope.dimension_count": 8, "expert_count": 11, "expert_used_count": 3,
                "expert_feed_forward_length": 24, "expert_shared_feed_forward_length": 56, "ssm.conv_kernel": 4,
                "ssm.state_size": 24, "ssm.group_count": 2, "ssm.time_step_rank": 6, "ssm.inner_size": 120,
                "full_attention_interval": 2}
        self.write("qwen3next", keys, norm="post_attention_norm.weight", shifted=True)
        self.expect_like_the_folder(places=3)
        self.assertEqual(self.head_state(), "none")
        self.write("qwen3next", keys, norm="post_attention_norm.weight", shifted=True, fused="experts")
        self.expect_like_the_folder(places=3)


class Conversions(FamilyTest):
    """`sanitize` of mlx-lm's qwen3_next.py and glm4_moe.py; the head is in a separate file."""

    def convert_odd(self, name):
        self.prepare(GOLDEN / "mtp" / name)
        self.quantize("--bits", "8", "--group-size", "32")
        target = read_safetensors(self.out / "model.safetensors")
        done = self.run_program("inspect", self.out, "--json")
        self.assertEqual(json.loads(done.stdout)["head"]["state"], "ready", done.stderr)
        done = self.run_program("score", "--model", self.out, "--prompt-ids", "20,21,22,23", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return target, read_safetensors(self.out / "mtp.safetensors")

    def test_qwen3_next_keeps_its_fused_projections_and_gets_final_norms(self):
        target, head = self.convert_odd("qwen3_next")
        layer = "model.layers.0."
        for name in ("linear_attn.in_proj_qkvz", "linear_attn.in_proj_ba", "mlp.switch_mlp.gate_proj"):
            self.assertIn(f"{layer}{name}.weight", target)
        self.assertEqual(target[layer + "linear_attn.conv1d.weight"][1], (216, 4, 1))
        self.assertEqual(target[layer + "mlp.switch_mlp.down_proj.weight"][1][0], 11)
        stored = as_f32(self.tensors[layer + "input_layernorm.weight"])[1]
        self.assertAlmostEqual(as_f32(target[layer + "input_layernorm.weight"])[1][5], 1 + stored[5], places=5)
        self.assertIn("mtp.fc.weight", head)
        self.assertFalse([name for name in target if name.startswith("mtp.")])

    def test_glm_keeps_its_router_and_names_its_head(self):
        target, head = self.convert_odd("glm4_moe")
        layer = "model.layers.2.mlp."
        for name in ("gate.weight", "gate.e_score_correction_bias"):
            self.assertEqual(target[layer + name], self.tensors[layer + name])
        self.assertIn(layer + "switch_mlp.up_proj.weight", target)
        self.assertIn(layer + "shared_experts.up_proj.weight", target)
        self.assertFalse([name for name in target if name.startswith("model.layers.4.")])
        self.assertIn("mtp.fc.weight", head)
        self.assertIn("mtp.layers.0.mlp.gate.e_score_correction_bias", head)


class PairedExperts(FamilyTest):
    """gpt-oss: rows of gate and up take turns, and published experts are MXFP4 codes."""

    def prepare_odd(self, name):
        self.prepare(GOLDEN / "gpt_oss" / name)
        return read_safetensors(GOLDEN / "gpt_oss" / name / "model.safetensors")

    def seen(self):
        return [position["argmax"] for position in self.positions(self.out)]

    def test_published_experts_keep_their_codes(self):
        stored = self.prepare_odd("mxfp4")
        self.convert(self.source, self.out)
        self.assertEqual(self.positions(self.out), self.positions(self.source))
        made = read_safetensors(self.out / "model.safetensors")
        name = "model.layers.0.mlp.experts."
        experts, rows, groups, _ = stored[name + "gate_up_proj_blocks"][1]
        codes, width = stored[name + "gate_up_proj_blocks"][2], 16 * groups
        for projection, first in (("gate_proj", 0), ("up_proj", 1)):
            wanted = b"".join(codes[i * width:(i + 1) * width] for i in range(first, experts * rows, 2))
            self.assertEqual(made[f"{name}{projection}.weight"][2], wanted)
            self.assertEqual(made[f"{name}{projection}.weight"][1], (experts, rows // 2, 4 * groups))
            self.assertEqual(made[f"{name}{projection}.bias"][1], (experts, rows // 2))
        config = json.loads((self.out / "config.json").read_text())
        self.assertEqual(config["quantization"]["mode"], "mxfp4")
        again = self.folder / "again"
        done = self.run_program("quantize", self.out, again)
        self.assertIn(b"quantised already", done.stderr)

    def test_quantize_takes_the_rest_and_fewer_bits(self):
        self.prepare_odd("mxfp4")
        self.quantize("--bits", "8", "--group-size", "32")
        config = json.loads((self.out / "config.json").read_text())
        self.assertEqual(config["quantization"]["model.layers.0.mlp.experts.up_proj"]["mode"], "mxfp4")
        self.assertEqual(config["quantization"]["bits"], 8)
        wanted = [position["argmax"] for position in self.positions(self.source)]
        self.assertGreater(sum(a == b for a, b in zip(self.seen(), wanted, strict=True)), 0.8 * len(wanted))
        self.quantize("--bits", "3", "--group-size", "32", "--force")
        self.assertNotIn("mxfp4", (self.out / "config.json").read_text())
        self.assertEqual(len(self.seen()), len(wanted))

    def test_experts_that_are_stored_turned(self):
        self.prepare_odd("plain")
        self.convert(self.source, self.out)
        self.assertEqual(self.positions(self.out), self.positions(self.source))

    def test_a_damaged_stack_is_named(self):
        self.prepare_odd("mxfp4")
        name = "model.layers.0.mlp.experts.gate_up_proj_scales"
        dtype, shape, content = self.tensors[name]
        half = (shape[0], shape[1] // 2, shape[2])
        write_safetensors(self.source / "model.safetensors",
                          {**self.tensors, name: (dtype, half, content[:len(content) // 2])}, {"format": "pt"})
        done = self.run_program("convert", self.source, self.out)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"gate_up_proj_scales", done.stderr)


if __name__ == "__main__":
    quantize_test.PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main(verbosity=2)
