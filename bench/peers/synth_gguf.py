"""Writes a GGUF of random weights in the shape of a Qwen3.5 model. By default every matrix is in Q4_0 (4.5 bits a
weight, the tied head too), the size that `synth:SHAPE?bits=4&group=64` takes, so both sides read the same bytes. With
type=q4_k_m the matrices are in Q4_K, and in Q6_K those for which llama.cpp's quantize chooses it.

    python synth_gguf.py qwen3.5-0.8b out.gguf
    python synth_gguf.py "qwen3.5-35b-a3b?layers=4" out.gguf
    python synth_gguf.py "qwen3.5-4b?type=q4_k_m" out.gguf

Keys and tensors are those that llama.cpp's loader of the architecture `qwen35` or `qwen35moe` asks for
(src/models/qwen35.cpp, qwen35moe.cpp). The texts of the vocabulary are numbers. Routers stay in bf16 on our side and
float32 on theirs, as conversions keep them.
"""

import sys
from urllib.parse import parse_qsl

import numpy
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter

HEAD, DELTA_HEAD, TAPS, EVERY = 256, 128, 4, 4  # head_dim, linear_*_head_dim, linear_conv_kernel_dim, full attention
VOCABULARY = 248320
TYPES = ("q4_0", "q4_k_m")
# Blocks: offsets of their float16 scales, each with a value for weights of deviation 1.
SCALES = {GGMLQuantizationType.Q4_0: {0: 1 / 4.6},
          GGMLQuantizationType.Q4_K: {0: 7e-3, 2: 5e-2},  # times 6-bit scales and minima
          GGMLQuantizationType.Q6_K: {208: 7e-4}}         # times 8-bit scales

# name: hidden, layers, intermediate, heads, kv_heads, key_heads, value_heads, tied
# (as in src/models/qwen3_5/synthetic.cpp)
SHAPES = {
    "qwen3.5-0.8b": (1024, 24, 3584, 8, 2, 16, 16, True),
    "qwen3.5-2b": (2048, 24, 6144, 8, 2, 16, 16, True),
    "qwen3.5-4b": (2560, 32, 9216, 16, 4, 16, 32, True),
    "qwen3.5-9b": (4096, 32, 12288, 16, 4, 16, 32, False),
    "qwen3.5-27b": (5120, 64, 17408, 24, 4, 16, 48, False),
    "qwen3.5-35b-a3b": (2048, 40, 512, 16, 2, 16, 32, False),
}
EXPERTS = {"qwen3.5-35b-a3b": (256, 8, 512)}  # experts, chosen, width of each; `intermediate` is the shared one's


def parse(name):
    """The shape, the experts and the type of NAME?layers=N&type=TYPE; None for what is unknown."""
    base, _, text = name.partition("?")
    keys = dict(parse_qsl(text))
    kind, layers = keys.pop("type", "q4_0"), keys.pop("layers", "")
    if base not in SHAPES or kind not in TYPES or keys or (layers and not layers.isdigit()):
        return None
    shape = list(SHAPES[base])
    shape[1] = int(layers) if layers else shape[1]
    return tuple(shape), EXPERTS.get(base), kind


