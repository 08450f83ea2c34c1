"""`foretoken pull` against a hub that misbehaves: every case ends in the right files or in one clear sentence.

    python3 tests/hub/pull_test.py build/release/foretoken [CLASS]
"""

import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fake_hub import Answer, FakeHub, entry, git_sha1, sha256  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None
TIMEOUT_S = 300
REPO = "org/name"
FULL = os.environ.get("FORETOKEN_FULL") == "1"


def safetensors(size, seed):
    data = random.Random(seed).randbytes(size)
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(header)) + header + data


def model(weights=200_000):
    config = json.loads((ROOT / "tests/golden/odd/config.json").read_text())
    return {"config.json": json.dumps(config).encode(), "tokenizer.json": b'{"a": 1}', "README.md": b"a card",
            "model.safetensors": safetensors(weights, 1), "sub/extra.json": b"{}", "chat_template.jinja": b"",
            "pytorch_model.bin": b"x" * 5000, "original/consolidated.safetensors": b"y" * 5000, "cat.png": b"png"}


FETCHED = {"config.json", "tokenizer.json", "README.md", "model.safetensors", "sub/extra.json", "chat_template.jinja",
           "cat.png"}


def is_bytes(request):
    return request.host == "cdn"


class PullTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="foretoken-pull-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.cache = self.folder / "hf" / "hub"
        self.files = model()

    def start_hub(self, files=None, **options):
        hub = FakeHub({REPO: self.files if files is None else files}, **options)
        self.enterContext(hub)
        return hub

    def environment(self, hub, **more):
        return {"HOME": str(self.folder), "PATH": os.environ.get("PATH", ""), "TERM": "dumb",
                "HF_HOME": str(self.folder / "hf"), "HF_ENDPOINT": hub.endpoint, "HF_HUB_DOWNLOAD_TIMEOUT": "2", **more}

    def command(self, *arguments):
        return [PROGRAM, "pull", *arguments, "--retry-wait-ms", "10", "--piece-mb", "1"]

    def pull(self, hub, *arguments, name=REPO, **environment):
        return subprocess.run(self.command(name, *arguments), capture_output=True, timeout=TIMEOUT_S, check=False,
                              env=self.environment(hub, **environment))

    def expect(self, status, hub, *arguments, **rest):
        done = self.pull(hub, *arguments, **rest)
        self.assertEqual(done.returncode, status, f"{done.stdout[-500:]} {done.stderr[-1500:]}")
        return done

    def expect_error(self, words, hub, *arguments, status=1, **rest):
        done = self.expect(status, hub, *arguments, **rest)
        said = done.stderr.decode()
        self.assertIn("foretoken: ", said)
        self.assertIn(words, said)
        self.assertNotIn("hf_secret", said)
        return said

    @property
    def repository(self):
        return self.cache / "models--org--name"

    def check_whole(self, hub, files=None, fetched=FETCHED):
        files = self.files if files is None else files
        self.assertEqual((self.repository / "refs/main").read_bytes(), hub.commit.encode())
        snapshot = self.repository / "snapshots" / hub.commit
        found = {str(p.relative_to(snapshot)) for p in snapshot.rglob("*") if not p.is_dir()}
        self.assertEqual(found, fetched)
        for path in found:
            data = files[path]
            self.assertEqual((snapshot / path).read_bytes(), data, path)
            name = sha256(data) if len(data) >= 1000 else git_sha1(data)
            up = "../" * (2 + path.count("/"))
            self.assertEqual(os.readlink(snapshot / path), f"{up}blobs/{name}")
        self.assertEqual([p for p in (self.repository / "blobs").iterdir() if "incomplete" in p.name], [])


