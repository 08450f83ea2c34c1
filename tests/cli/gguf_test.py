"""A GGUF file runs as it is: a small random Qwen3.5 arranged by llama.cpp's rules, against its own conversion.

    python3 tests/cli/gguf_test.py build/release/foretoken [CLASS]
"""

import json
import pathlib
import struct
import sys
import unittest

import quantize_test
from convert_test import BF16, F32, K, Q8_0, SIZE, V, ConvertTest, encoded, gguf_name, string
from quantize_test import H, LAYERS, TEXT, VOCABULARY

WHOLE, FLOAT, BOOL, TEXT_KIND, LIST = 4, 6, 7, 8, 9  # ggml's kinds of metadata
CHAT = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def value(kind, content):
    if kind == TEXT_KIND:
        return string(content)
    return struct.pack({WHOLE: "<I", FLOAT: "<f", BOOL: "<B"}[kind], content)


def key(name, kind, content):
    return string(name) + struct.pack("<I", kind) + value(kind, content)


def key_list(name, kind, contents):
    return (string(name) + struct.pack("<IIQ", LIST, kind, len(contents))
            + b"".join(value(kind, content) for content in contents))


def tokens():
    """Printable ASCII, a space, a line's end, some words; the last ones are control tokens."""
    texts = [chr(code) for code in range(33, 127)] + ["Ġ", "Ċ", "th", "the", "Ġthe"]
    texts += [f"w{number}" for number in range(VOCABULARY - len(texts) - 3)]
    return texts + ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def tokenizer_keys(pre="qwen35"):
    texts = tokens()
    return [key("tokenizer.ggml.model", TEXT_KIND, "gpt2"), key("tokenizer.ggml.pre", TEXT_KIND, pre),
            key_list("tokenizer.ggml.tokens", TEXT_KIND, texts),
            key_list("tokenizer.ggml.token_type", WHOLE, [3 if text.startswith("<|") else 1 for text in texts]),
            key_list("tokenizer.ggml.merges", TEXT_KIND, ["t h", "th e", "Ġ the"]),
            key("tokenizer.ggml.eos_token_id", WHOLE, VOCABULARY - 1),
            key("tokenizer.ggml.add_bos_token", BOOL, 0), key("tokenizer.chat_template", TEXT_KIND, CHAT)]


def model_keys(architecture="qwen35"):
    rope = TEXT["rope_parameters"]
    whole = {"block_count": LAYERS + 1, "nextn_predict_layers": 1, "context_length": 512, "embedding_length": H,
             "feed_forward_length": 96, "attention.head_count": 2, "attention.head_count_kv": 1,
             "attention.key_length": 32, "rope.dimension_count": 16, "ssm.conv_kernel": 4, "ssm.state_size": SIZE,
             "ssm.group_count": K, "ssm.time_step_rank": V, "ssm.inner_size": V * SIZE, "full_attention_interval": 4}
    return [key("general.architecture", TEXT_KIND, architecture),
            *(key(f"{architecture}.{name}", WHOLE, number) for name, number in whole.items()),
            key(f"{architecture}.rope.freq_base", FLOAT, rope["rope_theta"]),
            key_list(f"{architecture}.rope.dimension_sections", WHOLE, [*rope["mrope_section"], 0])]


def gguf_tensors(tensors, matrix_type):
    """-> [(name, ggml's type, shape, bytes)]"""
    return [(gguf_name(name), *encoded(name, entry, matrix_type)) for name, entry in tensors.items()]


def write_file(path, keys, tensors, offsets=None):
    table, data = b"", b""
    for name, kind, shape, content in tensors:
        sides = struct.pack(f"<{len(shape)}Q", *reversed(shape))
        offset = (offsets or {}).get(name, len(data))
        table += string(name) + struct.pack("<I", len(shape)) + sides + struct.pack("<IQ", kind, offset)
        data += content + bytes(-len(content) % 32)
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys) + table
    path.write_bytes(header + bytes(-len(header) % 32) + data)


