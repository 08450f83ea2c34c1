#!/usr/bin/env python3
"""Writes tests/golden/import/: small matrices of foreign formats, and their values by the reference libraries.

    .venv/bin/python tools/make_import_golden.py

NAME.safetensors holds module `m` in the format, `expected` and, as metadata, `config` (config.json). `expected` is
float32, stored in 16 bits where these hold each value exactly. The references are compressed-tensors (packed
integers, NVFP4, MXFP4, MXFP8), torch (FP8), the gguf package (blocks.gguf). GPTQ, AutoAWQ and ModelOpt follow their
definition, (code - zero) * scale in float32; tools/check_import_golden.py compares them with the libraries.
"""
import json
import pathlib
import struct

import gguf
import numpy as np
import torch
from compressed_tensors.compressors.mx_utils import decompress_mx_scale
from compressed_tensors.compressors.nvfp4.helpers import pack_fp4_to_uint8, unpack_fp4_from_uint8
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32, unpack_from_int32
from compressed_tensors.quantization import QuantizationArgs
from compressed_tensors.quantization.lifecycle.forward import dequantize
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/import"
ROWS, COLS, GROUP = 32, 256, 64
rng = np.random.default_rng(9)


def shortest(values):
    """The same float32 values as bfloat16 or float16, if that changes none."""
    exact = (kind for kind in (torch.bfloat16, torch.float16) if torch.equal(values.to(kind).float(), values))
    return values.to(next(exact, torch.float32))


def save(name, tensors, quantisation, expected):
    config = {"model_type": "qwen3_5", "quantization_config": quantisation}
    made = {f"m.{leaf}": torch.as_tensor(part).contiguous() for leaf, part in tensors.items()}
    made["expected"] = shortest(torch.as_tensor(expected).float()).contiguous()
    save_file(made, str(OUT / f"{name}.safetensors"), {"config": json.dumps(config)})


def stream(codes, bits):
    """codes [.., n] -> int32 words along the last axis, dense, least significant bit first."""
    planes = np.unpackbits(codes[..., None].astype(np.uint8), axis=-1, count=bits, bitorder="little")
    packed = np.packbits(planes.reshape(*codes.shape[:-1], -1), axis=-1, bitorder="little")
    return packed.view("<i4")


