"""Drives the built program as a person or a script would: exit status, one JSON object, bad input of every kind.

    python3 tests/cli/cli_test.py build/release/foretoken

Every test gives one short run; the shipped model is used.
"""

import json
import os
import pathlib
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest
from fcntl import ioctl

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from calibration_folder import calibration_folder  # noqa: E402
MODEL = ROOT / "assets" / "qwen3.5-tiny"
PROGRAM = None
FULL = "FORETOKEN_FULL" in os.environ
TIMEOUT_S = 300


class CliTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="foretoken-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.environment = {"HOME": str(self.folder), "PATH": os.environ.get("PATH", ""), "TERM": "dumb",
                            "FORETOKEN_CALIBRATION": calibration_folder(PROGRAM), "FORETOKEN_THREADS": "1"}

    def run_program(self, *arguments, given=b"", **environment):
        return subprocess.run([PROGRAM, *arguments], input=given, capture_output=True, timeout=TIMEOUT_S, check=False,
                              cwd=self.folder, env={**self.environment, **environment})

    def expect(self, status, *arguments, **rest):
        done = self.run_program(*arguments, **rest)
        self.assertEqual(done.returncode, status, f"{arguments}: {done.stdout[-300:]} {done.stderr[-600:]}")
        return done

    def expect_error(self, status, words, *arguments, **rest):
        """One sentence on stderr that contains `words`, nothing on stdout."""
        done = self.expect(status, *arguments, **rest)
        said = done.stderr.decode()
        self.assertTrue(said.startswith("foretoken: "), said)
        self.assertIn(words, said)
        self.assertEqual(done.stdout, b"")
        return said

    def expect_json(self, status, *arguments, **rest):
        """Exactly one JSON object on stdout, and a newline."""
        done = self.expect(status, *arguments, "--json", **rest)
        text = done.stdout.decode()
        self.assertTrue(text.endswith("}\n"), text[-200:])
        self.assertEqual(text.count("\n"), 1)
        return json.loads(text)


