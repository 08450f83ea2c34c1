"""Makes an MLX checkpoint, affine or of block floats, with a sidecar MTP head from a Hugging Face bf16 Qwen3.5 folder.

  python tools/quantise_model.py SRC DST --recipe q4g32-e8 [--check]

Written: model.safetensors (MLX names, norms stored as 1 + w in float32, convolutions [C, K, 1]), mtp.safetensors (the
head, its own widths, norms likewise, `fc` in bf16), config.json with the quantization map, and the tokenizer files.
The MTP head is a sidecar because MLX loaders fail on mtp.* names and because it keeps other widths.
--check quantises every matrix with mlx.core too and demands the same bits.
"""

import argparse
import json
import pathlib
import re
import shutil

import numpy as np

import checkpoint
import mlx_affine
import mlx_block_floats

# (pattern of the module, bits, group, mode unless affine), the first match counts; bits 16 = as stored. The first
# matching target rule with an empty pattern gives the global width.
TINY = (r"in_proj_[ab]$", 8, 64)
HEAD = [(r"^mtp\.fc$", 16, 0), (r"^mtp\.", 8, 64)]
EMBED8 = (r"embed_tokens$|lm_head$", 8, 64)
MXFP4, MXFP8, NVFP4 = (4, 32, "mxfp4"), (8, 32, "mxfp8"), (4, 16, "nvfp4")
RECIPES = {
    "bf16": [("", 16, 0)],
    "q8g64": [*HEAD, ("", 8, 64)],
    "q6g64": [*HEAD, TINY, ("", 6, 64)],
    "q5g64-e8": [*HEAD, TINY, EMBED8, ("", 5, 64)],
    "q5g32-e8": [*HEAD, TINY, EMBED8, ("", 5, 32)],
    "q4g64": [*HEAD, TINY, ("", 4, 64)],
    "q4g32": [*HEAD, TINY, ("", 4, 32)],
    "q4g32-e8": [*HEAD, TINY, EMBED8, ("", 4, 32)],
    "q4g32-e8-down8": [*HEAD, TINY, EMBED8, (r"down_proj$", 8, 64), ("", 4, 32)],
    "q4g32-e8-mix8": [*HEAD, TINY, EMBED8, (r"(self_attn|linear_attn)\.", 8, 64), ("", 4, 32)],
    "mxfp4": [*HEAD, TINY, EMBED8, ("", *MXFP4)],
    "mxfp8": [*HEAD, TINY, ("", *MXFP8)],
    "nvfp4": [*HEAD, TINY, EMBED8, ("", *NVFP4)],
    # Every format occurs, also in the MTP head and the embedding.
    "blocks": [HEAD[0], (r"^mtp\.", *MXFP8), TINY, (r"embed_tokens$|lm_head$", *NVFP4), (r"mlp\.", *MXFP4),
               ("", *MXFP8)],
    "q4g32-e8-out8": [*HEAD, TINY, EMBED8, (r"(o_proj|out_proj|v_proj)$", 8, 64), ("", 4, 32)],
}
COPIED = ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"]


def mlx_name(name):
    name = re.sub(r"^model\.language_model\.", "language_model.model.", name)
    return name if name.startswith(("language_model.", "mtp.")) else "language_model." + name


def check_with_mlx(name, value, rule, parts):
    """parts: {leaf: (dtype, array)} as written"""
    import mlx.core as mx

    how = {"group_size": rule["group_size"], "bits": rule["bits"], "mode": rule["mode"]}
    theirs = mx.quantize(mx.array(value).astype(mx.bfloat16), **how, stream=mx.cpu)
    raw = [mx.array(array) for _, array in parts.values()]
    mine = [array.view(mx.bfloat16) if dtype == "BF16" else array
            for (dtype, _), array in zip(parts.values(), raw)]
    stored = {f"m.{leaf}": part for leaf, part in parts.items()}
    own = checkpoint.dequantise(parts["weight"][1], stored, "m", rule)
    if rule["mode"] == "affine":
        same = all(mx.array_equal(a, b).item() for a, b in zip(mine, theirs))
        mine = [mine[0], *(array.astype(mx.float32) for array in mine[1:])]
    else:
        values = [np.array(mx.dequantize(*pair, **how, dtype=mx.float32, stream=mx.cpu)) for pair in (mine, theirs)]
        same = mx.array_equal(mine[1], theirs[1]).item() and mlx_block_floats.as_near(value, *values)
    if not same:
        raise SystemExit(f"{name}: differs from mlx.core.quantize")
    decoded = np.array(mx.dequantize(*mine, **how, dtype=mx.float32, stream=mx.cpu))
    if np.abs(decoded - own).max() > 1e-6 * np.abs(own).max():
        raise SystemExit(f"{name}: differs from mlx.core.dequantize")


