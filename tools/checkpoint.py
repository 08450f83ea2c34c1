"""safetensors files and model folders in numpy: read, write, and bring to one naming.

`read_folder` returns float32 tensors under the Hugging Face text names (`model.layers.0...`, `lm_head.weight`,
`mtp...`), with raw norms and convolutions as transformers wants them, from a Hugging Face folder or an MLX one
(quantised or not, sidecar MTP head or not).
"""

import json
import pathlib
import re
import struct

import numpy as np

import mlx_affine
import mlx_block_floats

STORED = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2"), "U32": np.dtype("<u4"),
          "U8": np.dtype("u1"), "BOOL": np.dtype("u1"), "I64": np.dtype("<i8")}
# Norms that store w for 1 + w; MLX stores the sum. The gated norm of the linear layers is not one of them.
SHIFTED = re.compile(
    r"(^|\.)(input_layernorm|post_attention_layernorm|q_norm|k_norm|pre_fc_norm_embedding|pre_fc_norm_hidden)\.weight$"
    r"|^(model|mtp)\.norm\.weight$")


def read_file(path):
    """-> {name: (dtype name, array)}, metadata. BF16 arrays hold the raw 16 bits."""
    blob = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack_from("<Q", blob)
    header = json.loads(blob[8:8 + length])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        data = np.frombuffer(blob, np.uint8, end - begin, 8 + length + begin)
        tensors[name] = (entry["dtype"], data.view(STORED[entry["dtype"]]).reshape(entry["shape"]))
    return tensors, metadata


def write_file(path, tensors, metadata):
    """tensors: {name: (dtype name, array in the stored type)}; names sorted, data 8-byte aligned."""
    header, offset, parts = {"__metadata__": metadata}, 0, []
    for name, (dtype, array) in sorted(tensors.items()):
        data = np.ascontiguousarray(array, STORED[dtype]).tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
        parts.append(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(b"".join([struct.pack("<Q", len(text)), text, *parts]))


def to_float(dtype, array):
    return mlx_affine.from_bf16_bits(array) if dtype == "BF16" else array.astype(np.float32)


def from_float(array, dtype):
    """float32 -> (dtype name, array in the stored type)"""
    if dtype == "BF16":
        return dtype, mlx_affine.to_bf16_bits(array)
    return dtype, array.astype(STORED[dtype])


def canonical_name(name):
    """Every prefix in use -> the names of Qwen3_5ForCausalLM, and `mtp.` for the MTP head."""
    name = re.sub(r"^(model\.language_model\.|language_model\.model\.)", "model.", name)
    return re.sub(r"^language_model\.", "", name)


def read_raw(folder):
    """-> {stored name: (dtype name, array)}, metadata of the first file, config"""
    folder = pathlib.Path(folder)
    config = json.loads((folder / "config.json").read_text())
    index = folder / "model.safetensors.index.json"
    files = ["model.safetensors"]
    if index.exists():
        files = sorted(set(json.loads(index.read_text())["weight_map"].values()))
    if (folder / "mtp.safetensors").exists():
        files.append("mtp.safetensors")
    tensors, metadata = {}, None
    for file in files:
        more, meta = read_file(folder / file)
        metadata = metadata or meta
        tensors |= more
    return tensors, metadata, config


def dequantise(words, stored, module, rule):
    """rule: the entry of the module in the config"""
    scales = stored[module + ".scales"]
    bits, group, mode = rule["bits"], rule["group_size"], rule.get("mode", "affine")
    if words.shape[-1] * 32 // bits != scales[1].shape[-1] * group:
        raise ValueError(f"{module}: {bits} bits in groups of {group} do not fit {words.shape}, {scales[1].shape}")
    if mode != "affine":
        return mlx_block_floats.dequantise(words, scales[1], mode)
    return mlx_affine.dequantise(words, to_float(*scales), to_float(*stored[module + ".biases"]), bits, group)


def read_folder(folder):
    """-> {canonical name: float32 array}, text config (dict)"""
    stored, metadata, config = read_raw(folder)
    text_config = config.get("text_config", config)
    is_mlx = metadata.get("format") == "mlx"
    quantisation = config.get("quantization", {})
    tensors = {}
    for name, (dtype, array) in stored.items():
        if name.endswith((".scales", ".biases")):
            continue
        module = name.removesuffix(".weight")
        if dtype == "U32":
            value = dequantise(array, stored, module, quantisation.get(module, quantisation))
        else:
            value = to_float(dtype, array)
        name = canonical_name(name)
        if is_mlx and name.endswith("conv1d.weight"):
            value = np.moveaxis(value, 1, 2)  # [C, K, 1] -> [C, 1, K]
        if is_mlx and SHIFTED.search(name):
            value = value - np.float32(1)
        tensors[name] = np.ascontiguousarray(value)
    return tensors, text_config
