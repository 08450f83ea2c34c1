"""Tiny random Gemma 4 checkpoints with odd sizes, and their golden files from transformers in float32.

  python tools/make_odd_gemma.py OUT_DIR

`odd`   like the 31B: Hugging Face names, keys that are values in full layers, a window of 21 positions, tied head,
        soft cap, layer scalars, head sizes 24 and 48, tensors in bf16, f16 and f32, a byte-fallback tokenizer
`odd_e` like the E2B: MLX names and a text config at top level, per-layer embeddings, three layers that read earlier
        keys and values, a wider MLP in them, an untied LM head
`odd_moe` like the 26B-A4B: `odd` with four layers, seven experts parallel to each dense MLP, three for a token
The configs say float32, so the embedding's scale is not rounded to bf16.
"""

import json
import os
import pathlib
import string
import sys

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, AddedToken
from transformers import Gemma4ForCausalLM, Gemma4TextConfig

import checkpoint

S, F = "sliding_attention", "full_attention"
ROPE = {S: {"rope_type": "default", "rope_theta": 10000.0},
        F: {"rope_type": "proportional", "rope_theta": 1000000.0, "partial_rotary_factor": 0.25}}
COMMON = {"model_type": "gemma4_text", "attention_bias": False, "hidden_activation": "gelu_pytorch_tanh",
          "rms_norm_eps": 1e-6, "max_position_embeddings": 2048, "rope_parameters": ROPE, "dtype": "float32",
          "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0, "enable_moe_block": False}
ODD = {**COMMON, "vocab_size": 531, "hidden_size": 56, "intermediate_size": 88, "num_hidden_layers": 5,
       "num_attention_heads": 6, "num_key_value_heads": 3, "num_global_key_value_heads": 2, "head_dim": 24,
       "global_head_dim": 48, "attention_k_eq_v": True, "sliding_window": 21, "layer_types": [S, S, F, S, F],
       "final_logit_softcapping": 30.0, "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 531,
       "num_kv_shared_layers": 0, "use_double_wide_mlp": False, "tie_word_embeddings": True,
       "use_bidirectional_attention": "vision"}
ODD_E = {**COMMON, "vocab_size": 531, "hidden_size": 56, "intermediate_size": 72, "num_hidden_layers": 7,
         "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 32, "global_head_dim": 64,
         "attention_k_eq_v": False, "sliding_window": 33, "layer_types": [S, F, S, F, S, S, F],
         "final_logit_softcapping": 30.0, "hidden_size_per_layer_input": 12, "vocab_size_per_layer_input": 531,
         "num_kv_shared_layers": 3, "use_double_wide_mlp": True, "tie_word_embeddings": False}
ODD_MOE = {**ODD, "num_hidden_layers": 4, "layer_types": [S, S, S, F], "enable_moe_block": True, "num_experts": 7,
           "top_k_experts": 3, "moe_intermediate_size": 24}
NAMED = {0: "<pad>", 1: "<eos>", 2: "<bos>", 3: "<unk>", 4: "<mask>", 46: "<|tool>", 47: "<tool|>", 48: "<|tool_call>",
         49: "<tool_call|>", 50: "<|tool_response>", 51: "<tool_response|>", 52: '<|"|>', 98: "<|think|>",
         100: "<|channel>", 101: "<channel|>", 105: "<|turn>", 106: "<turn|>"}
ABOUT = ("Hugging Face transformers, float32, CPU; weights upcast to float32, made by tools/make_odd_gemma.py. Greedy "
         "continuation does not stop at end tokens. margin: first choice minus second.")


def value(rng, name, shape, attention):
    """float32, of a size that keeps activations near one and the choice of tokens lively."""
    if name.endswith("layer_scalar"):
        return rng.uniform(0.6, 1.2, shape).astype(np.float32)
    if name.endswith(("q_norm.weight", "k_norm.weight")):  # attention that is not all on one position
        return (attention + 0.1 * rng.standard_normal(shape)).astype(np.float32)
    if len(shape) == 1:
        return (1 + 0.2 * rng.standard_normal(shape)).astype(np.float32)
    spread = 0.12 if "embed_tokens" in name else 0.35 if name == "lm_head.weight" else 1.3 / shape[-1] ** 0.5
    return (rng.standard_normal(shape) * spread).astype(np.float32)


def rounded(values):
    return [round(float(v), 5) for v in values]


def top(row, count):
    values, ids = row.topk(count)
    return [[i, v] for i, v in zip(ids.tolist(), rounded(values))]


def margin(row):
    first, second = row.topk(2).values
    return round(float(first - second), 5)


def golden(model, name, tokens, continuation=64):
    feed, cache, greedy, margins = torch.tensor([tokens]), None, [], []
    for _ in range(continuation):
        out = model(input_ids=feed, past_key_values=cache, use_cache=True)
        cache, last = out.past_key_values, out.logits[0, -1]
        greedy.append(int(last.argmax()))
        margins.append(margin(last))
        feed = torch.tensor([[greedy[-1]]])
    logits = model(input_ids=torch.tensor([tokens + greedy]), use_cache=False).logits[0]
    rows = logits[:len(tokens)]
    return {"about": ABOUT, "name": name, "text": None, "tokens": tokens,
            "positions": {"argmax": rows.argmax(-1).tolist(), "logit": rounded(rows.max(-1).values),
                          "logsumexp": rounded(rows.logsumexp(-1)), "top8": [top(r, 8) for r in rows]},
            "greedy": {"tokens": greedy, "text": None, "margin": margins,
                       "cached_equals_recomputed": logits[len(tokens) - 1:-1].argmax(-1).tolist() == greedy}}


def tokenizer(size):
    """Bytes, the letters, and some joined pairs; the named tokens have the ids of the public models."""
    vocab = {NAMED.get(i, f"<unused{i}>"): i for i in range(107)}
    for byte in range(256):
        vocab[f"<0x{byte:02X}>"] = len(vocab)
    letters = string.ascii_letters + string.digits + ".,:;()[]{}_-+=*/'\"é日"
    for letter in ["\u2581", "\n", *letters]:
        vocab.setdefault(letter, len(vocab))
    merges = []
    for pair in ["t h", "th e", "i n", "e r", "a n", "o u", "\u2581 a", "\u2581 the", "\u2581 \u2581", "r e", "o n"]:
        left, right = pair.split(" ")
        vocab.setdefault(left + right, len(vocab))
        merges.append((left, right))
    while len(vocab) < size:
        vocab[f"<unused{len(vocab)}>"] = len(vocab)
    made = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Replace(" ", "\u2581")
    made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    made.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    made.add_tokens([AddedToken(f"<unused{i}>", normalized=False) for i in range(107) if i not in NAMED])
    made.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in NAMED.values()])
    made.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 2)])
    return made


