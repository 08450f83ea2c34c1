"""The network of an EAGLE-3 drafter in the original layout of files, and one depth of its drafting.

A pair is the token after a position and the feature of that position. At the first depth the feature is made of the
target's hidden rows, later it is the network's own output. Source: Li et al. 2025, EAGLE-3 (arXiv 2503.01840).
"""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .job import Job

Cache = list[tuple[Tensor, Tensor]]


class Norm(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x if x.dtype == torch.float64 else x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype) * self.weight


def linear(inputs: int, outputs: int) -> nn.Linear:
    made = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(made.weight, std=inputs ** -0.5)
    return made


def rope_table(head_dim: int, theta: float, positions: Tensor) -> tuple[Tensor, Tensor]:
    steps = torch.arange(0, head_dim, 2, device=positions.device, dtype=torch.float64) / head_dim
    angles = positions.double()[:, None] * theta ** -steps
    angles = torch.cat([angles, angles], -1)
    return angles.cos().float(), angles.sin().float()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x [batch, heads, positions, head_dim]"""
    first, second = x.chunk(2, -1)
    return (x * cos + torch.cat([-second, first], -1) * sin).to(x.dtype)


class Attention(nn.Module):
    """Reads embedding and feature side by side."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = job.heads, job.kv_heads, job.head_dim
        self.q_proj = linear(2 * job.hidden, job.heads * job.head_dim)
        self.k_proj = linear(2 * job.hidden, job.kv_heads * job.head_dim)
        self.v_proj = linear(2 * job.hidden, job.kv_heads * job.head_dim)
        self.o_proj = linear(job.heads * job.head_dim, job.hidden)

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.view(x.shape[0], x.shape[1], heads, self.head_dim).transpose(1, 2)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, cache: Cache, mask: Tensor) -> tuple[Tensor, Cache]:
        """`mask` [batch, 1, N, N] of the pairs of the first depth; a later depth also sees its own chain."""
        q = rotate(self._split(self.q_proj(x), self.heads), cos, sin)
        k = rotate(self._split(self.k_proj(x), self.kv_heads), cos, sin)
        v = self._split(self.v_proj(x), self.kv_heads)
        groups = self.heads // self.kv_heads
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        cache = cache + [(k, v)]
        out = self._attend(q, cache, mask)
        return self.o_proj(out.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1)), cache

    def _attend(self, q: Tensor, cache: Cache, mask: Tensor) -> Tensor:
        keys, values = cache[0]
        q = q * self.head_dim ** -0.5
        own = [(q * k).sum(-1, keepdim=True) for k, _ in cache[1:]]
        scores = torch.cat([q @ keys.transpose(-1, -2) + mask, *own], -1)
        shares = (scores if scores.dtype == torch.float64 else scores.float()).softmax(-1).to(q.dtype)
        count = keys.shape[2]
        out = shares[..., :count] @ values
        for i, (_, v) in enumerate(cache[1:]):
            out = out + shares[..., count + i:count + i + 1] * v
        return out


class Mlp(nn.Module):
    def __init__(self, hidden: int, intermediate: int) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = linear(hidden, intermediate), linear(hidden, intermediate)
        self.down_proj = linear(intermediate, hidden)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, job: Job) -> None:
        super().__init__()
        self.self_attn, self.mlp = Attention(job), Mlp(job.hidden, job.intermediate)
        self.input_layernorm = Norm(job.hidden, job.eps)
        self.hidden_norm = Norm(job.hidden, job.eps)
        self.post_attention_layernorm = Norm(job.hidden, job.eps)

    def forward(self, embedded: Tensor, feature: Tensor, cos: Tensor, sin: Tensor, cache: Cache,
                mask: Tensor) -> tuple[Tensor, Cache]:
        both = torch.cat([self.input_layernorm(embedded), self.hidden_norm(feature)], -1)
        attended, cache = self.self_attn(both, cos, sin, cache, mask)
        x = feature + attended
        return x + self.mlp(self.post_attention_layernorm(x)), cache


