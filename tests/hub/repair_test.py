"""`foretoken pull --repair`, and the addresses of the hub's pages as names.

    python3 tests/hub/repair_test.py build/release/foretoken [CLASS]
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fake_hub import sha256  # noqa: E402
from pull_test import PullTest, REPO  # noqa: E402


class Repair(PullTest):
    def damage(self, path):
        blob = (self.repository / "snapshots" / ("a" * 40) / path).resolve()
        data = bytearray(blob.read_bytes())
        data[len(data) // 2] ^= 1
        blob.write_bytes(bytes(data))

    def test_damaged_files_are_fetched_again_and_no_other(self):
        hub = self.start_hub()
        self.expect(0, hub)
        self.damage("model.safetensors")
        self.damage("tokenizer.json")
        before = len(hub.requests)
        self.expect(0, hub)  # sizes are right: a plain pull believes them
        self.assertEqual([r for r in hub.requests[before:] if r.host == "cdn"], [])
        seen = self.expect(0, hub, "--repair", "--json")
        self.assertEqual(json.loads(seen.stdout)["damaged"], ["tokenizer.json", "model.safetensors"])
        self.assertIn(b"model.safetensors is damaged; it is fetched again", seen.stderr)
        self.check_whole(hub)
        self.assertIn(b"no file is damaged", self.expect(0, hub, "--repair").stderr)

    def test_a_dry_run_deletes_nothing_and_offline_is_refused(self):
        hub = self.start_hub()
        self.expect(0, hub)
        self.damage("model.safetensors")
        self.assertIn(b"model.safetensors is damaged", self.expect(0, hub, "--repair", "--dry-run").stderr)
        self.assertTrue((self.repository / "blobs" / sha256(self.files["model.safetensors"])).exists())
        self.expect_error("HF_HUB_OFFLINE is set", hub, "--repair", HF_HUB_OFFLINE="1")

    def test_a_snapshot_without_links_is_repaired_too(self):
        hub = self.start_hub()
        self.expect(0, hub, HF_HUB_DISABLE_SYMLINKS="1")
        path = self.repository / "snapshots" / hub.commit / "model.safetensors"
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content[:-1] + b"?")
        self.expect(0, hub, "--repair", HF_HUB_DISABLE_SYMLINKS="1")
        self.assertEqual(path.read_bytes(), content)


    def check_models(self, hub, status):
        done = subprocess.run([self.command(REPO)[0], "models", "check", REPO], env=self.environment(hub),
                              capture_output=True, text=True, timeout=240, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def test_a_check_reads_files_without_links_too(self):
        hub = self.start_hub()
        self.expect(0, hub, HF_HUB_DISABLE_SYMLINKS="1")
        whole = self.check_models(hub, 0)
        self.assertRegex(whole, "^[1-9][0-9]* files checked, 0 damaged")
        path = self.repository / "snapshots" / hub.commit / "model.safetensors"
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        self.assertIn("1 damaged", self.check_models(hub, 1))
        shutil.rmtree(self.repository / "blobs")
        shutil.rmtree(self.repository / "trees", ignore_errors=True)
        self.assertIn("nothing was checked", self.check_models(hub, 0))

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "needs a second user")
    def test_a_cache_that_may_only_be_read_is_enough_if_all_is_there(self):
        hub = self.start_hub()
        self.expect(0, hub)
        program = self.folder / "foretoken"
        shutil.copy(self.command(REPO)[0], program)
        subprocess.run(["chmod", "-R", "a+rX,go-w", str(self.folder)], check=True)
        done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(program), "pull",
                               REPO], env=self.environment(hub), capture_output=True, text=True, timeout=240, cwd="/",
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("files are here", done.stderr)

    def test_a_damaged_file_in_the_store_of_repositories_is_found(self):
        hub = self.start_hub()
        self.expect(0, hub)
        blob = self.repository / "blobs" / sha256(self.files["model.safetensors"])
        stored = self.cache / "blobs/ab" / ("ab" * 32)
        stored.parent.mkdir(parents=True)
        (stored.parents[1] / ".huggingface-shared-blobs").write_text("1\n")
        stored.with_name(stored.name + ".refs").write_text(f"{self.repository.name}/blobs/{blob.name}\n")
        blob.rename(stored)
        blob.symlink_to(f"../../blobs/ab/{stored.name}")
        self.expect(0, hub, "--repair")
        self.assertTrue(blob.is_symlink())
        stored.write_bytes(stored.read_bytes()[:-1] + b"?")
        self.expect(0, hub, "--repair")
        self.assertFalse(blob.is_symlink())
        self.check_whole(hub)


class Names(PullTest):
    def test_the_address_of_a_page_is_a_name(self):
        hub = self.start_hub()
        for page, revision in ((REPO, "main"), (REPO + "/", "main"), (REPO + "/tree/main", "main"),
                               (REPO + "/tree/refs%2Fpr%2F1", "refs/pr/1"), (REPO + "/tree/refs/pr/1", "refs/pr/1"),
                               (REPO + "/blob/main/config.json?download=true#x", "main"),
                               (f"{REPO}/commit/{hub.commit}", hub.commit)):
            shutil.rmtree(self.cache, ignore_errors=True)
            done = self.expect(0, hub, "--json", name=f"{hub.endpoint}/{page}")
            self.assertEqual(json.loads(done.stdout)["repository"], REPO, page)
            self.assertEqual((self.repository / "refs" / revision).exists(), revision != hub.commit, page)

    def test_other_addresses_are_refused_with_the_hubs(self):
        hub = self.start_hub()
        said = self.expect_error("set HF_ENDPOINT", hub, name="https://example.org/" + REPO, status=2)
        self.assertIn(hub.endpoint, said)
        for page in ("org", "", "datasets/org/name", REPO + "/discussions/3", "org/na--me"):
            self.expect_error("is not the URL of a model", hub, name=f"{hub.endpoint}/{page}", status=2)


if __name__ == "__main__":
    unittest.main()
