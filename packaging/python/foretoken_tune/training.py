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
from .data import Batch, Dataset, coverage, draft_vocabulary
from .dflash2 import Dflash2, unused_token
from .eagle3 import Eagle3
from .job import Job
from .layers import Drafter
from .loss import Losses, Target
from .mtp import Mtp
from .muon import Muon

KINDS: dict[str, type[Drafter]] = {"eagle3": Eagle3, "mtp": Mtp, "dflash2": Dflash2}
WARM_UP = 0.02  # share of the steps
FALL = 0.6  # share of the steps in which the rates fall
LEAST_RATE = 0.02  # of the rates, at the end
SMOOTH = 0.95  # of the figures that are shown
MEASURED_STEPS = 6


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
    """A factor of the rates: it rises, stays, and falls in a straight line."""
    rise = (step + 1) / max(1, int(job.steps * WARM_UP))
    fall = (1 - step / max(1, job.steps)) / FALL
    return min(1.0, rise) * max(LEAST_RATE, min(1.0, fall))


def begin_torch(job: Job) -> torch.device:
    if job.threads > 0:
        torch.set_num_threads(job.threads)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # or sums of products differ between runs
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cuda.enable_cudnn_sdp(False)  # its attention is not deterministic
    torch.manual_seed(job.seed)
    return choose_device(job)


def precision(device: torch.device) -> torch.dtype:
    """In which matrices are multiplied."""
    return torch.bfloat16 if device.type == "cuda" else torch.float32


def make_network(job: Job) -> Drafter:
    if job.kind not in KINDS:
        raise ValueError(f"kind {job.kind!r}: expected one of {', '.join(KINDS)}")
    return KINDS[job.kind](job)


class Learner:
    """A network with its optimisers."""

    def __init__(self, job: Job, network: Drafter, target: Target) -> None:
        self.job, self.network, self.target = job, network, target
        matrices = network.matrices()
        others = [weight for weight in network.parameters() if all(weight is not one for one in matrices)]
        self.device = target.embedding.device
        self.rates = (job.rate, job.head_rate)
        self.optimizers = (Muon(matrices, job.rate),
                           torch.optim.AdamW(others, lr=job.head_rate, betas=(0.9, 0.95), weight_decay=0.0))

    def learn(self, batch: Batch, step: int) -> Losses:
        for optimizer, rate in zip(self.optimizers, self.rates):
            for group in optimizer.param_groups:
                group["lr"] = rate * rate_at(self.job, step)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=precision(self.device) == torch.bfloat16):
            found = self.network.losses(batch, self.target, step)
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        found.loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
        return Losses(found.loss.detach(), found.agreed)


class Training:
    def __init__(self, job: Job) -> None:
        self.job, self.device = job, begin_torch(job)
        self.data = Dataset(job, self.device)
        if not self.data.pieces:
            raise ValueError("the shards hold no answer to learn from")
        target = tensors.read(job.target).tensors
        counts = self.data.answer_counts()
        job.draft_vocabulary = min(job.draft_vocabulary, job.vocabulary)
        kept = draft_vocabulary(counts, job.draft_vocabulary, job.eos)
        self.covered = coverage(counts, kept)
        if job.kind == "dflash2" and job.mask_token < 0:
            job.mask_token = unused_token(self.data.token_counts(), target["embedding"])
        network = make_network(job)
        some = self.data.batch(self.data.rows_of_epoch(0)[:1])
        real = some.text >= 0
        head = target.get("lm_head", target["embedding"])
        network.begin(kept, head.float(), some.rows[real].float().cpu(), some.hidden[real].float().cpu())
        dtype = precision(self.device)
        self.network = network.to(self.device)
        self.learner = Learner(job, self.network, Target(target["embedding"].to(self.device, dtype),
                                                         head.to(self.device, dtype), kept.to(self.device),
                                                         job.softcap))
        self.step = 0
        self.loss: Optional[torch.Tensor] = None  # smoothed, as are the shares of drafts that are right
        self.agreed = torch.zeros(network.depths)
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
        for optimizer, stored in zip(self.learner.optimizers, state["optimizers"]):
            optimizer.load_state_dict(stored)
        self.step, self.loss, self.agreed = state["step"], state["loss"], state["agreed"]

    def save(self) -> None:
        part = f"{self.job.checkpoint}.part-{os.getpid()}"
        torch.save({"network": self.network.state_dict(), "step": self.step, "loss": self.loss, "agreed": self.agreed,
                    "optimizers": [one.state_dict() for one in self.learner.optimizers]}, part)
        with open(part, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(part, self.job.checkpoint)

    def _smooth(self, found: Losses) -> None:
        if self.loss is None:
            self.loss, self.agreed = found
        self.loss = SMOOTH * self.loss + (1 - SMOOTH) * found.loss
        self.agreed = SMOOTH * self.agreed + (1 - SMOOTH) * found.agreed

    def report(self, phase: str, **more: object) -> None:
        loss = None if self.loss is None else float(self.loss)
        if loss is not None and loss != loss:
            raise ValueError(f"the loss is not a number after {self.step} steps")
        say(phase=phase, step=self.step, steps=self.job.steps, loss=loss, accepted=self.agreed.tolist(), **more)

    def run(self, stopped: Callable[[], bool], left_alone: Callable[[], bool]) -> bool:
        """True at the end of the last step. A training whose foretoken was killed ends: another one may have begun."""
        self.report("training", device=str(self.device), covered=self.covered, tokens=self.data.tokens)
        said = saved = time.monotonic()
        for batch in self.data.batches(self.step):
            if self.step >= self.job.steps:
                break
            if left_alone():
                sys.exit(1)
            if stopped():
                self.save()
                return False
            self._smooth(self.learner.learn(batch, self.step))
            self.step += 1
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
        tensors.write(os.path.join(self.job.out, self.network.file), self.network.tensors(), {"format": "pt"})
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
    training, parent = Training(job), os.getppid()
    if not training.run(lambda: asked_to_stop, lambda: os.getppid() != parent):
        training.report("stopped")
        return 1
    training.export()
    training.report("done", covered=training.covered)
    return 0


def measure(job: Job) -> int:
    """Trains a few steps on random rows, without shards, and says how fast that is."""
    device = begin_torch(job)
    from .random_data import random_batch, random_target  # only here
    job.draft_vocabulary, job.mask_token = min(job.draft_vocabulary, job.vocabulary), 0
    learner = Learner(job, make_network(job).to(device), random_target(job, device, precision(device)))
    took = []
    for step in range(MEASURED_STEPS if device.type == "cuda" else MEASURED_STEPS // 2):
        batch = random_batch(job, device)
        start = time.monotonic()
        float(learner.learn(batch, step).loss)
        took.append(time.monotonic() - start)
    say(phase="measured", seconds_a_step=min(took[1:]), device=str(device), threads=torch.get_num_threads(),
        torch=torch.__version__)
    return 0