class Layout(PullTest):
    def test_the_cache_is_that_of_huggingface_hub(self):
        hub = self.start_hub(page=2)
        done = self.expect(0, hub, "--json", HF_TOKEN="hf_secret")
        found = json.loads(done.stdout)
        self.check_whole(hub)
        self.assertEqual(found["directory"], str(self.repository / "snapshots" / hub.commit))
        # Weights in other formats are not fetched: without the list, huggingface_hub asks for it when it is online.
        self.assertFalse((self.repository / "trees").exists())
        self.assertEqual({p.name for p in self.cache.iterdir()}, {".locks", "models--org--name"})
        for request in hub.requests:
            self.assertEqual("Authorization" in request.headers, request.host == "hub", request.path)
            self.assertEqual(request.headers["Accept-Encoding"], "identity")

    def test_a_whole_repository_has_its_list_of_files(self):
        files = {path: data for path, data in self.files.items() if path in FETCHED}
        files |= {".gitattributes": b"*.safetensors filter=lfs", "LICENSE": b"free", "docs/chart.svg": b"<svg/>"}
        hub = self.start_hub(files)
        self.expect(0, hub)
        self.check_whole(hub, files, fetched=set(files))
        tree = json.loads((self.repository / "trees" / f"{hub.commit}.json").read_text())
        self.assertEqual(set(tree["files"]), set(files))
        self.assertFalse((self.repository / ".foretoken").exists())

    def test_other_files_come_only_while_they_are_small_and_few(self):
        usual = {"config.json": self.files["config.json"], "model.safetensors": self.files["model.safetensors"]}
        hub = self.start_hub(usual | {"film.mp4": bytes(2_000_000), "NOTICE": b"n"})
        self.expect(0, hub)
        self.check_whole(hub, fetched=set(usual) | {"NOTICE"}, files=usual | {"NOTICE": b"n"})
        shutil.rmtree(self.cache)
        hub = self.start_hub(usual | {f"pictures/{i}.png": b"p" for i in range(257)})
        self.expect(0, hub)
        self.check_whole(hub, usual, fetched=set(usual))

    def test_a_second_pull_fetches_no_file(self):
        hub = self.start_hub()
        self.expect(0, hub)
        before = len(hub.requests)
        self.expect(0, hub)
        later = [r.path for r in hub.requests[before:]]
        self.assertEqual([path for path in later if "/api/models/" not in path], [])

    def test_a_large_file_comes_in_exact_ranges(self):
        self.files["model.safetensors"] = safetensors(3_500_000, 2)
        hub = self.start_hub()
        self.expect(0, hub)
        self.check_whole(hub)
        ranges = sorted(r.range for r in hub.requests if r.range)
        size = len(self.files["model.safetensors"])
        self.assertEqual(ranges, [(0, 1048575), (1048576, 2097151), (2097152, 3145727), (3145728, size - 1)])

    def test_revisions(self):
        hub = self.start_hub()
        self.expect(0, hub, name=REPO + "@refs/pr/1")
        self.assertEqual((self.repository / "refs/refs/pr/1").read_text(), hub.commit)
        self.expect(0, hub, name=f"{REPO}@{hub.commit}")
        self.assertFalse((self.repository / "refs" / hub.commit).exists())

    def test_offline_needs_no_request(self):
        hub = self.start_hub()
        self.expect_error("HF_HUB_OFFLINE", hub, HF_HUB_OFFLINE="1")
        self.expect(0, hub)
        before = len(hub.requests)
        self.expect(0, hub, HF_HUB_OFFLINE="YES")
        self.assertEqual(len(hub.requests), before)

    def test_dry_run_writes_nothing(self):
        hub = self.start_hub()
        self.assertIn(b"to fetch", self.expect(0, hub, "--dry-run").stdout)
        self.assertFalse(self.cache.exists())

    def test_include_and_exclude(self):
        hub = self.start_hub()
        self.expect(0, hub, "--include", "*.bin", "--exclude", "README.md")
        self.check_whole(hub, fetched=(FETCHED | {"pytorch_model.bin"}) - {"README.md"})

    def test_without_links_the_snapshot_has_files(self):
        hub = self.start_hub()
        self.expect(0, hub, HF_HUB_DISABLE_SYMLINKS="1")
        path = self.repository / "snapshots" / hub.commit / "sub/extra.json"
        self.assertFalse(path.is_symlink())
        self.assertEqual(path.read_bytes(), b"{}")

    def test_events_are_json_lines(self):
        hub = self.start_hub()
        events = [json.loads(line) for line in self.expect(0, hub, "--events").stderr.decode().splitlines()]
        self.assertEqual(events[0]["event"], "plan")
        self.assertEqual({e["path"] for e in events if e["event"] == "file"}, FETCHED)
        self.assertEqual(events[-1]["event"], "done")

    def test_a_head_that_only_the_index_names_is_fetched(self):
        head = safetensors(3000, 9)
        self.files |= {"heads/extra.safetensors": head,
                       "model.safetensors.index.json": json.dumps(
                           {"weight_map": {"w": "model.safetensors", "mtp.w": "heads/extra.safetensors"}}).encode()}
        hub = self.start_hub()
        self.expect(0, hub)
        self.check_whole(hub, fetched=FETCHED | {"heads/extra.safetensors", "model.safetensors.index.json"})

    def test_a_vision_tower_beside_the_model_is_fetched(self):
        self.files["vision.safetensors"] = safetensors(3000, 9)
        hub = self.start_hub()
        self.expect(0, hub)
        self.check_whole(hub, fetched=FETCHED | {"vision.safetensors"})