def byte_letters():
    """One letter for each byte, as byte-level BPE writes them."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) for byte in plain] + [chr(256 + index) for index in range(len(others))]


def more_bits(block, layers):
    """Whether llama.cpp's Q4_K_M gives the values and the second linear of this layer's MLP six bits."""
    return block < layers // 8 or block >= 7 * layers // 8 or (block - layers // 8) % 3 == 2


class Maker:
    def __init__(self, path, shape, experts, kind):
        self.architecture = "qwen35moe" if experts else "qwen35"
        self.layers = shape[1]
        self.tied = shape[-1]
        self.experts = experts
        self.kind = kind
        self.writer = GGUFWriter(path, self.architecture)
        self.random = numpy.random.default_rng(0)
        self.blocks = {}  # by shape and type: layers share their random bytes in memory, not in the file

    def type_of(self, name):
        if self.kind == "q4_0":
            return GGMLQuantizationType.Q4_0
        parts = name.split(".")
        six = parts[0] == "output" or (parts[0] == "token_embd" and self.tied)
        if parts[0] == "blk" and ("ffn_down" in name or parts[2] in ("attn_v", "attn_qkv")):
            six = more_bits(int(parts[1]), self.layers)
        return GGMLQuantizationType.Q6_K if six else GGMLQuantizationType.Q4_K

    def random_blocks(self, kind, rows, cols):
        weights, size = GGML_QUANT_SIZES[kind]
        blocks = self.random.integers(0, 256, (rows, cols // weights, size), dtype=numpy.uint8)
        # As quantize writes them: the largest scale of a block is 63, the largest minimum too, or -128.
        if kind == GGMLQuantizationType.Q4_K:
            blocks[:, :, [4, 8]] |= 63
        elif kind == GGMLQuantizationType.Q6_K:
            blocks[:, :, 192] = 128
        for offset, scale in SCALES[kind].items():
            value = numpy.array([scale / numpy.sqrt(cols)], dtype=numpy.float16).view(numpy.uint8)
            blocks[:, :, offset:offset + 2] = value
        return blocks.reshape(rows, -1)

    def matrix(self, name, rows, cols):
        kind = self.type_of(name)
        key = (kind, rows, cols)
        if key not in self.blocks:
            self.blocks[key] = self.random_blocks(kind, rows, cols)
        self.writer.add_tensor(name, self.blocks[key], raw_dtype=kind)

    def stack(self, name, count, rows, cols):
        """`count` matrices in one tensor; the second half repeats the first, which the file's reader cannot know."""
        kind = self.type_of(name)
        key = (kind, count, rows, cols)
        if key not in self.blocks:
            half = self.random_blocks(kind, count // 2 * rows, cols).reshape(count // 2, rows, -1)
            self.blocks[key] = numpy.concatenate([half, half])
        self.writer.add_tensor(name, self.blocks[key], raw_dtype=kind)

    def floats(self, name, *shape, mean=0.0, deviation=0.1):
        self.writer.add_tensor(name, self.random.normal(mean, deviation, shape).astype(numpy.float32))

    def attention(self, block, hidden, heads, kv_heads):
        self.matrix(block + "attn_q.weight", 2 * heads * HEAD, hidden)  # with the output gate
        self.matrix(block + "attn_k.weight", kv_heads * HEAD, hidden)
        self.matrix(block + "attn_v.weight", kv_heads * HEAD, hidden)
        self.matrix(block + "attn_output.weight", hidden, heads * HEAD)
        self.floats(block + "attn_q_norm.weight", HEAD, mean=1)
        self.floats(block + "attn_k_norm.weight", HEAD, mean=1)

    def gated_delta(self, block, hidden, key_heads, value_heads):
        values, width = value_heads * DELTA_HEAD, (2 * key_heads + value_heads) * DELTA_HEAD
        self.matrix(block + "attn_qkv.weight", width, hidden)
        self.matrix(block + "attn_gate.weight", values, hidden)
        self.matrix(block + "ssm_alpha.weight", value_heads, hidden)
        self.matrix(block + "ssm_beta.weight", value_heads, hidden)
        self.matrix(block + "ssm_out.weight", hidden, values)
        self.floats(block + "ssm_conv1d.weight", width, TAPS, deviation=0.5)
        self.floats(block + "ssm_dt.bias", value_heads, mean=-3, deviation=1)
        self.floats(block + "ssm_a", value_heads, mean=-5, deviation=1)
        self.floats(block + "ssm_norm.weight", DELTA_HEAD, mean=1)

    def mlp(self, block, hidden, intermediate):
        kind = "_shexp" if self.experts else ""
        self.matrix(block + f"ffn_gate{kind}.weight", intermediate, hidden)
        self.matrix(block + f"ffn_up{kind}.weight", intermediate, hidden)
        self.matrix(block + f"ffn_down{kind}.weight", hidden, intermediate)
        if not self.experts:
            return
        count, _, width = self.experts
        self.floats(block + "ffn_gate_inp.weight", count, hidden, deviation=1 / numpy.sqrt(hidden))
        self.floats(block + "ffn_gate_inp_shexp.weight", hidden)
        self.stack(block + "ffn_gate_exps.weight", count, width, hidden)
        self.stack(block + "ffn_up_exps.weight", count, width, hidden)
        self.stack(block + "ffn_down_exps.weight", count, hidden, width)

    def keys(self, shape):
        hidden, layers, intermediate, heads, kv_heads, key_heads, value_heads, _ = shape
        writer = self.writer
        writer.add_file_type(2 if self.kind == "q4_0" else 15)  # LLAMA_FTYPE_MOSTLY_Q4_0, _Q4_K_M
        writer.add_block_count(layers)
        writer.add_context_length(262144)
        writer.add_embedding_length(hidden)
        writer.add_feed_forward_length(intermediate)
        writer.add_head_count(heads)
        writer.add_head_count_kv(kv_heads)
        writer.add_key_length(HEAD)
        writer.add_value_length(HEAD)
        writer.add_layer_norm_rms_eps(1e-6)
        writer.add_rope_freq_base(1e7)
        writer.add_rope_dimension_count(HEAD // 4)
        writer.add_rope_dimension_sections([11, 11, 10, 0])
        writer.add_uint32(f"{self.architecture}.full_attention_interval", EVERY)
        if self.experts:
            writer.add_expert_count(self.experts[0])
            writer.add_expert_used_count(self.experts[1])
            writer.add_expert_feed_forward_length(self.experts[2])
            writer.add_expert_shared_feed_forward_length(intermediate)
        writer.add_ssm_conv_kernel(TAPS)
        writer.add_ssm_inner_size(value_heads * DELTA_HEAD)
        writer.add_ssm_state_size(DELTA_HEAD)
        writer.add_ssm_time_step_rank(value_heads)
        writer.add_ssm_group_count(key_heads)
        writer.add_vocab_size(VOCABULARY)
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("qwen35")
        words = byte_letters()
        words += [words[0] + words[1]] + [f"<{number}>" for number in range(257, VOCABULARY)]
        writer.add_token_list(words)
        writer.add_token_types([1] * VOCABULARY)
        writer.add_token_merges([f"{words[0]} {words[1]}"])
        writer.add_eos_token_id(VOCABULARY - 1)

    def tensors(self, shape):
        hidden, layers, intermediate, heads, kv_heads, key_heads, value_heads, tied = shape
        self.matrix("token_embd.weight", VOCABULARY, hidden)
        if not tied:
            self.matrix("output.weight", VOCABULARY, hidden)
        self.floats("output_norm.weight", hidden, mean=1)
        for layer in range(layers):
            block = f"blk.{layer}."
            self.floats(block + "attn_norm.weight", hidden, mean=1)
            self.floats(block + "post_attention_norm.weight", hidden, mean=1)
            if (layer + 1) % EVERY == 0:
                self.attention(block, hidden, heads, kv_heads)
            else:
                self.gated_delta(block, hidden, key_heads, value_heads)
            self.mlp(block, hidden, intermediate)

    def write(self):
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()


def main():
    found = parse(sys.argv[1]) if len(sys.argv) == 3 else None
    if found is None:
        sys.exit(f"{__doc__}\nshapes: {', '.join(SHAPES)}; types: {', '.join(TYPES)}")
    shape, experts, kind = found
    maker = Maker(sys.argv[2], shape, experts, kind)
    maker.keys(shape)
    maker.tensors(shape)
    maker.write()


if __name__ == "__main__":
    main()
