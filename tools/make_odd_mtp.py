"""Tiny random checkpoints with an MTP head and odd sizes, and their golden files from transformers in float32.

  python tools/make_odd_mtp.py OUT_DIR [NAME ...]

`qwen3_next`  two key heads of 24 with three value heads of 20 each, fused projections, eleven experts, three for a
              token, and a shared one; three query heads on one key-value head, a head of mtp.* tensors
`glm4_moe`    two dense layers, then eleven experts by sigmoid with a bias for the choice, two shared ones, norms of q
              and k, half of a head of 20 rotated; the head is layer 4, with the copies that published files have
`glm4_air`    the same without norms of q and k, one dense layer and a factor of 1
The head is transformers' MtpLayer. Tensors are in bf16, f16 and f32, each expert by itself.
"""

import copy
import json
import os
import pathlib
import sys

import numpy as np
import torch
import transformers
from transformers.modeling_layers import MtpLayer
from transformers.models.glm4_moe import modeling_glm4_moe as glm
from transformers.models.qwen3_next import modeling_qwen3_next as qwen

import checkpoint
import make_golden
import make_odd_llama
import make_odd_model

COMMON = {"vocab_size": 293, "hidden_act": "silu", "max_position_embeddings": 2048, "tie_word_embeddings": False,
          "bos_token_id": None, "eos_token_id": 292, "dtype": "float32"}
