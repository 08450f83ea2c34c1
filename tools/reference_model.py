"""transformers in float32 as the reference: the target, and the MTP head built from its decoder layer."""

import copy
import os
import re

import torch
from transformers import (Qwen3_5ForCausalLM, Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig,
                          Qwen3_5TextConfig)
from transformers.models.qwen3_5 import modeling_qwen3_5 as qwen
from transformers.models.qwen3_5_moe import modeling_qwen3_5_moe as qwen_moe

import checkpoint


class MtpHead(torch.nn.Module):
    """Pair t is (hidden of token t after the final norm, token t + 1); the output at t is for token t + 2."""

    def __init__(self, config):
        super().__init__()
        config = copy.deepcopy(config)
        config.num_hidden_layers, config.layer_types = 1, ["full_attention"]
        width, eps = config.hidden_size, config.rms_norm_eps
        self.pre_fc_norm_embedding = qwen.Qwen3_5RMSNorm(width, eps=eps)
        self.pre_fc_norm_hidden = qwen.Qwen3_5RMSNorm(width, eps=eps)
        self.fc = torch.nn.Linear(2 * width, width, bias=False)
        moe = isinstance(config, Qwen3_5MoeTextConfig)
        layer = qwen_moe.Qwen3_5MoeDecoderLayer if moe else qwen.Qwen3_5DecoderLayer
        self.layers = torch.nn.ModuleList([layer(config, 0)])
        self.norm = qwen.Qwen3_5RMSNorm(width, eps=eps)
        self.rotary = qwen.Qwen3_5TextRotaryEmbedding(config)

    def forward(self, embeddings, hiddens):
        """[B, T, H] twice -> [B, T, H]; position = index of the pair."""
        x = self.fc(torch.cat([self.pre_fc_norm_embedding(embeddings), self.pre_fc_norm_hidden(hiddens)], -1))
        rows = x.shape[1]
        positions = torch.arange(rows)[None]
        mask = torch.full((rows, rows), torch.finfo(x.dtype).min).triu(1)[None, None]
        rotary = self.rotary(x, positions[None].expand(3, x.shape[0], -1))
        return self.norm(self.layers[0](x, position_embeddings=rotary, attention_mask=mask, position_ids=positions))


def fuse_experts(tensors, count):
    """Experts that are stored one by one -> the stacks of transformers"""
    fused = {n: t for n, t in tensors.items() if not re.search(r"\.experts\.\d+\.", n)}
    for layer in {n.split(".experts.")[0] for n in set(tensors) - set(fused)}:
        def stack(leaf, layer=layer):
            return torch.stack([tensors[f"{layer}.experts.{e}.{leaf}.weight"] for e in range(count)])
        fused[f"{layer}.experts.gate_up_proj"] = torch.cat([stack("gate_proj"), stack("up_proj")], 1)
        fused[f"{layer}.experts.down_proj"] = stack("down_proj")
    return fused


class Reference:
    def __init__(self, folder):
        torch.set_grad_enabled(False)
        torch.set_num_threads(int(os.environ.get("FORETOKEN_TOOL_THREADS", "1")))
        tensors, text_config = checkpoint.read_folder(folder)
        tensors = {name: torch.from_numpy(array) for name, array in tensors.items()}
        moe = "num_experts" in text_config
        config = (Qwen3_5MoeTextConfig if moe else Qwen3_5TextConfig)(**text_config)
        config.dtype = torch.float32
        config._attn_implementation = "eager"
        if moe:
            tensors = fuse_experts(tensors, config.num_experts)
            config._experts_implementation = "eager"
        self.model = (Qwen3_5MoeForCausalLM if moe else Qwen3_5ForCausalLM)(config).float().eval()
        tied = config.tie_word_embeddings
        if tied:
            tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
        trunk = {n: t for n, t in tensors.items() if not n.startswith("mtp.")}
        head = {n.removeprefix("mtp."): t for n, t in tensors.items() if n.startswith("mtp.")}
        self.model.load_state_dict(trunk, strict=True)
        self.head = MtpHead(config).float().eval()
        own = {n for n in self.head.state_dict()}
        self.head.load_state_dict(head, strict=True)
        assert own == set(head), own ^ set(head)
        self.embed = self.model.model.embed_tokens
        self.least_margin = 1.0  # of a router: probability of the last chosen expert less that of the next one
        for module in [*self.model.modules(), *self.head.modules()]:
            if isinstance(module, qwen_moe.Qwen3_5MoeTopKRouter):
                module.register_forward_hook(self.keep_margin)

    def keep_margin(self, router, inputs, outputs):
        top = outputs[0].softmax(-1).topk(router.top_k + 1).values
        self.least_margin = min(self.least_margin, float((top[:, -2] - top[:, -1]).min()))

    def trunk(self, ids, cache=None, use_cache=False):
        """ids [B, T] -> logits [B, T, V], hiddens after the final norm [B, T, H], cache"""
        out = self.model.model(input_ids=ids, past_key_values=cache, use_cache=use_cache)
        return self.model.lm_head(out.last_hidden_state), out.last_hidden_state, out.past_key_values

    def draft_rows(self, ids, hiddens):
        """Teacher-forced depth 1: pairs (h_t, x_{t+1}) for t = 0..T-2 -> logits [B, T-1, V] for token t + 2"""
        return self.model.lm_head(self.head(self.embed(ids[:, 1:]), hiddens[:, :-1]))

    def chain(self, ids, hiddens, depth):
        """ids: x_0..x_n with x_n pending, hiddens: h_0..h_{n-1} -> logits [V] of each draft, greedy recursion"""
        ids, hiddens = ids[1:][None], hiddens[None]
        rows = []
        for _ in range(depth):
            last = self.head(self.embed(ids), hiddens)[:, -1:]
            rows.append(self.model.lm_head(last)[0, 0])
            ids = torch.cat([ids, rows[-1].argmax().view(1, 1)], 1)
            hiddens = torch.cat([hiddens, last], 1)
        return rows


def measure(reference, ids, window=512, batch=8):
    """Windows of the text, each from an empty state: nll of tokens 1..window-1, and how often the MTP draft at depth 1
    equals the target's own choice."""
    count = len(ids) // window
    ids = torch.tensor(ids[:count * window]).view(count, window)
    nll, agrees = [], 0
    for chunk in ids.split(batch):
        logits, hiddens, _ = reference.trunk(chunk)
        log_p = logits[:, :-1].log_softmax(-1).gather(-1, chunk[:, 1:, None])
        nll += (-log_p[..., 0].double().sum(1)).tolist()
        drafts = reference.draft_rows(chunk, hiddens).argmax(-1)
        agrees += (drafts == logits[:, 1:].argmax(-1)).sum().item()
    tokens = count * (window - 1)
    return {"window": window, "predicted_tokens": tokens, "nll_per_token": sum(nll) / tokens,
            "perplexity": float(torch.tensor(sum(nll) / tokens).exp()),
            "draft_agrees": agrees / tokens, "window_nll": [round(x, 4) for x in nll]}
