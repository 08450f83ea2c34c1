"""The networks of the package foretoken_tune: gradients, masks, and the drafts of published code.

    python3 packaging/python/tests/tune_networks_test.py
"""

import json
import unittest

import tune_fixture
from tune_fixture import CPU, KINDS, PackageTest, tiny

import torch
from foretoken_tune import dflash2, loss, tensors
from foretoken_tune.dflash2 import Blocks, Dflash2
from foretoken_tune.eagle3 import Eagle3
from foretoken_tune.layers import frequencies_of
from foretoken_tune.mtp import Mtp, own_name
from foretoken_tune.muon import orthogonal
from foretoken_tune.random_data import random_batch, random_target
from foretoken_tune.training import make_network

GOLDEN = tune_fixture.PACKAGE.parents[1] / "tests" / "golden"


class Network(PackageTest):
    def network(self, kind="eagle3", **changes):
        one = tiny(self.folder, **{**KINDS[kind], **changes})
        one.mask_token = 38
        network = make_network(one).double()
        kept = torch.arange(one.draft_vocabulary)
        network.begin(kept, torch.randn(one.vocabulary, one.hidden).double(), torch.randn(5, one.width).double(),
                      torch.randn(5, one.hidden).double())
        return one, network

    def test_gradients_are_those_of_differences_in_float64(self):
        for kind in KINDS:
            with self.subTest(kind):
                self.check_gradients(*self.network(kind, length=16, rows=2, softcap=4.0))

    def check_gradients(self, one, network):
        batch = random_batch(one, CPU, dtype=torch.float64)
        target = random_target(one, CPU, torch.float64)
        _, best = target.shares(batch.hidden.flatten(0, 1))
        self.assertTrue(all(0 < len(at) < 32 for at in loss.places(batch, best.view(2, 16), 3)))
        with torch.no_grad():  # zeros would hide their factors
            for weight in network.parameters():
                weight.add_(0.1 * torch.randn_like(weight))

        def value():
            return network.losses(batch, target, 7).loss

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

    def first_feature(self, network, rows, hidden):
        return network.feature(rows) if isinstance(network, Eagle3) else hidden

    def test_depths_of_training_are_the_steps_of_drafting(self):
        """A chain from one position, pair by pair, as foretoken drafts it, gives the features of training."""
        for kind in ("eagle3", "mtp"):
            with self.subTest(kind):
                self.check_chain(*self.network(kind))

    def check_chain(self, one, network):
        count, depth = 9, 3
        first = self.first_feature(network, torch.randn(1, count, one.width).double(),
                                   torch.randn(1, count, one.hidden).double())
        ids = torch.randint(30, (1, count + depth))
        embedding = torch.randn(one.vocabulary, one.hidden).double()
        full = torch.full((count, count), float("-inf")).triu(1)[None, None].double()
        feature, cache, trained = first, [], []
        for k in range(1, depth + 1):
            feature, cache = network.step(k, feature, embedding[ids[:, k:count + k]], cache, full)
            trained.append(feature)
        for base in range(count):
            # Verified pairs up to the base, then the chain: a plain causal layer over a growing sequence.
            pairs = [(first[:, i], ids[:, i + 1]) for i in range(base + 1)]
            for k in range(1, depth + 1):
                g = torch.stack([pair[0] for pair in pairs], 1)
                e = embedding[torch.stack([pair[1] for pair in pairs], 1)]
                mask = torch.full((len(pairs), len(pairs)), float("-inf")).triu(1)[None, None].double()
                out, _ = network.step(1, g, e, [], mask)
                self.assertLess((out[:, -1] - trained[k - 1][:, base]).abs().max().item(), 1e-9, f"{base} {k}")
                if k < depth:
                    pairs.append((out[:, -1], ids[:, base + k + 1]))

    def test_texts_of_a_row_do_not_see_one_another(self):
        for kind in ("eagle3", "mtp"):
            one, network = self.network(kind, rows=1)
            batch = random_batch(one, CPU, dtype=torch.float64)
            embedding, half = torch.randn(one.vocabulary, one.hidden).double(), one.length // 2

            def second():
                mask = loss.text_mask(batch.text).double()
                feature, cache = self.first_feature(network, batch.rows, batch.hidden), []
                for k in (1, 2):
                    feature, cache = network.step(k, feature, embedding[loss.ahead(batch.ids, k, 0)], cache, mask)
                return feature[:, half:]

            before = second()
            batch.rows[:, :half] = 1
            batch.hidden[:, :half] = 1
            batch.ids[:, :half] = 3
            self.assertTrue(torch.equal(before, second()), kind)

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
            result = network.losses(batch, target, 0)
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

    def test_norms_near_zero_are_moved_into_the_matrices_that_read_them(self):
        one = tiny(self.folder, **KINDS["mtp"])
        network = Mtp(one)
        with torch.no_grad():
            network.layers[0].input_layernorm.weight.fill_(0.2)
        other = Mtp(one)
        other.load_state_dict({own_name(name): value.float() for name, value in network.tensors().items()})
        self.assertAlmostEqual(other.layers[0].input_layernorm.weight[0].item(), 0.8, places=6)
        feature, embedded = torch.randn(1, 5, one.hidden), torch.randn(1, 5, one.hidden)
        mask = torch.zeros(1, 1, 5, 5)
        for weight in network.parameters():
            if weight.dim() == 2:
                weight.data = weight.data.bfloat16().float()
        self.assertLess((network.step(1, feature, embedded, [], mask)[0] -
                         other.step(1, feature, embedded, [], mask)[0]).abs().max().item(), 1e-5)


