"""A tiny random Gemma 4 as MLX stores and quantises it, and its golden files from transformers in float32.

  python tools/make_mlx_gemma.py tests/golden/gemma4/mlx

mlx-lm builds the model, renames the weights, quantises them by its own rules (the router in 8 bits; here the experts
in 2 bits, everything else in 4) and writes the folder. The values that MLX dequantises from that file go to
transformers.
The model has the features of a large Gemma: experts next to each dense MLP, per-layer embeddings, keys that are values.
"""

import json
import pathlib
import shutil
import sys

import mlx.core as mx
import numpy as np
import torch
from mlx_lm.models import gemma4
from mlx_lm.utils import quantize_model, save_config, save_model
from transformers import Gemma4ForCausalLM, Gemma4TextConfig

from make_odd_gemma import COMMON, F, S, golden, value

TEXT = {**COMMON, "vocab_size": 112, "hidden_size": 64, "intermediate_size": 32, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "num_global_key_value_heads": 1, "head_dim": 32,
        "global_head_dim": 32, "attention_k_eq_v": True, "sliding_window": 11, "layer_types": [S, F],
        "final_logit_softcapping": 30.0, "hidden_size_per_layer_input": 32, "vocab_size_per_layer_input": 112,
        "num_kv_shared_layers": 0, "use_double_wide_mlp": False, "tie_word_embeddings": True,
        "enable_moe_block": True, "num_experts": 3, "top_k_experts": 2, "moe_intermediate_size": 32}
ABOUT = ("Hugging Face transformers, float32, CPU, of the values that MLX dequantises; made by "
         "tools/make_mlx_gemma.py. Greedy continuation does not stop at end tokens. margin: first choice minus second.")


def quantised(weights):
    """mlx-lm's model of these weights (Hugging Face names), quantised by MLX, and its config."""
    config = {"model_type": "gemma4", "vocab_size": TEXT["vocab_size"], "text_config": dict(TEXT),
              "eos_token_id": [1, 106], "tie_word_embeddings": True}
    model = gemma4.Model(gemma4.ModelArgs.from_dict(json.loads(json.dumps(config))))
    named = {name.replace("model.", "model.language_model.", 1): mx.array(array).astype(mx.bfloat16)
             for name, array in weights.items()}
    model.load_weights(list(model.language_model.sanitize(model.sanitize(named)).items()))
    own = model.language_model.quant_predicate

    def predicate(path, module):
        return {"group_size": 32, "bits": 2} if "switch_glu" in path else own(path, module)

    return quantize_model(model, config, 32, 4, quant_predicate=predicate)


def dequantised(folder, config):
    """The written file's values in float32, in the names of transformers."""
    stored = mx.load(str(folder / "model.safetensors"))
    values = {}
    for name, array in stored.items():
        if name.endswith((".scales", ".biases")):
            continue
        module = name.removesuffix(".weight")
        if module + ".scales" in stored:
            rule = config["quantization"].get(module, config["quantization"])
            rule = rule if isinstance(rule, dict) else config["quantization"]
            array = mx.dequantize(array, stored[module + ".scales"].astype(mx.float32),
                                  stored[module + ".biases"].astype(mx.float32), rule["group_size"], rule["bits"])
        values[name.replace("language_model.model.", "model.")] = np.array(array.astype(mx.float32))
    for name in [n for n in values if n.endswith("switch_glu.gate_proj.weight")]:
        base = name.removesuffix("switch_glu.gate_proj.weight")
        up = values.pop(base + "switch_glu.up_proj.weight")
        values[base + "gate_up_proj"] = np.concatenate([values.pop(name), up], axis=-2)
        values[base + "down_proj"] = values.pop(base + "switch_glu.down_proj.weight")
    return {name: torch.from_numpy(array) for name, array in values.items()}


def main():
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    mx.set_default_device(mx.cpu)
    out = pathlib.Path(sys.argv[1])
    shutil.rmtree(out, ignore_errors=True)
    rng = np.random.default_rng(5)
    config = Gemma4TextConfig(**TEXT)
    config._attn_implementation = "eager"
    model = Gemma4ForCausalLM(config).float().eval()
    weights = {name: value(rng, name, tuple(given.shape), 0.6) for name, given in sorted(model.state_dict().items())
               if name != "lm_head.weight"}
    mlx_model, mlx_config = quantised(weights)
    save_model(out, mlx_model)
    save_config(mlx_config, out / "config.json")
    (out / "model.safetensors.index.json").unlink()
    missing, unexpected = model.load_state_dict(dequantised(out, mlx_config), strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    (out / "golden").mkdir()
    for count in (1, 5, 24, 48):
        data = golden(model, f"mlx_{count}", rng.integers(3, TEXT["vocab_size"], count).tolist())
        data["about"] = ABOUT
        data["positions"]["top20"] = [row[:4] for row in data["positions"]["top20"]]
        print(count, "least margin", min(data["greedy"]["margin"]), "distinct", len(set(data["greedy"]["tokens"])))
        (out / "golden" / f"mlx_{count}.json").write_text(json.dumps(data, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
