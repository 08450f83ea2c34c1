#!/usr/bin/env python3
"""Makes tests/golden/block_drafters: random DFlash2 and DSpark drafters and their drafts by the published code.

    pip download --no-deps dflash==0.1.0 speculators==0.9.0   # unpack both into DIR
    python3 tools/make_block_golden.py DIR                     # with torch and transformers 5.24, on a CPU in float32

Each folder has a drafter in z-lab's layout, `target/` (embedding, LM head and the target's rows that the
drafter reads) and `golden.json`. A case is a number of committed rows, a pending token and the drafts of a block, each
with the lead of its score over the next one. The weights are rounded to bfloat16, so every reader has the same ones.
"""

import importlib.util
import json
import pathlib
import sys
import types

import torch
from safetensors.torch import save_file
from transformers.models.qwen3.modeling_qwen3 import Qwen3Config

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "block_drafters"
LEAST_LEAD = 2e-3
WINDOW = 10


def module_of(path, name):
    """A module of a package without the package's own __init__, which imports training code."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def rounded(tensor):
    return tensor.to(torch.bfloat16).to(torch.float32)


def fill(module, generator):
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if "norm" in name:
                parameter.copy_(rounded(1 + 0.2 * noise))
            elif "base_kernel" in name:
                parameter.copy_(rounded(0.4 * noise))
                parameter[:, 0] = rounded(parameter[:, 0] + 0.8)
            else:
                parameter.copy_(rounded(0.25 * noise))


def config_of(sizes, own, architecture):
    config = Qwen3Config(**sizes, attention_bias=False, tie_word_embeddings=False)
    config.architectures = [architecture]
    config.dflash_config = own
    config.num_target_layers = 9
    config.sliding_window = sizes.get("sliding_window")
    return config


def write(name, model, extra, sizes, own, architecture, target, cases, top=None):
    folder = OUT / name
    target_folder = folder / "target"
    target_folder.mkdir(parents=True, exist_ok=True)
    tensors = {key.replace("_codebook.weight", "_codebook"): value.detach().to(torch.bfloat16).contiguous()
               for key, value in {**model.state_dict(), **extra}.items()}
    save_file(tensors, str(folder / "model.safetensors"))
    save_file({key: value.to(torch.bfloat16).contiguous() for key, value in target.items()},
              str(target_folder / "model.safetensors"))
    config = {"architectures": [architecture], "model_type": "qwen3", **sizes, "num_target_layers": 9,
              "dflash_config": own, **(top or {})}
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    lines = ",\n".join(json.dumps(case) for case in cases)
    least = min(lead for case in cases for lead in case["leads"])
    about = "tools/make_block_golden.py, dflash 0.1.0, speculators 0.9.0, transformers 5.24, float32"
    (folder / "golden.json").write_text(
        f'{{"provenance": "{about}", "least_lead": {least:.6f}, "cases": [\n{lines}\n]}}\n')
    print(name, len(cases), "cases, least lead", least)


def target_of(sizes, own, rows, generator):
    width, vocabulary = sizes["hidden_size"], sizes["vocab_size"]
    layers = len(own["target_layer_ids"])
    return {"embedding": rounded(0.5 * torch.randn(vocabulary, width, generator=generator)),
            "lm_head": rounded(0.5 * torch.randn(vocabulary, width, generator=generator)),
            "features": rounded(torch.randn(rows, layers * width, generator=generator))}


def hidden_of(model, target, own, context, block, pending):
    tokens = torch.tensor([[pending] + [own["mask_token_id"]] * (block - 1)])
    embedded = torch.nn.functional.embedding(tokens, target["embedding"]) * own.get("input_embedding_scale", 1.0)
    positions = torch.arange(context + block)[None]
    with torch.no_grad():
        return model(target_hidden=target["features"][None, :context], noise_embedding=embedded, position_ids=positions)


def lead_of(scores):
    best = torch.topk(scores, 2).values
    return float(best[0] - best[1])


def shape(**changes):
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
             "head_dim": 16, "intermediate_size": 56, "vocab_size": 64, "rms_norm_eps": 1e-6, "rope_theta": 1e7,
             "max_position_embeddings": 4096, "sliding_window": WINDOW, "use_sliding_window": True,
             "layer_types": ["sliding_attention"] * 2}
    return {**sizes, **changes}


def walk_case(model, target, own, context, block, pending):
    """The published walk, and the lead of each score that decides something."""
    hidden = hidden_of(model, target, own, context, block, pending)[:, 1:]
    head = torch.nn.Linear(*reversed(target["lm_head"].shape), bias=False)
    with torch.no_grad():
        head.weight.copy_(target["lm_head"])
        logits = model.compute_logits(hidden, head)
        logits[..., own["mask_token_id"]] = -torch.inf  # ours never drafts it
        drafts, candidates, _ = model.candidate_selector.select(hidden, logits, torch.tensor([pending]), 0.0)
        selector, before, leads = model.candidate_selector, pending, []
        factors = selector.hidden_projection(hidden)
        for i, draft in enumerate(drafts[0].tolist()):
            order = logits[0, i].sort(descending=True).values
            edge = float(order[selector.top_k - 1] - order[selector.top_k])
            scores = logits[0, i][candidates[0, i]] + (selector.successor_codebook(candidates[0, i]) * (
                selector.predecessor_codebook(torch.tensor(before)) * factors[0, i])).sum(-1)
            leads.append(round(min(edge, lead_of(scores) if len(scores) > 1 else edge), 5))
            before = draft
    return {"rows": context, "pending": pending, "drafts": drafts[0].tolist(), "leads": leads}


def markov_case(model, head, target, own, context, block, pending):
    hidden = hidden_of(model, target, own, context, block, pending)[0]
    before, drafts, leads = pending, [], []
    with torch.no_grad():
        for row in hidden:
            scores = target["lm_head"] @ row + head.block_bias(
                prev_token_ids=torch.tensor([[before]]), hidden_states=row[None, None])[0, 0]
            scores[own["mask_token_id"]] = -torch.inf
            before = int(scores.argmax())
            drafts.append(before)
            leads.append(round(lead_of(scores), 5))
    return {"rows": context, "pending": pending, "drafts": drafts, "leads": leads}


def cases_of(make, blocks, seed):
    """A case for each length and block whose scores all have a lead; the pending token is chosen for that."""
    cases = []
    for number, (context, block) in enumerate(blocks):
        for pending in range(seed + 3 * number, seed + 3 * number + 60):
            case = make(context, block, pending % 60)
            if min(case["leads"]) >= LEAST_LEAD:
                cases.append(case)
                break
        else:
            sys.exit(f"no pending token leaves a lead at {context} rows and a block of {block}; take another seed")
    return cases


LENGTHS = (1, WINDOW - 1, WINDOW, WINDOW + 1, 33, 4 * WINDOW)


def make_dflash2(published, name, seed, sizes, own, blocks):
    generator = torch.Generator().manual_seed(seed)
    config = config_of(sizes, own, "DFlash2DraftModel")
    config.is_causal = False
    model = published.DFlash2DraftModel(config).eval()
    fill(model, generator)
    target = target_of(sizes, own, 4 * WINDOW, generator)
    cases = cases_of(lambda *case: walk_case(model, target, own, *case), blocks, seed)
    write(name, model, {}, sizes, own, "DFlash2DraftModel", target, cases, {"is_causal": False})


def make_dspark(published, heads, seed):
    generator = torch.Generator().manual_seed(seed)
    sizes = shape(sliding_window=None, use_sliding_window=False, layer_types=["full_attention"] * 2)
    own = {"mask_token_id": 61, "target_layer_ids": [0, 4, 7], "block_size": 8, "markov_rank": 6,
           "markov_head_type": "vanilla", "projector_type": "dspark", "shift_label": True, "causal": False}
    model = published.DFlashDraftModel(config_of(sizes, own, "DSparkDraftModel")).eval()
    head = heads.MarkovHead(verifier_vocab_size=64, draft_vocab_size=64, markov_rank=6, hidden_size=32)
    fill(model, generator)
    fill(head, generator)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.mul_(4)
    target = target_of(sizes, own, 4 * WINDOW, generator)
    blocks = [(length, block) for length in LENGTHS for block in (1, 3, 8)]
    cases = cases_of(lambda *case: markov_case(model, head, target, own, *case), blocks, seed)
    extra = {"markov_head." + key: value for key, value in head.state_dict().items()}
    write("dspark", model, extra, sizes, own, "DSparkDraftModel", target, cases)


def main():
    root = pathlib.Path(sys.argv[1])
    published = module_of(next(root.rglob("dflash/model.py")), "published_dflash")
    heads = module_of(next(root.rglob("models/dspark/model_definitions.py")), "published_heads")
    torch.set_num_threads(1)
    own = {"mask_token_id": 61, "target_layer_ids": [0, 4, 7], "block_size": 8, "conv_kernel_size": 2,
           "conv_group_size": 8, "selector_rank": 6, "selector_top_k": 5, "output_multiplier": 0.7,
           "final_logit_softcapping": 4.0, "input_embedding_scale": 1.5}
    make_dflash2(published, "dflash2", 3, shape(), own, [(n, b) for n in LENGTHS for b in (2, 3, 8)])
    wide = {**own, "block_size": 16, "conv_kernel_size": 3, "conv_group_size": 4, "selector_top_k": 16,
            "target_layer_ids": [1, 6]}
    for key in ("output_multiplier", "final_logit_softcapping", "input_embedding_scale"):
        del wide[key]
    mixed = shape(layer_types=["sliding_attention", "full_attention"], sliding_window=17, num_key_value_heads=1,
                  head_dim=12)
    make_dflash2(published, "dflash2_mixed", 5, mixed, wide, [(n, b) for n in LENGTHS for b in (4, 16)])
    make_dspark(published, heads, 7)


if __name__ == "__main__":
    main()
