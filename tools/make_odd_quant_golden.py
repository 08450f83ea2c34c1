#!/usr/bin/env python3
"""Writes tests/golden/quant/odd.safetensors: odd rows quantised by mx.quantize, in every format and source type.

Reference implementation: mlx.core.quantize on the CPU device (MLX 0.32.4 or newer). Rows: ordinary, ties, zeros of both
signs, denormals, huge ranges, largest numbers, infinities, NaN. Run: .venv/bin/python tools/make_odd_quant_golden.py
Tensors: input.T [rows, 128]; T.affine.BITS.GROUP.{weight,scales,biases}; T.MODE.{weight,scales}; T is F32, BF16 or F16.
"""
import pathlib

import mlx.core as mx
import numpy as np

mx.set_default_device(mx.cpu)
COLS = 128
rng = np.random.default_rng(4)


def rows_of(low, high):
    """low, high: exponents of the smallest and the largest number of the type."""
    normal = rng.standard_normal
    ladder = (normal((4, COLS)) * 2.0 ** rng.integers(low, high - 2, (4, COLS))).astype(np.float32)
    odd = np.zeros((12, COLS), np.float32)
    odd[0] = np.rint(normal(COLS) * 4) / 4
    odd[1] = np.rint(normal(COLS) * 8) / 4
    odd[2] = -0.0
    odd[3, ::7] = 2.0**low
    odd[4] = normal(COLS) * 2.0 ** (low + 4)
    odd[5] = 2.0 ** (high - 1) * np.sign(normal(COLS))
    odd[6] = normal(COLS) * 2.0 ** (high - 4)
    odd[7] = normal(COLS)
    odd[7, 5], odd[7, 64], odd[7, 9] = np.inf, -np.inf, 0
    odd[8] = normal(COLS)
    odd[8, 100] = np.nan
    odd[9] = np.arange(COLS) - 64
    odd[10] = 6 * 2.0 ** (np.arange(COLS) // 16)
    odd[11] = 448 * 2.0 ** -(np.arange(COLS) // 32)
    return np.concatenate([normal((2, COLS)).astype(np.float32) * np.float32(0.02), ladder, odd])


tensors = {}
for label, dtype, low, high in (("F32", mx.float32, -149, 127), ("BF16", mx.bfloat16, -133, 127),
                                ("F16", mx.float16, -24, 15)):
    w = mx.array(rows_of(low, high)).astype(dtype)
    tensors[f"input.{label}"] = w
    for bits in (2, 3, 4, 5, 6, 8):
        for group in (32, 64, 128):
            parts = mx.quantize(w, group_size=group, bits=bits)
            for leaf, part in zip(("weight", "scales", "biases"), parts):
                tensors[f"{label}.affine.{bits}.{group}.{leaf}"] = part
    for mode in ("mxfp4", "mxfp8", "nvfp4"):
        for leaf, part in zip(("weight", "scales"), mx.quantize(w, mode=mode)):
            tensors[f"{label}.{mode}.{leaf}"] = part

out = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/quant/odd.safetensors"
mx.save_safetensors(str(out), tensors, {"format": "mlx",
                                        "made_by": f"tools/make_odd_quant_golden.py with mlx {mx.__version__}"})
print(out, out.stat().st_size, "bytes")
