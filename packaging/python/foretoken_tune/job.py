"""The job that foretoken writes: sizes of the target and the drafter, files, length of the training."""

import json
from dataclasses import dataclass, field, fields


@dataclass
class Job:
    shards: list[str]  # files, in order
    target: str  # file of the target's embedding and LM head
    out: str  # folder of the drafter
    checkpoint: str  # file
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    context: int
    layers: list[int]  # of the target that the drafter reads, counted from 0; -1 is the embedding. MTP: none
    kind: str = "eagle3"
    eos: list[int] = field(default_factory=list)
    draft_vocabulary: int = 8192
    eps: float = 1e-5
    rope_theta: float = 10000.0
    steps: int = 1000
    rows: int = 4  # of a batch
    length: int = 512  # tokens of a row
    depth: int = 5
    rate: float = 3e-3  # of the matrices (Muon)
    head_rate: float = 1e-3  # of the LM head and the norms (AdamW)
    softcap: float = 0.0  # of the target's logits; 0: none
    seed: int = 0
    threads: int = 0  # 0: PyTorch's own number
    device: str = "auto"
    save_seconds: float = 60.0  # between checkpoints
    # For an MTP head:
    head: str = ""  # file of the one to continue
    gated: bool = False  # a gate beside each query
    frequencies: list[float] = field(default_factory=list)  # by which positions turn queries and keys
    config: dict[str, object] = field(default_factory=dict)  # to write
    # Of DFlash2:
    target_layers: int = 0
    drafter_layers: int = 3
    block: int = 8  # rows: the token before and the masks
    blocks: int = 64  # of a row of a batch
    window: int = 2048  # tokens of the past that a row sees
    taps: int = 2
    group: int = 16  # columns that share a coefficient
    rank: int = 64
    candidates: int = 16
    mask_token: int = -1  # -1: chosen by the texts

    @property
    def width(self) -> int:
        """Of the captured rows of the layers."""
        return len(self.layers) * self.hidden


def read_job(path: str) -> Job:
    with open(path, encoding="utf-8") as file:
        given = json.load(file)
    known = {one.name for one in fields(Job)}
    unknown = sorted(set(given) - known)
    if unknown:
        raise ValueError(f"{path}: unknown keys {', '.join(unknown)}")
    return Job(**given)
