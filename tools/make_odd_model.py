"""A tiny random checkpoint with odd sizes, to catch code that assumes the usual ones.

  python tools/make_odd_model.py OUT_DIR [--experts]

Hugging Face names, untied LM head, 5 layers with the types given one by one, 3 query heads on 1 key-value head of 32,
rotary part 0.5, 1 key head of 32 and 3 value heads of 48 in the linear layers, vocabulary 517, an MTP head, tensors in
bf16, f16 and f32 mixed, two shards with an index, no tokenizer. Weights are scaled so that greedy text varies.
its prompts.json feeds make_golden.py.

--experts: a mixture of 11 experts of width 24, 3 chosen, and a shared one of width 56, in 3 layers and the MTP head.
The trunk's experts are fused stacks, the MTP head's experts are stored one by one.
"""

import json
import pathlib
import sys

import numpy as np

import checkpoint

CONFIG = {
    "architectures": ["Qwen3_5ForCausalLM"],
    "model_type": "qwen3_5",
    "tie_word_embeddings": False,
    "text_config": {
        "model_type": "qwen3_5_text", "vocab_size": 517, "hidden_size": 96, "intermediate_size": 160,
        "num_hidden_layers": 5, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 32,
        "hidden_act": "silu", "rms_norm_eps": 1e-05, "max_position_embeddings": 2048, "attention_bias": False,
        "attn_output_gate": True,
        "layer_types": ["full_attention", "linear_attention", "linear_attention", "full_attention",
                        "linear_attention"],
        "linear_conv_kernel_dim": 4, "linear_key_head_dim": 32, "linear_value_head_dim": 48,
        "linear_num_key_heads": 1, "linear_num_value_heads": 3, "mamba_ssm_dtype": "float32",
        "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False, "tie_word_embeddings": False,
        "eos_token_id": 516,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000, "partial_rotary_factor": 0.5,
                            "mrope_section": [3, 3, 2], "mrope_interleaved": True},
    },
}


EXPERTS = {"moe_intermediate_size": 24, "shared_expert_intermediate_size": 56, "num_experts": 11,
           "num_experts_per_tok": 3, "num_hidden_layers": 3,
           "layer_types": ["linear_attention", "full_attention", "linear_attention"], "vocab_size": 293,
           "eos_token_id": 292}


def config_of(experts):
    config = json.loads(json.dumps(CONFIG))
    if experts:
        config["architectures"], config["model_type"] = ["Qwen3_5MoeForCausalLM"], "qwen3_5_moe"
        config["text_config"] |= EXPERTS | {"model_type": "qwen3_5_moe_text"}
        del config["text_config"]["intermediate_size"]
    return config


def attention_shapes(c):
    d, hidden = c["head_dim"], c["hidden_size"]
    q, kv = c["num_attention_heads"] * d, c["num_key_value_heads"] * d
    return {"self_attn.q_proj": (2 * q, hidden), "self_attn.k_proj": (kv, hidden), "self_attn.v_proj": (kv, hidden),
            "self_attn.o_proj": (hidden, q), "self_attn.q_norm": (d,), "self_attn.k_norm": (d,)}


def linear_shapes(c):
    key = c["linear_num_key_heads"] * c["linear_key_head_dim"]
    heads, dv, hidden = c["linear_num_value_heads"], c["linear_value_head_dim"], c["hidden_size"]
    channels = 2 * key + heads * dv
    return {"linear_attn.in_proj_qkv": (channels, hidden), "linear_attn.in_proj_z": (heads * dv, hidden),
            "linear_attn.in_proj_a": (heads, hidden), "linear_attn.in_proj_b": (heads, hidden),
            "linear_attn.conv1d": (channels, 1, c["linear_conv_kernel_dim"]), "linear_attn.A_log": (heads,),
            "linear_attn.dt_bias": (heads,), "linear_attn.norm": (dv,), "linear_attn.out_proj": (hidden, heads * dv)}


def mlp_shapes(prefix, hidden, wide):
    return {prefix + "gate_proj": (wide, hidden), prefix + "up_proj": (wide, hidden),
            prefix + "down_proj": (hidden, wide)}