class Refusals(PullTest):
    def test_a_repository_that_is_not_there(self):
        hub = self.start_hub()
        said = self.expect_error("does not exist, is private or is misspelt", hub, name="org/none")
        self.assertIn("HF_TOKEN", said)

    def test_gated(self):
        for status in (401, 403):
            hub = self.start_hub()
            hub.faults.append(lambda r, status=status: Answer(status, {"X-Error-Code": "GatedRepo"}, b"{}"))
            self.assertIn(hub.endpoint + "/" + REPO, self.expect_error("acceptance of its licence", hub))

    def test_a_refusal_speaks_of_the_token_that_was_sent(self):
        for code in ("GatedRepo", ""):
            hub = self.start_hub()
            said = {"X-Error-Message": "Your request to access model org/name is awaiting a review."}
            hub.faults.append(lambda r, code=code: Answer(403, {**said, **({"X-Error-Code": code} if code else {})}))
            without = self.expect_error("in HF_TOKEN or with `hf auth login`", hub)
            self.assertNotIn("your token", without)
            words = "the account of your token has no access" if code else "your token may not read"
            with_token = self.expect_error(words, hub, HF_TOKEN="hf_secret")
            self.assertNotIn("hf auth login", with_token)
            self.assertIn("awaiting a review", with_token)

    def test_a_dry_run_says_gated(self):
        for gate, words in (("auto", b"you must accept its licence first"), ("manual", b"its owner approves")):
            hub = self.start_hub()
            hub.gated = gate
            hub.faults.append(lambda r: Answer(401, {"X-Error-Code": "GatedRepo"})
                              if "/resolve/" in r.path and "Authorization" not in r.headers else None)
            shown = self.expect(0, hub, "--dry-run").stdout
            self.assertIn(b"gated: " + words, shown)
            self.assertIn(f"accept it at {hub.endpoint}/{REPO}".encode(), shown)
            found = json.loads(self.expect(0, hub, "--dry-run", "--json", HF_TOKEN="hf_secret").stdout)
            self.assertEqual((found["gated"], found["refusal"]), (gate, None))
        self.assertIs(json.loads(self.expect(0, self.start_hub(), "--dry-run", "--json").stdout)["gated"], False)

    def test_401_without_a_code_and_404_of_a_file(self):
        hub = self.start_hub()
        hub.faults.append(lambda r: Answer(401))
        self.expect_error("does not exist, is private or is misspelt", hub)
        hub = self.start_hub()
        hub.faults.append(lambda r: Answer(404, {"X-Error-Code": "EntryNotFound"}) if "/resolve/" in r.path else None)
        self.expect_error("is no longer in the repository", hub)

    def test_an_unknown_revision_lists_those_there_are(self):
        self.expect_error("has no branch, tag or commit 'beta'; it has main, dev, v1", self.start_hub(),
                          name=REPO + "@beta")

    def test_disabled_and_taken_down(self):
        for status, words in ((403, "has disabled"), (451, "taken down")):
            hub = self.start_hub()
            hub.faults.append(lambda r, status=status: Answer(status, {}, b"Access to this resource is disabled."))
            self.expect_error(words, hub)

    def test_a_stored_token_that_is_refused_is_left_out(self):
        hub = self.start_hub()
        hub.faults.append(lambda r: Answer(401) if "Authorization" in r.headers else None)
        self.assertIn(b"the stored token was refused", self.expect(0, hub, HF_TOKEN="hf_secret").stderr)
        self.check_whole(hub)

    def test_rate_limits(self):
        hub = self.start_hub()
        hub.fault_once(lambda r: True, Answer(429, {"RateLimit": '"api";r=0;t=0'}))
        hub.fault_once(lambda r: "/tree/" in r.path, Answer(429, {"Retry-After": "0"}))
        hub.fault_once(is_bytes, Answer(429))
        self.assertIn(b"limits requests", self.expect(0, hub).stderr)
        self.check_whole(hub)

    def test_a_long_rate_limit_says_when(self):
        hub = self.start_hub()
        hub.faults.append(lambda r: Answer(429, {"Retry-After": "600"}))
        self.expect_error("try again in 11 minutes", hub)

    def test_no_room(self):
        hub = self.start_hub()
        listing = [entry(path, data) for path, data in self.files.items()]
        listing.append({"type": "file", "path": "model-2.safetensors", "size": 10**15, "oid": "b" * 40,
                        "lfs": {"oid": "c" * 64, "size": 10**15}})
        hub.fault_once(lambda r: "/tree/" in r.path, hub.json(listing))
        self.expect_error("needs 1e+03 TB", hub)
        self.assertFalse(self.cache.exists())

    def test_file_names_that_leave_the_folder(self):
        for path in ("../evil.json", "/etc/evil.json", "a//b.json", "a/../../b.json", "a\\b.json", ""):
            hub = self.start_hub()
            hub.fault_once(lambda r: "/tree/" in r.path, hub.json([entry(path, b"{}")]))
            self.expect_error("nothing was written", hub)

    def test_answers_that_are_not_what_was_asked(self):
        for part in ("/revision/", "/tree/"):
            for body in (b"<html>sign in</html>", b"", b"[]" if part == "/revision/" else b"{}", b"[" * 1000):
                hub = self.start_hub()
                hub.fault_once(lambda r, part=part: part in r.path, Answer(200, {}, body))
                self.expect_error("the hub sent an unexpected answer", hub)

    def test_an_architecture_that_does_not_run_is_not_fetched(self):
        self.files["config.json"] = b'{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}'
        hub = self.start_hub()
        self.assertIn("GPT2LMHeadModel", self.expect_error("--force fetches them", hub))
        self.assertEqual([r for r in hub.requests if r.range or sha256(self.files["model.safetensors"]) in r.path], [])
        self.expect(0, hub, "--force")
        self.check_whole(hub)

    def test_no_weights_and_only_gguf(self):
        self.expect_error("neither safetensors nor GGUF", self.start_hub({"config.json": b"{}"}))
        gguf = {"m-Q4_K_M.gguf": b"GGUF" * 300, "m-Q8_0.gguf": b"GGUF" * 400}
        hub = self.start_hub(gguf)
        self.expect_error("m-Q4_K_M.gguf, m-Q8_0.gguf", hub)
        self.expect_error("has no GGUF file 'Q2_K'", hub, name=REPO + ":Q2_K")

    def test_no_network(self):
        hub = self.start_hub()
        said = self.expect_error("cannot be reached", hub, HF_ENDPOINT="http://127.0.0.1:1")
        self.assertIn("http://127.0.0.1:1", said)
        self.assertIn("check the network, then run the same command again", said)
        self.expect_error("HF_ENDPOINT: expected https://", hub, HF_ENDPOINT="http://example.org", status=2)

    def test_wrong_names_are_wrong_usage(self):
        hub = self.start_hub()
        for name in ("name", "a/b/c", "../x", "org/na--me", "org/name@", "org/name@a b"):
            self.expect_error("expected ORG/NAME", hub, name=name, status=2)


