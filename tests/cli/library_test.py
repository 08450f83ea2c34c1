"""`models`, --model by name, the tiers of `inspect`, `verify`'s record, `init`, `setup` and `doctor` from outside.

    python3 tests/cli/library_test.py build/release/foretoken [CLASS]
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/hub")]
from calibration_folder import calibration_folder  # noqa: E402
from fake_hub import FakeHub  # noqa: E402

PROGRAM = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None
SHIPPED = ROOT / "assets/qwen3.5-tiny"
ODD = ROOT / "tests/golden/gemma4/odd"
TIMEOUT_S = 300


class LibraryTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="foretoken-library-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.models = self.folder / "models"
        self.environment = {"HOME": str(self.folder), "PATH": os.environ.get("PATH", ""), "TERM": "dumb",
                            "FORETOKEN_MODELS": str(self.models), "FORETOKEN_CALIBRATION": calibration_folder(PROGRAM),
                            "FORETOKEN_THREADS": "1",
                            "HF_ENDPOINT": "http://127.0.0.1:1"}

    def add(self, name, source=None):
        shutil.copytree(source or SHIPPED, self.models / name)
        return self.models / name

    def expect(self, status, *arguments, **environment):
        done = subprocess.run([PROGRAM, *arguments], env={**self.environment, **environment}, input=b"",
                              capture_output=True, timeout=TIMEOUT_S, check=False, cwd=self.folder)
        self.assertEqual(done.returncode, status, f"{arguments}: {done.stdout[-800:]} {done.stderr[-800:]}")
        return done

    def json(self, *arguments, **environment):
        return json.loads(self.expect(0, *arguments, "--json", **environment).stdout)


class Models(LibraryTest):
    def test_the_memory_of_the_catalogue_is_that_of_its_shapes(self):
        """One model of each family; a pack may be larger than the shape."""
        models = json.loads((ROOT / "src/cli/library/catalogue.json").read_text())["models"]
        for model in {model["family"]: model for model in reversed(models)}.values():
            with self.subTest(model["name"]):
                bits = 4 if model["bytes"] else 16
                shape = self.json("inspect", f"synth:{model['shape']}?bits={bits}", "--context", "8192")
                state = model["memory_8k"] - (model["bytes"] or shape["memory"]["weight_bytes"])
                self.assertAlmostEqual(state / shape["memory"]["state_bytes"], 1, delta=0.1)

    def test_the_list_has_every_kind(self):
        self.add("good")
        (self.add("no-head") / "mtp.safetensors").unlink()
        config = json.loads((self.models / "no-head/config.json").read_text())
        config.pop("mlx_lm_extra_tensors", None)
        (self.models / "no-head/config.json").write_text(json.dumps(config))
        weights = self.add("short") / "model.safetensors"
        os.truncate(weights, 1_000_000)
        (self.add("other") / "config.json").write_text('{"model_type":"gpt2","architectures":["GPT2LMHeadModel"]}')
        (self.models / "odd").mkdir()
        (self.models / "odd/config.json").write_text("[[[")
        found = {m["name"]: m for m in self.json("models")["models"]}
        self.assertEqual({name: m["tier"] for name, m in found.items()},
                         {"good": "compatible", "no-head": "compatible, no head", "short": "incomplete",
                          "other": "incompatible", "odd": "incomplete",
                          "qwen3.5-tiny": "compatible"})
        self.assertEqual(found["good"]["drafted_by"], "MTP head")
        self.assertEqual(found["good"]["delete"], "foretoken models rm good")
        self.assertIn("GPT2LMHeadModel", found["other"]["reason"])
        shown = self.expect(0, "models").stdout.decode()
        for words in ("4-bit affine", "compatible", "today", "has 1000000 of", "models rm"):
            self.assertIn(words, shown)

    def test_a_name_runs_and_an_unknown_one_says_how_to_fetch(self):
        self.add("org/little")
        out = self.expect(0, "run", "--model", "LITTLE", "-p", "Hi", "-n", "4").stdout
        self.assertTrue(out.strip())
        said = self.expect(1, "run", "--model", "org/none", "-p", "Hi").stderr.decode()
        self.assertIn("fetch it with: foretoken pull org/none", said)
        self.assertIn("did you mean org/little?", self.expect(1, "run", "--model", "litle", "-p", "Hi").stderr.decode())
        self.add("two/little")
        self.assertIn(b"fits several models: org/little, two/little", self.expect(2, "models", "path", "little").stderr)

    def test_the_shipped_model_answers_to_the_name_that_serve_prints_for_it(self):
        found = self.json("models")["models"]
        self.assertEqual([(m["name"], m["place"]) for m in found], [("qwen3.5-tiny", "foretoken")])
        self.assertEqual(self.json("run", "--model", "qwen3.5-tiny", "-p", "Hi", "-n", "4")["model"], "qwen3.5-tiny")
        self.assertEqual(self.json("inspect", "qwen3.5-tiny")["name"], "qwen3.5-tiny")
        self.expect(0, "tokenize", "--model", "qwen3.5-tiny", "Hi")
        path = self.expect(0, "models", "path", "qwen3.5-tiny").stdout.decode().strip()
        self.assertEqual(pathlib.Path(path), SHIPPED)
        self.assertIn(b"comes with this program", self.expect(2, "pull", "qwen3.5-tiny").stderr)
        self.assertIn(b"is part of the program", self.expect(2, "models", "rm", "qwen3.5-tiny", "--yes").stderr)
        self.assertTrue((SHIPPED / "config.json").exists())

    def test_rm_deletes_after_a_yes(self):
        folder = self.add("little")
        self.assertIn(b"add --yes", self.expect(2, "models", "rm", "little").stderr)
        self.assertTrue(folder.exists())
        self.expect(0, "models", "rm", "little", "--yes")
        self.assertFalse(folder.exists())
        shown = self.expect(0, "models").stdout.decode()
        self.assertRegex(shown, r"(?m)^qwen3.5-tiny ")
        self.assertIn("This model comes with the program", shown)

    def test_a_pulled_model_has_its_name_and_its_damage_is_found(self):
        files = {path.name: path.read_bytes() for path in SHIPPED.iterdir()}
        with FakeHub({"org/pulled": files}) as hub:
            self.expect(0, "pull", "org/pulled", HF_ENDPOINT=hub.endpoint)
        self.assertEqual(self.json("run", "--model", "org/pulled", "-p", "Hi", "-n", "4")["model"], "pulled")
        self.assertEqual(self.json("models", "check", "pulled")["damaged"], [])
        path = pathlib.Path(self.expect(0, "models", "path", "pulled").stdout.decode().strip())
        with open(path / "model.safetensors", "r+b") as file:
            file.seek(10_000_000)
            file.write(b"?")
        self.assertIn(b"1 damaged", self.expect(1, "models", "check", "pulled").stdout)
        found = self.expect(1, "doctor", "--deep", "--no-probe", "--model", "pulled").stdout
        self.assertIn(b"its hash does not match its name", found)

    def test_a_head_that_another_program_left_out_is_named(self):
        files = {path.name: path.read_bytes() for path in SHIPPED.iterdir()}
        with FakeHub({"org/pulled": files}) as hub:
            self.expect(0, "pull", "org/pulled", "--exclude", "mtp.safetensors", HF_ENDPOINT=hub.endpoint)
            found = self.json("models")["models"][0]
            self.assertEqual((found["tier"], found["next"]), ("incomplete", "foretoken pull org/pulled"))
            said = self.expect(1, "run", "--model", "org/pulled", "-p", "Hi").stderr.decode()
            self.assertIn("mtp.safetensors is missing; foretoken pull org/pulled", said)
            before = len([r for r in hub.requests if r.host == "cdn"])
            self.expect(0, "pull", "org/pulled", HF_ENDPOINT=hub.endpoint)
            self.assertEqual(len([r for r in hub.requests if r.host == "cdn"]) - before, 1)
        self.assertEqual(self.json("models")["models"][0]["tier"], "compatible")


class Tools(LibraryTest):
    def test_the_shipped_model_is_found_without_proc(self):
        hidden = ["unshare", "-Urm", "sh", "-c", 'mount -t tmpfs none /proc && exec "$0" "$@"']
        if subprocess.run([*hidden, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this machine gives no mount namespaces")
        done = subprocess.run([*hidden, PROGRAM, "run", "-q", "-p", "Hi", "-n", "4"], env=self.environment,
                              capture_output=True, timeout=TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.strip())

    def test_verify_is_remembered_until_the_weights_change(self):
        folder = self.add("little", ODD)
        self.assertEqual(self.json("inspect", "little")["tier"], "compatible")
        self.expect(0, "verify", "--model", "little", "--prompts", "1", "--tokens", "4")
        found = self.json("inspect", str(folder))
        self.assertEqual(found["tier"], "verified")
        self.assertIn("none differed", found["reason"])
        self.assertEqual(self.json("models")["models"][0]["tier"], "verified")
        os.utime(folder / "model.safetensors", (1, 1))
        self.assertEqual(self.json("inspect", "little")["tier"], "compatible")

    def test_inspect_tells_of_what_does_not_run(self):
        (self.add("other") / "config.json").write_text('{"model_type":"gpt2","architectures":["GPT2LMHeadModel"]}')
        found = self.json("inspect", "other")
        self.assertEqual((found["tier"], found["runs"]), ("incompatible", False))
        self.expect(1, "inspect", "other", "--require", "runs")
        self.expect(0, "inspect", "--require", "drafted")

    def test_init_writes_a_file_of_comments_once(self):
        self.expect(0, "init")
        file = self.folder / ".config/foretoken/config.toml"
        self.assertEqual(tomllib.loads(file.read_text()), {})
        for key in ("model", "threads", "temperature", "port"):
            self.assertIn(f"# {key} = ", file.read_text())
        file.write_text("threads = 1\n")
        self.assertIn(b"already exists", self.expect(2, "init").stderr)
        self.assertEqual(file.read_text(), "threads = 1\n")
        self.expect(0, "inspect")  # the file is read

    def test_setup_makes_a_model_ready(self):
        self.add("little", ODD)  # the whole matrix of a larger model takes half a minute
        done = self.expect(0, "setup", "little")
        self.assertIn(b"ready: foretoken chat --model little", done.stdout)
        self.assertEqual(self.json("models")["models"][0]["tier"], "verified")
        self.assertTrue(list((self.folder / ".cache/foretoken").iterdir()))
        self.expect(1, "setup", "org/none")

    def test_doctor_deep_decodes(self):
        found = self.json("doctor", "--deep", "--no-probe")
        words = " ".join(finding["what"] for finding in found["findings"])
        self.assertIn("equal plain decoding", words)
        self.assertIn("models go to ~/.cache/huggingface/hub", words)

    def test_a_bundle_says_nothing_of_the_person(self):
        self.add("little")
        bundle = self.folder / "report.json"
        done = self.expect(0, "doctor", "--no-probe", "--model", "little", "--bundle", str(bundle),
                           HF_TOKEN="hf_secretsecret", USER="erikamuster", https_proxy="http://erika:pw@proxy.example")
        text = bundle.read_text()
        self.assertIn(text, done.stdout.decode())
        found = json.loads(text)
        self.assertEqual(found["model"]["tier"], "compatible")
        self.assertIn("HF_TOKEN", found["variables_set"])
        for secret in ("hf_secret", "erika", "pw@", str(self.folder), os.uname().nodename if len(
                os.uname().nodename) > 2 else "hf_secret"):
            self.assertNotIn(secret, text)


if __name__ == "__main__":
    unittest.main()