def quantise(value, dtype, rule):
    """-> {leaf: (dtype, array)}"""
    if rule["mode"] != "affine":
        words, scales = mlx_block_floats.quantise(value, rule["mode"])
        return {"weight": ("U32", words), "scales": ("U8", scales)}
    words, scales, biases = mlx_affine.quantise(value, rule["bits"], rule["group_size"])
    return {"weight": ("U32", words), "scales": checkpoint.from_float(scales, dtype),
            "biases": checkpoint.from_float(biases, dtype)}


def rule_of(bits, group, mode="affine"):
    return {"group_size": group, "bits": bits, "mode": mode}


def convert(stored, rules, check):
    """-> {name: (dtype, array)} in MLX layout, {module: {bits, group_size, mode}}"""
    out, widths = {}, {}
    for name, (dtype, array) in stored.items():
        value, target = checkpoint.to_float(dtype, array), mlx_name(name)
        module = target.removesuffix(".weight")
        if name.endswith("conv1d.weight"):
            out[target] = (dtype, np.moveaxis(array, 2, 1))
        elif checkpoint.SHIFTED.search(checkpoint.canonical_name(name)):
            out[target] = ("F32", np.float32(1) + value)
        else:
            rule = rule_of(*next(rest for pattern, *rest in rules if re.search(pattern, module)))
            if array.ndim != 2 or rule["bits"] == 16:
                out[target] = (dtype, array)
                continue
            parts = quantise(value, dtype, rule)
            if check:
                check_with_mlx(name, value, rule, parts)
            out |= {f"{module}.{leaf}": part for leaf, part in parts.items()}
            widths[module] = rule
    return out, widths


def quantisation_map(rules, widths):
    """The global width, then every module that has another."""
    common = rule_of(*next(rest for pattern, *rest in rules if pattern == ""))
    return {**common, **{m: w for m, w in sorted(widths.items()) if w != common}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("src", type=pathlib.Path)
    parser.add_argument("dst", type=pathlib.Path)
    parser.add_argument("--recipe", choices=RECIPES, required=True)
    parser.add_argument("--check", action="store_true", help="compare every matrix with mlx.core")
    args = parser.parse_args()
    rules = RECIPES[args.recipe]
    stored, metadata, config = checkpoint.read_raw(args.src)
    if metadata.get("format") == "mlx":
        raise SystemExit(f"{args.src} is already an MLX checkpoint; give the Hugging Face original")
    tensors, widths = convert(stored, rules, args.check)
    args.dst.mkdir(parents=True, exist_ok=True)
    head = {n: t for n, t in tensors.items() if n.startswith("mtp.")}
    trunk = {n: t for n, t in tensors.items() if n not in head}
    checkpoint.write_file(args.dst / "model.safetensors", trunk, {"format": "mlx"})
    checkpoint.write_file(args.dst / "mtp.safetensors", head, {"format": "mlx"})
    if widths:
        config["quantization"] = config["quantization_config"] = quantisation_map(rules, widths)
    config["mlx_lm_extra_tensors"] = {"mtp_file": "mtp.safetensors"}
    config["mtplx_mtp_contract"] = {"base_hidden_variant": "post_norm", "mtp_hidden_variant": "post_norm",
                                    "concat_order": "embedding_hidden", "mtp_position_mode": "cache"}
    (args.dst / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    for file in COPIED:
        shutil.copyfile(args.src / file, args.dst / file)
    size = sum(f.stat().st_size for f in args.dst.iterdir())
    print(f"{args.recipe}: {size:,} bytes in {args.dst}")


if __name__ == "__main__":
    main()
