"""Adds a vision tower to a shipped model: 8-bit matrices, the rest as it is.

  python tools/ship_tower.py VISION_DIR MODEL_DIR

VISION_DIR holds vision.safetensors (Hugging Face names, bf16) with its config.json, preprocessor_config.json, chat
template and tokenizer_config.json. MODEL_DIR keeps its weights; its config.json gets vision_config and the widths of
the tower's matrices. The kernel of the patches, the learned positions, norms and biases stay bf16.
"""

import json
import pathlib
import shutil
import sys

import checkpoint
import mlx_affine

BITS, GROUP = 8, 64


def quantised(tensors):
    out, modules = {}, []
    for name, (dtype, array) in tensors.items():
        matrix = array.ndim == 2 and name.endswith(".weight") and "pos_embed" not in name
        if not matrix or array.shape[1] % GROUP:
            out[name] = (dtype, array)
            continue
        module = name.removesuffix(".weight")
        codes, scales, biases = mlx_affine.quantise(checkpoint.to_float(dtype, array), BITS, GROUP)
        out[name] = ("U32", codes)
        out[module + ".scales"] = checkpoint.from_float(scales, "BF16")
        out[module + ".biases"] = checkpoint.from_float(biases, "BF16")
        modules.append(module)
    return out, modules


def main():
    vision, model = (pathlib.Path(argument) for argument in sys.argv[1:3])
    tensors, _ = checkpoint.read_file(vision / "vision.safetensors")
    tensors, modules = quantised(tensors)
    checkpoint.write_file(model / "vision.safetensors", tensors, {"format": "mlx"})
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    config["vision_config"] = json.loads((vision / "config.json").read_text(encoding="utf-8"))["vision_config"]
    for key in ("quantization", "quantization_config"):
        for module in modules:
            config[key][module] = {"group_size": GROUP, "bits": BITS}
    (model / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    for name in ("preprocessor_config.json", "chat_template.jinja", "tokenizer_config.json"):
        shutil.copyfile(vision / name, model / name)
    size = (model / "vision.safetensors").stat().st_size
    print(f"{len(modules)} matrices in {BITS} bits, {size} bytes")


if __name__ == "__main__":
    main()
