"""Random EAGLE-3 heads for the odd gpt-oss model `plain`, and the drafts of a reference in float32.

  python tools/make_odd_eagle3.py tests/golden        reads gpt_oss/plain, writes eagle3/

The layouts of the published heads of gpt-oss, with odd sizes:
`flat`        one layer at the top of the config, no key of rope, the target's embedding, a list of layers that
              begins with 1, and a reduced vocabulary (lmsys, SpecForge)
`speculators` transformer_layer_config with the target's YaRN, its own embedding, boundaries, the normed
              feature as residual (RedHatAI)
`late`        flat, boundaries up to the one after the last layer, a norm before fc, drafts fed back after the
              last norm, all tokens (nvidia)
The states of the target are the outputs of transformers' layers, the frequencies of YaRN are transformers' too. The
network is written here from its description: Li et al. 2025, EAGLE-3 (arXiv 2503.01840).
"""

import json
import os
import pathlib
import sys

import numpy as np
import torch
from transformers import GptOssConfig, GptOssForCausalLM
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

import checkpoint

HEADS, KV_HEADS, HEAD_DIM, WIDE = 6, 2, 20, 90
DRAFTS, PENDING = 5, range(3, 125, 7)
HEAD_CONFIGS = {
    "flat": {"ids": [1, 2, 3], "outputs": [1, 2, 3], "tokens": 177},
    "speculators": {"ids": [2, 3, 4], "outputs": [1, 2, 3], "tokens": 200, "yarn": True, "own_embedding": True,
                    "norm_before_residual": True},
    "late": {"ids": [2, 4], "outputs": [1, 3], "tokens": 531, "norm_before_fc": True, "norm_output": True},
}


def target_of(folder):
    given = json.loads((folder / "config.json").read_text())
    config = GptOssConfig(**{key: value for key, value in given.items() if key != "architectures"})
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    model = GptOssForCausalLM(config).float().eval()
    tensors, _ = checkpoint.read_file(folder / "model.safetensors")
    weights = {name: torch.from_numpy(checkpoint.to_float(*tensor).copy()) for name, tensor in tensors.items()}
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}
    model.tie_weights()
    return model, given


def outputs_of(model, tokens):
    """The output of every layer, which no norm has passed."""
    outputs = {}

    def keep(index):
        def hook(_module, _inputs, output):
            outputs[index] = (output[0] if isinstance(output, tuple) else output)[0]
        return hook

    hooks = [layer.register_forward_hook(keep(i)) for i, layer in enumerate(model.model.layers)]
    model(torch.tensor([tokens]))
    for hook in hooks:
        hook.remove()
    return outputs


def head_of(rng, own, given):
    """Tensors as stored and as float32, and the config."""
    width, vocabulary = given["hidden_size"], given["vocab_size"]
    states, first = len(own["ids"]), "layers.0." if own.get("yarn") else "midlayer."
    tensors = {}

    def matrix(name, rows, columns, size=1.0):
        values = rng.standard_normal((rows, columns)) * (size * columns ** -0.5)
        tensors[name + ".weight"] = checkpoint.from_float(values.astype(np.float32), "BF16")

    def norm(name, size):
        values = 1 + 0.2 * rng.standard_normal(size)
        tensors[name + ".weight"] = checkpoint.from_float(values.astype(np.float32), "BF16")

    matrix("fc", width, states * width)
    for part, rows in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
        matrix(f"{first}self_attn.{part}_proj", rows * HEAD_DIM, 2 * width, 1.5)
    matrix(first + "self_attn.o_proj", width, HEADS * HEAD_DIM)
    matrix(first + "mlp.gate_proj", WIDE, width)
    matrix(first + "mlp.up_proj", WIDE, width)
    matrix(first + "mlp.down_proj", width, WIDE)
    for name in ("input_layernorm", "hidden_norm", "post_attention_layernorm"):
        norm(first + name, width)
    norm("norm", width)
    if own.get("norm_before_fc"):
        norm("input_norm", states * width)
    matrix("lm_head", own["tokens"], width, 4.0)
    if own.get("own_embedding"):
        matrix("embed_tokens", vocabulary, width, 6.0)
    chosen = np.sort(rng.choice(vocabulary, own["tokens"], replace=False)).astype(np.int64)
    if own["tokens"] < vocabulary:
        tensors["d2t"] = ("I64", chosen - np.arange(own["tokens"]))
        tensors["t2d"] = ("BOOL", np.isin(np.arange(vocabulary), chosen).astype(np.uint8))
    sizes = {"model_type": "llama", "hidden_size": width, "intermediate_size": WIDE, "num_hidden_layers": 1,
             "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM,
             "vocab_size": vocabulary, "rms_norm_eps": 1e-5, "hidden_act": "silu", "attention_bias": False,
             "max_position_embeddings": given["max_position_embeddings"]}
    flags = {key: True for key in ("norm_before_residual", "norm_before_fc", "norm_output") if own.get(key)}
    ids = {"eagle_aux_hidden_state_layer_ids": own["ids"]}
    if own.get("yarn"):
        rope = dict(given["rope_parameters"])
        sizes["rope_theta"] = rope.pop("rope_theta")
        config = {"architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3",
                  "draft_vocab_size": own["tokens"], **ids, **flags, "embed_requires_grad": True,
                  "transformer_layer_config": {**sizes, "rope_scaling": rope}}
    else:
        config = {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": own["tokens"], "eagle_config": ids,
                  **flags, **sizes}
    return tensors, config, chosen, first


