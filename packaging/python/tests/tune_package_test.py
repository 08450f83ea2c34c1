"""The data and the runs of the package foretoken_tune: order, checkpoints, the layout of its files.

    python3 packaging/python/tests/tune_package_test.py
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

from tune_fixture import KINDS, PACKAGE, PackageTest, tiny, write_data

import torch
from foretoken_tune import data, tensors


class Data(PackageTest):
    def test_every_token_of_an_answer_is_in_one_batch_of_an_epoch(self):
        one = tiny(self.folder)
        write_data(one)
        found = data.Dataset(one)
        rows = found.rows_of_epoch(0)
        self.assertEqual(sorted(number for row in rows for number in row), list(range(len(found.pieces))))
        answers = sum(int(found.batch([row]).answer.sum()) for row in rows)
        self.assertEqual(answers, sum(piece.tokens - piece.prompt for piece in found.pieces))
        self.assertNotEqual(rows, found.rows_of_epoch(1))
        self.assertEqual(rows, data.Dataset(one).rows_of_epoch(0))

    def test_batches_from_a_later_step_are_those_of_a_run_without_a_stop(self):
        one = tiny(self.folder)
        write_data(one)
        all_batches = data.Dataset(one).batches(0)
        first = [next(all_batches) for _ in range(40)]
        later = data.Dataset(one).batches(37)
        for expected in first[37:]:
            found = next(later)
            for name, value in vars(expected).items():
                self.assertTrue(torch.equal(value, getattr(found, name)), name)

    def test_the_draft_vocabulary_has_the_frequent_tokens_and_those_that_end_an_answer(self):
        counts = torch.tensor([5, 0, 9, 1, 9, 0, 2])
        self.assertEqual(data.draft_vocabulary(counts, 3, []).tolist(), [0, 2, 4])
        self.assertEqual(data.draft_vocabulary(counts, 3, [5]).tolist(), [2, 4, 5])
        self.assertEqual(data.draft_vocabulary(counts, 90, []).tolist(), list(range(7)))
        self.assertAlmostEqual(data.coverage(counts, torch.tensor([2, 4])), 18 / 26)

    def test_a_torn_shard_is_named(self):
        one = tiny(self.folder)
        write_data(one)
        whole = pathlib.Path(one.shards[1]).read_bytes()
        pathlib.Path(one.shards[1]).write_bytes(whole[:len(whole) // 2])
        with self.assertRaisesRegex(ValueError, "shard-1.*torn"):
            data.Dataset(one)


class Run(PackageTest):
    def start(self, task, one, **changes):
        path = self.folder / "job.json"
        path.write_text(json.dumps({**vars(one), **changes}))
        return subprocess.Popen([sys.executable, "-m", "foretoken_tune", task, str(path)], stdout=subprocess.PIPE,
                                env={**os.environ, "PYTHONPATH": str(PACKAGE)}, text=True)

    def run_task(self, task, one, **changes):
        child = self.start(task, one, **changes)
        lines = [json.loads(line) for line in child.communicate(timeout=300)[0].splitlines()]
        return child.returncode, lines

    def test_the_loss_falls_and_the_files_are_those_of_an_eagle3_drafter(self):
        one = tiny(self.folder, steps=150)
        write_data(one)
        status, lines = self.run_task("train", one)
        self.assertEqual(status, 0, lines[-1:])
        self.assertEqual(lines[-1]["phase"], "done")
        first = next(line["loss"] for line in lines if line["loss"] is not None)
        self.assertLess(lines[-1]["loss"], 0.7 * first)
        self.assertGreater(lines[-1]["accepted"][0], 0.6)
        config = json.loads((self.folder / "drafter" / "config.json").read_text())
        self.assertEqual(config["eagle_config"]["eagle_aux_hidden_state_layer_ids"], [0, 2, 4])
        file = tensors.read(f"{one.out}/model.safetensors").tensors
        h, heads, kv = one.hidden, one.heads * one.head_dim, one.kv_heads * one.head_dim
        shapes = {"fc.weight": (h, 3 * h), "norm.weight": (h,), "lm_head.weight": (30, h), "d2t": (30,), "t2d": (40,),
                  "midlayer.hidden_norm.weight": (h,), "midlayer.input_layernorm.weight": (h,),
                  "midlayer.post_attention_layernorm.weight": (h,), "midlayer.self_attn.q_proj.weight": (heads, 2 * h),
                  "midlayer.self_attn.k_proj.weight": (kv, 2 * h), "midlayer.self_attn.v_proj.weight": (kv, 2 * h),
                  "midlayer.self_attn.o_proj.weight": (h, heads), "midlayer.mlp.gate_proj.weight": (24, h),
                  "midlayer.mlp.up_proj.weight": (24, h), "midlayer.mlp.down_proj.weight": (h, 24)}
        self.assertEqual({name: tuple(value.shape) for name, value in file.items()}, shapes)
        targets = torch.arange(30) + file["d2t"]
        self.assertTrue(torch.equal(targets, file["t2d"].nonzero()[:, 0]))
        self.assertIn(39, targets.tolist())

    def test_an_mtp_head_learns_and_is_trained_further(self):
        one = tiny(self.folder, **KINDS["mtp"], config={"mtp_num_hidden_layers": 1}, steps=120)
        write_data(one)
        status, lines = self.run_task("train", one)
        self.assertEqual(status, 0, lines[-1:])
        self.assertGreater(lines[-1]["accepted"][0], 0.6)
        self.assertEqual(json.loads((self.folder / "drafter" / "config.json").read_text()), one.config)
        file = tensors.read(f"{one.out}/mtp.safetensors").tensors
        self.assertEqual(len(file), 15)
        self.assertEqual(tuple(file["mtp.layers.0.self_attn.q_proj.weight"].shape), (32, 16))  # queries and gates
        self.assertGreater(file["mtp.layers.0.input_layernorm.weight"].mean().item(), 0.5)
        # An existing head as foretoken writes it: float32, the same names.
        tensors.write(f"{self.folder}/head.safetensors", {name: value.float() for name, value in file.items()}, {})
        pathlib.Path(one.checkpoint).unlink()
        status, lines = self.run_task("train", one, head=f"{self.folder}/head.safetensors", steps=2)
        self.assertEqual(status, 0, lines[-1:])
        self.assertGreater(lines[-1]["accepted"][0], 0.6)

    def test_a_block_drafter_learns_and_its_files_are_those_of_dflash2(self):
        one = tiny(self.folder, **KINDS["dflash2"], steps=120)
        write_data(one)
        status, lines = self.run_task("train", one)
        self.assertEqual(status, 0, lines[-1:])
        self.assertEqual(len(lines[-1]["accepted"]), 4)
        self.assertGreater(lines[-1]["accepted"][0], 0.6)
        config = json.loads((self.folder / "drafter" / "config.json").read_text())
        self.assertEqual(config["architectures"], ["DFlash2DraftModel"])
        self.assertEqual(config["dflash_config"]["target_layer_ids"], [0, 1, 3])
        self.assertNotIn(config["dflash_config"]["mask_token_id"], data.Dataset(one).token_counts().nonzero()[:, 0])
        file = tensors.read(f"{one.out}/model.safetensors").tensors
        self.assertEqual(len(file), 3 + 2 * 15 + 3)
        self.assertEqual(tuple(file["layers.1.mlp_conv.base_kernel"].shape), (2, 2, 16))
        self.assertEqual(tuple(file["layers.0.attention_conv.kernel_projection.weight"].shape), (16, 16))
        self.assertEqual(tuple(file["candidate_selector.successor_codebook"].shape), (40, 3))

    def test_a_run_killed_at_any_moment_ends_with_the_same_bytes(self):
        one = tiny(self.folder, save_seconds=0.0, steps=60)
        write_data(one)
        self.assertEqual(self.run_task("train", one)[0], 0)
        whole = pathlib.Path(one.out, "model.safetensors").read_bytes()
        chance = random.Random(9)
        for kind in (signal.SIGKILL, signal.SIGTERM):
            shutil.rmtree(one.out)
            pathlib.Path(one.checkpoint).unlink()
            for _ in range(2):
                child = self.start("train", one)
                child.stdout.readline()
                time.sleep(chance.uniform(0, 0.5))
                child.send_signal(kind)
                child.communicate(timeout=60)
            self.assertEqual(self.run_task("train", one)[0], 0)
            self.assertEqual(pathlib.Path(one.out, "model.safetensors").read_bytes(), whole, kind)

    def test_a_torn_checkpoint_begins_anew(self):
        one = tiny(self.folder, steps=6)
        write_data(one)
        pathlib.Path(one.checkpoint).write_bytes(b"PK\x03\x04 torn")
        status, lines = self.run_task("train", one)
        self.assertEqual((status, lines[-1]["step"]), (0, 6))

    def test_what_is_wrong_is_one_line(self):
        one = tiny(self.folder)
        status, lines = self.run_task("train", one)
        self.assertEqual((status, lines[-1]["phase"]), (1, "failed"))
        self.assertIn("shard-0", lines[-1]["message"])
        status, lines = self.run_task("train", one, colour="blue")
        self.assertIn("unknown keys colour", lines[-1]["message"])

    def test_it_measures_without_shards(self):
        status, lines = self.run_task("measure", tiny(self.folder))
        self.assertEqual(status, 0)
        self.assertGreater(lines[-1]["seconds_a_step"], 0)


if __name__ == "__main__":
    unittest.main()