GLM = {**COMMON, "hidden_size": 56, "intermediate_size": 88, "num_attention_heads": 6, "num_key_value_heads": 2,
       "head_dim": 20, "attention_bias": True, "rms_norm_eps": 1e-5, "moe_intermediate_size": 24,
       "num_experts_per_tok": 3, "n_routed_experts": 11, "n_group": 1, "topk_group": 1, "norm_topk_prob": True,
       "num_nextn_predict_layers": 1, "rope_scaling": None, "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
MODELS = {
    "qwen3_next": ("Qwen3Next", qwen.Qwen3NextDecoderLayer, qwen.Qwen3NextRMSNorm, {
        **COMMON, "hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 3,
        "num_key_value_heads": 1, "head_dim": 32, "rms_norm_eps": 1e-6, "attention_bias": False,
        "layer_types": ["linear_attention", "full_attention", "linear_attention"], "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 24, "linear_value_head_dim": 20, "linear_num_key_heads": 2,
        "linear_num_value_heads": 6, "decoder_sparse_step": 1, "mlp_only_layers": [], "moe_intermediate_size": 24,
        "shared_expert_intermediate_size": 56, "num_experts": 11, "num_experts_per_tok": 3, "norm_topk_prob": True,
        "rope_scaling": None, "rope_theta": 10000.0, "partial_rotary_factor": 0.25}),
    "glm4_moe": ("Glm4Moe", glm.Glm4MoeDecoderLayer, glm.Glm4MoeRMSNorm, {
        **GLM, "num_hidden_layers": 4, "first_k_dense_replace": 2, "n_shared_experts": 2, "routed_scaling_factor": 2.5,
        "use_qk_norm": True}),
    "glm4_air": ("Glm4Moe", glm.Glm4MoeDecoderLayer, glm.Glm4MoeRMSNorm, {
        **GLM, "num_hidden_layers": 3, "first_k_dense_replace": 1, "n_shared_experts": 1, "routed_scaling_factor": 1.0,
        "use_qk_norm": False}),
}


def value(rng, name, shape, next_model):
    """float32, of a size that keeps activations near one and the choice of tokens lively."""
    if name.endswith("e_score_correction_bias"):
        return (0.2 * rng.standard_normal(shape)).astype(np.float32)
    if name.endswith("mlp.gate.weight"):  # routes that are not close to each other
        return (rng.standard_normal(shape) * 0.5).astype(np.float32)
    if next_model:
        return make_odd_model.value(rng, name.removesuffix(".weight"), shape)
    if name.endswith("eh_proj.weight"):
        return (rng.standard_normal(shape) * 1.3 / shape[-1] ** 0.5).astype(np.float32)
    return make_odd_llama.value(rng, name, shape)


def stored_name(name, next_model, layers):
    """Of a tensor of the head, as published files have it."""
    parts = {"eh_proj": "fc", "enorm": "pre_fc_norm_embedding", "hnorm": "pre_fc_norm_hidden", "post_norm": "norm"}
    first, _, rest = name.partition(".")
    if next_model:
        return f"mtp.layers.0.{rest}" if first == "mtp_block" else f"mtp.{parts[first]}.{rest}"
    own = rest if first == "mtp_block" else f"shared_head.norm.{rest}" if first == "post_norm" else name
    return f"model.layers.{layers}.{own}"


class Reference:
    """The results that make_golden.py asks of a model: logits, hidden rows after the final norm, chains of drafts."""

    def __init__(self, model, head):
        self.model, self.head = model, head

    def trunk(self, ids, cache=None, use_cache=False):
        out = self.model.model(input_ids=ids, past_key_values=cache, use_cache=use_cache)
        return self.model.lm_head(out.last_hidden_state), out.last_hidden_state, out.past_key_values

    def draft(self, embeddings, hiddens):
        rows = embeddings.shape[1]
        positions = torch.arange(rows)[None]
        mask = torch.full((rows, rows), torch.finfo(torch.float32).min).triu(1)[None, None]
        rotary = self.model.model.rotary_emb(embeddings, positions)
        return self.head(embeddings, hiddens, rotary, mask, positions, None)

    def chain(self, ids, hiddens, depth):
        ids, hiddens, rows = ids[1:][None], hiddens[None], []
        for _ in range(depth):
            last = self.draft(self.model.model.embed_tokens(ids), hiddens)[:, -1:]
            rows.append(self.model.lm_head(last)[0, 0])
            ids = torch.cat([ids, rows[-1].argmax().view(1, 1)], 1)
            hiddens = torch.cat([hiddens, last], 1)
        return rows


def fill(rng, module, next_model, rename):
    """Gives the module random weights; returns them as stored."""
    weights, tensors = {}, {}
    for position, (key, given) in enumerate(sorted(module.state_dict().items())):
        stored_as = ("BF16", "F16", "BF16", "F32", "BF16", "F16", "BF16")[position % 7]
        if key.endswith(("A_log", "linear_attn.norm.weight", "e_score_correction_bias")):
            stored_as = "F32"
        stored = checkpoint.from_float(value(rng, key, tuple(given.shape), next_model), stored_as)
        weights[key] = torch.from_numpy(checkpoint.to_float(*stored))
        for part, array in make_odd_llama.separate(rename(key), stored[1]).items():
            tensors[part] = (stored[0], array)
    module.load_state_dict(weights, strict=True)
    return tensors


def make(out, name, seed):
    kind, layer, norm, sizes = MODELS[name]
    rng = np.random.default_rng(seed)
    next_model, layers = kind == "Qwen3Next", sizes["num_hidden_layers"]
    config = getattr(transformers, kind + "Config")(**sizes)
    config._attn_implementation = config._experts_implementation = "eager"
    model = getattr(transformers, kind + "ForCausalLM")(config).float().eval()
    tensors = fill(rng, model, next_model, lambda key: key)
    own = copy.deepcopy(config)
    if next_model:
        own.num_hidden_layers, own.layer_types = 1, ["full_attention"]
    head = MtpLayer(own, layer, norm, 0 if next_model else layers).float().eval()
    tensors |= fill(rng, head, next_model, lambda key: stored_name(key, next_model, layers))
    if not next_model:  # copies of the trunk's
        tensors[f"model.layers.{layers}.embed_tokens.weight"] = tensors["model.embed_tokens.weight"]
        tensors[f"model.layers.{layers}.shared_head.head.weight"] = tensors["lm_head.weight"]
    out.mkdir(parents=True, exist_ok=True)
    checkpoint.write_file(out / "model.safetensors", tensors, {"format": "pt"})
    whole = {"architectures": [kind + "ForCausalLM"], "model_type": config.model_type, **sizes}
    (out / "config.json").write_text(json.dumps(whole, indent=1) + "\n")
    (out / "golden").mkdir(exist_ok=True)
    for count in (1, 5, 67, 150):
        prompt = {"name": f"{name}_{count}", "tokens": rng.integers(0, 292, count).tolist()}
        data = make_golden.golden(Reference(model, head), prompt, "random weights of tools/make_odd_mtp.py",
                                  lambda tokens: None)
        print(name, count, "least margin", min(data["greedy"]["margin"]), "distinct",
              len(set(data["greedy"]["tokens"])), data["greedy"]["cached_equals_recomputed"], flush=True)
        (out / "golden" / f"{name}_{count}.json").write_text(json.dumps(data, separators=(",", ":")) + "\n")


def main():
    torch.set_grad_enabled(False)
    torch.set_num_threads(int(os.environ.get("FORETOKEN_TOOL_THREADS", "1")))
    for seed, name in enumerate(MODELS):
        if len(sys.argv) < 3 or name in sys.argv[2:]:
            make(pathlib.Path(sys.argv[1]) / name, name, seed)


if __name__ == "__main__":
    main()
