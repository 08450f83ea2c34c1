"""The training of one job: batches, optimiser, checkpoints, progress."""

import json
import os
import signal
import sys
import time
from types import FrameType
from typing import Callable, Optional

import torch

from . import tensors
from .data import Dataset, coverage, draft_vocabulary
from .eagle3 import Eagle3
from .job import Job
from .loss import draft_ids, losses

WARM_UP = 0.05  # share of the steps
LEAST_RATE = 0.02  # of the rate, at the end
SMOOTH = 0.95  # of the figures that are shown


def say(**fields: object) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def choose_device(job: Job) -> torch.device:
    if job.device != "auto":
        return torch.device(job.device)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("cpu")


def rate_at(job: Job, step: int) -> float:
    """Rises to the rate, then falls in a straight line."""
    warm_up = max(1, int(job.steps * WARM_UP))
    rise = min(1.0, (step + 1) / warm_up)
    fall = 1.0 - max(0, step - warm_up) / max(1, job.steps - warm_up)
    return job.rate * rise * max(LEAST_RATE, fall)


class Training:
    def __init__(self, job: Job) -> None:
        if job.threads > 0:
            torch.set_num_threads(job.threads)
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.manual_seed(job.seed)
        self.job, self.device = job, choose_device(job)
        self.data = Dataset(job)
        if not self.data.pieces:
            raise ValueError("the shards hold no answer to learn from")
        target = tensors.read(job.target).tensors
        counts = self.data.answer_counts()
        job.draft_vocabulary = min(job.draft_vocabulary, job.vocabulary)
        kept = draft_vocabulary(counts, job.draft_vocabulary, job.eos)
        self.covered = coverage(counts, kept)
        self.network = Eagle3(job)
        some = self.data.batch(self.data.rows_of_epoch(0)[:1])
        self.network.begin(kept, target.get("lm_head", target["embedding"]).float(),
                           some.hidden[some.text >= 0].float())
        self.network.to(self.device)
        self.embedding = target["embedding"].float().to(self.device)
        self.to_draft = draft_ids(self.network)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=job.rate, betas=(0.9, 0.95),
                                           weight_decay=0.0)
        self.step = 0
        self.loss: Optional[float] = None
        self.agreed: list[float] = []
        self._continue()

    def _continue(self) -> None:
        if not os.path.exists(self.job.checkpoint):
            return
        try:
            state = torch.load(self.job.checkpoint, map_location=self.device, weights_only=True)
        except (RuntimeError, EOFError, OSError, ValueError):  # torn by a crash: from the beginning
            os.remove(self.job.checkpoint)
            return
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.loss, self.agreed = state["step"], state["loss"], state["agreed"]

    def save(self) -> None:
        part = self.job.checkpoint + ".part"
        torch.save({"network": self.network.state_dict(), "optimizer": self.optimizer.state_dict(),
                    "step": self.step, "loss": self.loss, "agreed": self.agreed}, part)
        with open(part, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(part, self.job.checkpoint)

    def _learn(self, batch: object) -> tuple[float, list[float]]:
        for group in self.optimizer.param_groups:
            group["lr"] = rate_at(self.job, self.step)
        moved = type(batch)(**{name: value.to(self.device) for name, value in vars(batch).items()})
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            found = losses(self.network, moved, self.embedding, self.to_draft, self.job.depth)
        self.optimizer.zero_grad(set_to_none=True)
        found.loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        return float(found.loss.detach()), found.agreed.tolist()

    def _smooth(self, loss: float, agreed: list[float]) -> None:
        if loss != loss:
            raise ValueError(f"the loss is not a number after {self.step} steps")
        if self.loss is None:
            self.loss, self.agreed = loss, agreed
        self.loss = SMOOTH * self.loss + (1 - SMOOTH) * loss
        self.agreed = [SMOOTH * old + (1 - SMOOTH) * new for old, new in zip(self.agreed, agreed)]

    def report(self, phase: str, **more: object) -> None:
        say(phase=phase, step=self.step, steps=self.job.steps, loss=self.loss, accepted=self.agreed, **more)

    def run(self, stopped: Callable[[], bool]) -> bool:
        """True at the end of the last step."""
        self.report("training", device=str(self.device), covered=self.covered, tokens=self.data.tokens)
        said = saved = time.monotonic()
        for batch in self.data.batches(self.step):
            if self.step >= self.job.steps:
                break
            if stopped():
                self.save()
                return False
            self._smooth(*self._learn(batch))
            now = time.monotonic()
            if now - said >= 1:
                self.report("training")
                said = now
            if now - saved >= self.job.save_seconds:
                self.save()
                saved = now
        self.save()
        return True

    def export(self) -> None:
        os.makedirs(self.job.out, exist_ok=True)
        tensors.write(os.path.join(self.job.out, "model.safetensors"), self.network.tensors(), {"format": "pt"})
        path = os.path.join(self.job.out, "config.json")
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump(self.network.config(), file, indent=1)
            file.write("\n")
        os.replace(path + ".part", path)


def train(job: Job) -> int:
    asked_to_stop = False

    def stop(_number: int, _frame: Optional[FrameType]) -> None:
        nonlocal asked_to_stop
        asked_to_stop = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    training = Training(job)
    if not training.run(lambda: asked_to_stop):
        training.report("stopped")
        return 1
    training.export()
    training.report("done", covered=training.covered)
    return 0


def measure(job: Job) -> int:
    """Trains a few steps on random rows, without shards, and says how fast that is."""
    if job.threads > 0:
        torch.set_num_threads(job.threads)
    device = choose_device(job)
    from .random_data import random_batch  # only here
    job.draft_vocabulary = min(job.draft_vocabulary, job.vocabulary)
    network = Eagle3(job).to(device)
    embedding = torch.randn(job.vocabulary, job.hidden, device=device)
    to_draft = torch.arange(job.vocabulary, device=device)
    to_draft[job.draft_vocabulary:] = -1
    optimizer = torch.optim.AdamW(network.parameters())
    took = []
    for _ in range(3):
        batch = random_batch(job, device)
        start = time.monotonic()
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            found = losses(network, batch, embedding, to_draft, job.depth)
        optimizer.zero_grad(set_to_none=True)
        found.loss.backward()
        optimizer.step()
        float(found.loss.detach())
        took.append(time.monotonic() - start)
    say(phase="measured", seconds_a_step=min(took[1:]), device=str(device), threads=torch.get_num_threads(),
        torch=torch.__version__)
    return 0
