#!/usr/bin/env python3
"""Writes tests/golden/quant/affine.safetensors: what MLX's own affine quantiser makes of a few hard rows.

Reference implementation: mlx.core.quantize and mlx.core.dequantize on the CPU device. The file is written by MLX
itself, so that the reader meets MLX's header layout too. Run with the reference environment:
    .venv/bin/python tools/make_quant_golden.py
Tensors: input.F32 / input.BF16 / input.F16 [rows, 128]; {dtype}.b{bits}.g{group}.weight / .scales / .biases; and
.values, the dequantised float32, for F32.
"""
import pathlib

import mlx.core as mx
import numpy as np

mx.set_default_device(mx.cpu)
COLS = 128
rng = np.random.default_rng(20)
rows = np.stack([
    rng.standard_normal(COLS),                          # ordinary
    -np.abs(rng.standard_normal(COLS)) - 0.1,           # all negative
    np.abs(rng.standard_normal(COLS)) + 3.0,            # all positive, far from zero
    np.full(COLS, 0.75),                                # constant
    np.zeros(COLS),                                     # zero groups
    rng.standard_normal(COLS) * 1e-9,                   # below the smallest scale
    np.where(np.arange(COLS) % 32 == 5, 40.0, rng.standard_normal(COLS)),  # one outlier a group
    np.concatenate([np.zeros(64), rng.standard_normal(64)]),
]).astype(np.float32)

tensors = {}
types = {"F32": mx.float32, "BF16": mx.bfloat16, "F16": mx.float16}
for label, dtype in types.items():
    w = mx.array(rows).astype(dtype)
    tensors[f"input.{label}"] = w
    for bits in (2, 3, 4, 5, 6, 8):
        for group in (32, 64, 128):
            q, scales, biases = mx.quantize(w, group_size=group, bits=bits)
            name = f"{label}.b{bits}.g{group}"
            tensors[f"{name}.weight"], tensors[f"{name}.scales"], tensors[f"{name}.biases"] = q, scales, biases
            if label == "F32":
                tensors[f"{name}.values"] = mx.dequantize(q, scales, biases, group_size=group, bits=bits)

out = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/quant/affine.safetensors"
made_by = f"tools/make_quant_golden.py with mlx {mx.__version__}"
mx.save_safetensors(str(out), tensors, {"format": "mlx", "made_by": made_by})
print(out, out.stat().st_size, "bytes")
