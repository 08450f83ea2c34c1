"""Batches of random texts, to measure and to test."""

import torch

from .data import Batch
from .job import Job


def random_batch(job: Job, device: torch.device, top: int = 8, dtype: torch.dtype = torch.float16) -> Batch:
    size = (job.rows, job.length)
    ids = torch.randint(job.draft_vocabulary, size, device=device)
    top_ids = torch.randint(job.draft_vocabulary, (*size, top), device=device)
    text = torch.zeros(size, dtype=torch.int64, device=device)
    text[:, job.length // 2:] = 1
    answer = torch.ones(size, dtype=torch.bool, device=device)
    hidden = torch.randn(*size, job.width, device=device, dtype=torch.float32).to(dtype)
    logprobs = torch.randn(*size, top, device=device).log_softmax(-1).to(dtype)
    return Batch(ids, text, answer, hidden, top_ids, logprobs)
