"""lm-eval's own local-completions model against the real server. The package is large, so nothing installs it:
without it the suite is skipped, and openai_test.py covers the wire format.

    python3 -m venv build/harness && build/harness/bin/pip install "lm_eval[api]" transformers
    SDK_PYTHON=build/harness/bin/python tools/sdk_test tests/server/harness_test.py
"""
import importlib.util
import json
import subprocess
import unittest

from server_process import ROOT, Server, program

CASES = [("The river runs", " to the sea"), ("def add(a, b):\n    return", " a + b\n"), ("One two", " three")]


@unittest.skipUnless(importlib.util.find_spec("lm_eval"), "lm_eval is not installed")
class Harness(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server().start()

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def model(self, **fields):
        from lm_eval.models.openai_completions import LocalCompletionsAPI

        return LocalCompletionsAPI(model=self.server.facts["model"], base_url=self.server.url + "/v1/completions",
                                   tokenizer_backend="huggingface", tokenizer=str(ROOT / "assets/qwen3.5-tiny"),
                                   **fields)

    def ask(self, kind, arguments, **fields):
        from lm_eval.api.instance import Instance

        requests = [Instance(request_type=kind, doc={}, arguments=one, idx=i) for i, one in enumerate(arguments)]
        return getattr(self.model(**fields), kind)(requests, disable_tqdm=True)

    def expected(self, context, rest):
        """The log-probability of the continuation by `score`, and whether each of its tokens is the likeliest."""
        tokenizer = self.model().tokenizer
        ids = tokenizer.encode(context + rest)
        first = len(tokenizer.encode(context))
        self.assertEqual(ids[:first], tokenizer.encode(context))
        command = [program(), "score", "--json", "--top", "1000", "--prompt-ids", ",".join(map(str, ids))]
        positions = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["positions"]
        total, greedy = 0.0, True
        for at in range(first, len(ids)):
            before = positions[at - 1]
            total += dict(before["top"])[ids[at]] - before["logsumexp"]
            greedy = greedy and before["argmax"] == ids[at]
        return total, greedy

    def test_log_likelihoods_are_those_of_score(self):
        wanted = [self.expected(*case) for case in CASES]
        for fields in ({}, {"batch_size": 3}, {"num_concurrent": 3}, {"tokenized_requests": False}):
            found = self.ask("loglikelihood", CASES, **fields)
            for (total, greedy), (wanted_total, wanted_greedy) in zip(found, wanted):
                self.assertAlmostEqual(total, wanted_total, places=5)
                self.assertEqual(greedy, wanted_greedy)

    def test_a_greedy_answer_is_found_to_be_greedy(self):
        answer = self.ask("generate_until", [("The river", {"until": [], "max_gen_toks": 8, "temperature": 0})])[0]
        (_, greedy), = self.ask("loglikelihood", [("The river", answer)])
        self.assertTrue(greedy)


if __name__ == "__main__":
    unittest.main()
