"""Tiny random checkpoints of gpt-oss with odd sizes, and their golden files from transformers in float32.

  python tools/make_odd_gpt_oss.py OUT_DIR        (needs the package gguf too)

`mxfp4`  experts as published: MXFP4 codes and scales by Hugging Face's names; YaRN that is not truncated, windows
         in every second layer, clamps that bite, biases everywhere, untied head
`mlx`    the same model by the names of MLX, where the codes are words; its golden files are `mxfp4`'s
`mxfp4.gguf`  the same model as llama.cpp converts it, without a tokenizer
`plain`  experts as matrices [experts, in, out], its own layer_types, no biases of attention, tied head
Other tensors are in bf16, f16 and f32. `mxfp4` has a tokenizer with the control tokens of harmony; its chat template
is written by hand.
"""

import json
import os
import pathlib
import sys

import gguf
import numpy as np
import torch
from tokenizers import processors
from transformers import GptOssConfig, GptOssForCausalLM

import checkpoint
import make_odd_gemma as shared

S, F = "sliding_attention", "full_attention"
ABOUT = ("Hugging Face transformers, float32, CPU; weights upcast to float32, made by tools/make_odd_gpt_oss.py. "
         "Greedy continuation does not stop at end tokens. margin: first choice minus second.")
COMMON = {"vocab_size": 531, "hidden_act": "silu", "rms_norm_eps": 1e-5, "max_position_embeddings": 2048,
          "bos_token_id": 1, "eos_token_id": 2, "dtype": "float32",
          "rope_parameters": {"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "beta_fast": 32.0,
                              "beta_slow": 1.0, "truncate": False, "original_max_position_embeddings": 64}}
MODELS = {
    "mxfp4": {"hidden_size": 96, "intermediate_size": 64, "num_hidden_layers": 4, "num_attention_heads": 6,
              "num_key_value_heads": 2, "head_dim": 20, "num_local_experts": 7, "num_experts_per_tok": 3,
              "sliding_window": 21, "swiglu_limit": 7.0, "tie_word_embeddings": False},
    "plain": {"hidden_size": 56, "intermediate_size": 44, "num_hidden_layers": 4, "num_attention_heads": 4,
              "num_key_value_heads": 2, "head_dim": 24, "num_local_experts": 5, "num_experts_per_tok": 2,
              "sliding_window": 33, "layer_types": [F, S, S, F], "attention_bias": False, "swiglu_limit": 2.0,
              "swiglu_alpha": 1.3, "tie_word_embeddings": True},
}
NAMED = {0: "<|endoftext|>", 1: "<|startoftext|>", 2: "<|return|>", 3: "<unk>", 4: "<|constrain|>", 5: "<|channel|>",
         6: "<|start|>", 7: "<|call|>", 8: "<|message|>", 9: "<|end|>"}
CODES = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6], dtype=np.float32)


def value(rng, name, shape):
    """float32, of a size that keeps activations near one and the choice of tokens lively."""
    if name.endswith("self_attn.sinks"):
        return rng.standard_normal(shape).astype(np.float32)
    if name.endswith("bias"):
        return (0.3 * rng.standard_normal(shape)).astype(np.float32)
    if name.endswith("mlp.router.weight"):  # routes that are not close to each other
        return (rng.standard_normal(shape) * 0.5).astype(np.float32)
    if "mlp.experts." in name:
        return (rng.standard_normal(shape) * (1.3 / shape[1] ** 0.5)).astype(np.float32)
    return shared.value(rng, name, shape, 1.0)


