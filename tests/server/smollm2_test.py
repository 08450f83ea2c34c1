#!/usr/bin/env python3
"""The published SmolLM2-135M-Instruct, served: its tokenizer and template against transformers'
(tests/golden/smollm2), greedy text, and the gain by its drafter. Standard library only; FORETOKEN_SMOLLM2 names the
model (tools/smollm2 fetches it).

    smollm2_test.py PROGRAM
"""
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from raw_client import Client  # noqa: E402
from server_process import Server  # noqa: E402

MODEL = os.environ.get("FORETOKEN_SMOLLM2", "")
ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "smollm2"


def golden(name):
    return json.loads((GOLDEN / name).read_text(encoding="utf-8"))


class SmolLm2(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        drafter = ROOT / "assets" / "smollm2-135m-eagle3"
        # A given depth: the automatic one depends on how long rounds took when they were measured.
        cls.server = Server("--model", MODEL, "--drafter", f"eagle3={drafter}", "--depth", "3").__enter__()
        cls.client = Client(cls.server.url, timeout=120).__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.client.__exit__(None, None, None)
        cls.server.__exit__(None, None, None)

    def post(self, path, body):
        self.client.post(path, body)
        status, _, text = self.client.answer()
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def test_texts_have_the_ids_of_the_reference(self):
        for case in golden("tokenizer.json"):
            if not case["text"]:
                continue
            ids = self.post("/v1/tokenize", {"text": case["text"]})["tokens"]
            self.assertEqual(ids, case["ids"], case["text"])
            self.assertEqual(self.post("/v1/detokenize", {"tokens": ids})["text"], case["decoded"])

    def test_conversations_have_the_text_of_the_reference(self):
        compared = 0
        for case in golden("template.json"):
            if case["tools"] or case["kwargs"]:
                continue
            ids = self.post("/v1/tokenize", {"messages": case["messages"]})["tokens"]
            self.assertEqual(self.post("/v1/detokenize", {"tokens": ids})["text"], case["rendered"])
            compared += 1
        self.assertGreater(compared, 5)

    def test_the_screen_misses_no_head_that_the_model_does_not_name(self):
        drafter = ROOT / "assets" / "smollm2-135m-eagle3"
        command = [os.environ["FORETOKEN"], "serve", "--port", "0", "--model", MODEL, "--drafter", f"eagle3={drafter}"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            shown = next(line for line in server.stdout if line.startswith("  drafter"))
        finally:
            server.terminate()
            server.communicate()
        self.assertIn("eagle3", shown)
        self.assertNotIn("MTP head", shown)

    def test_its_drafter_gives_more_than_a_token_a_round_and_the_same_text(self):
        texts, per_round = {}, 0
        for drafter in ("none", "auto"):
            answer = self.post("/v1/chat/completions", {
                "messages": [{"role": "user", "content": "Give me three tips for learning a new language."}],
                "temperature": 0, "max_tokens": 160, "drafter": drafter})
            texts[drafter] = answer["choices"][0]["message"]["content"]
            per_round = answer["speculation"]["tokens_per_round"]
        self.assertEqual(texts["none"], texts["auto"])
        self.assertGreater(per_round, 1.3)


if __name__ == "__main__":
    if not MODEL:
        print("skipped: FORETOKEN_SMOLLM2 names no model; tools/smollm2 fetches it")
        sys.exit(77)
    os.environ["FORETOKEN"] = sys.argv.pop(1)
    unittest.main(verbosity=2)