class Published(PackageTest):
    """The networks give the drafts of published code, as those of foretoken do (golden_test, block_golden_test)."""

    def test_an_mtp_head_drafts_as_transformers_does(self):
        config = json.loads((GOLDEN / "odd" / "config.json").read_text())["text_config"]
        stored = {}
        for path in sorted((GOLDEN / "odd").glob("*.safetensors")):
            stored.update(tensors.read(str(path)).tensors)
        head = {own_name(name): value.float() for name, value in stored.items() if name.startswith("mtp.")}
        head = {name: value + 1 if value.dim() == 1 else value for name, value in head.items()}
        ends = {name.split(".")[-2]: value.float() for name, value in stored.items()
                if name.endswith(("embed_tokens.weight", "lm_head.weight"))}
        rope = config["rope_parameters"]
        rotary = int(config["head_dim"] * rope["partial_rotary_factor"])
        one = tiny(self.folder, kind="mtp", hidden=config["hidden_size"], heads=config["num_attention_heads"],
                   kv_heads=config["num_key_value_heads"], head_dim=config["head_dim"], gated=True,
                   intermediate=config["intermediate_size"], eps=config["rms_norm_eps"], layers=[],
                   frequencies=frequencies_of(rotary, rope["rope_theta"]))
        network = Mtp(one)
        network.load_state_dict(head)
        rows = tensors.read(str(GOLDEN / "tune" / "odd_67.safetensors")).tensors
        compared = 0
        for case in json.loads((GOLDEN / "odd" / "golden" / "odd_67.json").read_text())["mtp"]:
            count, drafts = case["pending_index"], case["drafts"]
            feature, cache = rows["hidden"][None, :count].float(), []
            ids = torch.cat([rows["tokens"][:count].long(), torch.tensor([case["pending_token"], *drafts])])
            mask = torch.full((count, count), float("-inf")).triu(1)[None, None]
            for k, wanted in enumerate(case["top5"], 1):
                # Only the last position drafts these tokens; the others are there for its attention.
                embedded = ends["embed_tokens"][ids[k:count + k]][None]
                feature, cache = network.step(k, feature, embedded, cache, mask)
                logits = feature[0, -1] @ ends["lm_head"].t()
                for token, value in wanted:
                    self.assertAlmostEqual(logits[token].item(), value, delta=5e-3, msg=str((count, k)))
                    compared += 1
        self.assertGreater(compared, 100)

    def test_a_block_is_that_of_the_published_dflash2(self):
        for name in ("dflash2", "dflash2_mixed"):
            folder = GOLDEN / "block_drafters" / name
            config = json.loads((folder / "config.json").read_text())
            own = config["dflash_config"]
            one = tiny(self.folder, kind="dflash2", hidden=config["hidden_size"], heads=config["num_attention_heads"],
                       kv_heads=config["num_key_value_heads"], head_dim=config["head_dim"],
                       intermediate=config["intermediate_size"], vocabulary=config["vocab_size"],
                       layers=own["target_layer_ids"], eps=config["rms_norm_eps"], rope_theta=config["rope_theta"],
                       drafter_layers=2, taps=own["conv_kernel_size"], group=own["conv_group_size"],
                       rank=own["selector_rank"])
            network = Dflash2(one)
            network.load_state_dict({key: value.float() for key, value in
                                     tensors.read(str(folder / "model.safetensors")).tensors.items()})
            network.windows = [config["sliding_window"] if kind == "sliding_attention" else 0
                               for kind in config["layer_types"]]
            target = {key: value.float() for key, value in
                      tensors.read(str(folder / "target" / "model.safetensors")).tensors.items()}
            for case in json.loads((folder / "golden.json").read_text())["cases"]:
                with self.subTest(f"{name} {case}"):
                    self.assertEqual(self.walk(network, own, target, case), case["drafts"])

    @torch.no_grad()
    def walk(self, network, own, target, case):
        rows, size = case["rows"], len(case["drafts"]) + 1
        text = torch.zeros(1, rows + 1, dtype=torch.int64)
        blocks = Blocks(torch.tensor([[rows]]), torch.tensor([[size]]))
        asked = torch.tensor([case["pending"]] + [own["mask_token_id"]] * (size - 1))
        embedded = target["embedding"][asked][None, None] * own.get("input_embedding_scale", 1.0)
        context = torch.cat([target["features"][None, :rows], torch.randn(1, 1, network.job.width)], 1)
        hidden = network(context, embedded, text, blocks)[0, 0, 1:]
        logits = hidden @ target["lm_head"].t() * own.get("output_multiplier", 1.0)
        cap = own.get("final_logit_softcapping")
        logits = cap * (logits / cap).tanh() if cap else logits
        logits[:, own["mask_token_id"]] = float("-inf")
        before, drafts = torch.tensor(case["pending"]), []
        for row, x in zip(logits, hidden):
            found = row.topk(own["selector_top_k"]).indices
            moved = network.candidate_selector.successor_codebook[found] @ network.candidate_selector(x, before)
            before = found[(row[found] + moved).argmax()]
            drafts.append(before.item())
        return drafts