class GgufTest(ConvertTest):
    def setUp(self):
        super().setUp()
        self.file = self.folder / "tiny-Q8_0.gguf"

    def write(self, matrix_type=Q8_0, **arguments):
        keys = model_keys() + tokenizer_keys(**arguments)
        write_file(self.file, keys, gguf_tensors(self.tensors, matrix_type))
        return self.file

    def answer(self, *arguments):
        done = self.run_program(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode()


class AsItIs(GgufTest):
    def test_scores_are_those_of_the_converted_folder(self):
        for matrix_type in (BF16, Q8_0):
            self.write(matrix_type)
            self.convert(self.file, self.out, "--force")
            self.assertEqual(self.positions(self.file), self.positions(self.out))

    def test_answers_tokens_and_template_are_those_of_the_converted_folder(self):
        self.write()
        self.convert(self.file, self.out)
        for arguments in (("run", "-p", "the other", "-n", "12", "--temperature", "0"),
                          ("run", "-p", "the other", "-n", "12", "--temperature", "0", "--raw"),
                          ("tokenize", "the <|im_start|> thing\n")):
            command, *rest = arguments
            self.assertEqual(self.answer(command, "--model", self.file, *rest),
                             self.answer(command, "--model", self.out, *rest), arguments)

    def test_its_head_drafts_and_nothing_is_lost(self):
        self.write()
        seen = json.loads(self.answer("inspect", self.file, "--json"))
        self.assertEqual(seen["head"]["state"], "ready")
        self.assertIn("8-bit group 32", seen["quantisation"])
        self.answer("verify", "--model", self.file, "--prompts", "1", "--tokens", "6")
        self.answer("doctor", "--model", self.file)

    def test_a_folder_that_holds_one_file_names_it(self):
        self.write()
        inside = self.folder / "one"
        inside.mkdir()
        self.file.rename(inside / "tiny.gguf")
        (inside / "mmproj-tiny.gguf").write_bytes(b"GGUF")
        self.answer("tokenize", "--model", inside, "the")
        (inside / "other.gguf").write_bytes(b"GGUF")
        done = self.run_program("tokenize", "--model", inside, "the")
        self.assertIn(b"several models", done.stderr)

    def test_a_blob_without_an_ending_runs(self):
        blob = self.folder / "sha256-0123"
        self.write().rename(blob)
        self.answer("tokenize", "--model", blob, "the")


class Parts(GgufTest):
    def write_parts(self):
        tensors = gguf_tensors(self.tensors, Q8_0)
        half = len(tensors) // 2
        paths = [self.folder / f"tiny-{number:05}-of-00002.gguf" for number in (1, 2)]
        for number, (path, part) in enumerate(zip(paths, (tensors[:half], tensors[half:]))):
            keys = model_keys() + tokenizer_keys() if number == 0 else []
            keys += [key("split.no", WHOLE, number), key("split.count", WHOLE, 2),
                     key("split.tensors.count", WHOLE, len(tensors))]
            write_file(path, keys, part)
        return paths

    def test_any_part_names_the_whole(self):
        self.write()
        wanted = self.positions(self.file)
        for path in self.write_parts():
            self.assertEqual(self.positions(path), wanted)

    def test_an_absent_or_foreign_part_is_named(self):
        first, second = self.write_parts()
        second.write_bytes(first.read_bytes())
        self.assertIn(b"expected split.no 1, found 0", self.run_program("run", "--model", first, "-p", "x").stderr)
        second.unlink()
        self.assertIn(second.name.encode(), self.run_program("run", "--model", first, "-p", "x").stderr)


class Refused(GgufTest):
    def says(self, words):
        done = self.run_program("run", "--model", self.file, "-p", "x", "-n", "1")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(words, done.stderr.decode())
        self.assertIn(self.file.name, done.stderr.decode())

    def test_what_is_not_known_is_named(self):
        self.write(pre="odd-bpe")
        self.says("tokenizer.ggml.pre: expected one of llama-bpe")
        write_file(self.file, model_keys("mamba"), [])
        self.says("found 'mamba'")
        write_file(self.file, model_keys("deepseek2"), [])
        self.says("found 'deepseek2'; not implemented: latent attention (MLA);")
        tensors = gguf_tensors(self.tensors, Q8_0)
        name, _, shape, content = tensors[0]
        write_file(self.file, model_keys(), [(name, 16, shape, content), *tensors[1:]])
        self.says("IQ2_XXS")

    def test_a_grafted_head_is_not_ignored(self):
        self.write()
        self.convert(self.file, self.out)
        done = self.run_program("graft", "--head", self.out, "--onto", self.file, "--force")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("cannot be joined to a GGUF file", " ".join(done.stderr.decode().split()))

    def test_damage_is_named(self):
        keys, tensors = model_keys() + tokenizer_keys(), gguf_tensors(self.tensors, Q8_0)
        write_file(self.file, keys, tensors)
        self.file.write_bytes(self.file.read_bytes()[:-4096])
        self.says("is the file truncated?")
        write_file(self.file, keys, tensors, {tensors[1][0]: 0})
        self.says("bytes that no other tensor has")
        write_file(self.file, keys, tensors, {tensors[1][0]: 1 << 62})
        self.says("bytes inside the file")
        write_file(self.file, [*keys, keys[0]], tensors)
        self.says("'general.architecture' occurs twice")
        write_file(self.file, keys, [*tensors, tensors[0]])
        self.says("occurs twice")
        name, kind, shape, content = tensors[0]
        write_file(self.file, keys, [(name, kind, (shape[0] // 2, shape[1]), content), *tensors[1:]])
        self.says("vocab")
        write_file(self.file, keys, [entry for entry in tensors if entry[0] != "blk.0.ffn_up.weight"])
        self.says("expected a tensor")
        write_file(self.file, keys, [*tensors, ("blk.0.odd.weight", F32, (4,), bytes(16))])
        self.says("'blk.0.odd.weight'")


if __name__ == "__main__":
    quantize_test.PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main(verbosity=2)