def expert_shapes(c, fused):
    hidden, wide, experts = c["hidden_size"], c["moe_intermediate_size"], c["num_experts"]
    routed = {"mlp.experts.gate_up_proj": (experts, 2 * wide, hidden), "mlp.experts.down_proj": (experts, hidden, wide)}
    if not fused:
        routed = {}
        for e in range(experts):
            routed |= mlp_shapes(f"mlp.experts.{e}.", hidden, wide)
    return {"mlp.gate": (experts, hidden), "mlp.shared_expert_gate": (1, hidden), **routed,
            **mlp_shapes("mlp.shared_expert.", hidden, c["shared_expert_intermediate_size"])}


def layer_shapes(c, kind, fused=True):
    hidden = c["hidden_size"]
    mixer = attention_shapes(c) if kind == "full_attention" else linear_shapes(c)
    mlp = expert_shapes(c, fused) if "num_experts" in c else mlp_shapes("mlp.", hidden, c["intermediate_size"])
    return {**mixer, **mlp, "input_layernorm": (hidden,), "post_attention_layernorm": (hidden,)}


def shapes(c):
    """{name without .weight: shape}"""
    hidden, out = c["hidden_size"], {}
    trunk = "model.language_model."
    out[trunk + "embed_tokens"] = out["lm_head"] = (c["vocab_size"], hidden)
    out[trunk + "norm"] = out["mtp.norm"] = (hidden,)
    out["mtp.pre_fc_norm_embedding"] = out["mtp.pre_fc_norm_hidden"] = (hidden,)
    out["mtp.fc"] = (hidden, 2 * hidden)
    for i, kind in enumerate(c["layer_types"]):
        out |= {f"{trunk}layers.{i}.{leaf}": shape for leaf, shape in layer_shapes(c, kind).items()}
    out |= {f"mtp.layers.0.{leaf}": shape for leaf, shape in layer_shapes(c, "full_attention", False).items()}
    return out


def value(rng, name, shape):
    """float32, of a size that keeps activations near one and the choice of tokens lively."""
    if name.endswith("A_log"):
        return np.log(rng.uniform(0.05, 4.0, shape)).astype(np.float32)
    if name.endswith("dt_bias"):
        return rng.uniform(-3.0, 0.5, shape).astype(np.float32)
    spread = 0.2 if len(shape) == 1 else 0.5 if name.endswith("conv1d") else 1.6 / shape[-1] ** 0.5
    if name.endswith("embed_tokens"):
        spread = 0.6
    drawn = rng.standard_normal(shape).astype(np.float32) * np.float32(spread)
    return drawn + np.float32(1) if name.endswith("linear_attn.norm") else drawn


def stored_type(name, position):
    if name.endswith(("A_log", "linear_attn.norm")):
        return "F32"
    if ".experts." in name:  # alike in a layer, and small
        return "BF16"
    return ("BF16", "F16", "BF16", "F32", "BF16")[position % 5]


def main():
    out, experts = pathlib.Path(sys.argv[1]), "--experts" in sys.argv[2:]
    config = config_of(experts)
    out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(20)
    shards = ({}, {})
    for position, (name, shape) in enumerate(shapes(config["text_config"]).items()):
        bare = name.endswith(("A_log", "dt_bias", "experts.gate_up_proj", "experts.down_proj"))
        full = name if bare else name + ".weight"
        # The layers 2 and up and the MTP head live in the second file; the head comes before its embedding.
        second = any(part in name for part in (".layers.2.", ".layers.3.", ".layers.4.", "mtp.", "embed_tokens"))
        shards[second][full] = checkpoint.from_float(value(rng, name, shape), stored_type(name, position))
    files = [f"model-0000{i + 1}-of-00002.safetensors" for i in range(2)]
    for file, tensors in zip(files, shards):
        checkpoint.write_file(out / file, tensors, {"format": "pt"})
    total = sum(array.nbytes for tensors in shards for _, array in tensors.values())
    index = {"metadata": {"total_size": total},
             "weight_map": {n: f for f, tensors in zip(files, shards) for n in sorted(tensors)}}
    (out / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    words = config["text_config"]["vocab_size"]
    prompts = [{"name": f"odd_{count}", "text": None, "tokens": rng.integers(0, words, count).tolist()}
               for count in (1, 5, 67, 150)]
    (out / "prompts.json").write_text(json.dumps(prompts) + "\n")


if __name__ == "__main__":
    main()
