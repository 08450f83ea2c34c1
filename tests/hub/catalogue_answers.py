"""What the hub says about each repository of src/cli/library/catalogue.json: config.json and the tensors of its
files. Built by hand from the published sizes and the names of MLX's conversions (docs/models.md, the shapes of
src/models/*/synthetic.cpp are a separate copy), not recorded at the hub. Packs of mixed widths (OptiQ) are here in
their lowest one, 4 bits, with the MTP head in a file of its own.
"""

LLAMA_WORDS, QWEN_WORDS, NEXT_WORDS, GEMMA_WORDS = 128256, 151936, 248320, 262144
STRETCH = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 8192}
YARN = {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
        "original_max_position_embeddings": 4096}
MTP_FILES = {"OptiQ": "optiq/mtp.safetensors", "MTP": "mtp.safetensors"}


def sizes(hidden, layers, mlp, heads, kv_heads, head_dim):
    return {"hidden_size": hidden, "num_hidden_layers": layers, "intermediate_size": mlp, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "head_dim": head_dim}


def llama(shape, *, words=LLAMA_WORDS, tied=True, context=131072, stretch=32.0, theta=5e5, **more):
    scaling = {**STRETCH, "factor": stretch} if stretch else None
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **sizes(*shape), "vocab_size": words,
            "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": theta, "rope_scaling": scaling,
            "max_position_embeddings": context, "tie_word_embeddings": tied, **more}


def qwen3(shape, *, experts=(), **more):
    config = {**llama(shape, words=QWEN_WORDS, context=40960, stretch=0, theta=1e6, rms_norm_eps=1e-6, **more),
              "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
    if experts:
        config |= {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_experts": experts[0],
                   "num_experts_per_tok": experts[1], "moe_intermediate_size": experts[2], "norm_topk_prob": True,
                   "decoder_sparse_step": 1, "mlp_only_layers": []}
    return config


def delta_rule(value_heads):
    return {"full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
            "linear_value_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": value_heads}


def moe(experts, chosen, size, shared):
    return {"num_experts": experts, "num_experts_per_tok": chosen, "moe_intermediate_size": size,
            "shared_expert_intermediate_size": shared}


def qwen35(hidden, layers, mlp, heads, kv_heads, value_heads, *, tied=False, experts=()):
    kind = "qwen3_5_moe" if experts else "qwen3_5"
    text = {**sizes(hidden, layers, mlp, heads, kv_heads, 256), **delta_rule(value_heads), "model_type": kind + "_text",
            "vocab_size": NEXT_WORDS, "hidden_act": "silu", "rms_norm_eps": 1e-6, "max_position_embeddings": 262144,
            "attention_bias": False, "attn_output_gate": True, "mtp_num_hidden_layers": 1,
            "tie_word_embeddings": tied,
            "layer_types": ["full_attention" if (i + 1) % 4 == 0 else "linear_attention" for i in range(layers)],
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25,
                                "mrope_section": [11, 11, 10], "mrope_interleaved": True}}
    if experts:
        text |= moe(*experts, mlp)
        del text["intermediate_size"]
    architecture = "Qwen3_5MoeForConditionalGeneration" if experts else "Qwen3_5ForConditionalGeneration"
    return {"architectures": [architecture], "model_type": kind, "tie_word_embeddings": tied, "text_config": text}


def qwen3_next():
    return {"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", **sizes(2048, 48, 5120, 16, 2, 256),
            **delta_rule(32), **moe(512, 10, 512, 512), "vocab_size": QWEN_WORDS, "hidden_act": "silu",
            "rms_norm_eps": 1e-6, "rope_theta": 1e7, "partial_rotary_factor": 0.25, "norm_topk_prob": True,
            "max_position_embeddings": 262144, "tie_word_embeddings": False}