class Usage(CliTest):
    def test_help_succeeds_and_has_examples(self):
        for name in ("run", "chat", "bench", "bench decode", "bench kernels", "verify", "score", "tokenize", "inspect",
                     "doctor", "synth"):
            done = self.expect(0, *name.split(), "--help")
            self.assertIn(b"Examples:", done.stdout, name)
        self.assertIn(b"bench --quick", self.expect(0, "--help").stdout)
        self.assertIn(b"foretoken ", self.expect(0, "--version").stdout)

    def test_connect_prints_settings_and_says_that_the_server_is_unreachable(self):
        done = self.expect(0, "connect", "codex", "--url", "http://127.0.0.1:1/v1")
        self.assertIn(b'base_url = "http://127.0.0.1:1/v1"', done.stdout)
        self.assertIn(b"cannot connect to http://127.0.0.1:1", done.stderr)
        found = self.expect_json(0, "connect", "opencode", "--url", "127.0.0.1:1")
        self.assertIsNone(found["model"])
        self.expect_error(2, "which client?", "connect")
        self.expect_error(2, "--url", "connect", "sdk", "--url", "ftp://x")

    def test_wrong_flags_are_status_2(self):
        for arguments, words in (
                (("run", "--colour"), "run: unknown flag '--colour'"),
                (("run", "one", "two"), "run: 'two' is an extra argument; quote a text that has spaces"),
                (("run", "one", "-p", "two", "-f", "x"), "only one of them"),
                (("rum",), "did you mean 'run'?"),
                (("run", "-p", "a", "--temperature", "hot"), "--temperature: expected"),
                (("run", "-p", "a", "--top-p", "0"), "--top-p: expected"),
                (("run", "-p", "a", "--depth", "16"), "--depth: expected"),
                (("run", "-p", "a", "--draft-vocabulary", "many"), "--draft-vocabulary: expected auto or a whole"),
                (("run", "-p", "a", "--draft-bits", "6"), "--draft-bits: expected auto, 0, 4 or 8, found '6'"),
                (("run", "-p", "a", "--drafter", "magic"), "drafter 'magic' is unknown"),
                (("run", "-p", "a", "--prompt-ids", "1"), "only one of them"),
                (("run", "--prompt-ids", "1,x"), "--prompt-ids: expected token ids"),
                (("run", "-p", "a", "--max-tokens", "0"), "--max-tokens: expected"),
                (("run", "-p", "a", "--backend", "abacus"), "backend 'abacus' is unknown"),
                (("run", "-p", "a", "--context", "99999999"), "--context"),
                (("run", "-p", "a", "--raw", "--system", "b"), "--system needs the chat template"),
                (("bench", "--forced-acceptance", "1.5"), "--forced-acceptance: expected"),
                (("bench", "decode", "--forced-acceptance", "1.5"), "--forced-acceptance: expected"),
                (("bench", "decode", "--profil"), "bench decode: unknown flag '--profil'; did you mean --profile?"),
                (("bench", "decode", "--tokens", "0"), "--tokens: expected"),
                (("bench", "kernels", "--only", "linea"), "linear, logits, embed"),
                (("bench", "kernels", "--shape", "wide"), "gate_up"),
                (("bench", "kernels", "--model-size", "3b"), "27b"),
                (("bench", "kernels", "--rows", "0"), "expected row counts"),
                (("bench", "decode", "--model", "synth:huge"), "qwen3.5-27b"),
                (("inspect", "synth:tiny?bits=5"), "bits: expected one of 4, 8, 16"),
                (("synth", "--shape", "tiny"), "--out"),
                (("synth", "--shape", "huge", "--out", "x"), "--shape: expected"),
        ):
            with self.subTest(arguments=arguments):
                self.expect_error(2, words, *arguments)

    def test_json_errors_are_one_object_too(self):
        error = self.expect_json(2, "run", "-p", "a", "--seed", "x")["error"]
        self.assertEqual(error["code"], "invalid")
        self.assertIn("--seed", error["message"])
        error = self.expect_json(1, "run", "-p", "a", "--model", "/nowhere")["error"]
        self.assertEqual(error["code"], "not_found")

    def test_settings_come_from_file_environment_and_flags(self):
        config = self.folder / ".config" / "foretoken" / "config.toml"
        config.parent.mkdir(parents=True)
        config.write_text("[tokenize]\nprompt = \"from file\"\n")
        self.assertEqual(self.expect_json(0, "tokenize")["text"], "from file")
        self.assertEqual(self.expect_json(0, "tokenize", FORETOKEN_PROMPT="from env")["text"], "from env")
        self.assertEqual(self.expect_json(0, "tokenize", "typed", FORETOKEN_PROMPT="from env")["text"], "typed")

    def test_a_variable_that_sets_nothing_is_said_once_and_not_if_quiet(self):
        done = self.expect(0, "tokenize", "a", FORETOKEN_TEMPRATURE="1")
        self.assertEqual(done.stderr.decode().count("FORETOKEN_TEMPRATURE"), 1)
        self.assertIn(b"did you mean FORETOKEN_TEMPERATURE?", done.stderr)
        self.assertEqual(self.expect(0, "tokenize", "a", "--quiet", FORETOKEN_TEMPRATURE="1").stderr, b"")
        self.assertEqual(self.expect(0, "tokenize", "a", FORETOKEN_TEMPERATURE="1").stderr, b"")

    def test_settings_that_are_wrong_name_their_line(self):
        config = self.folder / "c.toml"
        config.write_text("threads = 1\ntemprature = 1\n")
        self.expect_error(2, "line 2: unknown key 'temprature'; did you mean 'temperature'?", "run", "-p", "a",
                          "--config", str(config))
        config.write_text("threads = 1\nthreads == 2\n")
        self.expect_error(2, "c.toml line 2", "run", "-p", "a", "--config", str(config))
        self.expect_error(2, "nowhere.toml", "run", "-p", "a", "--config", "/nowhere.toml")


