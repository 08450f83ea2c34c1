"""Tiny random checkpoints of Llama and its relatives with odd sizes, and their golden files from transformers in
float32.

  python tools/make_odd_llama.py OUT_DIR [NAME ...]

`llama`       Llama 3's stretched rope, biases everywhere, head_dim that is not hidden / heads, tied head
`qwen2`       biases of q, k and v, YaRN, a window from layer 2 on, untied head
`qwen3`       norms of q and k, linear rope, head_dim 24 of 56 / 6, tied head
`qwen3_moe`   seven experts, three for a token, weights not renormalised, each expert by itself, one dense layer
`smollm3`     layers without rope, which slide, tied head
`mistral`     a window in every layer, head_dim 24, untied head
`granite`     four multipliers, tied head
`ministral3`  inside a config of mistral3 with a tower's keys, YaRN with mscale, queries gain every 40 positions
Tensors are in bf16, f16 and f32.
"""

import json
import os
import pathlib
import sys

import numpy as np
import torch
import transformers

import checkpoint
import make_odd_gemma as shared

ABOUT = ("Hugging Face transformers, float32, CPU; weights upcast to float32, made by tools/make_odd_llama.py. Greedy "
         "continuation does not stop at end tokens. margin: first choice minus second.")
COMMON = {"vocab_size": 531, "hidden_act": "silu", "rms_norm_eps": 1e-5, "max_position_embeddings": 2048,
          "bos_token_id": 1, "eos_token_id": 2, "dtype": "float32"}
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
MODELS = {
    "llama": ("Llama", {
        "hidden_size": 60, "intermediate_size": 92, "num_hidden_layers": 4, "num_attention_heads": 6,
        "num_key_value_heads": 2, "head_dim": 20, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
                            "high_freq_factor": 4.0, "original_max_position_embeddings": 64}}),
    "qwen2": ("Qwen2", {
        "hidden_size": 56, "intermediate_size": 88, "num_hidden_layers": 5, "num_attention_heads": 4,
        "num_key_value_heads": 2, "use_sliding_window": True, "sliding_window": 21, "max_window_layers": 2,
        "tie_word_embeddings": False,
        "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                            "original_max_position_embeddings": 64}}),
    "qwen3": ("Qwen3", {
        "hidden_size": 56, "intermediate_size": 88, "num_hidden_layers": 4, "num_attention_heads": 6,
        "num_key_value_heads": 3, "head_dim": 24, "attention_bias": False, "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}}),
    "qwen3_moe": ("Qwen3Moe", {
        "hidden_size": 56, "intermediate_size": 72, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "num_experts": 7, "num_experts_per_tok": 3,
        "moe_intermediate_size": 24, "norm_topk_prob": False, "decoder_sparse_step": 1, "mlp_only_layers": [1],
        "tie_word_embeddings": False, "rope_parameters": PLAIN}),
    "smollm3": ("SmolLM3", {
        "hidden_size": 56, "intermediate_size": 88, "num_hidden_layers": 5, "num_attention_heads": 4,
        "num_key_value_heads": 2, "use_sliding_window": True, "sliding_window": 33, "no_rope_layers": [1, 0, 1, 1, 0],
        "tie_word_embeddings": True, "pad_token_id": 0,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5e6}}),
    "mistral": ("Mistral", {
        "hidden_size": 56, "intermediate_size": 88, "num_hidden_layers": 4, "num_attention_heads": 6,
        "num_key_value_heads": 3, "head_dim": 24, "sliding_window": 21, "tie_word_embeddings": False,
        "rope_parameters": PLAIN}),
    "granite": ("Granite", {
        "hidden_size": 56, "intermediate_size": 88, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2, "embedding_multiplier": 1.3, "residual_multiplier": 0.9, "logits_scaling": 1.5,
        "attention_multiplier": 0.35, "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": True,
        "rope_parameters": PLAIN}),
    "ministral3": ("Ministral3", {
        "hidden_size": 56, "intermediate_size": 88, "num_hidden_layers": 4, "num_attention_heads": 6,
        "num_key_value_heads": 3, "head_dim": 24, "sliding_window": None, "tie_word_embeddings": False,
        "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0,
                            "original_max_position_embeddings": 40, "beta_fast": 32.0, "beta_slow": 1.0,
                            "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3}}),
}


def value(rng, name, shape):
    """float32, of a size that keeps activations near one and the choice of tokens lively."""
    if name.endswith(".bias"):
        return (0.2 * rng.standard_normal(shape)).astype(np.float32)
    if name.endswith("mlp.gate.weight"):  # routes that are not close to each other
        return (rng.standard_normal(shape) * 0.5).astype(np.float32)
    return shared.value(rng, name, shape, 1.0)


def separate(name, array):
    """Fused experts one by one, as published files store them."""
    before, fused, leaf = name.partition("mlp.experts.")
    if not fused:
        return {name: array}
    parts = np.split(array, 2, axis=1) if leaf == "gate_up_proj" else [array]
    names = ("gate_proj", "up_proj") if leaf == "gate_up_proj" else ("down_proj",)
    return {f"{before}mlp.experts.{e}.{part}.weight": rows[e]
            for part, rows in zip(names, parts) for e in range(len(rows))}


def make(out, name, seed):
    kind, sizes = MODELS[name]
    rng = np.random.default_rng(seed)
    config = getattr(transformers, kind + "Config")(**COMMON, **sizes)
    config._attn_implementation = "eager"
    model = getattr(transformers, kind + "ForCausalLM")(config).float().eval()
    weights, tensors = {}, {}
    nested = name == "ministral3"
    for position, (key, given) in enumerate(sorted(model.state_dict().items())):
        if key == "lm_head.weight" and sizes["tie_word_embeddings"]:
            continue
        stored_as = ("BF16", "F16", "BF16", "F32", "BF16", "F16", "BF16")[position % 7]
        stored = checkpoint.from_float(value(rng, key, tuple(given.shape)), stored_as)
        weights[key] = torch.from_numpy(checkpoint.to_float(*stored))
        for part, array in separate(key, stored[1]).items():
            tensors[part.replace("model.", "model.language_model.", 1) if nested else part] = (stored[0], array)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    out.mkdir(parents=True, exist_ok=True)
    checkpoint.write_file(out / "model.safetensors", tensors, {"format": "pt"})
    whole = {"architectures": [kind + "ForCausalLM"], "model_type": config.model_type, **COMMON, **sizes}
    if nested:
        whole = {"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3",
                 "text_config": {"model_type": config.model_type, **COMMON, **sizes},
                 "tie_word_embeddings": False, "dtype": "float32"}
    (out / "config.json").write_text(json.dumps(whole, indent=1) + "\n")
    generation = {"eos_token_id": [2, 7], "do_sample": True, "temperature": 0.6, "top_p": 0.9}
    (out / "generation_config.json").write_text(json.dumps(generation, indent=1) + "\n")
    (out / "golden").mkdir(exist_ok=True)
    for count in (1, 5, 67, 150):
        data = shared.golden(model, f"{name}_{count}", rng.integers(10, 531, count).tolist())
        data["about"] = ABOUT
        least, distinct = min(data["greedy"]["margin"]), len(set(data["greedy"]["tokens"]))
        print(name, count, "least margin", least, "distinct", distinct, data["greedy"]["cached_equals_recomputed"],
              "top logit", data["positions"]["logit"][-1], flush=True)
        (out / "golden" / f"{name}_{count}.json").write_text(json.dumps(data, separators=(",", ":")) + "\n")


def main():
    torch.set_grad_enabled(False)
    torch.set_num_threads(int(os.environ.get("FORETOKEN_TOOL_THREADS", "1")))
    out = pathlib.Path(sys.argv[1])
    for seed, name in enumerate(MODELS):
        if len(sys.argv) < 3 or name in sys.argv[2:]:
            make(out / name, name, seed)


if __name__ == "__main__":
    main()