def gemma4(hidden, layers, mlp, heads, kv_heads, *, full_every=6, window=1024, context=262144, experts=(),
           full_kv_heads=0, per_layer=0, shared=0, wide=False):
    kinds = ["full_attention" if (i + 1) % full_every == 0 or i + 1 == layers else "sliding_attention"
             for i in range(layers)]
    text = {**sizes(hidden, layers, mlp, heads, kv_heads, 256), "model_type": "gemma4_text", "vocab_size": GEMMA_WORDS,
            "vocab_size_per_layer_input": GEMMA_WORDS, "global_head_dim": 512, "attention_k_eq_v": full_kv_heads > 0,
            "sliding_window": window, "layer_types": kinds, "final_logit_softcapping": 30.0, "rms_norm_eps": 1e-6,
            "hidden_activation": "gelu_pytorch_tanh", "attention_bias": False, "hidden_size_per_layer_input": per_layer,
            "num_kv_shared_layers": shared, "use_double_wide_mlp": wide, "max_position_embeddings": context,
            "tie_word_embeddings": True}
    if full_kv_heads:
        text["num_global_key_value_heads"] = full_kv_heads
    if experts:
        text |= {"enable_moe_block": True, "num_experts": experts[0], "top_k_experts": experts[1],
                 "moe_intermediate_size": experts[2]}
    return {"architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4", "tie_word_embeddings": True,
            "text_config": text}


