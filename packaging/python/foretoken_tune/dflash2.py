"""The network of a DFlash2 drafter: a few layers that fill a block of masks in one pass, and a walk over candidates.

A block is the token at a position and masks after it. It sees the target's rows before that position, and all of
itself. Each sublayer is between two convolutions over the rows of the block. The score of a draft is its logit and a
bilinear form of the token before it. Source: z-lab/dflash, whose layout of files this is.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .data import Batch
from .job import Job
from .layers import (Drafter, Mlp, Norm, Turn, frequencies_of, heads_of, linear, repeated, rotate, rows_of, scales_of,
                     softmax, turn_of)
from .loss import HeadLoss, Losses, Target, ahead, weighted

PLAIN_SHARE = 0.5  # of the loss of the logits alone, by which candidates are chosen
WHOLE_SHARE = 0.5  # of blocks that are as long as can be; the others have any length, as shallow drafts have


class Blocks(NamedTuple):
    """Blocks of each row of a batch: [rows, blocks, size]."""
    first: Tensor  # [rows, blocks] positions of the tokens before the masks
    length: Tensor  # [rows, blocks] rows of each that exist; 0: no block


class Convolutions(nn.Module):
    """One before and one after a sublayer, whose coefficients come from the row that enters it."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.taps, self.groups = job.taps, job.hidden // job.group
        self.base_kernel = nn.Parameter(torch.zeros(2, job.taps, job.hidden))
        self.kernel_projection = nn.Linear(job.hidden, 2 * job.taps * self.groups, bias=False)
        nn.init.zeros_(self.kernel_projection.weight)
        with torch.no_grad():
            self.base_kernel[:, 0] = 1

    def kernels(self, x: Tensor) -> Tensor:
        """[..., side, tap, hidden]"""
        moves = self.kernel_projection(x).unflatten(-1, (2, self.taps, self.groups))
        return self.base_kernel + moves.repeat_interleave(x.shape[-1] // self.groups, -1)

    def convolve(self, x: Tensor, kernels: Tensor, side: int) -> Tensor:
        """x [rows, blocks, size, hidden]: row j reads the rows j, j - 1, ... of its block."""
        out = kernels[..., side, 0, :] * x
        for tap in range(1, min(self.taps, x.shape[2])):
            out = out + kernels[..., side, tap, :] * F.pad(x[:, :, :-tap], (0, 0, tap, 0))
        return out


class Attention(nn.Module):
    def __init__(self, job: Job) -> None:
        super().__init__()
        self.heads, self.head_dim = job.heads, job.head_dim
        self.q_proj = linear(job.hidden, job.heads * job.head_dim)
        self.k_proj = linear(job.hidden, job.kv_heads * job.head_dim)
        self.v_proj = linear(job.hidden, job.kv_heads * job.head_dim)
        self.o_proj = linear(job.heads * job.head_dim, job.hidden)
        self.q_norm, self.k_norm = Norm(job.head_dim, job.eps), Norm(job.head_dim, job.eps)

    def _keys(self, x: Tensor, turn: Turn) -> tuple[Tensor, Tensor]:
        k = rotate(self.k_norm(heads_of(self.k_proj(x), self.head_dim)), turn)
        v = heads_of(self.v_proj(x), self.head_dim)
        return repeated(k.to(v.dtype), self.heads), repeated(v, self.heads)

    def forward(self, x: Tensor, context: Tensor, turn: Turn, context_turn: Turn, mask: Tensor) -> Tensor:
        """x [rows, block rows, hidden], context [rows, N, hidden], mask [rows, 1, block rows, N + block rows]"""
        q = rotate(self.q_norm(heads_of(self.q_proj(x), self.head_dim)), turn)
        past, own = self._keys(context, context_turn), self._keys(x, turn)
        k, v = (torch.cat(both, 2) for both in zip(past, own))
        shares = softmax(q.to(v.dtype) * self.head_dim ** -0.5 @ k.transpose(-1, -2) + mask, v.dtype)
        return self.o_proj(rows_of(shares @ v))


class Layer(nn.Module):
    def __init__(self, job: Job) -> None:
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = Norm(job.hidden, job.eps), Norm(job.hidden, job.eps)
        self.self_attn, self.mlp = Attention(job), Mlp(job.hidden, job.intermediate)
        self.attention_conv, self.mlp_conv = Convolutions(job), Convolutions(job)

    def forward(self, x: Tensor, context: Tensor, turn: Turn, context_turn: Turn, mask: Tensor) -> Tensor:
        """x [rows, blocks, size, hidden]"""
        entered = self.input_layernorm(x)
        kernels = self.attention_conv.kernels(entered)
        inner = self.attention_conv.convolve(entered, kernels, 0)
        attended = self.self_attn(inner.flatten(1, 2), context, turn, context_turn, mask).view(x.shape)
        x = x + self.attention_conv.convolve(attended, kernels, 1)
        entered = self.post_attention_layernorm(x)
        kernels = self.mlp_conv.kernels(entered)
        inner = self.mlp(self.mlp_conv.convolve(entered, kernels, 0))
        return x + self.mlp_conv.convolve(inner, kernels, 1)


class Selector(nn.Module):
    def __init__(self, job: Job) -> None:
        super().__init__()
        self.predecessor_codebook = nn.Parameter(torch.randn(job.vocabulary, job.rank))
        self.successor_codebook = nn.Parameter(torch.zeros(job.vocabulary, job.rank))
        self.hidden_projection = linear(job.hidden, job.rank)

    def forward(self, x: Tensor, before: Tensor) -> Tensor:
        """The factors of the successors, after the tokens `before`."""
        return F.embedding(before, self.predecessor_codebook) * self.hidden_projection(x)


class Dflash2(Drafter):
    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.windows = [job.window] * job.drafter_layers  # 0: all of the past
        self.fc = linear(job.width, job.hidden)
        self.hidden_norm, self.norm = Norm(job.hidden, job.eps), Norm(job.hidden, job.eps)
        self.layers = nn.ModuleList(Layer(job) for _ in range(job.drafter_layers))
        self.candidate_selector = Selector(job)

    @property
    def depths(self) -> int:
        return self.job.block - 1

    def begin(self, kept: Tensor, lm_head: Tensor, rows: Tensor, hidden: Tensor) -> None:
        with torch.no_grad():
            self.norm.weight.copy_(scales_of(hidden.to(self.norm.weight.dtype)))

    def forward(self, rows: Tensor, embedded: Tensor, text: Tensor, blocks: Blocks) -> Tensor:
        """rows [rows, N, width] of the target, `embedded` [rows, blocks, size, hidden] to the rows that the LM head
        reads."""
        context, size = self.hidden_norm(self.fc(rows)), embedded.shape[2]
        places = blocks.first[..., None] + torch.arange(size, device=embedded.device)
        steps = frequencies_of(self.job.head_dim, self.job.rope_theta)
        cos, sin = turn_of(steps, places.flatten(1))
        context_turn = turn_of(steps, torch.arange(rows.shape[1], device=rows.device))
        masks: dict[int, Tensor] = {}
        x = embedded
        for layer, window in zip(self.layers, self.windows):
            if window not in masks:
                masks[window] = block_mask(text, blocks, size, window).to(rows.dtype)
            x = layer(x, context, (cos[:, None], sin[:, None]), context_turn, masks[window])
        return self.norm(x)

    def losses(self, batch: Batch, target: Target, step: int) -> Losses:
        job, dtype = self.job, target.kept_head.dtype
        shares, best = target.shares(batch.hidden.flatten(0, 1))
        blocks = choose_blocks(batch, job, step)
        places = blocks.first[..., None] + torch.arange(job.block, device=batch.ids.device)
        inside = places.clamp(max=batch.ids.shape[1] - 1)
        tokens = batch.ids.gather(1, inside.flatten(1)).view(inside.shape)
        asked = tokens.clone()
        asked[..., 1:] = job.mask_token
        x = self(batch.rows.to(dtype), F.embedding(asked, target.embedding), batch.text, blocks)
        factors = self.candidate_selector(x[:, :, 1:], tokens[:, :, :-1])
        successors = F.embedding(target.kept, self.candidate_selector.successor_codebook)
        both_heads = torch.cat([target.kept_head, successors.to(dtype)], 1)
        flat_places = inside + torch.arange(len(inside), device=inside.device)[:, None, None] * batch.ids.shape[1]
        each, agreed = [], []
        for i in range(1, job.block):
            at = (blocks.length > i).flatten().nonzero()[:, 0]
            of = flat_places[..., i - 1].flatten()[at]
            known = best[of] >= 0
            at, of = at[known], of[known]
            plain = x[:, :, i].flatten(0, 1)
            both = torch.cat([plain, factors[:, :, i - 1].flatten(0, 1).to(plain.dtype)], 1)
            score, right = HeadLoss.apply(both, both_heads, shares, at, of, best[of])
            alone, _ = HeadLoss.apply(plain, target.kept_head, shares, at, of, best[of])
            each.append(score + PLAIN_SHARE * alone)
            agreed.append(right / max(1, len(at)))
        return weighted(each, agreed)

    def matrices(self) -> list[nn.Parameter]:
        return [weight for name, weight in self.named_parameters() if weight.dim() == 2 and "codebook" not in name]

    def config(self) -> dict[str, object]:
        job = self.job
        return {
            "architectures": ["DFlash2DraftModel"], "model_type": "qwen3", "hidden_size": job.hidden,
            "num_hidden_layers": job.drafter_layers, "num_attention_heads": job.heads,
            "num_key_value_heads": job.kv_heads, "head_dim": job.head_dim, "intermediate_size": job.intermediate,
            "hidden_act": "silu", "rms_norm_eps": job.eps, "rope_theta": job.rope_theta, "rope_scaling": None,
            "vocab_size": job.vocabulary, "num_target_layers": job.target_layers, "is_causal": False,
            "layer_types": ["sliding_attention"] * job.drafter_layers, "use_sliding_window": True,
            "sliding_window": job.window, "max_position_embeddings": job.context, "attention_bias": False,
            "tie_word_embeddings": False, "dtype": "bfloat16",
            "dflash_config": {"mask_token_id": job.mask_token, "target_layer_ids": job.layers, "block_size": job.block,
                              "conv_kernel_size": job.taps, "conv_group_size": job.group, "selector_rank": job.rank,
                              "selector_top_k": job.candidates},
        }


def block_mask(text: Tensor, blocks: Blocks, size: int, window: int) -> Tensor:
    """[rows, 1, blocks * size, N + blocks * size]: the past of a block in its own text, and the block itself."""
    rows, count = text.shape
    number = blocks.first.shape[1]
    place = torch.arange(count, device=text.device)
    own_text = text.gather(1, blocks.first)
    past = (text[:, None] == own_text[..., None]) & (place < blocks.first[..., None])
    past = past[:, :, None].expand(-1, -1, size, -1)
    inner = torch.arange(size, device=text.device)
    if window > 0:
        past = past & (place > (blocks.first[..., None] + inner)[..., None] - window)
    exists = inner < blocks.length.clamp(min=1)[..., None]  # [rows, blocks, size]
    own = exists[:, :, None] | torch.eye(size, dtype=torch.bool, device=text.device)
    same = torch.eye(number, dtype=torch.bool, device=text.device)
    own = own[:, :, :, None] & same[:, None, :, None]  # [rows, blocks, size, blocks, size]
    seen = torch.cat([past.reshape(rows, number * size, count), own.reshape(rows, number * size, number * size)], 2)
    return torch.zeros(seen.shape, device=text.device).masked_fill(~seen, float("-inf"))[:, None]


def choose_blocks(batch: Batch, job: Job, step: int) -> Blocks:
    """Places where an answer continues, by a seed of the step. The batch's device changes nothing."""
    rows, count = batch.ids.shape
    dice = torch.Generator().manual_seed((job.seed << 32) + step)
    drawn = torch.rand(rows, count, generator=dice).to(batch.text.device)
    good = (batch.text >= 0) & (ahead(batch.text, 1, -2) == batch.text) & ahead(batch.answer, 1, False)
    order = drawn.masked_fill(~good, -1).topk(min(job.blocks, count), 1)
    longest = torch.full_like(order.indices, job.block)
    shorter = torch.randint(2, job.block + 1, longest.shape, generator=dice).to(longest.device)
    whole = (torch.rand(longest.shape, generator=dice) < WHOLE_SHARE).to(longest.device)
    length = torch.where(whole, longest, shorter)
    own_text = batch.text.gather(1, order.indices)
    for i in range(1, job.block):  # to the end of the text
        ends = (order.indices + i).clamp(max=count - 1)
        beyond = (order.indices + i >= count) | (batch.text.gather(1, ends) != own_text)
        length = torch.where(beyond, length.clamp(max=i), length)
    return Blocks(order.indices, torch.where(order.values > 0, length, 0))


def unused_token(counts: Tensor, embedding: Tensor) -> int:
    """The last id that no text has and that has an embedding: the mask of a block."""
    real = (counts == 0) & embedding.float().abs().amax(1).gt(0)
    found = real.nonzero()[:, 0]
    if len(found) == 0:
        raise ValueError("every token of the vocabulary is in the texts: none is left for a mask")
    return int(found[-1])
