"""Muon: momentum whose matrix is made orthogonal. Source: Jordan 2024, "Muon: an optimizer for hidden layers"; the
scale of an update is that of AdamW (Liu et al. 2025, arXiv 2502.16982)."""

from typing import Any, Iterable

import torch
from torch import Tensor

STEPS = 5
A, B, C = 3.4445, -4.7750, 2.0315  # of the quintic iteration


def orthogonal(matrix: Tensor) -> Tensor:
    """A matrix near the orthogonal one that is nearest: all its singular values are near 1."""
    x = matrix.bfloat16() if matrix.is_cuda else matrix
    if matrix.shape[0] > matrix.shape[1]:
        x = x.t()
    x = x / (x.norm() + 1e-7)
    for _ in range(STEPS):
        square = x @ x.t()
        x = A * x + (B * square + C * square @ square) @ x
    if matrix.shape[0] > matrix.shape[1]:
        x = x.t()
    return x.to(matrix.dtype)


class Muon(torch.optim.Optimizer):
    def __init__(self, matrices: Iterable[Tensor], lr: float, momentum: float = 0.95) -> None:
        super().__init__(list(matrices), {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(weight)
                state["momentum"].lerp_(weight.grad, 1 - group["momentum"])
                update = orthogonal(weight.grad.lerp(state["momentum"], group["momentum"]))
                weight.add_(update, alpha=-group["lr"] * 0.2 * max(weight.shape) ** 0.5)
