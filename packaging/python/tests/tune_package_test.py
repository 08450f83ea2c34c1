"""The package foretoken_tune on tiny random data: gradients, masks, order, checkpoints, the layout of its files.

    python3 packaging/python/tests/tune_package_test.py

It needs PyTorch. FORETOKEN_TORCH names an interpreter that has it; without one the status is 77 (skipped).
"""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import torch
except ImportError:
    other = os.environ.get("FORETOKEN_TORCH")
    if not other:
        print("skipped: PyTorch is missing; FORETOKEN_TORCH may name an interpreter that has it")
        sys.exit(77)
    os.execve(other, [other, *sys.argv], {k: v for k, v in os.environ.items() if k != "FORETOKEN_TORCH"})

PACKAGE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PACKAGE))

from foretoken_tune import data, job, loss, tensors  # noqa: E402
from foretoken_tune.eagle3 import Eagle3  # noqa: E402
from foretoken_tune.muon import orthogonal  # noqa: E402
from foretoken_tune.random_data import random_batch, random_target  # noqa: E402

torch.set_num_threads(1)
CPU = torch.device("cpu")


def tiny(folder, **changes):
    fields = {"shards": [f"{folder}/shard-0.safetensors", f"{folder}/shard-1.safetensors"],
              "target": f"{folder}/target.safetensors", "out": f"{folder}/drafter",
              "checkpoint": f"{folder}/checkpoint.pt", "hidden": 16, "heads": 2, "kv_heads": 1, "head_dim": 8,
              "intermediate": 24, "vocabulary": 40, "context": 128, "layers": [-1, 1, 3], "draft_vocabulary": 30,
              "steps": 40, "rows": 2, "length": 48, "threads": 1, "rate": 1e-2, "eos": [39], "depth": 3}
    return job.Job(**{**fields, **changes})


def write_data(one, texts=12):
    """A language in which a token mostly decides the next one."""
    chance, vectors = random.Random(3), torch.randn(one.vocabulary, one.hidden, generator=torch.manual_seed(5))
    for path in one.shards:
        documents, ids = [], []
        for _ in range(texts):
            size, token = chance.randrange(20, 70), chance.randrange(30)
            documents.append([size, chance.randrange(1, 8)])
            for _ in range(size):
                ids.append(token)
                token = (token * 7 + 3) % 30 if chance.random() < 0.9 else chance.randrange(40)
        # Rows that the table, which is the LM head too, makes likely successors of.
        last = vectors[torch.tensor([(token * 7 + 3) % 30 for token in ids])]
        rows = torch.cat([vectors[torch.tensor(ids)]] * len(one.layers), 1).half()
        tensors.write(path, {"documents": torch.tensor(documents, dtype=torch.int32),
                             "tokens": torch.tensor(ids, dtype=torch.int32), "rows": rows,
                             "hidden": last.half(), "checksum": torch.zeros(1, dtype=torch.int64)}, {})
    tensors.write(one.target, {"embedding": vectors.half()}, {})


class PackageTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="foretoken-tune-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        torch.manual_seed(0)


