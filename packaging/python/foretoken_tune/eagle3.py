"""The network of an EAGLE-3 drafter in the original layout of files, and one depth of its drafting.

A pair is the token after a position and the feature of that position. At the first depth the feature is made of the
target's hidden rows, later it is the network's own output. Source: Li et al. 2025, EAGLE-3 (arXiv 2503.01840).
"""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .data import Batch
from .job import Job
from .layers import (Cache, Drafter, Mlp, Norm, Turn, attend_chain, frequencies_of, heads_of, linear, repeated, rotate,
                     rows_of, scales_of, turn_of)
from .loss import Losses, Target, chain_losses


class Attention(nn.Module):
    """Reads embedding and feature side by side."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.heads, self.head_dim = job.heads, job.head_dim
        self.q_proj = linear(2 * job.hidden, job.heads * job.head_dim)
        self.k_proj = linear(2 * job.hidden, job.kv_heads * job.head_dim)
        self.v_proj = linear(2 * job.hidden, job.kv_heads * job.head_dim)
        self.o_proj = linear(job.heads * job.head_dim, job.hidden)

    def forward(self, x: Tensor, turn: Turn, cache: Cache, mask: Tensor) -> tuple[Tensor, Cache]:
        q = rotate(heads_of(self.q_proj(x), self.head_dim), turn)
        k = rotate(heads_of(self.k_proj(x), self.head_dim), turn)
        v = heads_of(self.v_proj(x), self.head_dim)
        cache = cache + [(repeated(k, self.heads), repeated(v, self.heads))]
        return self.o_proj(rows_of(attend_chain(q, cache, mask))), cache


class Layer(nn.Module):
    def __init__(self, job: Job) -> None:
        super().__init__()
        self.self_attn, self.mlp = Attention(job), Mlp(job.hidden, job.intermediate)
        self.input_layernorm = Norm(job.hidden, job.eps)
        self.hidden_norm = Norm(job.hidden, job.eps)
        self.post_attention_layernorm = Norm(job.hidden, job.eps)

    def forward(self, embedded: Tensor, feature: Tensor, turn: Turn, cache: Cache,
                mask: Tensor) -> tuple[Tensor, Cache]:
        both = torch.cat([self.input_layernorm(embedded), self.hidden_norm(feature)], -1)
        attended, cache = self.self_attn(both, turn, cache, mask)
        x = feature + attended
        return x + self.mlp(self.post_attention_layernorm(x)), cache


class Eagle3(Drafter):
    d2t: Tensor
    t2d: Tensor

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.fc = linear(job.width, job.hidden)
        self.midlayer = Layer(job)
        self.norm = Norm(job.hidden, job.eps)
        self.lm_head = linear(job.hidden, job.draft_vocabulary)
        self.register_buffer("d2t", torch.zeros(job.draft_vocabulary, dtype=torch.int64))
        self.register_buffer("t2d", torch.zeros(job.vocabulary, dtype=torch.bool))

    def begin(self, kept: Tensor, lm_head: Tensor, rows: Tensor, hidden: Tensor) -> None:
        """Takes over the target's LM head. The captured rows give the scales of fc and of the norm."""
        self.d2t.copy_(kept - torch.arange(len(kept)))
        self.t2d[kept] = True
        with torch.no_grad():
            self.lm_head.weight.copy_(lm_head[kept])
            size = self.fc(rows.to(self.fc.weight.dtype)).pow(2).mean().sqrt()
            self.fc.weight.div_(size.clamp(min=1e-6))
            self.norm.weight.copy_(scales_of(hidden.to(self.norm.weight.dtype)))

    def feature(self, rows: Tensor) -> Tensor:
        return self.fc(rows)

    def losses(self, batch: Batch, target: Target, step: int) -> Losses:
        feature = self.feature(batch.rows.to(target.kept_head.dtype))
        return chain_losses(self, feature, self.lm_head.weight, batch, target, self.job.depth)

    def step(self, depth: int, feature: Tensor, embedded: Tensor, cache: Cache,
             mask: Tensor) -> tuple[Tensor, Cache]:
        """Depth 1, 2, ... at all positions; `embedded`: the token `depth` places after each."""
        positions = torch.arange(feature.shape[1], device=feature.device) + depth
        turn = turn_of(frequencies_of(self.job.head_dim, self.job.rope_theta), positions)
        return self.midlayer(embedded, feature, turn, cache, mask)

    def logits(self, x: Tensor) -> Tensor:
        return self.lm_head(self.norm(x))

    def matrices(self) -> list[nn.Parameter]:
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
