"""Training-time test: the loss over the depths of drafting, against the target's own distribution."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from .data import Batch
from .layers import Cache

DECAY = 0.8  # weight of a depth against the one before
CHUNK = 8192  # positions whose logits exist at once


class Losses(NamedTuple):
    loss: Tensor
    agreed: Tensor  # [depth] share of drafts that are the target's choice


@dataclass
class Target:
    """The tensors of the target that the loss needs."""
    embedding: Tensor  # [vocabulary, hidden]
    head: Tensor  # [vocabulary, hidden]
    kept: Tensor  # [draft vocabulary] ids
    softcap: float = 0.0

    def __post_init__(self) -> None:
        self.kept_head = self.head[self.kept].contiguous()
        self.to_draft = torch.full((len(self.head),), -1, dtype=torch.int64, device=self.head.device)
        self.to_draft[self.kept] = torch.arange(len(self.kept), device=self.head.device)

    def _logits(self, hidden: Tensor, head: Tensor) -> Tensor:
        found = hidden.to(head.dtype) @ head.t()
        return self.softcap * (found / self.softcap).tanh() if self.softcap > 0 else found

    @torch.no_grad()
    def shares(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """For rows [n, hidden]: the distribution over the draft vocabulary, and the draft id of the likeliest token
        of all, -1: it cannot be drafted."""
        found, best = [], []
        for part in hidden.split(CHUNK):
            logits = self._logits(part, self.kept_head)
            wide = logits if logits.dtype == torch.float64 else logits.float()
            found.append(wide.softmax(-1).to(logits.dtype))
            best.append(self.to_draft[self._logits(part, self.head).argmax(-1)])
        return torch.cat(found), torch.cat(best)


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


class HeadLoss(torch.autograd.Function):
    """Mean cross entropy of the rows `at` of x [positions, hidden] against `shares` of the rows `of`; also how many of
    their likeliest drafts are `best`. The gradients are made on the way, so that no logits are kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, head: Tensor, shares: Tensor, at: Tensor, of: Tensor,
                best: Tensor) -> tuple[Tensor, Tensor]:
        count = max(1, len(at))
        narrow = shares.dtype
        weight = head.to(narrow)
        total = torch.zeros((), dtype=torch.float64 if narrow == torch.float64 else torch.float32, device=x.device)
        agreed = torch.zeros((), dtype=torch.int64, device=x.device)
        to_x, to_head = torch.zeros_like(x), torch.zeros_like(head) if ctx.needs_input_grad[1] else None
        for here, there, chosen in zip(at.split(CHUNK), of.split(CHUNK), best.split(CHUNK)):
            rows = x[here].to(narrow)
            logits = (rows @ weight.t()).to(total.dtype)
            wanted = shares[there]
            agreed += (logits.argmax(-1) == chosen).sum()
            total += logits.logsumexp(-1).sum() - (logits * wanted).sum()
            grown = ((logits.softmax(-1) - wanted) / count).to(narrow)
            to_x.index_copy_(0, here, (grown @ weight).to(x.dtype))
            if to_head is not None:
                to_head += grown.t() @ rows
        ctx.save_for_backward(to_x, to_head)
        ctx.mark_non_differentiable(agreed)
        return total / count, agreed

    @staticmethod
    def backward(ctx: Any, grown: Tensor, _agreed: Tensor) -> tuple[Any, ...]:
        to_x, to_head = ctx.saved_tensors
        return grown * to_x, None if to_head is None else grown * to_head, None, None, None, None


def places(batch: Batch, best: Tensor, depth: int) -> list[Tensor]:
    """For each depth the positions whose draft is compared: the drafted token is in the answer of the same text, and
    the target's choice can be drafted."""
    found = []
    for k in range(1, depth + 1):
        fits = (ahead(batch.text, k + 1, -2) == batch.text) & ahead(batch.answer, k + 1, False)
        fits &= (batch.text >= 0) & (ahead(best, k, -1) >= 0)
        found.append(fits.flatten().nonzero()[:, 0])
    return found


class Chain(Protocol):
    """A network that drafts token by token."""

    def step(self, depth: int, feature: Tensor, embedded: Tensor, cache: Cache,
             mask: Tensor) -> tuple[Tensor, Cache]:
        """Depth 1, 2, ... at all positions; `embedded`: the token `depth` places after each."""

    def norm(self, x: Tensor) -> Tensor:
        """A feature as the LM head reads it."""


def weighted(each: list[Tensor], right: list[Tensor]) -> Losses:
    """The mean over depths, of which each weighs less than the one before."""
    weights = [DECAY ** i for i in range(len(each))]
    loss = sum(w * s for w, s in zip(weights, each)) / sum(weights)
    return Losses(torch.as_tensor(loss), torch.stack(right))


def chain_losses(network: Chain, feature: Tensor, head: Tensor, batch: Batch, target: Target, depth: int) -> Losses:
    """Matrices are multiplied in the type of the target's matrices."""
    shares, best = target.shares(batch.hidden.flatten(0, 1))
    compared = places(batch, best.view(batch.ids.shape), depth)
    mask = text_mask(batch.text).to(target.kept_head.dtype)
    cache: Cache = []
    each, agreed = [], []
    for k, at in enumerate(compared, 1):
        embedded = F.embedding(ahead(batch.ids, k, 0), target.embedding)
        feature, cache = network.step(k, feature, embedded, cache, mask)
        normed = network.norm(feature).flatten(0, 1)
        loss, right = HeadLoss.apply(normed, head, shares, at, at + k, best[at + k])
        each.append(loss)
        agreed.append(right / max(1, len(at)))
    return weighted(each, agreed)
