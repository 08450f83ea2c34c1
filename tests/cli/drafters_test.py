"""Drafters in separate folders, through the program: the matrix over all of them, the choice, refusals.

    python3 tests/cli/drafters_test.py build/release/foretoken [CLASS]

The drafters are random (odd_drafters.py), so that any checkout has all of them.
"""

import json
import pathlib
import re
import shutil
import sys

import cli_test
from odd_drafters import write_assistant, write_dflash, write_dflash2, write_dspark, write_eagle3

GOLDEN = cli_test.ROOT / "tests" / "golden"


class DraftersTest(cli_test.CliTest):
    def drafters(self, target):
        return ("--drafter", "eagle3=" + write_eagle3(self.folder / "eagle3", target),
                "--drafter", "dflash=" + write_dflash(self.folder / "dflash", target))

    def check_matrix(self, report, *names):
        self.assertTrue(report["identical"] and report["complete"])
        drafted = {}
        for cell in report["cells"]:
            name = re.search(r"([\w-]+) depth", cell["cell"]).group(1)
            drafted[name] = drafted.get(name, 0) + cell["drafted"]
        for name in names:
            self.assertGreater(drafted.get(name, 0), 0, f"{name} drafted nothing: {drafted}")


class Matrix(DraftersTest):
    def test_every_drafter_changes_no_token_of_an_odd_qwen(self):
        odd = GOLDEN / "odd"
        report = self.expect_json(0, "verify", "--model", str(odd), "--prompts", "1", "--tokens", "10", "--threads",
                                  "1", *self.drafters(odd), "--drafter", f"model={odd}")
        self.check_matrix(report, "mtp", "eagle3", "dflash", "model", "recall", "auto", "round-robin")

    def test_every_drafter_changes_no_token_of_an_odd_gemma(self):
        odd = GOLDEN / "gemma4" / "odd"
        report = self.expect_json(0, "verify", "--model", str(odd), "--prompts", "1", "--tokens", "10", "--threads",
                                  "1", *self.drafters(odd))
        self.check_matrix(report, "eagle3", "dflash", "recall", "round-robin")

    def test_blocks_that_walk_change_no_token(self):
        for target in (GOLDEN / "odd", GOLDEN / "gemma4" / "odd"):
            for name, write in (("dflash2", write_dflash2), ("dspark", write_dspark)):
                with self.subTest(f"{target.parent.name} {name}"):
                    folder = write(self.folder / f"{target.parent.name}_{name}", target)
                    report = self.expect_json(0, "verify", "--model", str(target), "--prompts", "1", "--tokens", "10",
                                              "--threads", "1", "--drafter", "dflash=" + folder)
                    self.check_matrix(report, "dflash", "round-robin")

    def test_an_assistant_changes_no_token(self):
        odd = GOLDEN / "gemma4" / "odd"
        for clusters in (0, 9):  # of 59 tokens
            with self.subTest(clusters=clusters):
                folder = write_assistant(self.folder / f"assistant{clusters}", odd, clusters=clusters)
                report = self.expect_json(0, "verify", "--model", str(odd), "--prompts", "1", "--tokens", "10",
                                          "--threads", "1", "--drafter", "assistant=" + folder)
                self.check_matrix(report, "assistant", "round-robin")

    def test_every_drafter_changes_no_token_of_odd_llamas(self):
        rope = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64}
        for name in ("llama", "qwen2", "qwen3_moe"):
            with self.subTest(name):
                odd = GOLDEN / "llama" / name
                eagle3 = write_eagle3(self.folder / name, odd, original=name == "llama", rope=rope)
                report = self.expect_json(0, "verify", "--model", str(odd), "--prompts", "1", "--tokens", "10",
                                          "--threads", "1", "--drafter", "eagle3=" + eagle3)
                self.check_matrix(report, "eagle3", "recall", "round-robin")