def gpt_oss(layers, experts):
    return {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", **sizes(2880, layers, 2880, 64, 8, 64),
            "vocab_size": 201088, "num_local_experts": experts, "num_experts_per_tok": 4, "sliding_window": 128,
            "layer_types": ["sliding_attention", "full_attention"] * (layers // 2), "swiglu_limit": 7.0,
            "attention_bias": True, "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 150000,
            "rope_scaling": YARN, "max_position_embeddings": 131072, "tie_word_embeddings": False}


def glm(hidden, layers, dense, experts, size, *, heads=96, norms=False, first=1, factor=1.0, context=131072):
    return {"architectures": ["Glm4MoeForCausalLM"], "model_type": "glm4_moe",
            **sizes(hidden, layers, dense, heads, 8, 128), "vocab_size": 151552, "hidden_act": "silu",
            "rms_norm_eps": 1e-5, "max_position_embeddings": context, "attention_bias": True, "use_qk_norm": norms,
            "rope_theta": 1e6, "partial_rotary_factor": 0.5, "rope_scaling": None, "first_k_dense_replace": first,
            "n_routed_experts": experts, "num_experts_per_tok": 8, "n_shared_experts": 1,
            "moe_intermediate_size": size, "n_group": 1, "topk_group": 1, "norm_topk_prob": True,
            "routed_scaling_factor": factor, "num_nextn_predict_layers": 1, "tie_word_embeddings": False}


E2B = {"full_every": 5, "window": 512, "context": 131072, "per_layer": 256}
CONFIGS = {
    "mlx-community/Qwen3.5-4B-OptiQ-4bit": qwen35(2560, 32, 9216, 16, 4, 32, tied=True),
    "mlx-community/Qwen3.5-0.8B-OptiQ-4bit": qwen35(1024, 24, 3584, 8, 2, 16, tied=True),
    "mlx-community/Qwen3.5-9B-OptiQ-4bit": qwen35(4096, 32, 12288, 16, 4, 32),
    "mlx-community/Qwen3.6-35B-A3B-OptiQ-4bit": qwen35(2048, 40, 512, 16, 2, 32, experts=(256, 8, 512)),
    "mlx-community/Qwen3.8-27B-OptiQ-4bit": qwen35(5120, 64, 17408, 24, 4, 48),
    "kradih/Qwen3.6-27B-MTP-4bit-MLX": qwen35(5120, 64, 17408, 24, 4, 48),
    "HuggingFaceTB/SmolLM2-135M-Instruct": llama((576, 30, 1536, 9, 3, 64), words=49152, context=8192, stretch=0,
                                                 theta=1e5),
    "mlx-community/Llama-3.2-1B-Instruct-4bit": llama((2048, 16, 8192, 32, 8, 64)),
    "mlx-community/Llama-3.2-3B-Instruct-4bit": llama((3072, 28, 8192, 24, 8, 128)),
    "mlx-community/Meta-Llama-3.1-8B-Instruct-4bit": llama((4096, 32, 14336, 32, 8, 128), tied=False, stretch=8.0),
    "mlx-community/Llama-3.3-70B-Instruct-4bit": llama((8192, 80, 28672, 64, 8, 128), tied=False, stretch=8.0),
    "mlx-community/Qwen3-0.6B-4bit": qwen3((1024, 28, 3072, 16, 8, 128)),
    "mlx-community/Qwen3-30B-A3B-4bit": qwen3((2048, 48, 6144, 32, 4, 128), tied=False, experts=(128, 8, 768)),
    "mlx-community/Qwen3-Next-80B-A3B-Instruct-4bit": qwen3_next(),
    "mlx-community/Qwen3.5-27B-4bit": qwen35(5120, 64, 17408, 24, 4, 48),
    "mlx-community/Qwen3.5-35B-A3B-4bit": qwen35(2048, 40, 512, 16, 2, 32, experts=(256, 8, 512)),
    "mlx-community/Qwen3.5-122B-A10B-4bit": qwen35(3072, 48, 1024, 32, 2, 64, experts=(256, 8, 1024)),
    "mlx-community/gemma-4-e2b-it-4bit": gemma4(1536, 35, 6144, 8, 1, shared=20, wide=True, **E2B),
    "mlx-community/gemma-4-e4b-it-4bit": gemma4(2560, 42, 10240, 8, 2, shared=18, **{**E2B, "full_every": 6}),
    "mlx-community/gemma-4-26b-a4b-it-4bit": gemma4(2816, 30, 2112, 16, 8, full_kv_heads=2, experts=(128, 8, 704)),
    "mlx-community/gemma-4-31b-it-4bit": gemma4(5376, 60, 21504, 32, 16, full_kv_heads=4),
    "mlx-community/gpt-oss-20b-MXFP4-Q8": gpt_oss(24, 32),
    "mlx-community/gpt-oss-120b-MXFP4-Q8": gpt_oss(36, 128),
    "mlx-community/GLM-4.5-Air-4bit": glm(4096, 46, 10944, 128, 1408),
    "mlx-community/GLM-4.7-4bit": glm(5120, 92, 12288, 160, 1536, norms=True, first=3, factor=2.5, context=202752),
}


class Tensors:
    """The tensors of one repository: name -> (dtype, shape), in one dictionary for each file."""

    def __init__(self, repository):
        self.config = CONFIGS[repository]
        self.c = self.config.get("text_config", self.config)
        self.bits = 0 if repository.startswith("HuggingFaceTB") else 4
        self.own_bits = 8 if "Q8" in repository else self.bits  # of all but the experts
        self.files = {"model.safetensors": {}}
        self.list = self.files["model.safetensors"]
        self.hidden = self.c["hidden_size"]
        kind = self.c["model_type"].removesuffix("_text").removesuffix("_moe")
        self.outer = "language_model." if "text_config" in self.config else ""
        getattr(self, "model")(kind)
        head = next((file for word, file in MTP_FILES.items() if word in repository), None)
        if head:
            self.config = {**self.config, "mlx_lm_extra_tensors": {"mtp_file": head}}
            self.list = self.files[head] = {}
            self.outer = ""
            self.mtp()
        if self.bits:
            mode = {"bits": self.own_bits, "group_size": 64, "mode": "affine"}
            self.config = {**self.config, "quantization": mode | self.overrides}

    overrides = {}

    def plain(self, name, *shape, dtype="BF16"):
        self.list[self.outer + name] = (dtype, list(shape))

    def matrix(self, name, *shape, bits=None):
        bits = self.own_bits if bits is None else bits
        if not bits:
            return self.plain(name + ".weight", *shape)
        self.plain(name + ".weight", *shape[:-1], shape[-1] * bits // 32, dtype="U32")
        for leaf in ("scales", "biases"):
            self.plain(f"{name}.{leaf}", *shape[:-1], shape[-1] // 64)
        return None

    def mxfp4(self, name, *shape):
        self.overrides = {**self.overrides, name: {"bits": 4, "group_size": 32, "mode": "mxfp4"}}
        self.plain(name + ".weight", *shape[:-1], shape[-1] // 8, dtype="U32")
        self.plain(name + ".scales", *shape[:-1], shape[-1] // 32, dtype="U8")

    def norm(self, name, size=None):
        self.plain(name + ".weight", size or self.hidden)

    def mlp(self, prefix, size):
        for leaf, shape in (("gate", (size, self.hidden)), ("up", (size, self.hidden)), ("down", (self.hidden, size))):
            self.matrix(f"{prefix}{leaf}_proj", *shape)

    def experts(self, prefix, count, size, write=None):
        for leaf, shape in (("gate", (size, self.hidden)), ("up", (size, self.hidden)), ("down", (self.hidden, size))):
            (write or self.matrix)(f"{prefix}{leaf}_proj", count, *shape)

    def attention(self, prefix, head_dim, kv_heads, *, gated=False, biased=False, norms=False, values=True):
        c = self.c
        width = c["num_attention_heads"] * head_dim
        rows = {"q": width * (2 if gated else 1), "k": kv_heads * head_dim, "v": kv_heads * head_dim}
        if not kv_heads:
            rows = {"q": rows["q"]}
        elif not values:
            del rows["v"]
        for leaf, count in rows.items():
            self.matrix(f"{prefix}{leaf}_proj", count, self.hidden)
            if biased:
                self.plain(f"{prefix}{leaf}_proj.bias", count)
        self.matrix(prefix + "o_proj", self.hidden, width)
        for leaf in ("q", "k") if norms and kv_heads else ("q",) if norms else ():
            self.norm(f"{prefix}{leaf}_norm", head_dim)

    def model(self, kind):
        c = self.c
        self.matrix("model.embed_tokens", c["vocab_size"], self.hidden)
        for i in range(c["num_hidden_layers"]):
            getattr(self, {"qwen3_5": "qwen35", "qwen3_next": "qwen35"}.get(kind, kind))(f"model.layers.{i}.", i)
        self.norm("model.norm")
        if not c["tie_word_embeddings"]:
            self.matrix("lm_head", c["vocab_size"], self.hidden)

    def llama(self, prefix, _, norms=False):
        c = self.c
        self.norm(prefix + "input_layernorm"), self.norm(prefix + "post_attention_layernorm")
        self.attention(prefix + "self_attn.", c["head_dim"], c["num_key_value_heads"], norms=norms)
        if "num_experts" in c:
            self.matrix(prefix + "mlp.gate", c["num_experts"], self.hidden)
            self.experts(prefix + "mlp.switch_mlp.", c["num_experts"], c["moe_intermediate_size"])
        else:
            self.mlp(prefix + "mlp.", c["intermediate_size"])

    def qwen3(self, prefix, i):
        self.llama(prefix, i, norms=True)

    def delta(self, prefix):
        c = self.c
        keys, values = c["linear_num_key_heads"] * 128, c["linear_num_value_heads"] * 128
        heads = c["linear_num_value_heads"]
        if c["model_type"] == "qwen3_next":
            self.matrix(prefix + "in_proj_qkvz", 2 * keys + 2 * values, self.hidden)
            self.matrix(prefix + "in_proj_ba", 2 * heads, self.hidden)
        else:
            for leaf, rows in (("qkv", 2 * keys + values), ("z", values), ("a", heads), ("b", heads)):
                self.matrix(f"{prefix}in_proj_{leaf}", rows, self.hidden)
        self.plain(prefix + "conv1d.weight", 2 * keys + values, 4, 1)
        self.plain(prefix + "A_log", heads, dtype="F32"), self.plain(prefix + "dt_bias", heads)
        self.norm(prefix + "norm", 128)
        self.matrix(prefix + "out_proj", self.hidden, values)

    def qwen35(self, prefix, i):
        c = self.c
        self.norm(prefix + "input_layernorm"), self.norm(prefix + "post_attention_layernorm")
        if (i + 1) % 4 == 0:
            self.attention(prefix + "self_attn.", c["head_dim"], c["num_key_value_heads"], gated=True, norms=True)
        else:
            self.delta(prefix + "linear_attn.")
        if "num_experts" not in c:
            return self.mlp(prefix + "mlp.", c["intermediate_size"])
        self.mlp(prefix + "mlp.shared_expert.", c["shared_expert_intermediate_size"])
        self.matrix(prefix + "mlp.gate", c["num_experts"], self.hidden)
        self.matrix(prefix + "mlp.shared_expert_gate", 1, self.hidden)
        return self.experts(prefix + "mlp.switch_mlp.", c["num_experts"], c["moe_intermediate_size"])

    def mtp(self):
        for leaf in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
            self.norm("mtp." + leaf)
        self.plain("mtp.fc.weight", self.hidden, 2 * self.hidden)
        self.qwen35("mtp.layers.0.", 3)

    def gemma4(self, prefix, i):
        c = self.c
        for leaf in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                     "post_feedforward_layernorm"):
            self.norm(prefix + leaf)
        shared = i >= c["num_hidden_layers"] - c["num_kv_shared_layers"]
        full = c["layer_types"][i] == "full_attention"
        kv_heads = c.get("num_global_key_value_heads", c["num_key_value_heads"]) if full else c["num_key_value_heads"]
        self.attention(prefix + "self_attn.", 512 if full else 256, 0 if shared else kv_heads, norms=True,
                       values=not (full and c["attention_k_eq_v"]))
        self.mlp(prefix + "mlp.", c["intermediate_size"] * (2 if c["use_double_wide_mlp"] and shared else 1))
        self.plain(prefix + "layer_scalar", 1)
        if "num_experts" in c:
            for leaf in ("post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2"):
                self.norm(prefix + leaf)
            self.matrix(prefix + "router.proj", c["num_experts"], self.hidden)
            self.plain(prefix + "router.scale", self.hidden)
            self.plain(prefix + "router.per_expert_scale", c["num_experts"])
            self.experts(prefix + "experts.switch_glu.", c["num_experts"], c["moe_intermediate_size"])
        if width := c["hidden_size_per_layer_input"]:
            self.matrix(prefix + "per_layer_input_gate", width, self.hidden)
            self.matrix(prefix + "per_layer_projection", self.hidden, width)
            self.norm(prefix + "post_per_layer_input_norm")
            if i == 0:
                all_layers = width * c["num_hidden_layers"]
                self.matrix("model.embed_tokens_per_layer", c["vocab_size_per_layer_input"], all_layers)
                self.matrix("model.per_layer_model_projection", all_layers, self.hidden)
                self.norm("model.per_layer_projection_norm", width)

    def gpt_oss(self, prefix, _):
        c = self.c
        self.norm(prefix + "input_layernorm"), self.norm(prefix + "post_attention_layernorm")
        self.attention(prefix + "self_attn.", 64, c["num_key_value_heads"], biased=True)
        self.plain(prefix + "self_attn.o_proj.bias", self.hidden)
        self.plain(prefix + "self_attn.sinks", c["num_attention_heads"])
        count, size = c["num_local_experts"], c["intermediate_size"]
        self.matrix(prefix + "mlp.router", count, self.hidden), self.plain(prefix + "mlp.router.bias", count)
        self.experts(prefix + "mlp.experts.", count, size, self.mxfp4)
        for leaf, rows in (("gate", size), ("up", size), ("down", self.hidden)):
            self.plain(f"{prefix}mlp.experts.{leaf}_proj.bias", count, rows)

    def glm4(self, prefix, i):
        c = self.c
        self.norm(prefix + "input_layernorm"), self.norm(prefix + "post_attention_layernorm")
        self.attention(prefix + "self_attn.", 128, 8, biased=True, norms=c["use_qk_norm"])
        if i < c["first_k_dense_replace"]:
            return self.mlp(prefix + "mlp.", c["intermediate_size"])
        self.mlp(prefix + "mlp.shared_experts.", c["moe_intermediate_size"])
        self.plain(prefix + "mlp.gate.weight", c["n_routed_experts"], self.hidden)
        self.plain(prefix + "mlp.gate.e_score_correction_bias", c["n_routed_experts"])
        return self.experts(prefix + "mlp.switch_mlp.", c["n_routed_experts"], c["moe_intermediate_size"])
