"""Parts that the networks of all drafters share."""

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .job import Job

if TYPE_CHECKING:
    from .data import Batch
    from .loss import Losses, Target

Cache = list[tuple[Tensor, Tensor]]
Turn = tuple[Tensor, Tensor]  # cosines and sines [positions, rotated columns]


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


def frequencies_of(head_dim: int, theta: float) -> list[float]:
    return [theta ** (-i / head_dim) for i in range(0, head_dim, 2)]


def turn_of(frequencies: list[float], positions: Tensor) -> Turn:
    """positions [...] gives two tables [..., 2 * frequencies]."""
    steps = torch.tensor(frequencies, device=positions.device, dtype=torch.float64)
    angles = positions.double()[..., None] * steps
    angles = torch.cat([angles, angles], -1)
    return angles.cos().float(), angles.sin().float()


def rotate(x: Tensor, turn: Turn) -> Tensor:
    """Turns the first columns of x [batch, heads, positions, head_dim]."""
    cos, sin = turn
    size = cos.shape[-1]
    turned, rest = x[..., :size], x[..., size:]
    first, second = turned.chunk(2, -1)
    turned = (turned * cos + torch.cat([-second, first], -1) * sin).to(x.dtype)
    return torch.cat([turned, rest], -1) if rest.shape[-1] else turned


def heads_of(x: Tensor, head_dim: int) -> Tensor:
    """[batch, positions, heads * head_dim] to [batch, heads, positions, head_dim]"""
    return x.view(x.shape[0], x.shape[1], -1, head_dim).transpose(1, 2)


def rows_of(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


def repeated(x: Tensor, heads: int) -> Tensor:
    """A key-value head for each query head."""
    return x.repeat_interleave(heads // x.shape[1], 1)


def softmax(scores: Tensor, dtype: torch.dtype) -> Tensor:
    return (scores if scores.dtype == torch.float64 else scores.float()).softmax(-1).to(dtype)


def attend_chain(q: Tensor, cache: Cache, mask: Tensor) -> Tensor:
    """Attention at one depth of drafting. `mask` [batch, 1, N, N] of the pairs of the first depth, which every depth
    sees; a later depth also sees its own chain, the later entries of the cache."""
    keys, values = cache[0]
    q = q * q.shape[-1] ** -0.5
    own = [(q * k).sum(-1, keepdim=True) for k, _ in cache[1:]]
    shares = softmax(torch.cat([q @ keys.transpose(-1, -2) + mask, *own], -1), q.dtype)
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


class Drafter(nn.Module):
    """A network with the methods that the training calls for every kind."""
    file = "model.safetensors"

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.job = job

    @property
    def depths(self) -> int:
        """The number of drafts whose acceptance is shown."""
        return self.job.depth

    def begin(self, kept: Tensor, lm_head: Tensor, rows: Tensor, hidden: Tensor) -> None:
        """Before the first step: ids of the draft vocabulary, the target's LM head, and captured rows of some
        tokens, which give scales."""
        raise NotImplementedError

    def losses(self, batch: "Batch", target: "Target", step: int) -> "Losses":
        raise NotImplementedError

    def matrices(self) -> list[nn.Parameter]:
        """The matrices that Muon trains."""
        raise NotImplementedError

    def config(self) -> dict[str, object]:
        raise NotImplementedError

    def tensors(self) -> dict[str, Tensor]:
        return {name: value.to(torch.bfloat16) if value.is_floating_point() else value
                for name, value in self.state_dict().items()}


def scales_of(hidden: Tensor) -> Tensor:
    """The root mean square of each column."""
    return hidden.pow(2).mean(0).sqrt()