class Width(CliTest):
    """Reports fit the terminal: lines break between words, and only there."""

    def shown(self, columns, *words):
        """The lines of a terminal with so few columns, before the terminal itself would break them."""
        ours, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
                                   env={**self.environment, "TERM": "xterm"})
        os.close(theirs)
        text = b""
        try:
            while more := os.read(ours, 65536):
                text += more
        except OSError:  # the other end is closed
            pass
        os.close(ours)
        self.assertEqual(process.wait(60), 0, text)
        lines = text.decode().replace("\r\n", "\n").split("\n")
        return [re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line.split("\r")[-1]) for line in lines]

    def test_lines_of_reports_fit(self):
        for columns in (60, 80):
            for words in (("inspect",), ("doctor", "--no-probe"), ("models",), ("bench", "--quick", "--pairs", "1"),
                          ("run", "-n", "8", "Hello")):
                for line in self.shown(columns, *words):
                    with self.subTest(columns=columns, command=words[0], line=line):
                        longest = max(map(len, line.split()), default=0)
                        self.assertTrue(len(line) <= columns or longest > columns // 2)


class BadInput(CliTest):
    def test_missing_model_says_where_it_looked(self):
        self.expect_error(1, "there is no model at /nowhere", "run", "-p", "a", "--model", "/nowhere")
        self.expect_error(1, "is a file", "run", "-p", "a", "--model", str(MODEL / "config.json"))

    def broken_model(self, change):
        copy = self.folder / "model"
        shutil.copytree(MODEL, copy)
        change(copy)
        return str(copy)

    def test_truncated_model_is_an_error_of_the_model(self):
        def cut(model):
            with open(model / "model.safetensors", "r+b") as file:
                file.truncate(file.seek(0, 2) // 2)
        self.expect_error(1, "model.safetensors", "run", "-p", "a", "--model", self.broken_model(cut))

    def test_lying_header_is_an_error_of_the_model(self):
        def lie(model):
            with open(model / "model.safetensors", "r+b") as file:
                file.write(struct.pack("<Q", 1 << 60))
        self.expect_error(1, "model.safetensors", "inspect", self.broken_model(lie))

    def test_broken_config_is_an_error_of_the_model(self):
        model = self.broken_model(lambda folder: (folder / "config.json").write_text("{\"model_type\": 3}"))
        self.expect_error(1, "config.json", "inspect", model)
        error = self.expect_json(1, "inspect", model)["error"]
        self.assertIn("config.json", error["message"])

    def test_missing_tokenizer_is_an_error_of_the_model(self):
        model = self.broken_model(lambda folder: (folder / "tokenizer.json").unlink())
        self.expect_error(1, "tokenizer.json", "run", "-p", "a", "--model", model)

    def test_ids_outside_the_vocabulary_are_wrong_usage(self):
        self.expect_error(2, "outside the vocabulary", "run", "--prompt-ids", "1,999999999")
        self.expect_error(2, "outside", "tokenize", "--ids", "999999999")
        self.expect_error(2, "outside the vocabulary", "score", "--prompt-ids", "999999999")
        self.expect_error(2, "logit_bias", "run", "-p", "a", "--logit-bias", "999999999=1")

    def test_text_that_is_not_utf8_is_wrong_usage(self):
        self.expect_error(2, "not UTF-8", "run", "--raw", given=b"abc\xff")
        self.expect_error(2, "not UTF-8", "tokenize", given=b"\xc3")

    def test_empty_prompts_are_wrong_usage(self):
        self.expect_error(2, "empty", "run", "-p", "")
        self.expect_error(2, "empty", "run", "--raw", given=b"")

    def test_huge_prompt_does_not_fit_the_context(self):
        self.expect_error(1, "tokens > 63 maximum", "run", "--raw", "-c", "64", given=b"word " * 5000)

    def test_files_that_hold_no_conversation(self):
        talk = self.folder / "talk.json"
        for text in ("", "{", "[]", "[{\"role\": 1}]", "[" * 100000):
            talk.write_text(text)
            self.expect_error(2, "talk.json", "run", "--messages", str(talk))
        self.expect_error(1, "nowhere.json", "run", "--messages", "/nowhere.json")
        self.expect_error(1, "nowhere.txt", "run", "--prompt-file", "/nowhere.txt")

    def test_closed_stdout_is_said_and_a_broken_pipe_is_not(self):
        closed = subprocess.run(["/bin/sh", "-c", f"'{PROGRAM}' tokenize hello >&-"], capture_output=True,
                                env=self.environment, timeout=TIMEOUT_S, check=False)
        self.assertEqual(closed.returncode, 1)
        self.assertIn(b"standard output cannot be written", closed.stderr)
        if os.path.exists("/dev/full"):
            with open("/dev/full", "wb") as full:
                done = subprocess.run([PROGRAM, "tokenize", "hello"], stdout=full, stderr=subprocess.PIPE,
                                      env=self.environment, timeout=TIMEOUT_S, check=False)
            self.assertEqual(done.returncode, 1)
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([PROGRAM, "run", "--quiet", "-p", "hello", "-n", "4"], stdout=writer,
                              stderr=subprocess.PIPE, env=self.environment, timeout=TIMEOUT_S, check=False)
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (0, b""))


class Work(CliTest):
    def verified(self, *arguments):
        report = self.expect_json(0, "verify", *arguments)
        self.assertTrue(report["identical"] and report["complete"])
        return report

    PROMPT = ("-p", "Write a Python function `fibonacci` that returns the nth Fibonacci number.")

    def test_run_reports_what_the_issue_promises(self):
        report = self.expect_json(0, "run", *self.PROMPT, "-n", "16", "--temperature", "0")
        self.assertEqual(list(report), ["model", "backend", "text", "reasoning", "tool_calls", "token_ids",
                                        "finish_reason", "usage", "timing", "speculation"])
        self.assertEqual(report["usage"]["completion_tokens"], len(report["token_ids"]))
        self.assertLessEqual(len(report["token_ids"]), 16)
        self.assertIn(report["finish_reason"], ("stop", "length"))
        spec = report["speculation"]
        self.assertEqual(spec["engaged"], spec["drafted"] > 0)
        self.assertEqual(spec["engaged"], spec["reason"] == "")
        text = self.expect_json(0, "tokenize", "--ids", ",".join(map(str, report["token_ids"])))["text"]
        self.assertTrue(text.startswith(report["text"]))

    def test_explain_depth_says_a_reason_for_every_round(self):
        done = self.expect(0, "run", *self.PROMPT, "-n", "12", "--explain-depth", "--json")
        answer = json.loads(done.stdout)
        reasons = [line for line in done.stderr.decode().splitlines() if line.startswith("depth ")]
        self.assertEqual(len(reasons), answer["speculation"]["rounds"], done.stderr)
        for reason in reasons:  # which one depends on the cost of rounds on this machine
            self.assertRegex(reason, "tokens expected for|no depth pays|drafting paused|a probe|nothing to draft")
        asked = self.expect(0, "run", *self.PROMPT, "-n", "6", "--depth", "2", "--explain-depth", "--json")
        self.assertIn(b"depth 2: as requested", asked.stderr)

    def test_drafters_depths_and_threads_change_no_token(self):
        sampled = (*self.PROMPT, "-n", "24", "--temperature", "3", "--top-k", "0", "--top-p", "1", "--seed", "5")
        plain = self.expect_json(0, "run", *sampled, "--drafter", "none")
        self.assertFalse(plain["speculation"]["engaged"])
        for extra in (("--drafter", "mtp", "--depth", "3"), ("--drafter", "lookup"), ("--depth", "8"),
                      ("--threads", "2")):
            self.assertEqual(self.expect_json(0, "run", *sampled, *extra)["token_ids"], plain["token_ids"], extra)
        other = self.expect_json(0, "run", *sampled[:-1], "6", "--drafter", "none")
        self.assertNotEqual(other["token_ids"], plain["token_ids"], "another seed")

    def test_stop_strings_end_before_themselves(self):
        report = self.expect_json(0, "run", *self.PROMPT, "-n", "64", "--temperature", "0", "--stop", "def")
        self.assertEqual(report["finish_reason"], "stop")
        self.assertNotIn("def", report["text"])

    def test_logprobs_have_one_entry_a_token(self):
        report = self.expect_json(0, "run", *self.PROMPT, "-n", "5", "--temperature", "0", "--logprobs", "3")
        self.assertEqual([entry["id"] for entry in report["logprobs"]], report["token_ids"])
        for entry in report["logprobs"]:
            self.assertEqual(len(entry["top"]), 3)
            self.assertEqual(entry["top"][0]["id"], entry["id"], "greedy takes the likeliest")

    def test_the_prompt_comes_from_anywhere(self):
        ask = "Name a colour."
        (self.folder / "p.txt").write_text(ask + "\n")
        talk = [{"role": "user", "content": ask}]
        (self.folder / "m.json").write_text(json.dumps(talk))
        settings = ("-n", "6", "--temperature", "0")
        wanted = self.expect_json(0, "run", "-p", ask, *settings)["token_ids"]
        self.assertEqual(self.expect_json(0, "run", ask, *settings)["token_ids"], wanted)
        self.assertEqual(self.expect_json(0, "run", "-f", "p.txt", *settings)["token_ids"], wanted)
        self.assertEqual(self.expect_json(0, "run", "--messages", "m.json", *settings)["token_ids"], wanted)
        self.assertEqual(self.expect_json(0, "run", *settings, given=ask.encode() + b"\n")["token_ids"], wanted)

    def test_score_agrees_with_the_golden_file(self):
        want = json.loads((ROOT / "tests" / "golden" / "model" / "shipped" / "short.json").read_text())
        ids = ",".join(map(str, want["tokens"]))
        got = self.expect_json(0, "score", "--prompt-ids", ids, "--top", "20")["positions"]
        self.assertEqual([p["id"] for p in got], want["tokens"])
        self.assertEqual([p["argmax"] for p in got], want["positions"]["argmax"])
        for position in got:
            self.assertEqual(list(position), ["id", "argmax", "argmax_logit", "logsumexp", "top"])
            self.assertEqual(len(position["top"]), 20)
            self.assertEqual(position["top"][0], [position["argmax"], position["argmax_logit"]])

    def test_tokenize_goes_there_and_back(self):
        text = "def f():\n    return 'h\u00e9 \u4f60'"
        ids = self.expect_json(0, "tokenize", "-p", text)["ids"]
        self.assertEqual(self.expect_json(0, "tokenize", "--ids", ",".join(map(str, ids)))["text"], text)

    def test_inspect_and_doctor_tell_of_the_shipped_model(self):
        found = self.expect_json(0, "inspect", "--context", "1024", "--program")
        self.assertEqual(found["family"], "qwen3_5")
        self.assertEqual(found["verdict"], "fits")
        self.assertEqual(found["drafter"], "mtp+lookup")
        self.assertEqual(found["memory"]["context"], 1024)
        self.assertEqual(found["sizes"]["draft_vocabulary"], found["sizes"]["vocabulary"])
        self.assertEqual(found["sizes"]["draft_bits"], 4)
        self.assertIn("attend", found["program"])
        self.assertIn("in 4 bits", self.expect(0, "inspect").stdout.decode())
        stored = (ROOT / "assets/qwen3.5-tiny/vision.safetensors").stat().st_size  # with names and shapes
        self.assertEqual(found["tower"]["parameters"], 3353984)
        self.assertTrue(0.99 * stored < found["tower"]["bytes"] < stored, found["tower"])
        self.assertGreater(found["memory"]["image_bytes"], 4 * 320 * (48 * 48 + 80))
        self.assertIn("vision tower:", found["program"])
        self.assertIn(b"read by a vision tower of 3.35 million parameters in 10.2 bits",
                      self.expect(0, "doctor", "--no-probe").stdout)
        large = self.expect(0, "inspect", "--model", "synth:qwen3.5-35b-a3b?layers=1").stdout.decode()
        self.assertRegex(large, r"parameters +[\d.]+ billion, [\d.]+ (billion|million) per token")
        blind = self.expect_json(0, "inspect", "--model", "synth:tiny")
        self.assertIn("text only", blind["tower"]["problem"])
        large = self.expect_json(0, "inspect", "--model", "synth:tiny?vocabulary=65536", "--program")
        self.assertEqual(large["sizes"]["draft_vocabulary"], 32768 + 2048)
        self.assertIn("32768 ids, 2048 extra", large["program"])
        self.assertTrue(self.expect_json(0, "doctor", "--no-probe")["good"])
        self.assertFalse(self.expect_json(1, "doctor", "--no-probe", "--model", "/nowhere")["good"])

    def test_models_by_name_work_where_a_folder_does(self):
        model = ("--model", "synth:tiny?layers=4&seed=3")
        sizes = self.expect_json(0, "inspect", *model)["sizes"]
        self.assertEqual((sizes["layers"], sizes["vocabulary"]), (4, 8192))
        plain = self.expect_json(0, "run", *model, "--prompt-ids", "5,6,7", "-n", "12", "--drafter", "none")
        drafted = self.expect_json(0, "run", *model, "--prompt-ids", "5,6,7", "-n", "12", "--depth", "3")
        self.assertEqual(plain["token_ids"], drafted["token_ids"])
        report = self.verified(*model, "--prompts", "1", "--tokens", "3", "--threads", "1")

    def test_verify_compares_and_finds_no_difference(self):
        report = self.verified("--prompts", "1", "--tokens", "3", "--threads", "1", "--part", "1/1" if FULL else "1/4")
        self.assertGreater(len(report["cells"]), 40 if FULL else 10)
        self.assertTrue(all(cell["differing"] == 0 and cell["compared"] > 0 for cell in report["cells"]))

    def test_verify_shows_pictures_to_a_model_with_a_tower(self):
        tower = str(ROOT / "tests" / "golden" / "vision")
        report = self.verified("--model", tower, "--prompts", "5", "--tokens", "4", "--threads", "2")
        self.assertEqual((report["prompts"], report["prompts_with_pictures"]), (5, 2))

    def test_verify_takes_a_model_of_odd_sizes_with_a_head_of_its_own_and_no_tokenizer(self):
        odd = str(ROOT / "tests" / "golden" / "odd")
        self.assertFalse(self.expect_json(0, "inspect", odd)["sizes"]["tied"])
        report = self.verified("--model", odd, "--prompts", "2", "--tokens", "12")
        self.assertTrue(any(cell["drafted"] > 0 for cell in report["cells"]))
        self.assertTrue(all(cell["prompts"] == 2 and cell["tokens"] == 12 for cell in report["cells"]))

    def test_a_mixture_of_experts_is_inspected_and_drafts_change_nothing(self):
        experts = str(ROOT / "tests" / "golden" / "odd_experts")
        found = self.expect_json(0, "inspect", experts)
        self.assertEqual((found["sizes"]["experts"], found["sizes"]["experts_per_token"]), (11, 3))
        self.assertLess(found["active_parameters"], found["parameters"])
        self.assertIn(b"11 of width 24 in a layer, 3 per token: ", self.expect(0, "inspect", experts).stdout)
        self.assertLess(found["step_bytes"], found["held_bytes"])
        self.assertIn(b"11 experts, 3 per token: ",
                      self.expect(0, "doctor", "--no-probe", "--model", experts).stdout)
        report = self.verified("--model", experts, "--prompts", "2", "--tokens", "12")
        self.assertTrue(any(cell["drafted"] > 0 for cell in report["cells"]))

    def test_keys_and_values_of_8_bits_take_less_and_drafts_still_change_nothing(self):
        narrow = ("--kv-bits", "8")
        model = () if FULL else ("--model", str(ROOT / "tests" / "golden" / "odd"))
        report = self.verified("--prompts", "1", "--tokens", "3", *model, *narrow)
        self.assertIn("8-bit keys and values", report["backend"])
        wide, small = (self.expect_json(0, "inspect", "--context", "4096", *bits)["memory"] for bits in ((), narrow))
        self.assertLess(small["state_bytes"], wide["state_bytes"])
        done = self.expect(0, "bench", "kernels", "--quick", "--json", "--threads", "1", "--only", "attend",
                           "--model-size", "0.8b", "--rows", "1", *narrow)
        self.assertEqual(json.loads(done.stdout)[0]["instruction"], "attend")
        for bits in ("4", "auto", "", "9", "32"):
            self.expect_error(2, "16 or 8", "run", "--prompt-ids", "1", "--kv-bits", bits)
        self.expect_error(2, "it has no --kv-bits", "run", "--prompt-ids", "1", "--backend", "ref", *narrow)

    def test_synth_writes_a_model_that_runs(self):
        out = str(self.folder / "tiny")
        self.expect_json(0, "synth", "--shape", "tiny", "--out", out, "--seed", "3")
        report = self.expect_json(0, "run", "--model", out, "--prompt-ids", "1,2,3", "-n", "6", "--temperature", "0")
        self.assertGreater(len(report["token_ids"]), 0)
        self.expect_error(2, "--force", "synth", "--shape", "tiny", "--out", out)

    def test_chat_reads_from_a_pipe(self):
        words = b"Name a colour.\n/stats\n/set temperature 0\n/quit\nnever read\n"
        done = self.expect(0, "chat", "-n", "8", given=words)
        self.assertIn(b"1 answer,", done.stdout)
        self.assertIn(b"temperature is 0", done.stdout)
        self.assertNotIn(b"never read", done.stdout)
        self.expect(1, "chat", given=b"/nonsense\n")

    def test_chat_gives_a_line_of_json_for_each_question(self):
        words = b"Name a colour.\n/stats\n" + b"word " * 200 + b"\nAnd another.\n/quit\n"
        done = self.expect(1, "chat", "--json", "-n", "8", "-c", "128", given=words)
        lines = [json.loads(line) for line in done.stdout.decode().splitlines()]
        self.assertEqual(len(lines), 3)
        for answer in (lines[0], lines[2]):
            self.assertEqual(answer["usage"]["completion_tokens"], len(answer["token_ids"]))
            self.assertIn("speculation", answer)
        self.assertEqual(lines[1]["error"]["code"], "too_long", "the long one does not fit and is forgotten")
        self.assertGreater(lines[2]["usage"]["prompt_tokens"], lines[0]["usage"]["prompt_tokens"])
        self.assertIn(b"1 answer,", done.stderr)
        error = self.expect_json(1, "chat", "--model", "/nowhere")["error"]
        self.assertEqual(error["code"], "not_found")

    def test_interrupt_ends_the_answer_with_its_report(self):
        endless = ("run", "--raw", "-p", "def", "-n", "7000", "-c", "8192", "--temperature", "1",
                   "--logit-bias", "8178=-100", "--logit-bias", "8180=-100")
        with subprocess.Popen([PROGRAM, *endless], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=self.environment) as process:
            self.assertNotEqual(process.stdout.read(1), b"", "the answer has begun")
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, 0, said)
        self.assertTrue(said.rstrip().endswith(b"; cancelled"), said)
        self.assertRegex(said.decode(), r"^[1-9]\d* tokens, ")