class BlockTraining(PackageTest):
    def test_blocks_begin_where_an_answer_continues_and_end_with_their_text(self):
        one = tiny(self.folder, **{**KINDS["dflash2"], "blocks": 40})
        batch = random_batch(one, CPU)
        batch.answer[:, :10] = False
        batch.text[:, 40:] = -1
        found = dflash2.choose_blocks(batch, one, 3)
        for row in range(one.rows):
            for first, length in zip(found.first[row].tolist(), found.length[row].tolist()):
                good = 9 <= first < 23 or 24 <= first < 39
                self.assertEqual(length >= 2, good, (first, length))
                if good:
                    self.assertLessEqual(first + length, 24 if first < 24 else 40)
        for own, other in zip(found, dflash2.choose_blocks(batch, one, 3)):
            self.assertTrue(torch.equal(own, other))
        self.assertFalse(torch.equal(found.first, dflash2.choose_blocks(batch, one, 4).first))

    def test_a_block_sees_the_past_of_its_text_and_itself(self):
        text = torch.tensor([[0, 0, 0, 1, 1, 1, 1, -1]])
        blocks = Blocks(torch.tensor([[2, 5]]), torch.tensor([[2, 3]]))
        seen = dflash2.block_mask(text, blocks, 3, 0)[0, 0] == 0
        self.assertEqual(seen[0].nonzero()[:, 0].tolist(), [0, 1, 8, 9])
        self.assertEqual(seen[4].nonzero()[:, 0].tolist(), [3, 4, 11, 12, 13])
        narrow = dflash2.block_mask(text, blocks, 3, 2)[0, 0] == 0
        self.assertEqual(narrow[3].nonzero()[:, 0].tolist(), [4, 11, 12, 13])
        self.assertEqual(narrow[4].nonzero()[:, 0].tolist(), [11, 12, 13])

    def test_the_mask_is_the_last_token_that_no_text_has(self):
        table = torch.ones(5, 2)
        table[4] = 0
        self.assertEqual(dflash2.unused_token(torch.tensor([1, 0, 0, 2, 0]), table), 2)
        with self.assertRaisesRegex(ValueError, "none is left"):
            dflash2.unused_token(torch.ones(5, dtype=torch.int64), table)


if __name__ == "__main__":
    unittest.main()
