"""`foretoken tune` from outside, with a training program that is quick and pretends.

    python3 tests/cli/tune_test.py build/release/foretoken [CLASS]

The class Trained trains a drafter for the shipped model with PyTorch: it needs FORETOKEN_TORCH, an interpreter that
has it, and FORETOKEN_FULL.
"""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import unittest

import cli_test

FULL = "FORETOKEN_FULL" in os.environ
TORCH = os.environ.get("FORETOKEN_TORCH") if FULL else None

FAKE = """#!/usr/bin/env python3
import json, os, sys, time
sys.path.insert(0, {tests!r})
how = os.environ.get("FAKE", "")
if sys.argv[1] == "-c":
    if how == "no torch":
        sys.exit("ModuleNotFoundError: No module named 'torch'")
    sys.exit(0)
assert sys.argv[1:3] == ["-m", "foretoken_tune"], sys.argv
assert os.path.exists(os.environ["PYTHONPATH"] + "/foretoken_tune/training.py")
job = json.load(open(sys.argv[4]))
def say(**fields):
    print(json.dumps(fields), flush=True)
if sys.argv[3] == "measure":
    say(phase="measured", seconds_a_step=0.5)
    sys.exit(0)
for path in job["shards"] + [job["target"]]:
    assert os.path.getsize(path) > 100, path
if how == "failed":
    say(phase="failed", message="ValueError: the loss is not a number")
    sys.exit(1)
if how == "killed":
    os.kill(os.getpid(), 9)
if how == "slow":
    say(phase="training", step=1, steps=job["steps"], loss=9.5, accepted=[0.1])
    time.sleep(60)
from odd_drafters import write_eagle3
import pathlib
made = pathlib.Path(write_eagle3(pathlib.Path(job["out"]) / "made", {model!r}, original=True))
for file in made.iterdir():
    file.rename(made.parent / file.name)
say(phase="done", step=job["steps"], steps=job["steps"], loss=3.5, accepted=[0.5, 0.25], covered=0.9)
"""


class TuneTest(cli_test.CliTest):
    def setUp(self):
        super().setUp()
        self.python = self.folder / "python"
        self.python.write_text(FAKE.format(tests=str(cli_test.ROOT / "tests" / "cli"), model=str(cli_test.MODEL)))
        self.python.chmod(0o755)
        self.out = self.folder / "drafter"
        self.flags = ("tune", str(cli_test.MODEL), "--out", str(self.out), "--python", str(self.python), "--texts",
                      "32", "--steps", "3", "--yes")

    def shards(self):
        return {path.name: path.read_bytes() for path in (self.out / "work" / "shards").glob("shard-*")}


class Work(TuneTest):
    def test_it_writes_texts_trains_compares_and_keeps_only_a_winner(self):
        report = self.expect_json(1, *self.flags, "--keep-work")  # a random drafter does not win
        self.assertFalse(report["kept"])
        self.assertTrue(report["identical"])
        self.assertIn("it is not kept", report["why"])
        self.assertGreater(report["texts"], 16)
        self.assertGreater(report["tokens"], 1000)
        self.assertEqual((report["steps"], report["loss"], report["accepted"]), (3, 3.5, [0.5, 0.25]))
        self.assertGreater(report["tokens_per_round_at_depth_3"]["mtp"], 2)
        self.assertLess(report["tokens_per_round_at_depth_3"]["eagle3"], 2)
        names = [entry["drafter"] for entry in report["comparison"]["drafters"]]
        self.assertEqual((names[0], names[-1]), ("none", "auto"))
        self.assertIn("eagle3", names)
        card = (self.out / "README.md").read_text()
        self.assertIn("Licence of the base model", card)
        self.assertIn("tokens/round", card)
        self.assertEqual(sorted(self.shards()), ["shard-00000.safetensors"])
        # The drafter is what `--drafter` and `graft` take.
        self.expect(0, "run", "-p", "Hi", "-n", "4", "--drafter", f"eagle3={self.out}")
        again = self.expect(1, *self.flags)  # nothing is trained twice
        self.assertIn(b"continues the work", again.stderr)
        self.assertFalse((self.out / "work").exists())

    @unittest.skipUnless(FULL, "src/tune's tests cover it; FORETOKEN_FULL=1 runs it from outside")
    def test_any_number_of_streams_writes_the_same_shards(self):
        found = []
        for streams in ("1", "3"):
            self.expect(1, *self.flags, "--streams", streams, "--keep-work")
            found.append(self.shards())
            cli_test.shutil.rmtree(self.out)
        self.assertEqual(found[0], found[1])

    def test_ones_own_prompts_and_texts_are_used(self):
        prompts = self.folder / "prompts.txt"
        prompts.write_text("\n\n".join(f"Name {n} rivers." for n in range(5)))
        report = self.expect_json(1, *self.flags, "--prompts", str(prompts))
        self.assertEqual(report["comparison"]["drafters"][0]["answers"], 1)  # one of them is held out
        code = self.folder / "code"
        code.mkdir()
        for name in ("a.py", "b.py"):
            (code / name).write_text("".join(f"def f{n}(x):\n    return x + {n}\n\n" for n in range(60)))
        (code / "picture.png").write_bytes(b"\x89PNG\xff\xfe")
        self.expect_json(1, *self.flags, "--prompts", str(code))

    @unittest.skipUnless(FULL, "src/tune's tests cover it; FORETOKEN_FULL=1 runs it from outside")
    def test_killed_at_any_moment_it_ends_with_the_same_shards(self):
        self.expect(1, *self.flags, "--keep-work")
        whole = self.shards()
        cli_test.shutil.rmtree(self.out)
        chance = random.Random(4)
        for kind in (signal.SIGKILL, signal.SIGKILL, signal.SIGINT):
            child = subprocess.Popen([cli_test.PROGRAM, *self.flags, "--keep-work"], cwd=self.folder,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                     env={**self.environment, "FAKE": "slow"})
            time.sleep(chance.uniform(0.2, 3))
            child.send_signal(kind)
            child.wait(timeout=60)
        self.expect(1, *self.flags, "--keep-work")
        self.assertEqual(self.shards(), whole)


