"""Makes an EAGLE-3 drafter with MLX affine matrices from one in bf16: the shipped drafter of SmolLM2.

  python tools/quantise_drafter.py SRC DST --bits 4 --group 64

SRC and DST are folders with config.json and model.safetensors. Norms stay bf16; t2d, which d2t implies, is left out.
"""

import argparse
import json
import pathlib

import checkpoint
import mlx_affine


def quantised(tensors, bits, group):
    made = {}
    for name, (dtype, value) in tensors.items():
        if name == "t2d":
            continue
        if dtype != "BF16" or value.ndim < 2:
            made[name] = (dtype, value)
            continue
        module = name.removesuffix(".weight")
        codes, scales, biases = mlx_affine.quantise(mlx_affine.from_bf16_bits(value), bits, group)
        made[name] = ("U32", codes)
        made[f"{module}.scales"] = ("BF16", mlx_affine.to_bf16_bits(scales))
        made[f"{module}.biases"] = ("BF16", mlx_affine.to_bf16_bits(biases))
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("target", type=pathlib.Path)
    parser.add_argument("--bits", type=int, default=4, choices=mlx_affine.WIDTHS)
    parser.add_argument("--group", type=int, default=64, choices=mlx_affine.GROUPS)
    arguments = parser.parse_args()
    arguments.target.mkdir(parents=True, exist_ok=True)
    tensors, metadata = checkpoint.read_file(arguments.source / "model.safetensors")
    made = quantised(tensors, arguments.bits, arguments.group)
    checkpoint.write_file(arguments.target / "model.safetensors", made, metadata)
    config = json.loads((arguments.source / "config.json").read_text(encoding="utf-8"))
    config["quantization"] = {"group_size": arguments.group, "bits": arguments.bits}
    text = json.dumps(config, indent=2) + "\n"
    (arguments.target / "config.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
