"""`bench`, `bench decode` and `bench kernels`: they end, and their figures agree with each other.

    python3 tests/cli/bench_test.py build/release/foretoken
"""

import json
import os
import pathlib
import sys
import tempfile
import unittest

import cli_test


class Bench(cli_test.CliTest):
    PROMPT = ("-p", "Write a Python function `fibonacci` that returns the nth Fibonacci number.")

    def test_bench_finds_the_same_tokens(self):
        report = self.expect_json(0, "bench", *self.PROMPT, "-n", "12", "--pairs", "1")
        self.assertEqual(len(report["prompts"]), 2, "greedy and as the model's makers sample")
        self.assertEqual(sorted(report["summary"]), ["accepted_by_position", "identical", "plain_tokens_per_second",
                                                     "ratio", "speculative_tokens_per_second", "spread",
                                                     "tokens_per_round"])
        self.assertTrue(report["summary"]["identical"])
        forced = self.expect_json(0, "bench", *self.PROMPT, "-n", "24", "--pairs", "1", "--temperature", "0", "--depth",
                                  "2", "--forced-acceptance", "1,1")
        self.assertEqual(forced["summary"]["accepted_by_position"][:2], [1.0, 1.0])

    def test_bench_takes_the_prompts_of_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            prompts = pathlib.Path(folder, "prompts.txt")
            prompts.write_bytes(b"\r\n\r\nSay hello\r\nand goodbye.\r\n\r\n\r\n\r\n"
                                b"Name the three largest cities of the country\n")
            options = ("--prompts", str(prompts), "-n", "4", "--pairs", "1", "--temperature", "0")
            report = self.expect_json(0, "bench", *options)
            self.assertEqual([prompt["name"] for prompt in report["prompts"]],
                             ["Say hello", "Name the three largest ..."])
            prompts.write_bytes(b"\n\n \n".replace(b" ", b""))
            self.assertIn("write one a paragraph", self.expect(2, "bench", *options).stderr.decode())
            wrong = self.expect(2, "bench", *options, "-p", "Hi")
            self.assertIn("exclude each other", wrong.stderr.decode())
        daily = (cli_test.ROOT / "bench/prompts/daily.txt").read_text(encoding="utf-8").strip().split("\n\n")
        self.assertEqual(len(daily), 20)

    def test_bench_edits_remembers_earlier_requests(self):
        report = self.expect_json(0, "bench", "edits", "--pairs", "1", "-n", "32", "--threads", "1")
        ways = {one["drafter"]: one for one in report["ways"]}
        self.assertEqual(list(ways), ["none", "lookup", "recall", "auto without recall", "auto"])
        self.assertTrue(all(one["identical"] for one in report["ways"]))
        self.assertEqual(len({one["tokens"] for one in report["ways"]}), 1)
        self.assertEqual(ways["none"]["rounds"], ways["none"]["tokens"])
        self.assertLess(1.5 * ways["recall"]["rounds"], ways["lookup"]["rounds"])
        self.assertIn(b"10 versions of one file", self.expect(0, "bench", "edits", "--pairs", "1", "-n", "8").stdout)

    def test_bench_decode_reports_every_figure(self):
        trace = self.folder / "trace.json"
        report = self.expect_json(0, "bench", "decode", "--quick", "--profile", "--trace", str(trace), "--model",
                                  "synth:tiny?layers=4&vocabulary=512", "--forced-acceptance", "1,1",
                                  "--fixed", "--threads", "1")
        for key in ("backend", "threads", "read_bandwidth_gb_s", "bytes_per_token", "plain_tokens_per_second",
                    "limit_share", "prompt_tokens_per_second", "host_us_per_round", "packed_bytes", "load_ms"):
            self.assertTrue(report[key], key)
        sizes = [str(rows) for rows in (1, 2, 3, 4, 5, 6, 7, 8, 12, 16)]
        self.assertEqual(list(report["round_cost"]), sizes)
        self.assertEqual(list(report["round_cost_drafting"]), sizes[1:])
        self.assertEqual(report["network"], "mtp")
        self.assertEqual([result["depth"] for result in report["forced"]], ["auto", 1, 2])
        deepest = report["forced"][2]  # every draft is right, except those after the end of the answer
        self.assertEqual(deepest["emitted"], deepest["drafted"] + deepest["rounds"])
        self.assertEqual(deepest["drafted"], 2 * deepest["rounds"])
        tables = {(table["program"], table["rows"]): table for table in report["profile"]}
        names = [line["instruction"] for line in tables["model", 1]["instructions"]]
        for name in ("linear 320 -> 960+960", "delta_rule 2/4x128", "attend 4/2x256", "logits 320 -> 512", "sample"):
            self.assertIn(name, names)
        self.assertIn(("head", 1), tables)
        events = json.loads(trace.read_text())["traceEvents"]
        self.assertEqual({event["ph"] for event in events}, {"X"})

    def test_bench_decode_times_the_drafts_of_a_loaded_drafter(self):
        command = ("bench", "decode", "--quick", "--model", "synth:tiny?layers=4&vocabulary=512", "--drafter",
                   "dflash=synth:dflash2?bits=4", "--forced-acceptance", "1,1,1,1,1,1,1", "--fixed", "--threads", "1")
        report = self.expect_json(0, *command)
        self.assertEqual(report["network"], "dflash")
        self.assertEqual(list(report["round_cost_drafting"]), [str(rows) for rows in range(2, 9)], "a block of 8")
        self.assertEqual([result["depth"] for result in report["forced"]], ["auto", 1, 2, 3, 4, 5, 6, 7])
        block = report["forced"][7]
        self.assertEqual(block["drafted"], 7 * block["rounds"])
        self.assertEqual(block["emitted"], 8 * block["rounds"])
        self.assertIn(b"with dflash drafts", self.expect(0, *command).stdout)
        self.assertIn("expected synth:dflash2", self.expect(1, *command[:5], "--drafter", "dflash=synth:dflash3")
                      .stderr.decode())

    def test_bench_decode_measures_several_numbers_of_threads(self):
        page = self.folder / "threads.html"
        some = ("bench", "decode", "--quick", "--model", "synth:tiny?layers=4&vocabulary=512", "--forced-acceptance",
                "1,1", "--threads", "1,2")
        reports = self.expect_json(0, *some)["by_threads"]
        self.assertEqual([report["threads"] for report in reports], [1, 2])
        table = self.expect(0, *some, "--html", str(page)).stdout.decode()
        rows = [line.split() for line in table.splitlines() if line[:1] in "12" and line[:1]]
        self.assertEqual([row[0] for row in rows], ["1", "2"])
        self.assertTrue(all(len(row) == 8 and float(row[6]) > 0 for row in rows), rows)
        self.assertEqual(page.read_text().count("<td>"), 2 * 8)
        for wrong, sentence in ((("--threads", "1,x"), "whole number from 1 to 1024"),
                                (("--html", "x"), "add --threads"),
                                (("--threads", "1,2", "--profile"), "give --threads one number")):
            self.assertIn(sentence, self.expect(2, "bench", "decode", *wrong).stderr.decode())

    def test_bench_decode_compares_several_streams_with_one(self):
        report = self.expect_json(0, "bench", "decode", "--streams", "3", "--quick", "--model",
                                  "synth:tiny?layers=4&vocabulary=512", "--forced-acceptance", "1,1", "--threads", "1",
                                  "--fixed")
        self.assertEqual(report["streams"], 3)
        plain = report["plain"]
        self.assertEqual([plain[side]["emitted"] for side in ("one", "all")], [2 * 8, 2 * 3 * 8])
        self.assertEqual([plain[side]["rounds"] for side in ("one", "all")], [2 * 8, 2 * 8])
        self.assertEqual([each["depth"] for each in report["drafted"]], ["auto", 1, 2])
        for each in report["drafted"][1:]:
            self.assertEqual(each["all"]["drafted"], each["depth"] * 3 * each["all"]["rounds"])
        drafted = report["drafted"][0]
        self.assertEqual(drafted["schedule"], [1, 1])
        self.assertGreaterEqual(drafted["all"]["emitted"], 2 * 3 * 8)
        for side in (plain["one"], plain["all"], drafted["one"], drafted["all"]):
            self.assertGreater(side["tokens_per_second"], 0)

    def test_bench_kernels_prints_a_list(self):
        done = self.expect(0, "bench", "kernels", "--quick", "--json", "--threads", "1", "--shape", "64x128",
                           "--format", "8", "--format", "bf16", "--rows", "1,3")
        lines = json.loads(done.stdout)
        self.assertEqual([(line["format"], line["rows"]) for line in lines],
                         [("8-bit g64", 1), ("8-bit g64", 3), ("bf16", 1), ("bf16", 3)])
        for key in ("instruction", "format", "shape", "rows", "ms", "gb_per_s", "bandwidth_share", "t_over_t1"):
            self.assertTrue(lines[0][key], key)


if __name__ == "__main__":
    cli_test.PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
