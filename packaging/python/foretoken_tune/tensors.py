"""safetensors files: the shards and the target's matrices in, the drafter out."""

import ctypes
import json
import mmap
import os
import struct
from typing import NamedTuple

import torch

TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64, "I32": torch.int32,
         "U64": torch.int64, "BOOL": torch.bool, "U8": torch.uint8}
NAMES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64", torch.int32: "I32",
         torch.bool: "BOOL", torch.uint8: "U8"}


class File(NamedTuple):
    tensors: dict[str, torch.Tensor]
    metadata: dict[str, str]


def read(path: str) -> File:
    """Maps the file: a tensor is read from the disk where it is used."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        (length,) = struct.unpack("<Q", file.read(8))
        if length > size - 8:
            raise ValueError(f"{path}: it is torn")
        header = json.loads(file.read(length))
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        dtype = TYPES[entry["dtype"]]
        begin, end = entry["data_offsets"]
        if 8 + length + end > size:
            raise ValueError(f"{path}: it is torn")
        count = (end - begin) // dtype.itemsize
        flat = (torch.frombuffer(mapped, dtype=dtype, count=count, offset=8 + length + begin)
                if count else torch.empty(0, dtype=dtype))
        tensors[name] = flat.view(entry["shape"])
    return File(tensors, metadata)


def write(path: str, tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
    """The file is whole or absent."""
    header: dict[str, object] = {"__metadata__": metadata}
    at = 0
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0]))
    for name, tensor in ordered:
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    part = path + ".part"
    with open(part, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, tensor in ordered:
            flat = tensor.detach().cpu().contiguous()
            file.write(ctypes.string_at(flat.data_ptr(), flat.numel() * flat.element_size()))
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)