class Layouts(DraftersTest):
    def counts(self, *drafter):
        """How one answer of the shipped model is drafted."""
        report = self.expect_json(0, "run", "-p", "Name a river.", "-n", "24", "--temperature", "0", "--depth", "3",
                                  *drafter)
        return report["token_ids"], report["speculation"]["drafted_by_position"], report["speculation"]["accepted"]

    def test_the_original_layout_of_eagle3_drafts_as_that_of_speculators(self):
        plain = self.counts("--drafter", "none")[0]
        found = [self.counts("--drafter", "eagle3=" + write_eagle3(self.folder / f"{i}", cli_test.MODEL, **how))
                 for i, how in enumerate(({}, {"original": True}))]
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0][0], plain)
        self.assertGreater(sum(found[0][1]), 0)

    def test_a_whole_vocabulary_needs_no_map(self):
        whole = write_eagle3(self.folder / "whole", cli_test.MODEL, reduced=False)
        tokens, drafted, _ = self.counts("--drafter", "eagle3=" + whole)
        self.assertEqual(tokens, self.counts("--drafter", "none")[0])
        self.assertGreater(sum(drafted), 0)

    def test_auto_drafts_with_folders_in_the_models_own(self):
        model = self.folder / "model"
        shutil.copytree(cli_test.MODEL, model)
        for name, write in (("eagle3", write_eagle3), ("dflash", write_dflash)):
            write(model / name, model)
        report = self.expect_json(0, "run", "--model", str(model), "-p", "Name a river.", "-n", "24", "--temperature",
                                  "0")
        self.assertEqual(report["speculation"]["drafter"], "mtp+eagle3+dflash+lookup")
        self.assertEqual(self.expect_json(0, "inspect", str(model))["drafter"], "mtp+eagle3+dflash+lookup")
        self.assertEqual(report["token_ids"], self.counts("--drafter", "none")[0])
        found = self.expect(0, "doctor", "--no-probe", "--model", str(model)).stdout.decode()
        self.assertIn(f"the drafter eagle3 of {model}/eagle3 can draft from 2731 of 8192 tokens", found)
        self.assertIn(f"the drafter dflash of {model}/dflash can draft from all 8192 tokens", found)
        (model / "dflash" / "model.safetensors").unlink()
        self.expect_error(1, "drafter dflash: ", "run", "--model", str(model), "-p", "x", "-n", "2")


    def test_a_grafted_drafter_drafts_with_the_others_until_its_folder_is_gone(self):
        folder = write_eagle3(self.folder / "eagle3", cli_test.MODEL)
        self.expect(0, "graft", "--head", folder, "--onto", str(cli_test.MODEL), "--force", "--threads", "1")
        report = self.expect_json(0, "run", "-p", "Name a river.", "-n", "8", "--temperature", "0")
        self.assertEqual(report["speculation"]["drafter"], "mtp+eagle3+lookup")
        shutil.rmtree(folder)
        said = self.expect_error(1, "is missing at", "run", "-p", "x", "-n", "2")
        self.assertIn("remove the graft: foretoken graft --onto", said)
        self.assertIn("is missing at", self.expect(1, "doctor", "--no-probe").stdout.decode())