class Refused(TuneTest):
    def test_each_cause_has_its_sentence(self):
        for words, change, environment in (
                ("cannot import torch: ModuleNotFoundError", (), {"FAKE": "no torch"}),
                ("the loss is not a number", (), {"FAKE": "failed"}),
                ("probably because memory ran out", (), {"FAKE": "killed"}),
                ("a synthetic model writes nothing", ("--model", "synth:tiny"), {}),
                ("dflash2 cannot be trained yet", ("--kind", "dflash2"), {}),
                ("fewer than two texts", ("--prompts", os.devnull), {}),
                ("--hours: expected", ("--hours", "0"), {})):
            with self.subTest(words):
                flags = [flag for flag in self.flags if change[:1] != ("--model",) or flag != str(cli_test.MODEL)]
                done = self.run_program(*flags, *change, **environment)
                self.assertIn(done.returncode, (1, 2), done.stderr)
                self.assertIn(words, done.stderr.decode())
                self.assertEqual(done.stdout, b"")

    def test_without_a_terminal_it_begins_only_with_yes(self):
        flags = [flag for flag in self.flags if flag != "--yes"]
        self.expect_error(2, "without a terminal, add --yes", *flags, "-q")

    def test_without_pytorch_or_network_it_says_what_to_do(self):
        empty = self.folder / "bin"
        empty.mkdir()
        flags = [flag for flag in self.flags if flag not in ("--python", str(self.python))]
        self.expect_error(1, "there is no python3", *flags, "-q", PATH=str(empty))
        (empty / "python3").write_text("#!/bin/sh\nexit 1\n")
        (empty / "python3").chmod(0o755)
        self.expect_error(1, "PyTorch could not be fetched", *flags, "-q", PATH=str(empty))

    def test_a_folder_with_other_unfinished_work_is_left_alone(self):
        self.expect_error(1, "not a number", *self.flags, "-q", FAKE="failed")
        prompts = self.folder / "prompts.txt"
        prompts.write_text("One.\n\nTwo.\n\nThree.")
        self.expect_error(2, "unfinished work for another model, kind or other prompts", *self.flags, "-q",
                          "--prompts", str(prompts))


@unittest.skipUnless(TORCH, "needs FORETOKEN_TORCH and FORETOKEN_FULL")
class Trained(TuneTest):
    def test_a_drafter_of_the_shipped_model_learns_and_is_exact(self):
        report = self.expect_json(self.status(), "tune", str(cli_test.MODEL), "--out", str(self.out), "--python", TORCH,
                                  "--texts", "256", "--steps", "150", "--yes")
        self.assertTrue(report["identical"])
        self.assertGreater(report["tokens_per_round_at_depth_3"]["eagle3"], 1.5)
        matrix = self.expect_json(0, "verify", "--prompts", "1", "--tokens", "12", "--drafter", f"eagle3={self.out}")
        self.assertTrue(matrix["identical"])

    @staticmethod
    def status():
        return 1  # the shipped model has an MTP head, which is faster


if __name__ == "__main__":
    cli_test.PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    cli_test.unittest.main(module=sys.modules[__name__])
