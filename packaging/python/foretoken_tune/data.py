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
    hidden: torch.Tensor  # [rows, length, width]
    top_ids: torch.Tensor  # [rows, length, top] successors, -1: none
    top_logprobs: torch.Tensor


class Dataset:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.shards = [tensors.read(path).tensors for path in job.shards]
        for path, shard in zip(job.shards, self.shards):
            if shard["rows"].shape[1] != job.width:
                raise ValueError(f"{path}: its rows have {shard['rows'].shape[1]} values, not {job.width}")
        self.pieces = list(self._cut())
        self.tokens = sum(piece.tokens for piece in self.pieces)
        self.top = self.shards[0]["top_ids"].shape[1] if self.shards else 0

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
        size = (len(rows), self.job.length)
        ids = torch.zeros(size, dtype=torch.int64)
        text = torch.full(size, -1)
        answer = torch.zeros(size, dtype=torch.bool)
        hidden = torch.zeros(*size, self.job.width, dtype=torch.float16)
        top_ids = torch.full((*size, self.top), -1)
        top_logprobs = torch.zeros(*size, self.top, dtype=torch.float16)
        for row, numbers in enumerate(rows):
            at = 0
            for number in numbers:
                piece = self.pieces[number]
                shard, here = self.shards[piece.shard], slice(piece.first, piece.first + piece.tokens)
                there = slice(at, at + piece.tokens)
                ids[row, there] = shard["tokens"][here].long()
                text[row, there] = number
                answer[row, at + piece.prompt:at + piece.tokens] = True
                hidden[row, there] = shard["rows"][here]
                top_ids[row, there] = shard["top_ids"][here].long()
                top_logprobs[row, there] = shard["top_logprobs"][here]
                at += piece.tokens
        return Batch(ids, text, answer, hidden, top_ids, top_logprobs)

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
