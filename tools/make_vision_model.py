"""A tiny random model with a vision tower, and its golden prompts from transformers in float32.

  python tools/make_vision_model.py     needs torch, transformers, Pillow; writes tests/golden/vision

Odd sizes: patches of 8, heads of 12, a grid of 7 x 7 learned positions, a text model of four layers and 211 ids. The
weights are bf16, in model.safetensors (text) and vision.safetensors (tower), as the trained model is published. The
pictures are drawn here; each golden file has the resized pixels' figures, positions, the first and last merged row,
logits of the tokens that are text, and 32 greedy tokens.
"""

import json
import pathlib

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/vision"
PATCH, MERGE, SIDE = 8, 2, 16
LEAST, MOST = 1024, 9216
IMAGE, START, END = 203, 201, 202
CONFIG = {
    "architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "image_token_id": IMAGE,
    "video_token_id": 204, "vision_start_token_id": START, "vision_end_token_id": END, "tie_word_embeddings": True,
    "text_config": {
        "model_type": "qwen3_5_text", "vocab_size": 211, "hidden_size": 64, "intermediate_size": 96,
        "num_hidden_layers": 4, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 32,
        "hidden_act": "silu", "rms_norm_eps": 1e-06, "max_position_embeddings": 1024, "attention_bias": False,
        "attn_output_gate": True,
        "layer_types": ["full_attention", "linear_attention", "linear_attention", "full_attention"],
        "linear_conv_kernel_dim": 4, "linear_key_head_dim": 32, "linear_value_head_dim": 32,
        "linear_num_key_heads": 1, "linear_num_value_heads": 2, "mtp_num_hidden_layers": 0,
        "tie_word_embeddings": True, "eos_token_id": 210,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000, "partial_rotary_factor": 0.5,
                            "mrope_section": [3, 3, 2], "mrope_interleaved": True},
    },
    "vision_config": {
        "model_type": "qwen3_5", "depth": 2, "hidden_size": 36, "hidden_act": "gelu_pytorch_tanh",
        "intermediate_size": 52, "num_heads": 3, "in_channels": 3, "patch_size": PATCH, "spatial_merge_size": MERGE,
        "temporal_patch_size": 2, "out_hidden_size": 64, "num_position_embeddings": 49,
        "deepstack_visual_indexes": []},
}


def make_model():
    torch.manual_seed(7)
    model = Qwen3_5ForConditionalGeneration(Qwen3_5Config(**CONFIG)).float().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                fan = weight[0].numel()
                weight.normal_(0, (1.0 if "embed" in name else 1.4) / (1 if "embed" in name else fan**0.5))
            elif "norm" in name and "visual" not in name and "linear_attn.norm" not in name:
                weight.normal_(0, 0.2)
            elif name.endswith("A_log"):
                weight.uniform_(-1, 1)
            else:
                weight.normal_(1.0 if "norm" in name and name.endswith("weight") else 0.0, 0.2)
            weight.copy_(weight.to(torch.bfloat16).float())
    return model


def save(model):
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "config.json").write_text(json.dumps(CONFIG, indent=1) + "\n", encoding="utf-8")
    size = {"size": {"shortest_edge": LEAST, "longest_edge": MOST}}
    (OUT / "preprocessor_config.json").write_text(json.dumps(size) + "\n", encoding="utf-8")
    text, vision = {}, {}
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        kept = weight.contiguous() if name.endswith("A_log") else weight.to(torch.bfloat16).contiguous()
        (vision if ".visual." in name else text)[name] = kept
    save_file(text, OUT / "model.safetensors", {"format": "pt"})
    save_file(vision, OUT / "vision.safetensors", {"format": "pt"})


def draw(width, height, seed):
    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 256, (5, 6, 3), dtype=np.uint8))
    return small.resize((width, height), Image.Resampling.BILINEAR)