class Doctor(DraftersTest):
    def findings(self, status, *arguments):
        report = self.expect_json(status, "doctor", "--no-probe", *arguments)
        self.assertEqual(report["good"], status == 0)
        return [one for one in report["findings"] if "drafter " in one["what"]]

    def fault(self, name, folder, *arguments):
        """The fault of this drafter and its fix, one finding."""
        found = self.findings(1, "--drafter", f"{name}={folder}", *arguments)
        self.assertEqual([one["kind"] for one in found], ["problem"], found)
        return found[0]["what"], found[0]["mend"]

    def test_drafters_that_fit(self):
        odd = GOLDEN / "odd"
        found = self.findings(0, "--model", str(odd), *self.drafters(odd))
        self.assertEqual([one["kind"] for one in found], ["good", "good"], found)
        self.assertIn("reads layers 1, ", found[0]["what"])
        for name, write, drafts in (("DFlash2", write_dflash2, 7), ("DSpark", write_dspark, 7)):
            one, = self.findings(0, "--model", str(odd), "--drafter", "dflash=" + write(self.folder / name, odd))
            self.assertIn(f"({name}, {drafts} drafts a pass, ", one["what"])

    def test_a_broken_drafter_that_was_found_next_to_the_model_is_told_as_such(self):
        model = self.folder / "model"
        shutil.copytree(cli_test.MODEL, model)
        (model / "eagle3").mkdir()
        shutil.copy(cli_test.ROOT / "assets/smollm2-135m-eagle3/config.json", model / "eagle3")
        self.expect_error(1, "next to the model: complete or remove it", "run", "-p", "a", "--model", str(model))

    def test_a_confidence_head_is_named_and_changes_nothing(self):
        model = self.folder / "model"
        shutil.copytree(cli_test.MODEL, model)
        words = ("run", "--model", str(model), "-p", "Name a river.", "-n", "24", "--temperature", "0", "--depth", "3",
                 "--drafter", "dflash")
        write_dspark(model / "dflash", model)
        self.assertEqual(self.expect_json(0, "inspect", str(model))["notes"], [])
        without = self.expect_json(0, *words)
        for name in ("confidence_head.proj", "confidence_proj"):
            shutil.rmtree(model / "dflash")
            write_dspark(model / "dflash", model, confidence=name)
            note, = self.expect_json(0, "inspect", str(model))["notes"]
            self.assertIn("drafter dflash: its confidence head is not used", note)
            self.assertIn(note, " ".join(self.expect(0, "inspect", str(model)).stdout.decode().split()))
            done = self.expect(0, *words, "--json")
            self.assertIn(note, " ".join(done.stderr.decode().split()))
            report = json.loads(done.stdout)
            self.assertEqual(report["token_ids"], without["token_ids"])
            self.assertEqual(report["speculation"]["accepted"], without["speculation"]["accepted"])

    def test_an_assistant_that_fits(self):
        odd = GOLDEN / "gemma4" / "odd"
        for clusters, design in ((0, "logits of all tokens"), (9, "logits of 2 of 9 clusters of tokens")):
            folder = write_assistant(self.folder / f"assistant{clusters}", odd, clusters=clusters)
            one, = self.findings(0, "--model", str(odd), "--drafter", "assistant=" + folder)
            self.assertEqual(one["kind"], "good")
            self.assertIn(f"the drafter assistant of {folder} can draft from all 531 tokens ({design}, ", one["what"])
            self.assertIn(b"drafted tokens equal plain decoding",
                          self.expect(0, "doctor", "--deep", "--no-probe", "--threads", "1", "--model", str(odd),
                                      "--drafter", "assistant=" + folder).stdout)

    def test_a_query_position_that_is_none(self):
        odd = GOLDEN / "gemma4" / "odd"
        folder = pathlib.Path(write_assistant(self.folder / "assistant", odd))
        self.change(folder, query_position="first")
        self.assertIn("query_position", self.fault("assistant", folder, "--model", str(odd))[0])

    def test_tensors_of_another_design_than_the_config_says(self):
        folder = pathlib.Path(write_dflash2(self.folder / "dflash2", cli_test.MODEL))
        self.change(folder, architectures=["DFlashDraftModel"])
        what, fix = self.fault("dflash", folder)
        self.assertIn("is one of DFlash2, but its config says DFlash", what)
        self.assertEqual(fix, "use the config.json that was published with it")

    def test_drafters_of_another_target(self):
        wide = write_eagle3(self.folder / "wide", cli_test.MODEL, target_width=640)
        what, fix = self.fault("eagle3", wide)
        self.assertIn("the width of the target's hidden rows is 640, but the target's is 320", what)
        self.assertEqual(fix, "use the drafter of this target")
        narrow = pathlib.Path(write_dflash(self.folder / "narrow", cli_test.MODEL))
        self.change(narrow, hidden_size=256)
        self.assertIn("hidden_size is 256, but the target's is 320", self.fault("dflash", narrow)[0])
        deep = pathlib.Path(write_dflash(self.folder / "deep", cli_test.MODEL))
        self.change(deep, dflash_config={"mask_token_id": 8183, "target_layer_ids": [1, 40]})
        self.assertIn("layer 40", self.fault("dflash", deep)[0])

    def change(self, folder, **keys):
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, **keys}))

    def test_an_assistant_of_another_target(self):
        odd = GOLDEN / "gemma4" / "odd"
        folder = pathlib.Path(write_assistant(self.folder / "assistant", odd))
        config = json.loads((folder / "config.json").read_text())
        for key, value, said in (("head_dim", 12, "heads of 12 in sliding_attention, but the target's have 24"),
                                 ("num_key_value_heads", 2, "2 key-value heads in sliding_attention"),
                                 ("sliding_window", 22, "sliding_window is 22, expected 2 to the target's 21")):
            self.change(folder, text_config={**config["text_config"], key: value})
            what, fix = self.fault("assistant", folder, "--model", str(odd))
            self.assertIn(said, what)
            self.assertEqual(fix, "use the assistant of this target")
        self.assertIn("the target is not one", self.fault("assistant", folder)[0])

    def test_drafters_of_another_vocabulary(self):
        for name, write in (("eagle3", write_eagle3), ("dflash", write_dflash)):
            folder = pathlib.Path(write(self.folder / name, cli_test.MODEL))
            config = json.loads((folder / "config.json").read_text())
            config.get("transformer_layer_config", config)["vocab_size"] = 9000
            (folder / "config.json").write_text(json.dumps(config))
            what, fix = self.fault(name, folder)
            self.assertIn("vocab_size is 9000, but the target's is 8192", what)
            self.assertEqual(fix, "use the drafter of this target")

    def test_a_missing_map(self):
        folder = pathlib.Path(write_eagle3(self.folder / "eagle3", cli_test.MODEL))
        content = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(content.replace(b'"d2t"', b'"old"', 1))
        what, fix = self.fault("eagle3", folder)
        self.assertIn("no tensor d2t maps its 2731 draft tokens to the 8192 of the target", what)
        self.assertIn("download it again", fix)

    def test_a_drafting_model_with_another_tokenizer(self):
        what, fix = self.fault("model", GOLDEN / "odd")
        self.assertIn("drafter model: ", what)
        self.assertIn("tokenizer.json", what)
        self.assertTrue(fix)

    def test_decoding_with_the_drafter(self):
        odd = GOLDEN / "odd"
        found = self.expect(0, "doctor", "--deep", "--no-probe", "--threads", "1", "--model", str(odd), "--drafter",
                            "eagle3=" + write_eagle3(self.folder / "eagle3", odd)).stdout
        self.assertIn(b"drafted tokens equal plain decoding", found)

    def test_a_name_alone_is_refused(self):
        self.expect_error(2, "expected NAME=DIR", "doctor", "--drafter", "mtp")


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


    def test_bench_drafters_knows_blocks_that_walk(self):
        odd = GOLDEN / "gemma4" / "odd"
        for name, write in (("dflash2", write_dflash2), ("dspark", write_dspark)):
            report = self.expect_json(0, "bench", "--drafters", "--pairs", "1", "--temperature", "0", "--prompt-ids",
                                      "5,6,7,8", "-n", "12", "--depth", "3", "--model", str(odd), "--drafter",
                                      "dflash=" + write(self.folder / name, odd))
            by = {one["drafter"]: one for one in report["drafters"]}
            self.assertTrue(all(one["identical"] for one in by.values()))
            self.assertGreater(by["dflash"]["by_drafter"]["dflash"]["drafted"], 0)

    def test_bench_drafters_knows_an_assistant(self):
        odd = GOLDEN / "gemma4" / "odd"
        report = self.expect_json(0, "bench", "--drafters", "--pairs", "1", "--temperature", "0", "--prompt-ids",
                                  "5,6,7,8", "-n", "12", "--depth", "3", "--model", str(odd), "--drafter",
                                  "assistant=" + write_assistant(self.folder / "assistant", odd))
        by = {one["drafter"]: one for one in report["drafters"]}
        self.assertTrue(all(one["identical"] for one in by.values()))
        self.assertGreater(by["assistant"]["by_drafter"]["assistant"]["drafted"], 0)


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

    def test_what_the_kernels_for_apple_gpus_lack(self):
        for kind, write, lacks in (("dflash", write_dflash2, "a local convolution"),
                                   ("dflash", write_dspark, "a walk over candidates"),
                                   ("assistant", write_assistant, "logits by cluster")):
            odd = GOLDEN / "gemma4" / "odd"
            more = {"clusters": 9} if kind == "assistant" else {}
            folder = write(self.folder / lacks.replace(" ", "_"), odd, **more)
            self.expect_error(1, f"drafter {kind}: metal-twin backend: the model has {lacks}; use --backend cpu",
                              "verify", "--backend", "metal-twin", "--model", str(odd), "--drafter",
                              f"{kind}={folder}")

    def test_a_folder_that_is_no_drafter(self):
        self.expect_error(1, "nothing-here", "run", "-p", "x", "-n", "2", "--drafter",
                          f"model={self.folder / 'nothing-here'}")


if __name__ == "__main__":
    cli_test.PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    cli_test.unittest.main(module=sys.modules[__name__])