class Network(PackageTest):
    def network(self, **changes):
        one = tiny(self.folder, **changes)
        network = Eagle3(one).double()
        kept = torch.arange(one.draft_vocabulary)
        network.begin(kept, torch.randn(one.vocabulary, one.hidden).double(), torch.randn(5, one.width).double(),
                      torch.randn(5, one.hidden).double())
        return one, network

    def test_gradients_are_those_of_differences_in_float64(self):
        one, network = self.network(length=16, rows=2, softcap=4.0)
        batch = random_batch(one, CPU, dtype=torch.float64)
        target = random_target(one, CPU, torch.float64)
        _, best = target.shares(batch.hidden.flatten(0, 1))
        self.assertTrue(all(0 < len(at) < 32 for at in loss.places(batch, best.view(2, 16), 3)))

        def value():
            return loss.losses(network, batch, target, one.depth).loss

        value().backward()
        for name, weight in network.named_parameters():
            flat, grown = weight.detach().view(-1), weight.grad.view(-1)
            for at in range(0, len(flat), max(1, len(flat) // 5)):
                before, step = flat[at].item(), 1e-6
                with torch.no_grad():
                    flat[at] = before + step
                    above = value().item()
                    flat[at] = before - step
                    below = value().item()
                    flat[at] = before
                self.assertAlmostEqual(grown[at].item(), (above - below) / (2 * step), delta=1e-7, msg=f"{name} {at}")

    def test_depths_of_training_are_the_steps_of_drafting(self):
        """A chain from one position, pair by pair, as foretoken drafts it, gives the features of training."""
        one, network = self.network()
        count, depth = 9, 3
        hidden = torch.randn(1, count, one.width).double()
        ids = torch.randint(30, (1, count + depth))
        embedding = torch.randn(one.vocabulary, one.hidden).double()
        full = torch.full((count, count), float("-inf")).triu(1)[None, None].double()
        feature, cache, trained = network.feature(hidden), [], []
        for k in range(1, depth + 1):
            feature, cache = network.step(k, feature, embedding[ids[:, k:count + k]], cache, full)
            trained.append(feature)
        for base in range(count):
            # Verified pairs up to the base, then the chain: a plain causal layer over a growing sequence.
            pairs = [(network.feature(hidden[:, i]), ids[:, i + 1]) for i in range(base + 1)]
            for k in range(1, depth + 1):
                g = torch.stack([pair[0] for pair in pairs], 1)
                e = embedding[torch.stack([pair[1] for pair in pairs], 1)]
                mask = torch.full((len(pairs), len(pairs)), float("-inf")).triu(1)[None, None].double()
                out, _ = network.step(1, g, e, [], mask)
                self.assertLess((out[:, -1] - trained[k - 1][:, base]).abs().max().item(), 1e-9, f"{base} {k}")
                if k < depth:
                    pairs.append((out[:, -1], ids[:, base + k + 1]))

    def test_texts_of_a_row_do_not_see_one_another(self):
        one, network = self.network(rows=1)
        batch = random_batch(one, CPU, dtype=torch.float64)
        embedding, half = torch.randn(one.vocabulary, one.hidden).double(), one.length // 2

        def second():
            mask = loss.text_mask(batch.text).double()
            feature, cache = network.feature(batch.rows), []
            for k in (1, 2):
                feature, cache = network.step(k, feature, embedding[loss.ahead(batch.ids, k, 0)], cache, mask)
            return feature[:, half:]

        before = second()
        batch.rows[:, :half] = 1
        batch.ids[:, :half] = 3
        self.assertTrue(torch.equal(before, second()))

    def test_a_drafter_that_is_the_target_has_its_entropy_as_loss_and_agrees(self):
        one = tiny(self.folder, draft_vocabulary=40, softcap=5.0)
        target = random_target(one, CPU, torch.float64)
        hidden = torch.randn(11, one.hidden).double()
        shares, best = target.shares(hidden)
        logits = 5 * (hidden @ target.head.t() / 5).tanh()
        self.assertLess((shares - logits.softmax(-1)).abs().max().item(), 1e-12)
        self.assertTrue(torch.equal(best, logits.argmax(-1)))
        uncapped = loss.Target(target.embedding, target.head, target.kept)
        shares, best = uncapped.shares(hidden)
        rows = torch.arange(11)
        found, agreed = loss.HeadLoss.apply(hidden, target.head, shares, rows, rows, best)
        entropy = -(shares * shares.log()).sum(-1).mean()
        self.assertAlmostEqual(found.item(), entropy.item(), places=10)
        self.assertEqual(agreed.item(), 11)

    def test_a_choice_outside_the_draft_vocabulary_is_not_compared(self):
        one = tiny(self.folder, draft_vocabulary=7)
        target = random_target(one, CPU, torch.float64)
        _, best = target.shares(target.head)
        choice = (target.head @ target.head.t()).argmax(-1)
        self.assertEqual(best.tolist(), [id if id < 7 else -1 for id in choice.tolist()])

    def test_losses_do_not_depend_on_the_positions_whose_logits_exist_at_once(self):
        one, network = self.network()
        batch, target = random_batch(one, CPU, dtype=torch.float64), random_target(one, CPU, torch.float64)
        found = []
        for chunk in (8192, 5):
            loss.CHUNK = chunk
            network.zero_grad()
            result = loss.losses(network, batch, target, one.depth)
            result.loss.backward()
            found.append((result.loss.item(), network.lm_head.weight.grad, network.fc.weight.grad, result.agreed))
        loss.CHUNK = 8192
        self.assertAlmostEqual(found[0][0], found[1][0], places=12)
        for first, second in zip(found[0][1:], found[1][1:]):
            self.assertLess((first - second).abs().max().item(), 1e-12)

    def test_an_update_of_muon_is_near_an_orthogonal_matrix(self):
        for shape in ((12, 40), (40, 12), (9, 9)):
            values = torch.linalg.svdvals(orthogonal(torch.randn(shape)))
            self.assertGreater(values.min().item(), 0.0)
            self.assertLess(values.max().item(), 1.4)


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