class Eagle3(nn.Module):
    d2t: Tensor
    t2d: Tensor

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.job = job
        self.fc = linear(job.width, job.hidden)
        self.midlayer = Layer(job)
        self.norm = Norm(job.hidden, job.eps)
        self.lm_head = linear(job.hidden, job.draft_vocabulary)
        self.register_buffer("d2t", torch.zeros(job.draft_vocabulary, dtype=torch.int64))
        self.register_buffer("t2d", torch.zeros(job.vocabulary, dtype=torch.bool))

    def begin(self, kept: Tensor, lm_head: Tensor, rows: Tensor, hidden: Tensor) -> None:
        """Sets the draft vocabulary and takes over the target's rows of it; some captured rows give the scales of
        fc and of the norm."""
        self.d2t.copy_(kept - torch.arange(len(kept)))
        self.t2d[kept] = True
        with torch.no_grad():
            self.lm_head.weight.copy_(lm_head[kept])
            size = self.fc(rows.to(self.fc.weight.dtype)).pow(2).mean().sqrt()
            self.fc.weight.div_(size.clamp(min=1e-6))
            self.norm.weight.copy_(hidden.to(self.norm.weight.dtype).pow(2).mean(0).sqrt())

    def feature(self, rows: Tensor) -> Tensor:
        return self.fc(rows)

    def step(self, depth: int, feature: Tensor, embedded: Tensor, cache: Cache,
             mask: Tensor) -> tuple[Tensor, Cache]:
        """Depth 1, 2, ... at all positions; `embedded`: the token `depth` places after each."""
        positions = torch.arange(feature.shape[1], device=feature.device) + depth
        cos, sin = rope_table(self.job.head_dim, self.job.rope_theta, positions)
        return self.midlayer(embedded, feature, cos, sin, cache, mask)

    def logits(self, x: Tensor) -> Tensor:
        return self.lm_head(self.norm(x))

    def head(self) -> Tensor:
        return self.lm_head.weight

    def matrices(self) -> list[nn.Parameter]:
        """Those that Muon trains."""
        return [weight for name, weight in self.named_parameters() if weight.dim() == 2 and "lm_head" not in name]

    @torch.no_grad()
    def drafts(self, hidden: Tensor, following: Tensor, embedding: Tensor, depth: int,
               mask: Optional[Tensor] = None) -> Tensor:
        """Greedy drafts [batch, positions, depth] as target ids, of one text a row, at every position."""
        count = following.shape[1]
        if mask is None:
            mask = torch.full((count, count), float("-inf"), device=hidden.device).triu(1)[None, None]
        feature, ids, cache, found = self.feature(hidden), following, [], []
        for k in range(1, depth + 1):
            feature, cache = self.step(k, feature, F.embedding(ids, embedding).to(feature.dtype), cache, mask)
            best = self.logits(feature).argmax(-1)
            ids = best + self.d2t[best]
            found.append(ids)
        return torch.stack(found, -1)

    def config(self) -> dict[str, object]:
        job = self.job
        return {
            "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": job.hidden,
            "intermediate_size": job.intermediate, "num_hidden_layers": 1, "num_attention_heads": job.heads,
            "num_key_value_heads": job.kv_heads, "head_dim": job.head_dim, "hidden_act": "silu",
            "rms_norm_eps": job.eps, "vocab_size": job.vocabulary, "draft_vocab_size": job.draft_vocabulary,
            "target_hidden_size": job.hidden,
            "eagle_config": {"use_aux_hidden_state": True,
                             "eagle_aux_hidden_state_layer_ids": [layer + 1 for layer in job.layers]},
            "attention_bias": False, "mlp_bias": False, "max_position_embeddings": job.context,
            "rope_theta": job.rope_theta, "rope_scaling": None, "tie_word_embeddings": False, "use_cache": True,
            "torch_dtype": "bfloat16",
        }

    def tensors(self) -> dict[str, Tensor]:
        return {name: value.to(torch.bfloat16) if value.is_floating_point() else value
                for name, value in self.state_dict().items()}