class Costs(CliTest):  # alone on the machine: a calibration that other programs disturb is not stored
    def test_what_rounds_cost_is_remembered_in_the_cache_folder(self):
        # Too short to teach anything. One thread: a round fits between two turns of other programs.
        ask = ("run", "--raw", "-p", "def", "-n", "1", "--temperature", "0", "--threads", "1", "--json")
        kept = {"XDG_CACHE_HOME": str(self.folder / "cache")}
        del self.environment["FORETOKEN_CALIBRATION"]
        cache = self.folder / "cache" / "foretoken"
        elsewhere = self.folder / "elsewhere"
        ids = set()

        def source(*arguments, **environment):
            answer = json.loads(self.expect(0, *ask, *arguments, **environment).stdout)
            ids.add(tuple(answer["token_ids"]))
            return answer["timing"]["costs"]

        def undisturbed(folder, *arguments, **environment):
            """Measured and stored. A busy machine's measurement is not stored, and a note says so."""
            end = time.monotonic() + TIMEOUT_S
            while (said := source(*arguments, **environment)) == "disturbed":
                self.assertEqual(list(folder.glob("*")), [])
                self.assertLess(time.monotonic(), end, "every calibration was disturbed")
            self.assertEqual(said, "measured")
            self.assertEqual([file.suffix for file in folder.iterdir()], [".costs"])

        undisturbed(cache, **kept)
        self.assertEqual(source(**kept), "remembered")
        self.assertIn(source(**kept, FORETOKEN_COSTS="measure"), ("measured", "disturbed"))
        undisturbed(elsewhere, "--costs", str(elsewhere))
        self.assertEqual(len(ids), 1)
        file = next(cache.iterdir())
        file.write_text("torn")
        done = self.expect(0, *ask, "--calibration", str(cache))
        self.assertIn(b"calibrating again", done.stderr)
        done = self.expect(0, *ask, "--costs", str(elsewhere), "--explain-depth")
        self.assertIn(b"calibration: remembered", done.stderr)
        self.assertEqual(self.expect(0, *ask, "--calibration", "/proc/nowhere", "-q").stderr, b"")


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