def grid(bits, group=GROUP):
    codes = rng.integers(0, 2**bits, (ROWS, COLS)).astype(np.uint8)
    scales = (rng.random((ROWS, COLS // group)) * 0.02 + 0.001).astype(np.float16)
    zeros = rng.integers(1, 2**bits, (ROWS, COLS // group)).astype(np.uint8)
    return codes, scales, zeros


def decoded(codes, scales, zeros, groups):
    offsets = codes.astype(np.int32) - zeros.astype(np.int32)[:, groups]
    return offsets.astype(np.float32) * scales.astype(np.float32)[:, groups]


def gptq(name, bits, version="gptq", permuted=False, middle=False):
    codes, scales, zeros = grid(bits)
    if middle:
        zeros[:] = 2 ** (bits - 1)
    groups = np.arange(COLS) // GROUP
    if permuted:
        groups = rng.permutation(groups)
    stored = zeros if version == "gptq_v2" else ((zeros.astype(int) - 1) % 2**bits).astype(np.uint8)
    save(name, {"qweight": stream(codes, bits).T.copy(), "qzeros": stream(stored.T.copy(), bits),
                "scales": scales.T.copy(), "g_idx": groups.astype(np.int32)},
         {"quant_method": "gptq", "bits": bits, "group_size": GROUP, "checkpoint_format": version},
         decoded(codes, scales, zeros, groups))


def awq(name, version):
    codes, scales, zeros = grid(4)
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    groups = np.arange(COLS) // GROUP
    if version == "gemm":  # along out, nibble i holds column order[i]
        def pack(x):
            return stream(x.reshape(x.shape[0], -1, 8)[..., order].reshape(x.shape), 4)
        parts = {"qweight": pack(codes.T.copy()), "qzeros": pack(zeros.T.copy()), "scales": scales.T.copy()}
    else:  # gemv: along in; zeros and scales are padded to whole words
        padded = np.zeros((ROWS, 8), np.uint8)
        padded[:, :zeros.shape[1]] = zeros
        wide = np.zeros((ROWS, 8), np.float16)
        wide[:, :scales.shape[1]] = scales
        parts = {"qweight": stream(codes, 4), "qzeros": stream(padded, 4), "scales": wide}
    save(name, parts, {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": version},
         decoded(codes, scales, zeros, groups))


def packed(name, bits, symmetric, group=GROUP):
    half = 2 ** (bits - 1)
    codes = torch.as_tensor(rng.integers(-half, half, (ROWS, COLS)).astype(np.int8))
    scales = torch.as_tensor(rng.random((ROWS, COLS // group)) * 0.02 + 0.001).to(torch.bfloat16)
    strategy = {"strategy": "group", "group_size": group} if group < COLS else {"strategy": "channel"}
    args = QuantizationArgs(num_bits=bits, symmetric=symmetric, **strategy)
    parts = {"weight_packed": pack_to_int32(codes, bits), "weight_scale": scales,
             "weight_shape": torch.tensor([ROWS, COLS])}
    zeros = None
    if not symmetric:
        zeros = torch.as_tensor(rng.integers(-half, half, (ROWS, COLS // group)).astype(np.int8))
        parts["weight_zero_point"] = pack_to_int32(zeros, bits, packed_dim=0)
    again = unpack_from_int32(parts["weight_packed"], bits, torch.Size((ROWS, COLS)))
    expected = dequantize(again, scales.float(), zeros, args, dtype=torch.float32)
    save(name, parts, {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {
        "group_0": {"weights": {"num_bits": bits, "symmetric": symmetric}}}}, expected)


def fp8(name, scales, block):
    codes = torch.as_tensor(rng.standard_normal((ROWS, COLS)).astype(np.float32) * 60).to(torch.float8_e4m3fn)
    whole = scales
    for axis, side in ((0, ROWS), (1, COLS)):
        whole = whole.repeat_interleave(-(-side // whole.shape[axis]), dim=axis).narrow(axis, 0, side)
    leaf = "weight_scale_inv" if block else "weight_scale"
    config = {"quant_method": "fp8", **({"weight_block_size": [16, 128]} if block else {})}
    save(name, {"weight": codes, leaf: scales}, config, codes.float() * whole.float())


def fp4(name, method):
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    picked = values[torch.as_tensor(rng.integers(0, 8, (ROWS, COLS)))] * torch.as_tensor(
        rng.choice([-1.0, 1.0], (ROWS, COLS))).float()
    words = pack_fp4_to_uint8(picked)
    codes = unpack_fp4_from_uint8(words, ROWS, COLS, dtype=torch.float32)
    config = {"quant_method": "modelopt" if method == "modelopt" else "compressed-tensors"}
    if method == "mx":
        scales = torch.as_tensor(rng.integers(110, 130, (ROWS, COLS // 32)).astype(np.uint8))
        steps = torch.exp2(scales.float() - 127).repeat_interleave(32, dim=1)
        save(name, {"weight_packed": words, "weight_scale": scales}, config, codes * steps)
        return
    scales = torch.as_tensor(rng.random((ROWS, COLS // 16)) * 400 + 1).to(torch.float8_e4m3fn)
    if method == "modelopt":
        factor = torch.tensor(0.000173)
        steps = (scales.float() * factor).repeat_interleave(16, dim=1)
        parts = {"weight": words, "weight_scale": scales, "weight_scale_2": factor, "input_scale": torch.tensor(1.0)}
    else:
        factor = torch.tensor([5231.0 if method == "divides" else 4.0])
        steps = (scales.float() / factor).repeat_interleave(16, dim=1)
        parts = {"weight_packed": words, "weight_scale": scales, "weight_global_scale": factor}
    save(name, parts, config, codes * steps)


def mxfp8():
    codes = torch.as_tensor(rng.standard_normal((8, 64)).astype(np.float32) * 60).to(torch.float8_e4m3fn)
    scales = torch.as_tensor(rng.integers(110, 130, (8, 2)).astype(np.uint8))
    config = {"quant_method": "compressed-tensors", "format": "mxfp8-quantized"}
    save("fp8-mx", {"weight": codes, "weight_scale": scales}, config,
         codes.float() * decompress_mx_scale(scales).float().repeat_interleave(32, dim=1))


def gguf_blocks():
    """Random blocks of every type that is read, decoded by gguf-py: blocks.gguf and blocks.expected.bin."""
    kinds = gguf.GGMLQuantizationType
    types = [kinds.Q4_0, kinds.Q4_1, kinds.Q5_0, kinds.Q5_1, kinds.Q8_0, kinds.Q2_K, kinds.Q3_K, kinds.Q4_K, kinds.Q5_K,
             kinds.Q6_K, kinds.IQ4_NL, kinds.MXFP4, kinds.F16, kinds.BF16, kinds.F32]
    halves = {kinds.Q4_0: [0], kinds.Q4_1: [0, 2], kinds.Q5_0: [0], kinds.Q5_1: [0, 2], kinds.Q8_0: [0],
              kinds.Q2_K: [80, 82], kinds.Q3_K: [108], kinds.Q4_K: [0, 2], kinds.Q5_K: [0, 2], kinds.Q6_K: [208],
              kinds.IQ4_NL: [0]}
    rng = np.random.default_rng(10)
    writer = gguf.GGUFWriter(str(OUT / "blocks.gguf"), "none")
    writer.add_string("text", "grüße")
    writer.add_array("list", ["a", "b"])
    writer.add_float32("real", 0.5)
    expected = b""
    for kind in types:
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        count = 4 * 512 // elements
        if kind in halves or kind == kinds.MXFP4:
            blocks = rng.integers(0, 256, (count, size)).astype(np.uint8)
            for at in halves.get(kind, []):
                blocks[:, at:at + 2] = (rng.random(count) * 0.1 + 0.001).astype("<f2").view(np.uint8).reshape(-1, 2)
            if kind == kinds.MXFP4:
                blocks[:, 0] = rng.integers(100, 140, count)
        else:
            values = rng.standard_normal((4, 512)).astype(np.float32)
            blocks = gguf.quants.quantize(values, kind).view(np.uint8)
        raw = blocks.reshape(4, -1)
        writer.add_tensor(kind.name, raw, raw_dtype=kind)
        data = raw.view(np.float16) if kind == kinds.F16 else raw.view(np.float32) if kind == kinds.F32 else raw
        expected += gguf.quants.dequantize(data, kind).astype("<f4").tobytes()
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (OUT / "blocks.expected.bin").write_bytes(struct.pack("<I", len(types)) + expected)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for bits in (2, 3, 4, 8):
        gptq(f"gptq{bits}", bits)
    gptq("gptq4-v2", 4, version="gptq_v2")
    gptq("gptq4-middle", 4, middle=True)
    gptq("gptq4-permuted", 4, permuted=True)
    awq("awq-gemm", "gemm")
    awq("awq-gemv", "gemv")
    for bits in (2, 3, 4, 5, 6, 8):
        packed(f"packed{bits}", bits, True)
    packed("packed4-zeros", 4, False)
    packed("packed4-channel", 4, True, group=COLS)
    packed("packed4-group16", 4, True, group=16)
    fp8("fp8-block", torch.as_tensor(rng.random((2, 2)) * 0.01 + 0.001).to(torch.bfloat16), True)
    fp8("fp8-row", torch.as_tensor(rng.random((ROWS, 1)) * 0.01 + 0.001).float(), False)
    fp8("fp8-tensor", torch.tensor([[0.0123]]), False)
    fp8("fp8-powers", torch.exp2(-torch.as_tensor(rng.integers(1, 9, (2, 2))).float()), True)
    for method in ("divides", "folds", "modelopt", "mx"):
        fp4(f"fp4-{method}", method)
    gguf_blocks()
    mxfp8()
    print(sum(file.stat().st_size for file in OUT.iterdir()), "bytes in", OUT)


if __name__ == "__main__":
    main()
