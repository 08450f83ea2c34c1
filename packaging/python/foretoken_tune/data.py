"""Batches from shards: texts are cut into pieces, packed into rows of one length, and shuffled by a fixed seed."""

import random
from dataclasses import dataclass
from typing import Iterator

import torch

from . import tensors
from .job import Job


@dataclass
class Piece:
    """Tokens [first, first + tokens) of a shard."""
    shard: int
    first: int
    tokens: int
    prompt: int  # tokens of it that belong to a prompt


@dataclass
class Batch:
    """Rows of packed texts. `text` [rows, length] numbers the texts of a row, -1 after the last."""
    ids: torch.Tensor  # [rows, length]
    text: torch.Tensor
    answer: torch.Tensor  # [rows, length] bool
    rows: torch.Tensor  # [rows, length, width] of the target's layers
    hidden: torch.Tensor  # [rows, length, hidden] that the target's LM head reads


PARTS = ("tokens", "rows", "hidden")
SPARE = 0.5  # of a card's free memory, for the training itself


class Dataset:
    """Shards stay in their files, or are copied to a card that has room for them."""

    def __init__(self, job: Job, device: torch.device = torch.device("cpu")) -> None:
        self.job, self.device = job, device
        self.shards = [tensors.read(path).tensors for path in job.shards]
        for path, shard in zip(job.shards, self.shards):
            for name, width in (("rows", job.width), ("hidden", job.hidden)):
                if shard[name].shape[1] != width:
                    raise ValueError(f"{path}: its {name} have {shard[name].shape[1]} values, not {width}")
        self.pieces = list(self._cut())
        self.tokens = sum(piece.tokens for piece in self.pieces)
        self.first = [0]  # token of each shard
        for shard in self.shards:
            self.first.append(self.first[-1] + len(shard["tokens"]))
        self.on_card = self._copy()

    def _copy(self) -> dict[str, torch.Tensor]:
        if self.device.type != "cuda" or not self.shards:
            return {}
        each = sum(self.shards[0][name][:1].numel() * self.shards[0][name].element_size() for name in PARTS)
        if each * self.first[-1] > SPARE * torch.cuda.mem_get_info(self.device)[0]:
            return {}
        found = {}
        for name in PARTS:
            one = self.shards[0][name]
            whole = torch.empty((self.first[-1], *one.shape[1:]), dtype=one.dtype, device=self.device)
            for shard, at in zip(self.shards, self.first):
                whole[at:at + len(shard[name])].copy_(shard[name])
            found[name] = whole
        return found

    def _cut(self) -> Iterator[Piece]:
        for number, shard in enumerate(self.shards):
            at = 0
            for tokens, prompt in shard["documents"].tolist():
                for first in range(0, tokens, self.job.length):
                    size = min(self.job.length, tokens - first)
                    left = min(max(prompt - first, 0), size)
                    if left < size - 2:  # something to draft
                        yield Piece(number, at + first, size, left)
                at += tokens

    def token_counts(self) -> torch.Tensor:
        """[vocabulary] how often each token is in the texts."""
        counts = torch.zeros(self.job.vocabulary, dtype=torch.int64)
        for shard in self.shards:
            counts += torch.bincount(shard["tokens"].long(), minlength=self.job.vocabulary)
        return counts

    def answer_counts(self) -> torch.Tensor:
        """[vocabulary] how often each token is in the answers."""
        counts = torch.zeros(self.job.vocabulary, dtype=torch.int64)
        for piece in self.pieces:
            ids = self.shards[piece.shard]["tokens"][piece.first + piece.prompt:piece.first + piece.tokens]
            counts += torch.bincount(ids.long(), minlength=self.job.vocabulary)
        return counts

    def rows_of_epoch(self, epoch: int) -> list[list[int]]:
        """Numbers of pieces, packed into rows."""
        order = list(range(len(self.pieces)))
        shuffled = random.Random(self.job.seed * 1_000_003 + epoch)
        shuffled.shuffle(order)
        rows: list[list[int]] = []
        open_rows: list[tuple[list[int], int]] = []
        for number in order:
            size = self.pieces[number].tokens
            for i, (row, room) in enumerate(open_rows):
                if room >= size:
                    row.append(number)
                    open_rows[i] = (row, room - size)
                    break
            else:
                row = [number]
                rows.append(row)
                open_rows.append((row, self.job.length - size))
                if len(open_rows) > 64:
                    open_rows.pop(0)
        shuffled.shuffle(rows)
        return rows

    def batch(self, rows: list[list[int]]) -> Batch:
        """On the device."""
        size = (len(rows), self.job.length)
        place = torch.zeros(size, dtype=torch.int64)  # of each token among all
        text = torch.full(size, -1)
        answer = torch.zeros(size, dtype=torch.bool)
        for row, numbers in enumerate(rows):
            at = 0
            for number in numbers:
                piece = self.pieces[number]
                first, end = self.first[piece.shard] + piece.first, at + piece.tokens
                place[row, at:end] = torch.arange(first, first + piece.tokens)
                text[row, at:end] = number
                answer[row, at + piece.prompt:end] = True
                at = end
        place, text, answer = place.to(self.device), text.to(self.device), answer.to(self.device)
        if self.on_card:
            ids, width, hidden = (self.on_card[name][place] for name in PARTS)
            return Batch(ids.long(), text, answer, width, hidden)
        ids, width, hidden = (self._gathered(name, rows).to(self.device) for name in PARTS)
        return Batch(ids.long(), text, answer, width, hidden)

    def _gathered(self, name: str, rows: list[list[int]]) -> torch.Tensor:
        """A part of the shards for the tokens of a batch, read from the files."""
        one = self.shards[0][name]
        out = torch.zeros((len(rows), self.job.length, *one.shape[1:]), dtype=one.dtype)
        for row, numbers in enumerate(rows):
            at = 0
            for piece in (self.pieces[number] for number in numbers):
                out[row, at:at + piece.tokens] = self.shards[piece.shard][name][piece.first:piece.first + piece.tokens]
                at += piece.tokens
        return out

    def batches(self, first_step: int) -> Iterator[Batch]:
        """From a step on, without an end: the batches of a run that was never stopped."""
        step, epoch = 0, 0
        while True:
            rows = self.rows_of_epoch(epoch)
            for at in range(0, len(rows), self.job.rows):
                if step >= first_step:
                    yield self.batch(rows[at:at + self.job.rows])
                step += 1
            epoch += 1


def draft_vocabulary(counts: torch.Tensor, size: int, always: list[int]) -> torch.Tensor:
    """The most frequent ids, those of `always` among them, ascending. Equal counts: the lower id first."""
    size = min(size, len(counts))
    ranked = counts.clone()
    ranked[torch.tensor(always, dtype=torch.int64)] = counts.max() + 1
    return torch.argsort(ranked, descending=True, stable=True)[:size].sort().values


def coverage(counts: torch.Tensor, kept: torch.Tensor) -> float:
    total = int(counts.sum())
    return float(counts[kept].sum()) / total if total else 0.0
