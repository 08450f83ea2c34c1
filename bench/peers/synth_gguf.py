"""Writes a GGUF of random weights in the shape of a Qwen3.5 model, for llama.cpp: every matrix in Q4_0 (4.5 bits a
weight, the tied head too), which is what `synth:SHAPE?bits=4&group=64` takes, so both sides read the same bytes.

    python synth_gguf.py qwen3.5-0.8b out.gguf
    python synth_gguf.py "qwen3.5-35b-a3b?layers=4" out.gguf

Keys and tensors are those that llama.cpp's loader of the architecture `qwen35` or `qwen35moe` asks for
(src/models/qwen35.cpp, qwen35moe.cpp). The vocabulary has no texts: a benchmark needs none. Routers stay in bf16 on our
side and float32 on theirs, as conversions keep them.
"""

import sys

import numpy
from gguf import GGMLQuantizationType, GGUFWriter

HEAD, DELTA_HEAD, TAPS, EVERY = 256, 128, 4, 4  # head_dim, linear_*_head_dim, linear_conv_kernel_dim, full attention
VOCABULARY = 248320
BLOCK = 32  # weights of a Q4_0 block: one float16 scale and 16 bytes of codes

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
    """The shape and the experts of NAME or NAME?layers=N; None for an unknown name."""
    base, _, layers = name.partition("?layers=")
    if base not in SHAPES or (layers and not layers.isdigit()):
        return None
    shape = list(SHAPES[base])
    shape[1] = int(layers) if layers else shape[1]
    return tuple(shape), EXPERTS.get(base)


class Maker:
    def __init__(self, path, experts):
        self.architecture = "qwen35moe" if experts else "qwen35"
        self.experts = experts
        self.writer = GGUFWriter(path, self.architecture)
        self.random = numpy.random.default_rng(0)
        self.blocks = {}  # by shape: layers share their random bytes in memory, not in the file

    def matrix(self, name, rows, cols):
        if (rows, cols) not in self.blocks:
            codes = self.random.integers(0, 256, (rows, cols // BLOCK, 18), dtype=numpy.uint8)
            scale = numpy.array([1 / (4.6 * numpy.sqrt(cols))], dtype=numpy.float16).view(numpy.uint8)
            codes[:, :, :2] = scale
            self.blocks[rows, cols] = codes.reshape(rows, -1)
        self.writer.add_tensor(name, self.blocks[rows, cols], raw_dtype=GGMLQuantizationType.Q4_0)

    def stack(self, name, count, rows, cols):
        """`count` matrices in one tensor; the second half repeats the first, which the file's reader cannot know."""
        key = (count, rows, cols)
        if key not in self.blocks:
            half = self.random.integers(0, 256, (count // 2, rows, cols // BLOCK, 18), dtype=numpy.uint8)
            half[..., :2] = numpy.array([1 / (4.6 * numpy.sqrt(cols))], dtype=numpy.float16).view(numpy.uint8)
            half = half.reshape(count // 2, rows, -1)
            self.blocks[key] = numpy.concatenate([half, half])
        self.writer.add_tensor(name, self.blocks[key], raw_dtype=GGMLQuantizationType.Q4_0)

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
        writer.add_file_type(2)  # mostly Q4_0
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
        writer.add_tokenizer_model("no_vocab")

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
        sys.exit(f"{__doc__}\nshapes: {', '.join(SHAPES)}")
    shape, experts = found
    maker = Maker(sys.argv[2], experts)
    maker.keys(shape)
    maker.tensors(shape)
    maker.write()


if __name__ == "__main__":
    main()
