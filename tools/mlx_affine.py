"""MLX affine quantisation in numpy: codes, packing, and the way back.

Bit-equal with mlx.core.quantize (CPU reference path); check with `python tools/mlx_affine.py`, which compares with
MLX where it is installed and always checks the fixed vectors at the end of this file.
A row is a little-endian bit stream: element i occupies bits [i*bits, (i+1)*bits). Groups run along the last axis.
"""

import sys

import numpy as np

WIDTHS = (2, 3, 4, 5, 6, 8)
GROUPS = (32, 64, 128)


def to_bf16_bits(x):
    """float32 -> the upper 16 bits, rounded to nearest even (finite input)."""
    u = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16_bits(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def pack(codes, bits):
    """codes uint8 [.., n] -> uint32 [.., n*bits/32]"""
    stream = np.unpackbits(codes[..., None], axis=-1, count=bits, bitorder="little")
    stream = stream.reshape(*codes.shape[:-1], codes.shape[-1] * bits)
    return np.packbits(stream, axis=-1, bitorder="little").view("<u4")


def unpack(words, bits):
    """uint32 [.., m] -> codes uint8 [.., m*32/bits]"""
    stream = np.unpackbits(np.ascontiguousarray(words, "<u4").view(np.uint8), axis=-1, bitorder="little")
    stream = stream.reshape(*words.shape[:-1], words.shape[-1] * 32 // bits, bits)
    return np.packbits(stream, axis=-1, bitorder="little")[..., 0]


def quantise(weight, bits, group):
    """weight float32 [.., n] -> packed uint32 [.., n*bits/32], scales and biases float32 [.., n/group].

    The codes belong to the float32 scale and bias; the caller rounds both to the stored type afterwards, as MLX does.
    """
    if bits not in WIDTHS or group not in GROUPS or weight.shape[-1] % group:
        raise ValueError(f"cannot quantise shape {weight.shape} to {bits} bits in groups of {group}")
    f32 = np.float32
    w = np.ascontiguousarray(weight, f32).reshape(*weight.shape[:-1], -1, group)
    levels = f32(2**bits - 1)
    high, low = w.max(-1), w.min(-1)
    low_is_edge = np.abs(low) > np.abs(high)
    scale = np.maximum((high - low) / levels, f32(1e-7))
    scale = np.where(low_is_edge, scale, -scale)
    edge = np.where(low_is_edge, low, high)
    at_edge = np.rint(edge / scale)
    zero = at_edge == 0
    scale = np.where(zero, scale, edge / np.where(zero, f32(1), at_edge)).astype(f32)
    bias = np.where(zero, f32(0), edge).astype(f32)
    codes = np.clip(np.rint((w - bias[..., None]) / scale[..., None]), 0, levels).astype(np.uint8)
    return pack(codes.reshape(weight.shape), bits), scale, bias


def dequantise(words, scales, biases, bits, group):
    """All in float32: code * scale + bias, each operation rounded."""
    codes = unpack(words, bits).astype(np.float32)
    codes = codes.reshape(*codes.shape[:-1], -1, group)
    return (codes * scales[..., None] + biases[..., None]).reshape(*words.shape[:-1], -1)


# One group of 32 per width, from the MLX CPU backend: w[i] = 0.25 * q[i].
VECTORS = {
    2: ([3, 0, 1, 0] + [3, 2, 1, 0] * 7, "e4e4e4ec e4e4e4e4"),
    3: ([7, 0, 1, 0, 7, 6, 5, 4] + [3, 2, 1, 0, 7, 6, 5, 4] * 3, "ac688fb8 8fac688f 688fac68"),
    4: ([15, 0, 1, 8, 15, 6, 13, 4, 11, 2, 9, 0, 7, 14, 5, 12, 3, 10, 1, 8, 15, 6, 13, 4, 11, 2, 9, 0, 7, 14, 5, 12],
        "b2907ef0 3a18f6d4 b2907e5c 3a18f6d4"),
    5: ([31, 0, 17, 24, 31, 6, 13, 20, 27, 2, 9, 16, 23, 30, 5, 12,
         19, 26, 1, 8, 15, 22, 29, 4, 11, 18, 25, 0, 7, 14, 21, 28],
        "b203bbe0 87dba45c f8ac9e82 b4d8930b 1aa38f99"),
    6: ([63, 0, 17, 24, 31, 38, 45, 52, 59, 2, 9, 16, 23, 30, 37, 44,
         51, 58, 1, 8, 15, 22, 29, 36, 43, 50, 57, 0, 7, 14, 21, 28],
        "609eefc0 6f442d26 4da868bf 70dfe14c 63546e2a 8eac78fc"),
    8: ([255, 0, 17] + list(range(24, 221, 7)),
        "e7eeff00 cbd2d9e0 afb6bdc4 939aa1a8 777e858c 5b626970 3f464d54 232a3138"),
}


def check_vectors():
    for bits, (q, words) in VECTORS.items():
        packed, scale, bias = quantise(np.array(q, np.float32) * np.float32(0.25), bits, 32)
        got = " ".join(f"{w:08x}" for w in packed)
        assert got == words, (bits, got)
        assert scale == -0.25 and bias == 0.25 * (2**bits - 1), (bits, scale, bias)
        assert (unpack(packed, bits) == 2**bits - 1 - np.array(q)).all()


def check_against_mlx(trials=40):
    import mlx.core as mx

    mx.set_default_device(mx.cpu)
    rng = np.random.default_rng(1)
    for trial in range(trials):
        for bits in WIDTHS:
            for group in GROUPS:
                w = rng.standard_normal((5, 2 * group)).astype(np.float32) * np.float32(10.0 ** rng.integers(-6, 3))
                if trial % 4 == 1:
                    w = np.rint(w * 3) / 4  # ties, zeros
                if trial % 4 == 2:
                    w = np.abs(w) * rng.choice([-1, 1])
                if trial % 4 == 3:
                    w = from_bf16_bits(to_bf16_bits(w))
                    w[0] = 0
                w = w.astype(np.float32)
                source = mx.array(w).astype(mx.bfloat16) if trial % 4 == 3 else mx.array(w)
                theirs = mx.quantize(source, group_size=group, bits=bits)
                words, scales, biases = quantise(w, bits, group)
                assert (np.array(theirs[0]) == words).all(), (trial, bits, group)
                for mine, other in ((scales, theirs[1]), (biases, theirs[2])):
                    if trial % 4 == 3:
                        mine, other = to_bf16_bits(mine), np.array(other.view(mx.uint16))
                    else:
                        mine, other = mine.view(np.uint32), np.array(other).view(np.uint32)
                    # Minus zero and zero are the same bias.
                    assert (((mine == other) | ((mine | other) & (2 ** (8 * mine.itemsize - 1) - 1) == 0))).all()


if __name__ == "__main__":
    check_vectors()
    print("fixed vectors: equal")
    try:
        check_against_mlx()
        print("mlx.core.quantize: bit-equal")
    except ImportError:
        print("mlx is not installed: compared with the fixed vectors only", file=sys.stderr)
