"""A model on several devices, from outside: the lines of inspect, the tokens, and the refusals.

    python3 tests/cli/division_test.py build/release/foretoken
"""

import pathlib
import sys

import cli_test


class Division(cli_test.CliTest):
    def test_inspect_shows_what_each_device_would_have(self):
        found = self.expect_json(0, "inspect", "--devices", "cpu=10,ref=6")
        self.assertEqual(len(found["devices"]), 2)
        self.assertTrue(found["devices"][0].startswith("1 (cpu): layers 1 to 10, "), found["devices"])
        self.assertTrue(found["devices"][1].startswith("2 (ref): layers 11 to 16, "), found["devices"])
        self.assertEqual(self.expect_json(0, "inspect")["devices"], [])

    def test_two_devices_of_one_kind_give_the_tokens_of_one(self):
        asked = ("run", "--prompt-ids", "1,2,3", "--max-tokens", "12", "--seed", "3", "--temperature", "1")
        whole = self.expect_json(0, *asked, "--backend", "cpu")
        parts = self.expect_json(0, *asked, "--split", "layers", "--devices", "cpu,cpu")
        self.assertEqual(whole["token_ids"], parts["token_ids"])
        self.assertIn("layers 1 to ", parts["backend"])

    def test_ranks_give_the_tokens_of_one_device(self):
        asked = ("run", "--prompt-ids", "1,2,3", "--max-tokens", "12", "--seed", "3", "--temperature", "1")
        whole = self.expect_json(0, *asked, "--backend", "cpu", "--threads", "1")
        for devices in ("cpu,cpu", "cpu,cpu,cpu,cpu"):
            ranks = self.expect_json(0, *asked, "--threads", "1", "--split", "tensor", "--devices", devices)
            self.assertEqual(whole["token_ids"], ranks["token_ids"], devices)
        self.assertIn("4 ranks, each on ", ranks["backend"])
        found = self.expect_json(0, "inspect", "--split", "tensor", "--devices", "cpu,cpu")
        self.assertIn("the embedding", found["devices"][0])
        self.assertIn("2 (cpu): ", found["devices"][1])

    def test_what_cannot_be_is_one_sentence(self):
        run = ("run", "--prompt-ids", "1")
        self.expect_error(2, "needs two devices", *run, "--split", "layers", "--devices", "cpu")
        self.expect_error(2, "name devices of one kind", *run, "--split", "tensor", "--devices", "cpu,ref")
        self.expect_error(2, "expected device, cpu or cpu=LAYERS", *run, "--experts", "gpu")
        self.expect_error(2, "--devices without --split", *run, "--devices", "cpu,ref")
        self.expect_error(2, "'cpu=0' has no number of layers", *run, "--split", "layers", "--devices", "cpu=0,ref=1")


if __name__ == "__main__":
    cli_test.PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    cli_test.unittest.main(module=sys.modules[__name__])