class Faults(PullTest):
    def test_passing_faults_end_in_the_right_files(self):
        self.files["model.safetensors"] = safetensors(1_500_000, 3)
        whole = self.files["model.safetensors"]
        damaged = whole[:700] + b"?" + whole[701:]
        cases = {
            "500": Answer(500), "503 with Retry-After": Answer(503, {"Retry-After": "0"}), "408": Answer(408),
            "no body": Answer(206, {"Content-Range": f"bytes 0-1048575/{len(whole)}"}, b"", announce=1048576),
            "200 for a range": Answer(200, {}, whole), "416": Answer(416, {}, b"<html>no</html>"),
            "another range": Answer(206, {"Content-Range": f"bytes 5-1048580/{len(whole)}"}, whole[5:1048581]),
            "no range": Answer(206, {}, whole[:1048576]),
            "damage": Answer(206, {"Content-Range": f"bytes 0-1048575/{len(whole)}"}, damaged[:1048576]),
            "HTML": Answer(200, {"Content-Type": "text/html"}, b"<html>sign in</html>"),
            "redirect": Answer(302, {"Location": "/elsewhere"}),
            "expired": Answer(403, {}, b"expired"),
        }
        for name, answer in cases.items():
            with self.subTest(name):
                shutil.rmtree(self.cache, ignore_errors=True)
                hub = self.start_hub()
                hub.fault_once(lambda r: r.range and r.range[0] == 0, answer)
                self.expect(0, hub)
                self.check_whole(hub)

    def test_lasting_faults_end_in_a_sentence(self):
        size = len(self.files["model.safetensors"])
        cases = {
            "status 500": Answer(500),
            "refuses it with status 403: broken signature": Answer(403, {}, b"broken signature"),
            "arrived damaged twice": Answer(200, {}, b"z" * size),
            "cannot be reached": Answer(200, {}, b"", announce=9),
            "sends no byte ranges": Answer(416), "status 418": Answer(418),
        }
        for words, answer in cases.items():
            with self.subTest(words):
                shutil.rmtree(self.cache, ignore_errors=True)
                hub = self.start_hub()
                hub.faults.append(lambda r, a=answer: a if r.host == "cdn" and sha256(
                    self.files["model.safetensors"]) in r.path else None)
                self.expect_error(words, hub)
                self.assertFalse((self.repository / "refs/main").exists())
                self.assertFalse((self.repository / "blobs" / sha256(self.files["model.safetensors"])).exists())

    def test_a_lying_length(self):
        listed = [entry(path, data) for path, data in self.files.items()]
        for wrong in (-1, 1, 5000):
            with self.subTest(wrong):
                shutil.rmtree(self.cache, ignore_errors=True)
                listing = json.loads(json.dumps(listed))
                weights = next(f for f in listing if f["path"] == "model.safetensors")
                weights["size"] += wrong
                weights["lfs"]["size"] += wrong
                hub = self.start_hub()
                hub.fault_once(lambda r: "/tree/" in r.path, hub.json(listing))
                self.expect_error("model.safetensors", hub)
                self.assertFalse((self.repository / "refs/main").exists())

    def test_the_connection_dies_at_every_nth_byte(self):
        self.files = {"config.json": self.files["config.json"], "model.safetensors": safetensors(40_000, 4)}
        whole = len(self.files["model.safetensors"])
        for cut in range(0, whole, 997 if FULL else 3989):
            shutil.rmtree(self.cache, ignore_errors=True)
            hub = self.start_hub()

            def dying(request, cut=cut, hub=hub):
                answer = hub.from_cdn(request)
                if len(answer.body) > cut:
                    answer.cut = cut
                return answer

            hub.fault_once(lambda r: r.host == "cdn", dying, times=3)
            self.expect(0, hub)
            self.check_whole(hub, fetched=set(self.files))

    def test_every_answer_dies_after_a_few_bytes_but_progress_counts(self):
        self.files = {"config.json": b"{}", "model.safetensors": safetensors(40_000, 5)}
        self.files["config.json"] = model()["config.json"]
        hub = self.start_hub()

        def dying(request):
            if request.host != "cdn":
                return None
            answer = hub.from_cdn(request)
            answer.cut = min(2500, len(answer.body))
            return answer

        hub.faults.append(dying)
        self.expect(0, hub)
        self.check_whole(hub, fetched=set(self.files))

    def test_a_signed_url_expires_in_the_middle(self):
        self.files["model.safetensors"] = safetensors(4_000_000, 6)
        hub = self.start_hub()

        def expiring(request):
            if request.range and request.range[0] > 2_000_000 and hub.signature == 0:
                hub.signature = 1
            return None

        hub.faults.append(expiring)
        self.expect(0, hub)
        self.check_whole(hub)

    def test_silence_is_given_up(self):
        hub = self.start_hub()
        hub.fault_once(lambda r: sha256(self.files["model.safetensors"]) in r.path,
                       Answer(200, {}, self.files["model.safetensors"], delay_s=8))
        self.assertIn(b"silent for too long", self.expect(0, hub, HF_HUB_DOWNLOAD_TIMEOUT="1").stderr)
        self.check_whole(hub)

    def test_a_redirect_never_takes_the_token_along(self):
        hub = self.start_hub()
        other = self.start_hub()
        hub.fault_once(lambda r: "/revision/" in r.path,
                       Answer(307, {"Location": f"{other.endpoint}/api/models/{REPO}/revision/main"}))
        self.expect(0, hub, HF_TOKEN="hf_secret")
        self.assertTrue(other.requests)
        self.assertEqual([r for r in other.requests if "Authorization" in r.headers], [])
        hub.fault_once(lambda r: "/revision/" in r.path, Answer(302, {"Location": "http://example.org/x"}))
        self.expect_error("which is not https", hub)

    def test_redirects_end(self):
        hub = self.start_hub()
        hub.faults.append(lambda r: Answer(302, {"Location": r.path}))
        self.expect_error("more than 5 redirects", hub)

    def test_a_file_whose_place_redirects_without_end_is_said(self):
        hub = self.start_hub()
        hub.faults.append(lambda r: Answer(302, {"Location": r.path}) if r.host == "cdn" else None)
        self.expect_error("keeps redirecting", hub)


if __name__ == "__main__":
    unittest.main()
