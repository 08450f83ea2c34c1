"""Counts the tokens that a tree of drafts would give over a chain, offline (docs/decisions/046-trees-wait.md).

  python tools/count_trees.py TARGET DFLASH [--kinds code,docs,chat,tool] [--texts 8] [--tokens 96]

TARGET is a folder of qwen3.5, DFLASH its block drafter. A draft counts if it is the token of plain decoding at its
position, at temperature 0 and, with one noise for drafter and target, at 1. So the accepted path of a tree is always
along the plain answer, and nothing off it has to be decoded. A tree holds the best nodes by the sum of log softmax
of what the drafter would choose by: its logits and, at temperature 1, the noise.
"""

import argparse
import heapq
import pathlib

import torch
from transformers import AutoTokenizer

import checkpoint
import reference_model

HELD_OUT = pathlib.Path(__file__).parent.parent / "tests/golden/model"
PREFIX, CANDIDATES, BLOCK = 96, 8, 16
WEIGHTS = (0.7, 1.0, 1.4)  # of the logits in a score


class Drafter:
    """DFlash: the block at position n reads the target's rows before n and its own rows, later ones too."""

    def __init__(self, folder, reference):
        self.reference = reference
        tensors, _ = checkpoint.read_file(pathlib.Path(folder) / "model.safetensors")
        self.w = {}
        for name, (kind, array) in tensors.items():
            values = torch.from_numpy(array.astype("int32" if kind == "BF16" else "float32"))
            self.w[name.removesuffix(".weight")] = (values << 16).view(torch.float32) if kind == "BF16" else values
        config = checkpoint.json.loads((pathlib.Path(folder) / "config.json").read_text())
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.size, self.layers = config["head_dim"], config["num_hidden_layers"]
        self.eps, self.theta = config["rms_norm_eps"], config.get("rope_theta", 1e7)
        self.mask, self.captured = (config["dflash_config"][k] for k in ("mask_token_id", "target_layer_ids"))

    def norm(self, x, name):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.w[name]

    def rope(self, x, positions):
        """x [..., rows, heads, size], positions [..., rows]"""
        half = self.size // 2
        angles = positions[..., None, None] * self.theta ** (-torch.arange(half) / half)
        cos, sin = angles.cos(), angles.sin()
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def keys(self, rows, layer, positions):
        name = f"layers.{layer}.self_attn."
        shape = (*rows.shape[:-1], self.kv_heads, self.size)
        k = self.norm((rows @ self.w[name + "k_proj"].T).view(shape), name + "k_norm")
        return self.rope(k, positions), (rows @ self.w[name + "v_proj"].T).view(shape)

    def blocks(self, ids, features, starts):
        """-> logits [starts, 15, V]: of the drafts for start + 1, start + 2, ..."""
        count, rows = len(starts), len(ids)
        context = self.norm(features @ self.w["fc"].T, "hidden_norm")
        tokens = torch.full((count, BLOCK), self.mask)
        tokens[:, 0] = ids[starts]
        x = self.reference.embed(tokens)
        positions = starts[:, None] + torch.arange(BLOCK)
        seen = torch.cat([torch.arange(rows)[None] < starts[:, None], torch.ones(count, BLOCK, dtype=bool)], 1)
        for layer in range(self.layers):
            name = f"layers.{layer}."
            own = self.norm(x, name + "input_layernorm")
            q = (own @ self.w[name + "self_attn.q_proj"].T).view(count, BLOCK, self.heads, self.size)
            q = self.rope(self.norm(q, name + "self_attn.q_norm"), positions)
            past_k, past_v = self.keys(context, layer, torch.arange(rows))
            k, v = self.keys(own, layer, positions)
            k = torch.cat([past_k.expand(count, -1, -1, -1), k], 1)
            v = torch.cat([past_v.expand(count, -1, -1, -1), v], 1)
            out = torch.nn.functional.scaled_dot_product_attention(
                q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), attn_mask=seen[:, None, None],
                enable_gqa=True)
            out = out.transpose(1, 2).reshape(count, BLOCK, -1)
            x = x + out @ self.w[name + "self_attn.o_proj"].T
            m = self.norm(x, name + "post_attention_layernorm")
            gate = torch.nn.functional.silu(m @ self.w[name + "mlp.gate_proj"].T)
            x = x + (gate * (m @ self.w[name + "mlp.up_proj"].T)) @ self.w[name + "mlp.down_proj"].T
        logits = self.reference.model.lm_head(self.norm(x, "norm"))[:, 1:]
        logits[..., self.mask] = float("-inf")
        return logits


