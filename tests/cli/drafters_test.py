"""Drafters with a folder of their own, from outside: the matrix over all of them, the choice, refusals.

    python3 tests/cli/drafters_test.py build/release/foretoken [CLASS]

The drafters are random (odd_drafters.py), so that any checkout has all of them.
"""

import json
import pathlib
import re
import shutil
import sys

import cli_test
from odd_drafters import write_dflash, write_eagle3

GOLDEN = cli_test.ROOT / "tests" / "golden"


class DraftersTest(cli_test.CliTest):
    def drafters(self, target):
        return ("--drafter", "eagle3=" + write_eagle3(self.folder / "eagle3", target),
                "--drafter", "dflash=" + write_dflash(self.folder / "dflash", target))

    def check_matrix(self, report, *names):
        self.assertTrue(report["identical"] and report["complete"])
        drafted = {}
        for cell in report["cells"]:
            name = re.search(r"(\w+) depth", cell["cell"]).group(1)
            drafted[name] = drafted.get(name, 0) + cell["drafted"]
        for name in names:
            self.assertGreater(drafted.get(name, 0), 0, f"{name} drafted nothing: {drafted}")


class Matrix(DraftersTest):
    def test_every_drafter_changes_no_token_of_an_odd_qwen(self):
        odd = GOLDEN / "odd"
        report = self.expect_json(0, "verify", "--model", str(odd), "--prompts", "1", "--tokens", "10", "--threads",
                                  "1", *self.drafters(odd), "--drafter", f"model={odd}")
        self.check_matrix(report, "mtp", "eagle3", "dflash", "model", "recall", "auto", "switching")

    def test_every_drafter_changes_no_token_of_an_odd_gemma(self):
        odd = GOLDEN / "gemma4" / "odd"
        report = self.expect_json(0, "verify", "--model", str(odd), "--prompts", "1", "--tokens", "10", "--threads",
                                  "1", *self.drafters(odd))
        self.check_matrix(report, "eagle3", "dflash", "recall", "switching")


class Comparison(DraftersTest):
    def test_bench_drafters_prints_one_table_of_the_same_tokens(self):
        model = cli_test.MODEL
        command = ("bench", "--drafters", "--pairs", "1", "--temperature", "0", "-p", "What is a ring buffer?",
                   "-n", "24", "--depth", "3", *self.drafters(model))
        report = self.expect_json(0, *command)
        names = [one["drafter"] for one in report["drafters"]]
        self.assertEqual(names, ["none", "mtp", "eagle3", "dflash", "lookup", "auto"])
        self.assertTrue(all(one["identical"] and one["tokens"] > 0 for one in report["drafters"]))
        by = {one["drafter"]: one for one in report["drafters"]}
        self.assertGreater(by["mtp"]["tokens_per_round"], by["none"]["tokens_per_round"])
        self.assertGreater(by["mtp"]["by_drafter"]["mtp"]["accepted"], 0)
        self.assertGreater(by["dflash"]["by_drafter"]["dflash"]["drafted"], 0)
        self.assertIn(b"accepted by position", self.expect(0, *command).stdout)


class Refused(DraftersTest):
    def test_a_drafting_model_with_another_tokenizer(self):
        other = self.folder / "other"
        shutil.copytree(cli_test.MODEL, other)
        tokenizer = json.loads((other / "tokenizer.json").read_text())
        words = tokenizer["model"]["vocab"]
        first, second = sorted(words, key=words.get)[300:302]
        words[first], words[second] = words[second], words[first]
        (other / "tokenizer.json").chmod(0o644)
        (other / "tokenizer.json").write_text(json.dumps(tokenizer))
        self.expect_error(1, "token 300 differs; use a model of the same family", "run", "-p", "x", "-n", "2",
                          "--drafter", f"model={other}")

    def test_a_drafting_model_with_another_vocabulary(self):
        self.expect_error(1, "use a model with the target's tokenizer", "run", "--model", str(GOLDEN / "odd"),
                          "--prompt-ids", "5,6", "-n", "2", "--drafter", f"model={cli_test.MODEL}")

    def test_drafters_of_another_target(self):
        odd = GOLDEN / "odd"
        for name, write in (("eagle3", write_eagle3), ("dflash", write_dflash)):
            drafter = write(self.folder / name, odd)
            self.expect_error(1, "use the drafter of this target", "run", "-p", "x", "-n", "2", "--drafter",
                              f"{name}={drafter}")

    def test_a_folder_that_is_no_drafter(self):
        self.expect_error(1, "nothing-here", "run", "-p", "x", "-n", "2", "--drafter",
                          f"model={self.folder / 'nothing-here'}")


if __name__ == "__main__":
    cli_test.PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    cli_test.unittest.main(module=sys.modules[__name__])
