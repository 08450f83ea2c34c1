"""A repository of which only byte ranges are read: `inspect --remote`, `graft --head ORG/REPO`; and `models prune`.

    python3 tests/hub/remote_test.py build/release/foretoken [CLASS]

The class Trained needs the trained models in FORETOKEN_TRAINED.
"""

import fcntl
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fake_hub import Answer, FakeHub  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None
ODD = ROOT / "tests/golden/odd"
GLM = ROOT / "tests/golden/mtp/glm4_air"
TRAINED = os.environ.get("FORETOKEN_TRAINED")
TIMEOUT_S = 300
REPO = "an-org/original"


def read_safetensors(content):
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    metadata = header.pop("__metadata__", {})
    return metadata, {name: (entry["dtype"], entry["shape"],
                             content[8 + length + entry["data_offsets"][0]:8 + length + entry["data_offsets"][1]])
                      for name, entry in header.items()}


def safetensors(metadata, tensors):
    header, data = {"__metadata__": metadata}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def e4m3(code):
    """The value of a finite code, from the definition."""
    exponent, mantissa = code >> 3 & 15, code & 7
    size = mantissa * 2.0**-9 if exponent == 0 else (8 + mantissa) * 2.0**(exponent - 10)
    return -size if code & 128 else size


def with_fp8_head(files):
    """The matrices of the MTP head in FP8, one power of two as the scale of every block; -> (files, values by name)."""
    files, values, dice = dict(files), {}, random.Random(5)
    config = json.loads(files["config.json"])
    config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    files["config.json"] = json.dumps(config).encode()
    for path in [path for path in files if path.endswith(".safetensors")]:
        metadata, tensors = read_safetensors(files[path])
        for name, (_, shape, _) in list(tensors.items()):
            if not name.startswith("mtp.") or len(shape) != 2:
                continue
            codes = bytes(dice.choice((0x20, 0x31, 0x3a, 0xa5, 0xb8)) for _ in range(shape[0] * shape[1]))
            blocks = [-(-side // 128) for side in shape]
            tensors[name] = ("F8_E4M3", shape, codes)
            tensors[name + "_scale_inv"] = ("F32", blocks, struct.pack("<f", 0.25) * (blocks[0] * blocks[1]))
            values[name] = struct.pack(f"<{len(codes)}f", *(0.25 * e4m3(code) for code in codes))
        files[path] = safetensors(metadata, tensors)
    files.pop("model.safetensors.index.json", None)
    return files, values


WEIGHTS = safetensors({}, {"w": ("F32", [1000], bytes(4000))})


class RemoteTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="foretoken-remote-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.models, self.scratch = self.folder / "models", self.folder / "scratch"
        self.models.mkdir(), self.scratch.mkdir()
        self.hub = None

    def start_hub(self, files, **options):
        self.hub = FakeHub({REPO: files}, **options)
        self.enterContext(self.hub)
        return self.hub

    def run_program(self, status, *arguments, **environment):
        settings = {"HOME": str(self.folder), "PATH": os.environ.get("PATH", ""), "TERM": "dumb",
                    "FORETOKEN_MODELS": str(self.models), "TMPDIR": str(self.scratch),
                    "HF_ENDPOINT": self.hub.endpoint if self.hub else "http://127.0.0.1:1", **environment}
        done = subprocess.run([PROGRAM, *map(str, arguments)], env=settings, input=b"", capture_output=True,
                              timeout=TIMEOUT_S, check=False)
        said = f"{arguments}: {done.stdout[-800:]} {done.stderr[-800:]}"
        self.assertIn(done.returncode, (1, 2) if status == 2 else (status,), said)
        self.assertEqual([*self.scratch.iterdir()], [], "nothing is left in the temporary folder")
        return done

    def json(self, *arguments):
        return json.loads(self.run_program(0, *arguments, "--json").stdout)

    def sent_bytes(self):
        """Bytes of weight files in the requested ranges."""
        return sum(request.range[1] + 1 - request.range[0] for request in self.hub.requests if request.range)

    def headless(self, source):
        quant = self.models / "quant"
        shutil.copytree(source, quant, copy_function=shutil.copyfile)
        (quant / "mtp.safetensors").unlink(missing_ok=True)
        for file in quant.glob("model*.safetensors"):
            metadata, tensors = read_safetensors(file.read_bytes())
            file.write_bytes(safetensors(metadata, {n: t for n, t in tensors.items() if not n.startswith("mtp.")}))
        index = quant / "model.safetensors.index.json"
        if index.exists():
            text = json.loads(index.read_text())
            text["weight_map"] = {n: f for n, f in text["weight_map"].items() if not n.startswith("mtp.")}
            index.write_text(json.dumps(text))
        return quant


class Inspect(RemoteTest):
    def test_a_repository_is_judged_by_its_headers(self):
        files = files_of(ODD)
        self.start_hub(files)
        there = self.json("inspect", "--remote", REPO)
        here = self.json("inspect", ODD)
        for key in ("parameters", "file_bytes", "layers", "quantisation", "verdict"):
            self.assertEqual(there.get(key), here.get(key), key)
        self.assertEqual((there["tier"], there["head"]["state"]), (here["tier"], here["head"]["state"]))
        weights = sum(len(data) for path, data in files.items() if path.endswith(".safetensors"))
        small = sum(len(data) for path, data in files.items() if not path.endswith(".safetensors"))
        self.assertLess(self.sent_bytes(), small + weights / 2)
        self.assertIn(f"foretoken pull {REPO}", json.dumps(there))

    def test_what_does_not_run_is_said_before_it_is_fetched(self):
        config = json.dumps({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}).encode()
        self.start_hub({"config.json": config, "model.safetensors": WEIGHTS})
        found = self.json("inspect", "--remote", REPO)
        self.assertEqual((found["tier"], found["name"]), ("incompatible", REPO))

    def test_faults_end_in_a_sentence_or_in_the_right_bytes(self):
        hub = self.start_hub(files_of(ODD))
        whole = Answer(200, {}, b"x" * 70000)
        for words, answer in (("has no safetensors header", None), ("sends no byte ranges", whole)):
            hub.faults.clear()
            if answer is None:
                hub.fault_once(lambda request: request.host == "cdn", lambda request: Answer(206, {
                    "Content-Range": f"bytes {request.range[0]}-{request.range[1]}/{self.size_of(request)}"},
                    bytes(request.range[1] + 1 - request.range[0])), times=1000)
            else:
                hub.fault_once(lambda request: request.host == "cdn" and request.range, answer, times=1000)
            said = self.run_program(2, "inspect", "--remote", REPO).stderr.decode()
            self.assertTrue(words in said or "hash" in said, said)
        hub.faults.clear()
        hub.fault_once(lambda request: request.host == "cdn", Answer(503), times=2)
        self.json("inspect", "--remote", REPO)
        self.assertIn("HF_HUB_OFFLINE", self.run_program(2, "inspect", "--remote", REPO,
                                                         HF_HUB_OFFLINE="1").stderr.decode())
        self.assertIn("ORG/NAME", self.run_program(2, "inspect", "--remote", "odd").stderr.decode())

    def size_of(self, request):
        from fake_hub import sha256
        return next(len(data) for data in self.hub.repositories[REPO].values() if sha256(data) in request.path)


class Graft(RemoteTest):
    def graft(self, files):
        self.start_hub(files)
        made = self.folder / "mtp.safetensors"
        report = self.json("graft", "--head", REPO, "--onto", "quant", "--out", made)
        self.assertEqual(report["from"], REPO)
        return read_safetensors(made.read_bytes())[1]

    def test_only_the_bytes_of_the_head_are_fetched(self):
        self.headless(ODD)
        files = files_of(ODD)
        # The other parts of a large model: none of it may come over the network.
        other = safetensors({}, {"model.language_model.layers.0.other": ("U8", [3_000_000], bytes(3_000_000))})
        made = self.graft({**files, "model-other.safetensors": other})
        given = {}
        for path, data in files.items():
            if path.endswith(".safetensors"):
                given |= {n: t for n, t in read_safetensors(data)[1].items() if n.startswith("mtp.")}
        self.assertEqual({n for n in given if len(given[n][1]) > 1}, {n for n in made if len(made[n][1]) > 1})
        for name, tensor in made.items():
            if len(tensor[1]) > 1:
                self.assertEqual(tensor, given[name], name)
        self.assertLess(self.sent_bytes(), sum(map(len, files.values())) + 100_000)

    def test_a_head_that_is_a_layer_is_found(self):
        self.headless(GLM)
        config = json.loads((self.models / "quant/config.json").read_text())
        layers = config["num_hidden_layers"]
        path = self.models / "quant/model.safetensors"
        metadata, tensors = read_safetensors(path.read_bytes())
        head = {name for name in tensors if name.startswith(f"model.layers.{layers}.")}
        self.assertTrue(head)
        path.write_bytes(safetensors(metadata, {n: t for n, t in tensors.items() if n not in head}))
        (self.models / "quant/config.json").write_text(json.dumps({**config, "num_nextn_predict_layers": 0}))
        other = safetensors({}, {"model.layers.0.other": ("U8", [3_000_000], bytes(3_000_000))})
        made = self.graft({**files_of(GLM), "model-other.safetensors": other})
        self.assertEqual(made["mtp.fc.weight"][2], tensors[f"model.layers.{layers}.eh_proj.weight"][2])
        self.assertEqual(made["mtp.layers.0.self_attn.q_proj.weight"][2],
                         tensors[f"model.layers.{layers}.self_attn.q_proj.weight"][2])
        self.assertLess(self.sent_bytes(), 1_000_000)
        self.assertEqual(self.json("inspect", "--remote", REPO)["head"]["state"], "ready")

    def test_a_head_in_fp8_is_decoded(self):
        self.headless(ODD)
        files, values = with_fp8_head(files_of(ODD))
        made = self.graft(files)
        self.assertTrue(values)
        for name, value in values.items():
            dtype, _, content = made[name]
            self.assertEqual(dtype, "BF16", name)
            halves = struct.unpack(f"<{len(content) // 2}H", content)
            self.assertEqual(struct.pack(f"<{len(halves)}I", *(half << 16 for half in halves)), value, name)

    def test_a_drafter_of_its_own_must_be_pulled(self):
        self.headless(ODD)
        self.start_hub({"config.json": b'{"model_type": "gpt2"}', "model.safetensors": WEIGHTS})
        said = self.run_program(2, "graft", "--head", REPO, "--onto", "quant").stderr.decode()
        self.assertIn(f"foretoken pull {REPO}", said)


class Prune(RemoteTest):
    """`models prune` deletes only files that no ref and no snapshot uses."""

    def setUp(self):
        super().setUp()
        self.cache = self.folder / ".cache/huggingface/hub"
        self.repository = self.cache / "models--an-org--original"
        old = time.time() - 7200
        for commit, blob in (("a" * 40, "1" * 64), ("b" * 40, "2" * 64)):
            self.write(f"blobs/{blob}", b"x" * 5000, old)
            snapshot = self.repository / "snapshots" / commit
            snapshot.mkdir(parents=True)
            (snapshot / "model.safetensors").symlink_to(f"../../blobs/{blob}")
            os.utime(snapshot, (old, old))
        self.write("refs/main", b"b" * 40, old)
        self.write("blobs/" + "3" * 64, b"x" * 5000, old)  # of no snapshot
        self.write("blobs/" + "4" * 64, b"x" * 5000, time.time())  # just published
        self.write("blobs/" + "5" * 64 + ".foretoken.incomplete", b"x" * 5000, old)
        self.write("blobs/" + "6" * 64 + ".incomplete", b"x" * 5000, old)  # another program's

    def write(self, name, content, when):
        path = self.repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (when, when))

    def blobs(self):
        return "".join(sorted(path.name[0] for path in (self.repository / "blobs").iterdir()))

    def test_what_nobody_holds_goes(self):
        found = self.json("models", "prune", "--dry-run")
        self.assertEqual((len(found["prunable"]), found["deleted"], self.blobs()), (1, False, "123456"))
        self.assertIn("add --yes", self.run_program(2, "models", "prune").stderr.decode())
        found = self.json("models", "prune", "--yes")
        self.assertTrue(found["deleted"])
        self.assertEqual(self.blobs(), "246")
        self.assertEqual([path.name[0] for path in (self.repository / "snapshots").iterdir()], ["b"])
        self.assertIn("nothing to prune", self.run_program(0, "models", "prune", "--yes").stdout.decode())

    def test_what_stays_is_said(self):
        shown = self.run_program(0, "models", "prune", "--yes").stdout.decode()
        self.assertIn("left: 1 of an-org/original that changed within the last hour", shown)
        shown = self.run_program(0, "models", "prune", "--yes").stdout.decode()
        self.assertIn("nothing to prune", shown)
        self.assertIn("left: 1 of an-org/original", shown)
        self.assertEqual(self.json("models", "prune", "--dry-run")["left"],
                         [{"repository": REPO, "young": 1, "busy": 0, "bytes": 5000}])

    def test_refs_in_folders_name_commits_too(self):
        (self.repository / "refs/main").unlink()
        self.write("refs/refs/pr/1", b"b" * 40, time.time())
        self.json("models", "prune", "--yes")
        self.assertEqual([path.name[0] for path in (self.repository / "snapshots").iterdir()], ["b"])

    def test_the_blob_of_a_file_without_a_link_stays(self):
        file = self.repository / "snapshots" / ("b" * 40) / "model.safetensors"
        file.unlink()
        os.link(self.repository / "blobs" / ("2" * 64), file)
        self.json("models", "prune", "--yes")
        self.assertEqual(self.blobs(), "246")

    def test_commits_that_were_asked_for_stay(self):
        (self.repository / "refs/main").unlink()
        self.json("models", "prune", "--yes")
        self.assertEqual(len([*(self.repository / "snapshots").iterdir()]), 2)
        self.assertEqual(self.blobs(), "1246")


class Remove(RemoteTest):
    """`models rm` deletes the named model and nothing that another revision or model uses."""

    def setUp(self):
        super().setUp()
        self.cache = self.folder / ".cache/huggingface/hub"
        self.repository = self.cache / "models--an-org--original"
        # a and b share blob 2; each has one more.
        for commit, refs, blobs in (("a" * 40, ("main", "v1"), "12"), ("b" * 40, ("dev",), "23")):
            for number in blobs:
                self.link(commit, f"model-{number}.safetensors", number * 64)
            self.write(f"snapshots/{commit}/config.json", b'{"model_type": "qwen3_5"}')
            self.write(f"trees/{commit}.json", b'{"format_version": 1, "files": {}}')
            for ref in refs:
                self.write("refs/" + ref, commit.encode())

    def write(self, name, content):
        path = self.repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def link(self, commit, name, blob):
        self.write("blobs/" + blob, blob[0].encode() * 5000)
        path = self.repository / "snapshots" / commit / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to("../../blobs/" + blob)

    def there(self, folder):
        return {path.name[0] for path in (self.repository / folder).iterdir()}

    def refs(self):
        return {path.name for path in (self.repository / "refs").iterdir()}

    def test_a_revision_goes_alone(self):
        for name, commit in ((REPO + "@dev", "b" * 40), (REPO + "@" + "b" * 40, "b" * 40)):
            with self.subTest(name):
                shutil.rmtree(self.repository)
                self.setUp()
                gone = self.json("models", "rm", name, "--yes")
                self.assertEqual((self.there("snapshots"), self.there("blobs"), self.there("trees")),
                                 ({"a"}, {"1", "2"}, {"a"}))
                self.assertEqual(self.refs(), {"main", "v1"})
                self.assertEqual((gone["refs"], gone["files"], gone["kept_revisions"], gone["kept_bytes"]),
                                 (["dev"], 2, ["a" * 40], 5000))
                self.assertEqual(gone["bytes"] - 5000, len(b'{"model_type": "qwen3_5"}'))
                self.assertTrue(all(path.exists() for path in (self.repository / "snapshots" / ("a" * 40)).iterdir()))

    def test_the_main_revision_goes_by_any_of_its_names(self):
        for name in (REPO, REPO + "@v1", REPO + "@" + "a" * 40):
            with self.subTest(name):
                shutil.rmtree(self.repository)
                self.setUp()
                self.json("models", "rm", name, "--yes")
                self.assertEqual((self.there("snapshots"), self.there("blobs"), self.refs()),
                                 ({"b"}, {"2", "3"}, {"dev"}))

    def test_the_last_revision_takes_the_folder(self):
        self.json("models", "rm", REPO + "@dev", "--yes")
        self.json("models", "rm", REPO, "--yes")
        self.assertFalse(self.repository.exists())

    def test_what_goes_is_said_before(self):
        done = self.run_program(2, "models", "rm", REPO + "@dev")
        self.assertIn("add --yes", done.stderr.decode())
        self.assertIn("goes   2 files, 5.03 kB, named dev", done.stdout.decode())
        self.assertIn("stays  1 revision more: aaaaaaaaaaaa; 1 file of this one, 5 kB, that they use too",
                      done.stdout.decode())
        self.assertEqual(self.there("snapshots"), {"a", "b"})

    def test_a_file_without_a_link_keeps_its_blob(self):
        shared = self.repository / "snapshots" / ("a" * 40) / "model-2.safetensors"
        shared.unlink()
        os.link(self.repository / "blobs" / ("2" * 64), shared)
        self.json("models", "rm", REPO + "@dev", "--yes")
        self.assertEqual(self.there("blobs"), {"1", "2"})

    def test_one_gguf_file_goes_alone(self):
        shutil.rmtree(self.repository)
        for name, blob in (("m-Q4.gguf", "4" * 64), ("m-Q8.gguf", "8" * 64)):
            self.link("c" * 40, name, blob)
        self.write("refs/main", b"c" * 40)
        self.json("models", "rm", REPO + ":m-Q4", "--yes")
        self.assertEqual((self.there("blobs"), self.refs()), ({"8"}, {"main"}))
        self.json("models", "rm", REPO + ":m-Q8", "--yes")
        self.assertFalse(self.repository.exists())
        own = self.models / "pair"
        own.mkdir()
        for name in ("x-Q4.gguf", "x-Q8.gguf"):
            (own / name).write_bytes(b"GGUF")
        lms = self.folder / ".lmstudio/models/pub/pair"
        shutil.copytree(own, lms)
        self.json("models", "rm", "pub/pair:x-Q4", "--yes")
        self.assertEqual([path.name for path in lms.iterdir()], ["x-Q8.gguf"])

    def test_a_running_download_is_not_disturbed(self):
        lock = self.cache / ".locks/models--an-org--original" / ("9" * 64 + ".lock")
        lock.parent.mkdir(parents=True)
        with lock.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            said = self.run_program(2, "models", "rm", REPO, "--yes").stderr.decode()
            self.assertIn("a download of this repository is running", said)
        self.assertEqual(self.there("blobs"), {"1", "2", "3"})
        self.json("models", "rm", REPO, "--yes")

    def test_unfinished_downloads_of_the_revision_go_with_it(self):
        tree = {"format_version": 1, "files": {"w": {"size": 9000, "blob_id": "0" * 40, "lfs_sha256": "6" * 64,
                                                     "lfs_size": 9000}}}
        self.write(f"trees/{'b' * 40}.json", json.dumps(tree).encode())
        self.write("blobs/" + "6" * 64 + ".foretoken.incomplete", b"x" * 5000)
        self.write("blobs/" + "7" * 64 + ".foretoken.incomplete", b"x" * 5000)  # of another commit
        self.json("models", "rm", REPO + "@dev", "--yes")
        self.assertEqual(self.there("blobs"), {"1", "2", "7"})


@unittest.skipUnless(TRAINED, "needs FORETOKEN_TRAINED")
class Trained(RemoteTest):
    def test_the_head_of_the_original_drafts(self):
        original = pathlib.Path(TRAINED) / "qwen3.5-tiny"
        quant = self.models / "quant"
        self.run_program(0, "quantize", original, quant, "--bits", "4", "--mtp", "drop")
        self.start_hub(files_of(original))
        report = self.json("graft", "--head", REPO, "--onto", "quant")
        self.assertGreater(report["acceptance"][0], 0.5)
        share = self.sent_bytes() / sum(map(len, self.hub.repositories[REPO].values()))
        print(f"fetched {share:.2f} of the repository, acceptance {report['acceptance'][0]:.2f}")
        self.run_program(0, "verify", "--model", quant, "--prompts", "1", "--tokens", "8")


if __name__ == "__main__":
    unittest.main(verbosity=2)
