"""The MTP head of Qwen3.5 and its relatives, and one depth of its drafting.

A pair is the token after a position and the hidden row of that position: the target's last one at the first depth,
later the head's own output. Embedding and LM head are the target's. The file has the published names, and norms that
are final.
"""

import torch
from torch import Tensor, nn

from . import tensors
from .data import Batch
from .job import Job
from .layers import (Cache, Drafter, Mlp, Norm, Turn, attend_chain, heads_of, linear, repeated, rotate, rows_of,
                     scales_of, turn_of)
from .loss import Losses, Target, chain_losses

PREFIX = "mtp."
LEAST_MEAN = 0.75  # of the input norm: readers take norms near zero for ones to which 1 must be added


class Attention(nn.Module):
    """With norms of queries and keys, and a gate beside each query."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.heads, self.head_dim, self.gated = job.heads, job.head_dim, job.gated
        width = job.heads * job.head_dim
        self.q_proj = linear(job.hidden, 2 * width if job.gated else width)
        self.k_proj = linear(job.hidden, job.kv_heads * job.head_dim)
        self.v_proj = linear(job.hidden, job.kv_heads * job.head_dim)
        self.o_proj = linear(width, job.hidden)
        self.q_norm, self.k_norm = Norm(job.head_dim, job.eps), Norm(job.head_dim, job.eps)

    def forward(self, x: Tensor, turn: Turn, cache: Cache, mask: Tensor) -> tuple[Tensor, Cache]:
        q = self.q_proj(x)
        gate = None
        if self.gated:
            q, gate = q.view(*q.shape[:-1], self.heads, 2, self.head_dim).unbind(-2)
            q, gate = q.flatten(-2), gate.flatten(-2)
        q = rotate(self.q_norm(heads_of(q, self.head_dim)), turn)
        k = rotate(self.k_norm(heads_of(self.k_proj(x), self.head_dim)), turn)
        v = heads_of(self.v_proj(x), self.head_dim)
        cache = cache + [(repeated(k.to(v.dtype), self.heads), repeated(v, self.heads))]
        out = rows_of(attend_chain(q.to(v.dtype), cache, mask))
        return self.o_proj(out if gate is None else out * gate.sigmoid()), cache


class Layer(nn.Module):
    def __init__(self, job: Job) -> None:
        super().__init__()
        self.input_layernorm = Norm(job.hidden, job.eps)
        self.self_attn = Attention(job)
        self.post_attention_layernorm = Norm(job.hidden, job.eps)
        self.mlp = Mlp(job.hidden, job.intermediate)

    def forward(self, x: Tensor, turn: Turn, cache: Cache, mask: Tensor) -> tuple[Tensor, Cache]:
        attended, cache = self.self_attn(self.input_layernorm(x), turn, cache, mask)
        x = x + attended
        return x + self.mlp(self.post_attention_layernorm(x)), cache


class Mtp(Drafter):
    file = "mtp.safetensors"

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.pre_fc_norm_embedding = Norm(job.hidden, job.eps)
        self.pre_fc_norm_hidden = Norm(job.hidden, job.eps)
        self.fc = linear(2 * job.hidden, job.hidden)
        self.layers = nn.ModuleList([Layer(job)])
        self.last_norm = Norm(job.hidden, job.eps)

    def begin(self, kept: Tensor, lm_head: Tensor, rows: Tensor, hidden: Tensor) -> None:
        """Continues the head of a file, if the job has one. A fresh head's output gets the scales of the rows that
        the LM head reads."""
        if self.job.head:
            self.load_state_dict({own_name(name): value for name, value in tensors.read(self.job.head).tensors.items()})
            return
        with torch.no_grad():
            self.last_norm.weight.copy_(scales_of(hidden.to(self.last_norm.weight.dtype)))

    def step(self, depth: int, feature: Tensor, embedded: Tensor, cache: Cache,
             mask: Tensor) -> tuple[Tensor, Cache]:
        positions = torch.arange(feature.shape[1], device=feature.device) + depth - 1
        turn = turn_of(self.job.frequencies, positions)
        both = torch.cat([self.pre_fc_norm_embedding(embedded), self.pre_fc_norm_hidden(feature)], -1)
        x, cache = self.layers[0](self.fc(both), turn, cache, mask)
        return self.last_norm(x), cache

    def norm(self, x: Tensor) -> Tensor:
        return x  # step() returns what the LM head reads

    def losses(self, batch: Batch, target: Target, step: int) -> Losses:
        feature = batch.hidden.to(target.kept_head.dtype)
        return chain_losses(self, feature, target.kept_head, batch, target, self.job.depth)

    def matrices(self) -> list[nn.Parameter]:
        return [weight for weight in self.parameters() if weight.dim() == 2]

    def config(self) -> dict[str, object]:
        return self.job.config

    @torch.no_grad()
    def tensors(self) -> dict[str, Tensor]:
        found = {name: value.detach().clone() for name, value in self.state_dict().items()}
        entry = "layers.0.input_layernorm.weight"
        while 0 < found[entry].mean() < LEAST_MEAN:  # a power of two more in the norm, less in its readers
            found[entry] *= 2
            for reader in ("q", "k", "v"):
                found[f"layers.0.self_attn.{reader}_proj.weight"] /= 2
        return {stored_name(name): value if value.dim() == 1 else value.to(torch.bfloat16)
                for name, value in found.items()}


def stored_name(own: str) -> str:
    return PREFIX + own.replace("last_norm.", "norm.")


def own_name(stored: str) -> str:
    rest = stored[len(PREFIX):]
    return rest.replace("norm.", "last_norm.") if rest.startswith("norm.") else rest
