"""Our cache and huggingface_hub's, both ways, against the same hub. Started by tools/hub_test.

    python tests/hub/conformance_test.py build/release/foretoken
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import pull_test  # noqa: E402
from fake_hub import FakeHub, sha256  # noqa: E402

# mlx-lm's allow_patterns (mlx_lm/utils.py).
MLX_PATTERNS = ["*.json", "model*.safetensors", "*.py", "tokenizer.model", "*.tiktoken", "tiktoken.model", "*.txt",
                "*.jsonl", "*.jinja"]

THEIRS = """
import sys, huggingface_hub as h
from huggingface_hub import snapshot_download, scan_cache_dir, try_to_load_from_cache
import json
action = sys.argv[1]
patterns = json.loads(sys.argv[2]) if len(sys.argv) > 2 else None
if action == "scan":
    info = scan_cache_dir()
    print(json.dumps({"warnings": [str(w) for w in info.warnings], "repos": [r.repo_id for r in info.repos],
                      "refs": [sorted(x.refs) for r in info.repos for x in r.revisions]}))
elif action == "local":
    print(snapshot_download("org/name", local_files_only=True, allow_patterns=patterns))
elif action == "plain":  # with HF_HUB_OFFLINE=1: as a program calls it that knows nothing of foretoken
    print(snapshot_download("org/name"))
elif action == "cached":
    print(try_to_load_from_cache("org/name", "model.safetensors"))
else:
    print(snapshot_download("org/name", allow_patterns=patterns))
"""


class Conformance(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="foretoken-hub-")))
        self.files = pull_test.model(3_000_000)
        self.hub = self.enterContext(FakeHub({"org/name": self.files}))
        self.environment = {"HOME": str(self.folder), "PATH": os.environ["PATH"],
                            "HF_HOME": str(self.folder / "hf"), "HF_ENDPOINT": self.hub.endpoint,
                            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
                            "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}

    def start_theirs(self, *arguments, **more):
        return subprocess.Popen([sys.executable, "-c", THEIRS, *arguments], env={**self.environment, **more},
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def start_ours(self, **more):
        return subprocess.Popen([pull_test.PROGRAM, "pull", "org/name", "--piece-mb", "1"],
                                env={**self.environment, **more}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True)

    def end(self, process):
        out, said = process.communicate(timeout=200)
        self.assertEqual(process.returncode, 0, out + said)
        return out.strip()

    def theirs(self, *arguments, **more):
        return self.end(self.start_theirs(*arguments, **more))

    @property
    def snapshot(self):
        return self.folder / "hf/hub/models--org--name/snapshots" / self.hub.commit

    def check_weights(self):
        self.assertEqual((self.snapshot / "model.safetensors").read_bytes(), self.files["model.safetensors"])

    def test_they_read_what_we_wrote(self):
        import json

        self.end(self.start_ours())
        scan = json.loads(self.theirs("scan"))
        self.assertEqual(scan, {"warnings": [], "repos": ["org/name"], "refs": [["main"]]})
        self.assertEqual(self.theirs("local", json.dumps(MLX_PATTERNS)), str(self.snapshot))
        self.assertEqual(self.theirs("cached"), str(self.snapshot / "model.safetensors"))
        before = len(self.hub.requests)
        self.theirs("fetch", json.dumps(MLX_PATTERNS))  # online: nothing is fetched again
        later = [r.path for r in self.hub.requests[before:] if r.host == "cdn"]
        self.assertEqual(later, [])

    def test_a_plain_call_finds_the_snapshot_offline(self):
        small = {".gitattributes": b"*.safetensors filter=lfs", "LICENSE": b"free", "README.md": b"a card",
                 "docs/a.svg": b"<svg/>"}
        for name, more in (("small files", small), ("weights of other formats too", {**small, "w.bin": b"w" * 9000})):
            with self.subTest(name):
                subprocess.run(["rm", "-rf", str(self.folder / "hf")], check=True)
                files = {path: data for path, data in self.files.items()
                         if not path.endswith(".bin") and not path.startswith("original/")}
                self.hub.repositories["org/name"] = files | more
                self.end(self.start_ours())
                before = len(self.hub.requests)
                self.assertEqual(self.theirs("plain", HF_HUB_OFFLINE="1"), str(self.snapshot))
                self.assertEqual(len(self.hub.requests), before)
                self.theirs("plain")  # online: what was left out comes
                found = {str(p.relative_to(self.snapshot)) for p in self.snapshot.rglob("*") if not p.is_dir()}
                self.assertEqual(found, set(files | more))
                self.assertEqual(self.theirs("plain", HF_HUB_OFFLINE="1"), str(self.snapshot))

    def test_we_read_what_they_wrote(self):
        self.theirs("fetch")
        before = len(self.hub.requests)
        self.end(self.start_ours(HF_HUB_OFFLINE="1"))
        self.assertEqual(len(self.hub.requests), before)
        self.end(self.start_ours())
        self.assertEqual([r for r in self.hub.requests[before:] if r.host == "cdn"], [])
        listed = subprocess.run([pull_test.PROGRAM, "models", "--json"], env=self.environment, capture_output=True,
                                text=True, timeout=240, check=True).stdout
        self.assertIn('"name":"org/name"', listed)

    def test_both_at_once(self):
        for turn in range(20 if pull_test.FULL else 3):
            with self.subTest(turn):
                both = [self.start_ours(), self.start_theirs("fetch")]
                for process in both:
                    self.end(process)
                self.check_weights()
                subprocess.run(["rm", "-rf", str(self.folder / "hf")], check=True)

    def test_one_is_killed_and_the_other_continues(self):
        self.hub.rate = 3_000_000
        for first, second in ((self.start_ours, lambda: self.start_theirs("fetch")),
                              (lambda: self.start_theirs("fetch"), self.start_ours)):
            killed, other = first(), second()
            time.sleep(0.8)
            killed.kill()
            killed.communicate()
            self.end(other)
            self.check_weights()
            self.assertEqual(sha256(self.files["model.safetensors"]),
                             pathlib.Path(os.readlink(self.snapshot / "model.safetensors")).name)
            subprocess.run(["rm", "-rf", str(self.folder / "hf")], check=True)


if __name__ == "__main__":
    unittest.main()