def prepared(picture):
    """The published processor's steps: size, pixels, patches."""
    width, height = picture.size
    wide, high = (max(SIDE, round(side / SIDE) * SIDE) for side in (width, height))
    if wide * high > MOST:
        shrink = (width * height / MOST) ** 0.5
        wide, high = (max(SIDE, int(side / shrink // SIDE) * SIDE) for side in (width, height))
    elif wide * high < LEAST:
        grow = (LEAST / (width * height)) ** 0.5
        wide, high = (-int(-side * grow // SIDE) * SIDE for side in (width, height))
    # Two calls: columns first, whatever order this Pillow prefers.
    narrowed = picture.convert("RGB").resize((wide, height), Image.Resampling.BICUBIC)
    pixels = np.asarray(narrowed.resize((wide, high), Image.Resampling.BICUBIC), dtype=np.float32)
    values = torch.from_numpy((pixels / 255 - 0.5) / 0.5).permute(2, 0, 1)
    rows, columns = high // PATCH, wide // PATCH
    blocks = values.repeat(2, 1, 1, 1).reshape(2, 3, rows // 2, 2, PATCH, columns // 2, 2, PATCH)
    patches = blocks.permute(2, 5, 3, 6, 1, 0, 4, 7).reshape(rows * columns, -1)
    return patches, rows, columns


@torch.no_grad()
def golden(model, name, tokens, pictures):
    parts, grids, described, expanded = [], [], [], []
    at = 0
    for file in pictures:
        picture = Image.open(OUT / "golden" / file)
        patches, rows, columns = prepared(picture)
        parts.append(patches)
        grids.append([1, rows, columns])
        described.append({"file": file, "size": list(picture.size), "grid": [rows, columns],
                          "image_tokens": rows * columns // 4,
                          "pixel_values": {"sum": float(patches.double().sum()), "first": patches[0, :16].tolist(),
                                           "last": patches[-1, :16].tolist()}})
    for token in tokens:
        if token == IMAGE:
            expanded += [IMAGE] * described[at]["image_tokens"]
            at += 1
        else:
            expanded.append(token)
    pixels, grid = torch.cat(parts), torch.tensor(grids)
    merged = model.model.get_image_features(pixels, grid).pooler_output
    for each, rows in zip(described, merged):
        each["merged_first"], each["merged_last"] = rows[0].tolist(), rows[-1].tolist()

    def run(ids):
        kinds = torch.tensor([[int(token == IMAGE) for token in ids]])
        positions, delta = model.model.get_rope_index(torch.tensor([ids]), kinds, image_grid_thw=grid)
        out = model(input_ids=torch.tensor([ids]), pixel_values=pixels, image_grid_thw=grid,
                    position_ids=positions, mm_token_type_ids=kinds, use_cache=False)
        return out.logits[0], positions[:, 0], int(delta)

    logits, positions, delta = run(expanded)
    index = [i for i, token in enumerate(expanded) if token != IMAGE]
    greedy, margins, all_ids = [], [], list(expanded)
    for _ in range(32):
        top = run(all_ids)[0][-1].topk(2)
        greedy.append(int(top.indices[0]))
        margins.append(float(top.values[0] - top.values[1]))
        all_ids.append(greedy[-1])
    (OUT / "golden" / f"{name}.json").write_text(json.dumps({
        "about": f"tools/make_vision_model.py, transformers in float32, torch {torch.__version__}",
        "name": name, "pictures": described, "tokens": expanded, "position_ids": positions.tolist(),
        "rope_delta": delta,
        "positions": {"index": index, "argmax": logits[index].argmax(-1).tolist(),
                      "logit": logits[index].max(-1).values.tolist()},
        "greedy": {"tokens": greedy, "margin": margins}, "mtp": []}) + "\n", encoding="utf-8")


def main():
    model = make_model()
    save(model)
    (OUT / "golden").mkdir(exist_ok=True)
    sizes = {"wide.png": (150, 40), "tall.png": (30, 97), "tiny.png": (9, 7), "large.png": (260, 190)}
    for seed, (file, (width, height)) in enumerate(sizes.items()):
        draw(width, height, seed).save(OUT / "golden" / file)
    image = [START, IMAGE, END]
    golden(model, "wide", [5, 9, *image, 40, 41, 42, 7], ["wide.png"])
    golden(model, "tall", [*image, 40, 41, 42, 7, 100, 101], ["tall.png"])
    golden(model, "several", [5, *image, *image, 77, 8, 9, *image, 12, 60], ["tiny.png", "large.png", "wide.png"])


if __name__ == "__main__":
    main()
