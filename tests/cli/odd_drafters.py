"""Writes small random drafters for a target: EAGLE-3 (of a part of the vocabulary), DFlash, DFlash2 and DSpark.

Their sizes are odd. They are seldom right, so nearly all their drafts are rejected. Standard library only.
"""

import array
import json
import pathlib
import random
import struct

HEADS, KV_HEADS, HEAD_DIM, WIDE = 2, 1, 24, 56


def write_tensors(path, tensors):
    """`tensors`: name to (dtype, shape, bytes)."""
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def bfloat16(values):
    whole = array.array("f", values).tobytes()
    halves = bytearray(len(whole) // 2)
    halves[0::2], halves[1::2] = whole[2::4], whole[3::4]
    return bytes(halves)


class Weights:
    """Random tensors in bfloat16, the same for the same seed."""

    POOL = 1 << 14

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.tensors = {}

    def matrix(self, name, rows, columns, bare=False):
        """The rows are pieces of one pool of numbers: to draw each of a million takes a second."""
        scale = columns ** -0.5
        pool = bfloat16(self.random.gauss(0, scale) for _ in range(min(self.POOL, rows * columns) + columns))
        begins = [2 * self.random.randrange(len(pool) // 2 - columns) for _ in range(rows)]
        self._add(name, [rows, columns], b"".join(pool[begin:begin + 2 * columns] for begin in begins), bare)

    def cube(self, name, *sizes):
        count = sizes[0] * sizes[1] * sizes[2]
        self._add(name, list(sizes), bfloat16(self.random.gauss(0, 0.5) for _ in range(count)), bare=True)

    def norm(self, name, size):
        self._add(name, [size], bfloat16(1 + self.random.gauss(0, 0.1) for _ in range(size)))

    def _add(self, name, shape, content, bare=False):
        self.tensors[name if bare else name + ".weight"] = ("BF16", shape, content)


def sizes_of(target):
    config = json.loads((pathlib.Path(target) / "config.json").read_text())
    return config.get("text_config", config)


def layer(weights, prefix, reads, width):
    for name, rows in (("q_proj", HEADS * HEAD_DIM), ("k_proj", KV_HEADS * HEAD_DIM), ("v_proj", KV_HEADS * HEAD_DIM)):
        weights.matrix(f"{prefix}self_attn.{name}", rows, reads)
    weights.matrix(prefix + "self_attn.o_proj", width, HEADS * HEAD_DIM)
    weights.matrix(prefix + "mlp.gate_proj", WIDE, width)
    weights.matrix(prefix + "mlp.up_proj", WIDE, width)
    weights.matrix(prefix + "mlp.down_proj", width, WIDE)
    weights.norm(prefix + "input_layernorm", width)
    weights.norm(prefix + "post_attention_layernorm", width)


def shape(target):
    return {"hidden_size": target["hidden_size"], "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
            "head_dim": HEAD_DIM, "intermediate_size": WIDE, "vocab_size": target["vocab_size"], "rms_norm_eps": 1e-6,
            "hidden_act": "silu", "attention_bias": False}


def write_eagle3(folder, target_folder, seed=1, original=False, reduced=True, target_width=None, rope=None):
    """Reads three boundaries of the target and drafts every third token id of its vocabulary, or all of them.

    `original`: in the layout of the first EAGLE-3 drafters. `target_width`: the target's width in the config.
    `rope`: its rope_scaling, which published drafters of Llama copy from their target.
    """
    target = sizes_of(target_folder)
    width, layers = target["hidden_size"], target["num_hidden_layers"]
    drafts = list(range(0, target["vocab_size"], 3 if reduced else 1))
    first = "midlayer." if original else "layers.0."
    weights = Weights(seed)
    weights.matrix("fc", width, 3 * width)
    layer(weights, first, 2 * width, width)
    weights.norm(first + "hidden_norm", width)
    weights.norm("norm", width)
    weights.matrix("lm_head", len(drafts), width)
    boundaries = {"eagle_aux_hidden_state_layer_ids": [1, layers // 2, layers - 1]}
    sizes = {**shape(target), **({"rope_scaling": rope} if rope else {})}
    if original:
        config = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "num_hidden_layers": 1,
                  "draft_vocab_size": len(drafts), "eagle_config": boundaries, "norm_before_residual": True,
                  **sizes}
    else:
        config = {"architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3",
                  "draft_vocab_size": len(drafts), **boundaries, "norm_before_residual": True,
                  "target_hidden_size": target_width,
                  "transformer_layer_config": {"model_type": "llama", "num_hidden_layers": 1, **sizes}}
    if not reduced:
        return finish(folder, config, weights)
    offsets = [token - i for i, token in enumerate(drafts)]
    weights.tensors["d2t"] = ("I64", [len(drafts)], struct.pack(f"<{len(drafts)}q", *offsets))
    can = set(drafts)
    weights.tensors["t2d"] = ("BOOL", [target["vocab_size"]], bytes(i in can for i in range(target["vocab_size"])))
    return finish(folder, config, weights)


def block_weights(target, seed):
    """The network that all block drafters share: one layer, which reads two layers of the target."""
    width = target["hidden_size"]
    weights = Weights(seed)
    weights.matrix("fc", width, 2 * width)
    weights.norm("hidden_norm", width)
    weights.norm("norm", width)
    layer(weights, "layers.0.", width, width)
    weights.norm("layers.0.self_attn.q_norm", HEAD_DIM)
    weights.norm("layers.0.self_attn.k_norm", HEAD_DIM)
    return weights


def block_config(target, architecture, block, **own):
    layers = target["num_hidden_layers"]
    return {"architectures": [architecture], "model_type": "qwen3", "num_hidden_layers": 1, "block_size": block,
            "num_target_layers": layers, "layer_types": ["full_attention"], **shape(target),
            "dflash_config": {"mask_token_id": target["vocab_size"] - 2, "target_layer_ids": [0, layers - 2], **own}}


def write_dflash(folder, target_folder, seed=2):
    """Blocks of 12 from two layers of the target."""
    target = sizes_of(target_folder)
    return finish(folder, block_config(target, "DFlashDraftModel", 12), block_weights(target, seed))


def write_dflash2(folder, target_folder, seed=3):
    """The same with convolutions, a window that is not causal and a walk over 5 candidates."""
    target = sizes_of(target_folder)
    width, vocabulary, rank = target["hidden_size"], target["vocab_size"], 6
    weights = block_weights(target, seed)
    for name in ("attention_conv", "mlp_conv"):
        weights.cube(f"layers.0.{name}.base_kernel", 2, 2, width)
        weights.matrix(f"layers.0.{name}.kernel_projection", 2 * 2 * 2, width)
    for name in ("predecessor", "successor"):
        weights.matrix(f"candidate_selector.{name}_codebook", vocabulary, rank, bare=True)
    weights.matrix("candidate_selector.hidden_projection", rank, width)
    config = block_config(target, "DFlash2DraftModel", 8, conv_kernel_size=2, conv_group_size=width // 2,
                          selector_rank=rank, selector_top_k=5)
    config |= {"is_causal": False, "layer_types": ["sliding_attention"], "sliding_window": 9}
    return finish(folder, config, weights)


def write_dspark(folder, target_folder, seed=4, confidence=""):
    """DFlash's network whose rows all draft, with a bias by the token before. `confidence`: the name of a confidence
    head's matrix."""
    target = sizes_of(target_folder)
    weights = block_weights(target, seed)
    for name in ("w1", "w2"):
        weights.matrix(f"markov_head.markov_{name}", target["vocab_size"], 6)
    if confidence:
        weights.matrix(confidence, 1, target["hidden_size"])
    config = block_config(target, "DSparkDraftModel", 7, markov_rank=6, markov_head_type="vanilla", shift_label=True,
                          causal=False)
    return finish(folder, config, weights)


def write_assistant(folder, target_folder, seed=5, clusters=0):
    """Two layers of queries over the keys and values of a Gemma 4; with `clusters`, logits of two of them."""
    target = sizes_of(target_folder)
    width, vocabulary, own = target["hidden_size"], target["vocab_size"], 40
    heads = target["num_attention_heads"]
    weights = Weights(seed)
    weights.matrix("pre_projection", own, 2 * width)
    weights.matrix("post_projection", width, own)
    weights.matrix("model.embed_tokens", vocabulary, own)
    weights.norm("model.norm", own)
    for i, head in enumerate((target["head_dim"], target["global_head_dim"])):
        prefix = f"model.layers.{i}."
        for name in ("input", "post_attention", "pre_feedforward", "post_feedforward"):
            weights.norm(f"{prefix}{name}_layernorm", own)
        weights.norm(prefix + "self_attn.q_norm", head)
        weights.matrix(prefix + "self_attn.q_proj", heads * head, own)
        weights.matrix(prefix + "self_attn.o_proj", own, heads * head)
        weights.matrix(prefix + "mlp.gate_proj", WIDE, own)
        weights.matrix(prefix + "mlp.up_proj", WIDE, own)
        weights.matrix(prefix + "mlp.down_proj", own, WIDE)
        weights.tensors[prefix + "layer_scalar"] = ("F32", [1], struct.pack("<f", 0.8))
    if clusters:
        weights.matrix("masked_embedding.centroids", clusters, own)
        order = sorted(range(vocabulary), key=lambda token: token % 7)
        weights.tensors["masked_embedding.token_ordering"] = ("I64", [vocabulary],
                                                              struct.pack(f"<{vocabulary}q", *order))
    text = {**target, "hidden_size": own, "intermediate_size": WIDE, "num_hidden_layers": 2,
            "layer_types": ["sliding_attention", "full_attention"], "num_kv_shared_layers": 2,
            "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0, "final_logit_softcapping": None}
    config = {"architectures": ["Gemma4AssistantForCausalLM"], "model_type": "gemma4_assistant",
              "backbone_hidden_size": width, "use_ordered_embeddings": clusters > 0, "num_centroids": clusters or None,
              "centroid_intermediate_top_k": 2, "text_config": text}
    return finish(folder, config, weights)


def finish(folder, config, weights):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    write_tensors(folder / "model.safetensors", weights.tensors)
    return str(folder)
