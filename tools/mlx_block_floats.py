"""MLX's block floats in numpy: mxfp4, mxfp8 and nvfp4, codes and scales, and the way back.

The scales of mlx.core.quantize(mode=...) bit for bit, and its codes but for ties (to even here as on GPUs and in the
OCP specification, downwards in MLX's CPU path) and the sign of zeros. Check with `python tools/mlx_block_floats.py`,
which compares with MLX where it is installed and always checks the fixed vectors at the end of this file.
Codes are packed as in mlx_affine.py; a group has one scale of a byte and no bias.
"""

import sys

import numpy as np

import mlx_affine

# bits, group, largest code, scales are powers of two (e8m0) or e4m3
MODES = {"mxfp4": (4, 32, 6.0, True), "mxfp8": (8, 32, 448.0, True), "nvfp4": (4, 16, 6.0, False)}

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
E2M1 = np.concatenate([E2M1, -E2M1])


def e4m3_table():
    code = np.arange(256)
    exponent, mantissa = (code >> 3) & 15, code & 7
    value = np.where(exponent == 0, mantissa / 512, (8 + mantissa) * 2.0 ** (exponent - 10))
    return np.where(code >= 128, -value, value).astype(np.float32)


E4M3 = e4m3_table()  # 0x7F and 0xFF, NaN by definition, as +-480: no encoder writes them


def nearest(values, magnitudes, sign_bit):
    """Codes of the nearest magnitude, ties to the even code, saturated; zeros are +0."""
    size = np.abs(values)
    above = np.searchsorted(magnitudes, size).clip(1, len(magnitudes) - 1)
    low, high = magnitudes[above - 1].astype(np.float64), magnitudes[above].astype(np.float64)
    middle = (low + high) / 2
    code = np.where((size > middle) | ((size == middle) & (above % 2 == 0)), above, above - 1)
    return np.where((values < 0) & (code > 0), code | sign_bit, code).astype(np.uint8)


def decode_scales(scales, mode):
    if not MODES[mode][3]:
        return E4M3[scales]
    return np.ldexp(np.float32(1), scales.astype(np.int32) - 127).astype(np.float32)


def quantise(weight, mode):
    """weight float32 [.., n] -> packed uint32 [.., n*bits/32], scales uint8 [.., n/group]"""
    bits, group, largest, powers = MODES[mode]
    if weight.shape[-1] % group:
        raise ValueError(f"cannot quantise shape {weight.shape} to {mode}")
    w = np.ascontiguousarray(weight, np.float32).reshape(*weight.shape[:-1], -1, group)
    wanted = np.abs(w).max(-1) / np.float32(largest)
    if powers:
        with np.errstate(divide="ignore"):
            exponent = np.ceil(np.log2(np.where(wanted == 0, np.float32(1), wanted)))
        scales = (exponent + 127).clip(0, 254).astype(np.uint8)
    else:
        scales = nearest(wanted, E4M3[:127], 0)
    step = decode_scales(scales, mode)[..., None]
    ratio = w / np.where(step == 0, np.float32(1), step)
    codes = nearest(ratio, E4M3[:127] if bits == 8 else E2M1[:8], 128 if bits == 8 else 8)
    return mlx_affine.pack(codes.reshape(weight.shape), bits), scales


def dequantise(words, scales, mode):
    """code * scale in float32, exact but for numbers under 2^-126"""
    bits, group, _, _ = MODES[mode]
    codes = mlx_affine.unpack(words, bits)
    values = (E4M3 if bits == 8 else E2M1)[codes].reshape(*codes.shape[:-1], -1, group)
    return (values * decode_scales(scales, mode)[..., None]).reshape(codes.shape)


def as_near(wanted, a, b):
    """Whether both round every value to the same or, at a tie, to equally near ones."""
    wanted, a, b = (x.astype(np.float64) for x in (wanted, a, b))
    return ((a == b) | (np.abs(a - wanted) == np.abs(b - wanted))).all()


# 32 values, from the MLX CPU backend: words and scales.
INPUT = ([0, 1, 2, 3, 4, 6, 8, 12] + [0, -1, -2, -3, -4, -6, -8, -12]) * 2
VECTORS = {
    "mxfp4": ("76543210 fedcba90 76543210 fedcba90", "80"),
    "nvfp4": ("76543210 fedcba90 76543210 fedcba90", "40 40"),
    "mxfp8": ("6c686000 7c787470 ece8e000 fcf8f4f0 6c686000 7c787470 ece8e000 fcf8f4f0", "7a"),
}


def check_vectors():
    for mode, (words, scales) in VECTORS.items():
        packed, bytes_ = quantise(np.array(INPUT, np.float32), mode)
        assert " ".join(f"{w:08x}" for w in packed) == words, (mode, [hex(w) for w in packed])
        assert " ".join(f"{s:02x}" for s in bytes_) == scales, (mode, bytes_)
        assert (dequantise(packed, bytes_, mode) == np.array(INPUT)).all(), mode


def check_against_mlx(trials=200):
    import mlx.core as mx

    mx.set_default_device(mx.cpu)
    rng = np.random.default_rng(1)
    for trial in range(trials):
        for mode in MODES:
            w = rng.standard_normal((5, 256)).astype(np.float32) * np.float32(10.0 ** rng.integers(-3, 2))
            if trial % 3 == 1:
                w = np.rint(w * 4) / 4  # ties, zeros
            if trial % 3 == 2:
                w = mlx_affine.from_bf16_bits(mlx_affine.to_bf16_bits(w))
                w[0] = 0
            w = w.astype(np.float32)
            source = mx.array(w).astype(mx.bfloat16) if trial % 3 == 2 else mx.array(w)
            theirs = [np.array(part) for part in mx.quantize(source, mode=mode)]
            mine = quantise(w, mode)
            values = [np.array(mx.dequantize(*map(mx.array, pair), mode=mode, dtype=mx.float32))
                      for pair in (theirs, mine)]
            assert (theirs[1] == mine[1]).all(), (trial, mode)
            assert as_near(w, *values), (trial, mode)
            assert (dequantise(*mine, mode) == values[1]).all(), (trial, mode)


if __name__ == "__main__":
    check_vectors()
    print("fixed vectors: equal")
    try:
        check_against_mlx()
        print("mlx.core.quantize: the same scales, and values but for ties")
    except ImportError:
        print("mlx is not installed: compared with the fixed vectors only", file=sys.stderr)
