"""Batches of random texts, to measure and to test."""

import torch

from .data import Batch
from .job import Job
from .loss import Target


def random_batch(job: Job, device: torch.device, dtype: torch.dtype = torch.float16) -> Batch:
    size = (job.rows, job.length)
    ids = torch.randint(job.vocabulary, size, device=device)
    text = torch.zeros(size, dtype=torch.int64, device=device)
    text[:, job.length // 2:] = 1
    answer = torch.ones(size, dtype=torch.bool, device=device)
    rows = torch.randn(*size, job.width, device=device).to(dtype)
    return Batch(ids, text, answer, rows, torch.randn(*size, job.hidden, device=device).to(dtype))


def random_target(job: Job, device: torch.device, dtype: torch.dtype) -> Target:
    table = torch.randn(job.vocabulary, job.hidden, device=device).to(dtype)
    return Target(table, table, torch.arange(job.draft_vocabulary, device=device), job.softcap)
