"""`foretoken tune` from outside, with a fake training program that is quick.

    python3 tests/cli/tune_test.py build/release/foretoken [CLASS]

The class Trained trains a drafter for the shipped model with PyTorch: it needs FORETOKEN_TORCH, an interpreter that
has it, and FORETOKEN_FULL.
"""

import json
import os
import pathlib
import random
import shutil
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
import pathlib, shutil
out = pathlib.Path(job["out"])
out.mkdir(exist_ok=True)
if job["kind"] == "mtp":  # the head that the model was published with
    shutil.copy({model!r} + "/mtp.safetensors", out)
    (out / "config.json").write_text(json.dumps(job["config"]))
    (out.parents[1] / "seen.json").write_text(json.dumps(job))
else:
    from odd_drafters import write_eagle3
    made = pathlib.Path(write_eagle3(out / "made", {model!r}, original=True))
    for file in made.iterdir():
        file.rename(out / file.name)
say(phase="done", step=job["steps"], steps=job["steps"], loss=3.5, accepted=[0.5, 0.25], covered=0.9)
"""


class TuneTest(cli_test.CliTest):
    def setUp(self):
        super().setUp()
        self.python = self.folder / "python"
        self.python.write_text(FAKE.format(tests=str(cli_test.ROOT / "tests" / "cli"), model=str(cli_test.MODEL)))
        self.python.chmod(0o755)
        self.out = self.folder / "drafter"
        self.built_in = ("tune", str(cli_test.MODEL), "--out", str(self.out), "--python", str(self.python), "--texts",
                         "32", "--steps", "3", "--yes")
        # Two of these prompts are held out for the comparison, twelve of the built-in ones: that takes a minute.
        own = self.folder / "own-prompts.txt"
        own.write_text("\n\n".join(f"Write a function that adds {number} numbers." for number in
                                    ("two", *range(3, 18), "two hundred")))
        self.flags = (*self.built_in, "--prompts", str(own))

    def shards(self):
        return {path.name: path.read_bytes() for path in (self.out / "work" / "shards").glob("shard-*")}

    def headless(self):
        copy = self.folder / "headless"
        shutil.copytree(cli_test.MODEL, copy)
        (copy / "mtp.safetensors").unlink()
        config = json.loads((copy / "config.json").read_text())
        del config["mlx_lm_extra_tensors"]
        config["text_config"]["mtp_num_hidden_layers"] = 0
        (copy / "config.json").write_text(json.dumps(config))
        return copy


class Work(TuneTest):
    def test_it_writes_texts_trains_compares_and_keeps_only_a_winner(self):
        report = self.expect_json(1, *self.flags, "--keep-work")  # a random drafter does not win
        self.assertFalse(report["kept"])
        self.assertTrue(report["identical"])
        self.assertIn("it is not kept", report["why"])
        self.assertGreater(report["texts"], 16)
        self.assertGreater(report["tokens"], 500)
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
        report = self.expect_json(1, *self.built_in, "--prompts", str(prompts))
        self.assertEqual(report["comparison"]["drafters"][0]["answers"], 1)  # one of them is held out
        self.assertIn("On 1 prompts that the training did not see", (self.out / "README.md").read_text())
        code = self.folder / "code"
        code.mkdir()
        for name in ("a.py", "b.py"):
            (code / name).write_text("The capital of France is Paris.\n" * 8)  # the model soon ends it
        (code / "picture.png").write_bytes(b"\x89PNG\xff\xfe")
        self.expect_error(1, "the loss is not a number", *self.built_in, "-q", "--prompts", str(code), FAKE="failed")
        self.assertTrue(self.shards(), "the texts are written")  # the rest is as above

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


class Heads(TuneTest):
    """--kind mtp; the pretending trainer gives the head that the shipped model was published with."""

    def test_a_head_for_a_model_without_one_is_found_by_every_start(self):
        model = self.headless()
        done = self.run_program("tune", str(model), *self.flags[2:], "--kind", "mtp", "--json")
        self.assertIn(done.returncode, (0, 1), done.stderr)
        report = json.loads(done.stdout)
        rounds = report["tokens_per_round_at_depth_3"]
        self.assertGreater(rounds["mtp"], max(2, rounds["lookup"]))
        self.assertNotIn("mtp before", rounds)
        job = json.loads((self.out / "seen.json").read_text())
        self.assertNotIn("head", job)
        self.assertEqual((job["layers"], job["gated"], len(job["frequencies"])), ([], True, 32))
        self.assertIn("An MTP head that", (self.out / "README.md").read_text())
        if not report["kept"]:  # only the speed can refuse it, on a machine that does other work meanwhile
            self.assertIn("tokens/s with it", report["why"])
            return
        run = ("run", "--model", str(model), "-p", "Write a function that adds two numbers.", "-n", "16")
        self.assertIn(b"mtp drafted", self.expect(0, *run, "--drafter", "mtp", "--depth", "2").stderr)
        self.expect(0, "graft", "--onto", str(model), "--remove")
        self.assertNotIn(b"mtp drafted", self.run_program(*run, "--drafter", "mtp").stderr)

    def test_the_head_that_a_model_has_is_where_training_begins_and_what_it_is_compared_with(self):
        report = self.expect_json(1, *self.flags, "--kind", "mtp", "--keep-work")  # the same head is not faster
        rounds = report["tokens_per_round_at_depth_3"]
        self.assertEqual(rounds["mtp before"], rounds["mtp"])
        self.assertIn("mtp before", [entry["drafter"] for entry in report["comparison"]["drafters"]])
        self.assertIn("a copy of", report["why"])
        with open(json.loads((self.out / "seen.json").read_text())["head"], "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        self.assertEqual(len(header) - 1, 15)
        self.assertEqual(header["mtp.layers.0.mlp.down_proj.weight"]["dtype"], "F32")
        self.assertEqual(header["mtp.norm.weight"]["shape"], [320])


class Refused(TuneTest):
    def test_each_cause_has_its_sentence(self):
        for words, change, environment in (
                ("cannot import torch: ModuleNotFoundError", (), {"FAKE": "no torch"}),
                ("the loss is not a number", (), {"FAKE": "failed"}),
                ("probably because memory ran out", (), {"FAKE": "killed"}),
                ("a synthetic model writes nothing", ("--model", "synth:tiny"), {}),
                ("expected eagle3, mtp or dflash2", ("--kind", "medusa"), {}),
                ("models of the family llama have no MTP head; use --kind eagle3",
                 ("--model", str(cli_test.ROOT / "tests/golden/llama/qwen2"), "--kind", "mtp"), {}),
                ("a mixture of experts cannot be trained yet; use --kind eagle3",
                 ("--model", str(cli_test.ROOT / "tests/golden/odd_experts"), "--kind", "mtp"), {}),
                ("fewer than two texts", ("--prompts", os.devnull), {}),
                ("--hours: expected", ("--hours", "0"), {})):
            with self.subTest(words):
                flags = [flag for flag in self.built_in if change[:1] != ("--model",) or flag != str(cli_test.MODEL)]
                done = self.run_program(*flags, *change, **environment)
                self.assertIn(done.returncode, (1, 2), done.stderr)
                self.assertIn(words, done.stderr.decode())
                self.assertEqual(done.stdout, b"")

    def test_a_plan_that_needs_more_than_the_disk_has_begins_nothing(self):
        self.expect_error(1, "give --out on another disk, or fewer", *self.flags, "-q", "--texts", "10000000")
        self.assertEqual(self.shards(), {})

    def test_a_disk_that_fills_ends_it_with_the_file_and_the_same_command_continues(self):
        limited = ["sh", "-c", "trap '' XFSZ; ulimit -f 256; exec \"$@\"", "sh", cli_test.PROGRAM, *self.flags, "-q"]
        done = subprocess.run(limited, cwd=self.folder, env=self.environment, capture_output=True, timeout=300)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("shard-00000.safetensors", done.stderr.decode())
        self.assertEqual(self.shards(), {})
        self.expect_error(1, "the loss is not a number", *self.flags, "-q", FAKE="failed")
        self.assertTrue(self.shards(), "it came to the training")

    @unittest.skipIf(pathlib.Path("/dev/nvidia0").exists(), "this machine has a GPU")
    def test_without_a_gpu_the_backend_says_so(self):
        self.expect_error(1, "cuda", *self.flags, "-q", "--backend", "cuda")

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
        self.expect_error(2, "unfinished work for another model, kind or other prompts", *self.built_in, "-q",
                          "--prompts", str(prompts))


@unittest.skipUnless(TORCH, "needs FORETOKEN_TORCH and FORETOKEN_FULL")
class Trained(TuneTest):
    def train(self, model, kind, texts, steps):
        flags = ("tune", str(model), "--out", str(self.out), "--python", TORCH, "--texts", str(texts), "--steps",
                 str(steps), "--yes", "--kind", kind)
        done = self.run_program(*flags, "--json")
        self.assertIn(done.returncode, (0, 1), done.stderr)
        report = json.loads(done.stdout)
        self.assertTrue(report["identical"])
        return report

    def test_a_drafter_of_each_kind_learns_and_is_exact(self):
        for kind, least, drafter in (("eagle3", 1.5, "eagle3"), ("dflash2", 1.2, "dflash")):
            report = self.train(cli_test.MODEL, kind, 256, 150)
            self.assertFalse(report["kept"])  # the shipped model has an MTP head, which is faster
            self.assertGreater(report["tokens_per_round_at_depth_3"][drafter], least)
            matrix = self.expect_json(0, "verify", "--prompts", "1", "--tokens", "12", "--drafter",
                                      f"{drafter}={self.out}")
            self.assertTrue(matrix["identical"])
            shutil.rmtree(self.out)

    def test_a_fresh_head_learns_and_is_exact(self):
        model = self.headless()
        report = self.train(model, "mtp", 256, 150)
        self.assertGreater(report["tokens_per_round_at_depth_3"]["mtp"], 1.3)
        shutil.copy(self.out / "mtp.safetensors", model)
        config = json.loads((model / "config.json").read_text())
        config["text_config"]["mtp_num_hidden_layers"] = 1
        (model / "config.json").write_text(json.dumps(config))
        self.assertTrue(self.expect_json(0, "verify", "--model", str(model), "--prompts", "1", "--tokens",
                                         "12")["identical"])

    def test_killed_at_ten_random_moments_it_ends_with_the_same_bytes(self):
        model = self.headless()
        flags = ("tune", str(model), "--out", str(self.out), "--python", TORCH, "--texts", "64", "--steps", "40",
                 "--yes", "--kind", "mtp")
        begin = time.monotonic()
        self.assertIn(self.run_program(*flags).returncode, (0, 1))
        took = time.monotonic() - begin
        whole = (self.out / "mtp.safetensors").read_bytes()
        shutil.rmtree(self.out)
        self.run_program("graft", "--onto", str(model), "--remove")
        chance = random.Random(11)
        for _ in range(10):
            child = subprocess.Popen([cli_test.PROGRAM, *flags], cwd=self.folder, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL, env=self.environment)
            try:
                child.wait(timeout=chance.uniform(0.5, 0.8 * took))
                break  # what is left may be less than the time
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        if child.returncode not in (0, 1):
            self.assertIn(self.run_program(*flags).returncode, (0, 1))
        self.assertEqual((self.out / "mtp.safetensors").read_bytes(), whole)


if __name__ == "__main__":
    cli_test.PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    cli_test.unittest.main(module=sys.modules[__name__])