def frequencies(own, given):
    if not own.get("yarn"):
        return 10000.0 ** (-torch.arange(0, HEAD_DIM, 2).float() / HEAD_DIM), 1.0
    config = GptOssConfig(**{key: value for key, value in given.items() if key != "architectures"})
    config.head_dim = HEAD_DIM
    return ROPE_INIT_FUNCTIONS["yarn"](config, "cpu")


class Reference:
    def __init__(self, tensors, own, given, first, embedding):
        self.w = {name.removesuffix(".weight"): torch.from_numpy(checkpoint.to_float(*tensor).copy())
                  for name, tensor in tensors.items() if name not in ("d2t", "t2d")}
        self.own, self.first = own, first
        self.embedding = self.w.get("embed_tokens", embedding)
        self.inverse, self.factor = frequencies(own, given)

    def norm(self, x, name):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.w[name]

    def features(self, states):
        if self.own.get("norm_before_fc"):
            states = self.norm(states, "input_norm")
        return states @ self.w["fc"].T

    def rotate(self, x):
        """[positions, heads, head_dim], half by half."""
        angles = torch.arange(1, len(x) + 1).float()[:, None, None] * self.inverse
        cos, sin = angles.cos() * self.factor, angles.sin() * self.factor
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def step(self, tokens, features):
        """The last row's logits and output, from a token and a feature of every position."""
        w, p, count = self.w, self.first, len(tokens)
        e = self.norm(self.embedding[torch.tensor(tokens)], p + "input_layernorm")
        n = self.norm(features, p + "hidden_norm")
        both = torch.cat([e, n], -1)
        q = self.rotate((both @ w[p + "self_attn.q_proj"].T).view(count, HEADS, HEAD_DIM))
        k = self.rotate((both @ w[p + "self_attn.k_proj"].T).view(count, KV_HEADS, HEAD_DIM))
        v = (both @ w[p + "self_attn.v_proj"].T).view(count, KV_HEADS, HEAD_DIM)
        k, v = (t.repeat_interleave(HEADS // KV_HEADS, 1) for t in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q, k) * HEAD_DIM ** -0.5
        scores = scores.masked_fill(torch.ones(count, count).triu(1).bool(), -torch.inf)
        mixed = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).reshape(count, -1)
        x = (n if self.own.get("norm_before_residual") else features) + mixed @ w[p + "self_attn.o_proj"].T
        m = self.norm(x, p + "post_attention_layernorm")
        gate = torch.nn.functional.silu(m @ w[p + "mlp.gate_proj"].T)
        x = x + (gate * (m @ w[p + "mlp.up_proj"].T)) @ w[p + "mlp.down_proj"].T
        last = self.norm(x[-1], "norm")
        return w["lm_head"] @ last, last if self.own.get("norm_output") else x[-1]


def chain(head, chosen, tokens, states, pending):
    """Drafts after `pending`: token t + 1 goes with the states of position t, and a draft with its own output."""
    own_tokens, features = tokens[1:pending + 1], head.features(states[:pending])
    drafts, top5 = [], []
    for _ in range(DRAFTS):
        logits, feature = head.step(own_tokens, features)
        best = logits.topk(5)
        drafts.append(int(chosen[best.indices[0]]))
        top5.append([[int(chosen[i]), round(float(value), 5)] for i, value in zip(best.indices, best.values)])
        own_tokens, features = [*own_tokens, drafts[-1]], torch.cat([features, feature[None]])
    return {"pending_index": pending, "pending_token": tokens[pending], "drafts": drafts, "top5": top5}


def main():
    torch.set_grad_enabled(False)
    torch.set_num_threads(int(os.environ.get("FORETOKEN_TOOL_THREADS", "1")))
    golden = pathlib.Path(sys.argv[1])
    model, given = target_of(golden / "gpt_oss/plain")
    text = json.loads((golden / "gpt_oss/plain/golden/plain_67.json").read_text())
    tokens = text["tokens"] + text["greedy"]["tokens"]
    outputs = outputs_of(model, tokens)
    for seed, (name, own) in enumerate(HEAD_CONFIGS.items()):
        tensors, config, chosen, first = head_of(np.random.default_rng(100 + seed), own, given)
        out = golden / "eagle3" / name
        out.mkdir(parents=True, exist_ok=True)
        checkpoint.write_file(out / "model.safetensors", tensors, {"format": "pt"})
        (out / "config.json").write_text(json.dumps(config, indent=1) + "\n")
        head = Reference(tensors, own, given, first, model.model.embed_tokens.weight)
        states = torch.cat([outputs[i] for i in own["outputs"]], -1)
        chains = [chain(head, chosen, tokens, states, pending) for pending in PENDING]
        margins = [row[0][1] - row[1][1] for item in chains for row in item["top5"]]
        drafted = [token for item in chains for token in item["drafts"]]
        print(name, "tokens", len(tokens), "least margin", round(min(margins), 4), "distinct", len(set(drafted)), "of",
              len(drafted), flush=True)
        data = {"about": "reference in float32, made by tools/make_odd_eagle3.py", "target": "gpt_oss/plain",
                "text": "plain_67", "eagle3": chains}
        (out / "golden.json").write_text(json.dumps(data, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