def coded(rng, shape):
    """Random MXFP4 of a matrix [experts, in, out]: blocks and scales [experts, out, ...], and its values."""
    experts, cols, rows = shape
    nibbles = rng.integers(0, 16, (experts, rows, cols // 32, 32)).astype(np.uint8)
    exponent = round(float(np.log2(1.3 / cols ** 0.5 / 2.9)))
    scales = (127 + exponent + rng.integers(-1, 2, (experts, rows, cols // 32))).astype(np.uint8)
    values = CODES[nibbles] * np.exp2(scales.astype(np.float32) - 127)[..., None]
    blocks = nibbles[..., 0::2] | nibbles[..., 1::2] << 4
    return blocks, scales, values.reshape(experts, rows, cols).transpose(0, 2, 1).copy()


def mlx_tensors(tensors):
    """The same tensors by MLX's names: gate and up apart, codes as words."""
    result = {}
    for name, (kind, array) in tensors.items():
        before, fused, leaf = name.partition("mlp.experts.")
        if not fused:
            result[name] = (kind, array)
            continue
        ending = next(end for end in ("_blocks", "_scales", "_bias") if leaf.endswith(end))
        if ending == "_blocks":
            words = array.reshape(*array.shape[:2], -1).view(np.uint32)
            kind, array = "U32", words
        own = {"_blocks": "weight", "_scales": "scales", "_bias": "bias"}[ending]
        parts = {"down_proj": array}
        if leaf.startswith("gate_up_proj"):
            parts = {"gate_proj": array[:, 0::2], "up_proj": array[:, 1::2]}
        for part, rows in parts.items():
            result[f"{before}mlp.experts.{part}.{own}"] = (kind, np.ascontiguousarray(rows))
    return result


GGUF_NAMES = {"input_layernorm.weight": "attn_norm.weight",
              "post_attention_layernorm.weight": "post_attention_norm.weight", "self_attn.sinks": "attn_sinks.weight",
              "mlp.router.weight": "ffn_gate_inp.weight", "mlp.router.bias": "ffn_gate_inp.bias",
              "model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
              "lm_head.weight": "output.weight"}


def gguf_name(name):
    parts = name.split(".")
    layer, own = (f"blk.{parts[2]}.", ".".join(parts[3:])) if parts[1] == "layers" else ("", name)
    if own in GGUF_NAMES:
        return layer + GGUF_NAMES[own]
    module, leaf = own.split(".")[-2:]
    kind = module.removesuffix("_proj")
    return layer + (f"ffn_{kind}_exps.{leaf}" if "experts" in own else f"attn_{kind.replace('o', 'output')}.{leaf}")


def gguf_blocks(words, scales):
    """17 bytes for 32 codes: the scale, then code j and code j + 16 in a byte."""
    codes = words.view(np.uint8).reshape(*scales.shape, 16)
    nibbles = np.stack([codes & 15, codes >> 4], axis=-1).reshape(*scales.shape, 32)
    blocks = nibbles[..., :16] | nibbles[..., 16:] << 4
    return np.concatenate([scales[..., None], blocks], axis=-1).reshape(*scales.shape[:2], -1)


def write_gguf(path, tensors, config):
    """`tensors` by the names of MLX."""
    writer = gguf.GGUFWriter(path, "gpt-oss")
    rope = config["rope_parameters"]
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_expert_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_sliding_window(config["sliding_window"])
    writer.add_expert_count(config["num_local_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(rope["factor"])
    writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    types = gguf.GGMLQuantizationType
    for name, (kind, array) in sorted(tensors.items()):
        if name.endswith(".scales"):
            continue
        if kind == "U32":
            scales = tensors[name.removesuffix("weight") + "scales"][1]
            writer.add_tensor(gguf_name(name), np.ascontiguousarray(gguf_blocks(array, scales)), raw_dtype=types.MXFP4)
        elif array.ndim == 1 or kind == "F32":
            writer.add_tensor(gguf_name(name), checkpoint.to_float(kind, array))
        elif kind == "F16":
            writer.add_tensor(gguf_name(name), array)
        else:
            writer.add_tensor(gguf_name(name), np.ascontiguousarray(array).view(np.uint8), raw_dtype=types.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_tokenizer(out):
    """The tokenizer of the odd Gemma models with other named tokens."""
    shared.NAMED = NAMED
    made = shared.tokenizer(COMMON["vocab_size"])
    made.post_processor = processors.TemplateProcessing(single="$A", special_tokens=[])
    made.save(str(out / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|startoftext|>", "eos_token": "<|return|>",
              "pad_token": "<|endoftext|>"}
    (out / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")


def write(out, tensors, config):
    out.mkdir(parents=True, exist_ok=True)
    checkpoint.write_file(out / "model.safetensors", tensors, {"format": "pt"})
    (out / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    generation = {"eos_token_id": [2, 7], "do_sample": True}
    (out / "generation_config.json").write_text(json.dumps(generation, indent=1) + "\n")


def make(out, name, seed):
    sizes = MODELS[name]
    rng = np.random.default_rng(seed)
    config = GptOssConfig(**COMMON, **sizes)
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    model = GptOssForCausalLM(config).float().eval()
    weights, tensors = {}, {}
    for position, (key, given) in enumerate(sorted(model.state_dict().items())):
        if key == "lm_head.weight" and sizes["tie_word_embeddings"]:
            continue
        if name == "mxfp4" and key.endswith(("gate_up_proj", "down_proj")):
            blocks, scales, values = coded(rng, tuple(given.shape))
            tensors[key + "_blocks"], tensors[key + "_scales"] = ("U8", blocks), ("U8", scales)
            weights[key] = torch.from_numpy(values)
            continue
        stored = checkpoint.from_float(value(rng, key, tuple(given.shape)),
                                       ("BF16", "F16", "BF16", "F32", "BF16", "F16", "BF16")[position % 7])
        tensors[key] = stored
        weights[key] = torch.from_numpy(checkpoint.to_float(*stored))
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    whole = {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", **COMMON, **sizes}
    if name == "mxfp4":
        mlx = {**whole, "quantization": {"group_size": 32, "bits": 4, "mode": "mxfp4"}}
        write(out / "mlx", mlx_tensors(tensors), mlx)
        write_gguf(out / "mxfp4.gguf", mlx_tensors(tensors), mlx)
        whole["quantization_config"] = {
            "quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                                                "model.embed_tokens", "lm_head"]}
    write(out / name, tensors, whole)
    if name == "mxfp4":
        write_tokenizer(out / name)
    (out / name / "golden").mkdir(exist_ok=True)
    for count in (1, 5, 67, 150):
        data = shared.golden(model, f"{name}_{count}", rng.integers(10, 531, count).tolist())
        data["about"] = ABOUT
        least, distinct = min(data["greedy"]["margin"]), len(set(data["greedy"]["tokens"]))
        print(name, count, "least margin", least, "distinct", distinct, data["greedy"]["cached_equals_recomputed"],
              "top logit", data["positions"]["logit"][-1], flush=True)
        (out / name / "golden" / f"{name}_{count}.json").write_text(json.dumps(data, separators=(",", ":")) + "\n")


def main():
    torch.set_grad_enabled(False)
    torch.set_num_threads(int(os.environ.get("FORETOKEN_TOOL_THREADS", "1")))
    for seed, name in enumerate(MODELS):
        make(pathlib.Path(sys.argv[1]), name, seed)


if __name__ == "__main__":
    main()