def answers(reference, prompts, tokens, noise):
    """Plain decoding of prompts of one length; noise [positions, V], or None at temperature 0."""
    logits, _, cache = reference.trunk(prompts, use_cache=True)
    ids = prompts
    for _ in range(tokens):
        row = logits[:, -1] if noise is None else logits[:, -1] + noise[ids.shape[1]]
        ids = torch.cat([ids, row.argmax(-1, keepdim=True)], 1)
        logits, _, cache = reference.trunk(ids[:, -1:], cache, use_cache=True)
    return ids


def grow(scores, most):
    """scores [depth][rank], log and descending: the best `most` nodes as paths of ranks, by best-first search."""
    paths, heap = [], [(-scores[0][0], (0,))]
    while heap and len(paths) < most:
        cost, path = heapq.heappop(heap)
        paths.append(path)
        depth, rank = len(path) - 1, path[-1]
        if rank + 1 < CANDIDATES:
            heapq.heappush(heap, (cost + scores[depth][rank] - scores[depth][rank + 1], (*path[:-1], rank + 1)))
        if depth + 1 < len(scores):
            heapq.heappush(heap, (cost - scores[depth + 1][0], (*path, 0)))
    return paths


def right(paths, drafts, truth):
    """Drafts that the plain answer takes: the longest path of the tree along it."""
    ranks = []
    for row, token in zip(drafts, truth):
        if token not in row:
            break
        ranks.append(row.index(token))
    held = set(paths)
    length = 0
    while length < len(ranks) and tuple(ranks[:length + 1]) in held:
        length += 1
    return length


def tokens_a_round(shape, rows, count):
    """Rounds one after the other: each starts where the last one ended."""
    at, rounds = 0, 0
    while at < count:
        at += 1 + shape(rows[at])
        rounds += 1
    return at, rounds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("target"), parser.add_argument("drafter")
    parser.add_argument("--kinds", default="code,docs,chat,tool")
    parser.add_argument("--texts", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=96)
    args = parser.parse_args()
    reference = reference_model.Reference(args.target)
    drafter = Drafter(args.drafter, reference)
    tokenizer = AutoTokenizer.from_pretrained(args.target)
    totals = {}
    for kind in args.kinds.split(","):
        whole = tokenizer((HELD_OUT / f"heldout_{kind}.txt").read_text(), return_tensors="pt").input_ids[0]
        step = max(1, (len(whole) - PREFIX) // args.texts)
        prompts = torch.stack([whole[i * step:i * step + PREFIX] for i in range(args.texts)])
        for temperature in (0, 1):
            generator = torch.Generator().manual_seed(7)
            noise = None
            if temperature:
                uniform = torch.rand(PREFIX + args.tokens + BLOCK, reference.embed.weight.shape[0], generator=generator)
                noise = -(-uniform.clamp_min(1e-9).log()).log()
            every = answers(reference, prompts, args.tokens + BLOCK, noise)
            for ids in every:
                out = reference.model.model(input_ids=ids[None], output_hidden_states=True)
                features = torch.cat([out.hidden_states[i + 1][0] for i in drafter.captured], -1)
                starts = torch.arange(PREFIX, PREFIX + args.tokens)
                logits = drafter.blocks(ids, features, starts)
                rows = []
                for n, own in zip(starts.tolist(), logits):
                    if noise is not None:
                        own = own + noise[n + 1:n + BLOCK]
                    top = own.topk(CANDIDATES, -1)
                    scores = {w: (w * top.values - (w * own).logsumexp(-1, True)).tolist() for w in WEIGHTS}
                    rows.append((top.indices.tolist(), scores, ids[n + 1:n + BLOCK].tolist()))
                for nodes in (8, 15):
                    shapes = {f"chain {nodes}": lambda r: right([(0,) * (i + 1) for i in range(nodes)], r[0], r[2])}
                    for weight in WEIGHTS:
                        shapes[f"tree {nodes}, weight {weight}"] = lambda r, w=weight: right(
                            grow(r[1][w], nodes), r[0], r[2])
                    for name, shape in shapes.items():
                        got = tokens_a_round(shape, rows, args.tokens)
                        for part in (kind, "all"):
                            sums = totals.setdefault((temperature, part, name), [0, 0])
                            sums[0] += got[0]
                            sums[1] += got[1]
        for (temperature, part, name), (tokens, rounds) in totals.items():
            if part == kind:
                print(f"T {temperature} {part:5} {name:20} {tokens / rounds:.3f}", flush=True)
    for (temperature, part, name), (tokens, rounds) in totals.items():
        if part == "all":
            print(f"T {temperature} {part:5} {name:20} {tokens / rounds:.3f}")


if __name__ == "__main__":
    main()
