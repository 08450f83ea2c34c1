"""Training-time test: the loss over the depths of drafting, against the target's own distribution."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .data import Batch
from .eagle3 import Cache, Eagle3

DECAY = 0.8  # weight of a depth against the one before


class Losses(NamedTuple):
    loss: Tensor
    agreed: Tensor  # [depth] share of drafts that are the target's choice


def text_mask(text: Tensor) -> Tensor:
    """[rows, 1, N, N]: a position sees the earlier ones of its own text. Positions after the last text see
    one another, so that no row of a softmax is empty."""
    count = text.shape[1]
    earlier = torch.ones(count, count, dtype=torch.bool, device=text.device).tril()
    seen = (text[:, :, None] == text[:, None, :]) & earlier
    return torch.zeros(seen.shape, device=text.device).masked_fill(~seen, float("-inf"))[:, None]


def ahead(x: Tensor, places: int, fill: float) -> Tensor:
    """x [rows, N, ...] as seen `places` later; `fill` after the end."""
    out = torch.full_like(x, fill)
    out[:, :x.shape[1] - places] = x[:, places:]
    return out


def draft_ids(network: Eagle3) -> Tensor:
    """[vocabulary] the draft id of each token, -1: it cannot be drafted."""
    ids = torch.full((len(network.t2d),), -1, dtype=torch.int64, device=network.d2t.device)
    draft = torch.arange(len(network.d2t), device=network.d2t.device)
    ids[draft + network.d2t] = draft
    return ids


def distilled(logits: Tensor, ids: Tensor, logprobs: Tensor) -> Tensor:
    """Cross entropy [n] against the likeliest successors, as far as they can be drafted. `ids` -1: it cannot."""
    shares = logprobs.exp().masked_fill(ids < 0, 0)
    shares = shares / shares.sum(-1, keepdim=True).clamp(min=1e-20)
    return -(shares * logits.log_softmax(-1).gather(-1, ids.clamp(min=0))).sum(-1)


def losses(network: Eagle3, batch: Batch, embedding: Tensor, to_draft: Tensor, depth: int) -> Losses:
    dtype = network.fc.weight.dtype
    mask = text_mask(batch.text).to(dtype)
    cache: Cache = []
    feature = network.feature(batch.hidden.to(dtype))
    successors = torch.where(batch.top_ids >= 0, to_draft[batch.top_ids.clamp(min=0)], -1)
    sums, agreed, weights = [], [], []
    for k in range(1, depth + 1):
        embedded = F.embedding(ahead(batch.ids, k, 0), embedding).to(dtype)
        feature, cache = network.step(k, feature, embedded, cache, mask)
        fits = (ahead(batch.text, k + 1, -2) == batch.text) & ahead(batch.answer, k + 1, False)
        fits &= (batch.text >= 0) & (ahead(successors, k, -1)[..., 0] >= 0)
        chosen = ahead(successors, k, -1)[fits]
        logits = network.logits(feature[fits])
        logits = logits if logits.dtype == torch.float64 else logits.float()
        each = distilled(logits, chosen, ahead(batch.top_logprobs, k, 0)[fits].to(logits.dtype))
        count = max(1, len(chosen))
        sums.append(each.sum() / count)
        agreed.append((logits.argmax(-1) == chosen[:, 0]).float().sum() / count)
        weights.append(DECAY ** (k - 1))
    loss = sum(w * s for w, s in zip(weights, sums)) / sum(weights)
    return Losses(torch.as_tensor(loss), torch.stack(agreed))