def write_tokenizer(out, size):
    made = tokenizer(size)
    made.save(str(out / "tokenizer.json"))
    config = {"tokenizer_class": "GemmaTokenizer", "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>"}
    (out / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")
    texts = ["", "Hello the man", "  two  spaces\n", "日本 é ü \U0001f600", "<|turn>user\nhi<turn|>\n", "a<unused7>b",
             "def f(x):\n    return [x, 'y']", "\u2581literal", "\x00\x7f",
             "<|tool_call>call:f{a:<|\"|>b<|\"|>}<tool_call|>"]
    rows = [{"text": t, "ids": made.encode(t, add_special_tokens=False).ids} for t in texts]
    for row in rows:
        row["decoded"] = made.decode(row["ids"], skip_special_tokens=False)
    (out / "golden_tokens.json").write_text(json.dumps(rows, indent=0) + "\n")


def make(out, text_config, mlx, seed, attention):
    rng = np.random.default_rng(seed)
    config = Gemma4TextConfig(**text_config)
    config._attn_implementation = "eager"
    model = Gemma4ForCausalLM(config).float().eval()
    weights, tensors = {}, {}
    for position, (name, given) in enumerate(sorted(model.state_dict().items())):
        if name == "lm_head.weight" and text_config["tie_word_embeddings"]:
            continue
        kind = ("BF16", "F16", "BF16", "F32", "BF16", "F16", "BF16")[position % 7]
        stored = checkpoint.from_float(value(rng, name, tuple(given.shape), attention), kind)
        weights[name] = torch.from_numpy(checkpoint.to_float(*stored))
        if mlx:
            tensors["language_model." + name] = stored
        else:
            tensors[name.replace("model.", "model.language_model.", 1)] = stored
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    out.mkdir(parents=True, exist_ok=True)
    checkpoint.write_file(out / "model.safetensors", tensors, {"format": "mlx" if mlx else "pt"})
    whole = text_config if mlx else {"architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4",
                                     "text_config": text_config, "eos_token_id": [1, 106],
                                     "tie_word_embeddings": text_config["tie_word_embeddings"], "dtype": "float32"}
    (out / "config.json").write_text(json.dumps(whole, indent=1) + "\n")
    generation = {"eos_token_id": [1, 106, 50], "do_sample": True, "temperature": 1.0, "top_k": 64, "top_p": 0.95,
                  "suppress_tokens": [530, 529]}
    (out / "generation_config.json").write_text(json.dumps(generation, indent=1) + "\n")
    (out / "golden").mkdir(exist_ok=True)
    for count in (1, 5, 67, 150):
        data = golden(model, f"{out.name}_{count}", rng.integers(107, 531, count).tolist())
        least, distinct = min(data["greedy"]["margin"]), len(set(data["greedy"]["tokens"]))
        print(out.name, count, "least margin", least, "distinct", distinct, data["greedy"]["cached_equals_recomputed"],
              "top logit", data["positions"]["logit"][-1], flush=True)
        (out / "golden" / f"odd_{count}.json").write_text(json.dumps(data, separators=(",", ":")) + "\n")


def main():
    torch.set_grad_enabled(False)
    torch.set_num_threads(int(os.environ.get("FORETOKEN_TOOL_THREADS", "1")))
    out = pathlib.Path(sys.argv[1])
    make(out / "odd", ODD, False, 4, 1.0)
    write_tokenizer(out / "odd", ODD["vocab_size"])
    make(out / "odd_moe", ODD_MOE, False, 9, 0.5)
    make(out / "odd_e", ODD_E, True, 2, 0.45)


if __name__ == "__main__":
    main()
