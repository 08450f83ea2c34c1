#!/usr/bin/env python3
"""Writes tests/golden/quant/affine.safetensors and blocks.safetensors: hard rows, quantised by MLX's own quantisers.

Reference implementation: mlx.core.quantize and mlx.core.dequantize on the CPU device. The file is written by MLX
itself, so that the reader meets MLX's header layout too. Run with the reference environment:
    .venv/bin/python tools/make_quant_golden.py
Tensors: input.F32 / input.BF16 / input.F16 [rows, 128]; {dtype}.b{bits}.g{group}.weight / .scales / .biases; and
.values, the dequantised float32, for F32. For mxfp4, mxfp8 and nvfp4: MODE.weight / .scales / .values of the same rows
(MODE) and of rows in which every code meets scale bytes of all sizes (MODE.all).
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

blocks = {}


def add(name, words, scales, mode):
    blocks[f"{name}.weight"], blocks[f"{name}.scales"] = words, scales
    # Float32 values that 16 bits hold exactly: a code and a scale have at most four significant bits each.
    values = mx.dequantize(words, scales, mode=mode, dtype=mx.float32)
    blocks[f"{name}.values"] = values.astype(mx.bfloat16)
    assert mx.array_equal(blocks[f"{name}.values"].astype(mx.float32), values)


# Scale bytes that give finite, normal products; every e4m3 code except the two NaN codes.
SCALES = {"mxfp4": range(1, 252), "mxfp8": range(10, 246, 16), "nvfp4": [*range(0x7F), *range(0x80, 0xFF)]}
for mode, chosen in SCALES.items():
    add(mode, *mx.quantize(mx.array(rows), mode=mode), mode)
    codes = np.arange(256, dtype=np.uint8)
    if mode == "mxfp8":
        codes[[0x7F, 0xFF]] = 0
    else:  # two groups' worth of every nibble
        codes = np.tile(np.array([0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE], np.uint8), 2)
    scales = np.array(chosen, np.uint8)[:, None]
    groups = 8 if mode == "mxfp8" else 1 if mode == "mxfp4" else 2
    words = np.tile(codes, (len(chosen), 1)).view(np.uint32)
    add(f"{mode}.all", mx.array(words), mx.array(np.tile(scales, (1, groups))), mode)

out = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/quant/affine.safetensors"
made_by = f"tools/make_quant_golden.py with mlx {mx.__version__}"
for path, made in ((out, tensors), (out.with_name("blocks.safetensors"), blocks)):
    mx.save_safetensors(str(path), made, {"format": "mlx", "made_by": made_by})
    print(path, path.stat().st_size, "bytes")
