"""huggingface_hub's store of files that several repositories use: `models rm` and `models prune`.

    python3 tests/hub/shared_test.py build/release/foretoken [CLASS]
"""

import fcntl
import os
import pathlib
import shutil
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from remote_test import RemoteTest  # noqa: E402


class Shared(RemoteTest):
    """The files of the store that foretoken deletes."""

    def setUp(self):
        super().setUp()
        self.cache = self.folder / ".cache/huggingface/hub"
        self.store = self.cache / "blobs"
        self.write(self.store / ".huggingface-shared-blobs", b"1\n")
        self.names = ("an-org/original", "an-org/copy")
        for name in self.names:
            folder = self.cache / ("models--" + name.replace("/", "--"))
            self.write(folder / "snapshots" / ("a" * 40) / "config.json", b'{"model_type": "qwen3_5"}')
            self.write(folder / "refs/main", b"a" * 40)
            self.link(folder, "e" * 64, "5" * 64)
            (folder / "snapshots" / ("a" * 40) / "model.safetensors").symlink_to("../../blobs/" + "e" * 64)

    def write(self, path, content):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        old = time.time() - 7200
        os.utime(path, (old, old))

    def link(self, folder, etag, stored):
        """As huggingface_hub does: the list first, then the link."""
        path = self.store / stored[:2] / stored
        if not path.exists():
            self.write(path, b"w" * 5000)
        with path.with_name(stored + ".refs").open("a") as references:
            references.write(f"{folder.name}/blobs/{etag}\n")
        (folder / "blobs").mkdir(exist_ok=True)
        (folder / "blobs" / etag).symlink_to(os.path.relpath(path, folder / "blobs"))

    def stored(self):
        return [path.name[0] for path in sorted(self.store.glob("*/*")) if "." not in path.name]

    def test_a_file_goes_with_its_last_repository(self):
        first, second = self.names
        gone = self.json("models", "rm", first, "--yes")
        self.assertEqual((self.stored(), gone["shared_bytes"]), (["5"], 5000))
        self.assertLess(gone["bytes"], 1000)
        said = self.run_program(2, "models", "rm", second).stdout.decode()
        self.assertIn("5.03 kB", said)
        gone = self.json("models", "rm", second, "--yes")
        self.assertEqual((self.stored(), gone["shared_bytes"]), ([], 0))
        self.assertEqual([*self.store.glob("*/*.refs")], [])

    def test_what_other_repositories_use_is_said(self):
        said = self.run_program(2, "models", "rm", self.names[0]).stdout.decode()
        self.assertIn("stays  5 kB that other repositories use too", said)

    def test_without_a_list_of_its_links_a_file_stays(self):
        next(self.store.glob("*/*.refs")).unlink()
        for name in self.names:
            self.json("models", "rm", name, "--yes")
        self.assertEqual(self.stored(), ["5"])
        self.json("models", "prune", "--yes")
        self.assertEqual(self.stored(), ["5"])

    def test_lines_that_lead_elsewhere_count_for_nothing(self):
        references = next(self.store.glob("*/*.refs"))
        (self.folder / "elsewhere").symlink_to(references.with_suffix(""))
        references.write_text(references.read_text() + "../../elsewhere\n/etc/passwd\n\nmodels--x--y/blobs/" + "9" * 64)
        for name in self.names:
            self.json("models", "rm", name, "--yes")
        self.assertEqual(self.stored(), [])

    def test_a_store_without_its_mark_is_not_touched(self):
        (self.store / ".huggingface-shared-blobs").unlink()
        for name in self.names:
            self.json("models", "rm", name, "--yes")
        self.json("models", "prune", "--yes")
        self.assertEqual(self.stored(), ["5"])

    def test_prune_deletes_what_no_repository_links(self):
        self.link(self.cache / "models--an-org--copy", "f" * 64, "6" * 64)  # a blob of no snapshot
        link = self.cache / "models--an-org--copy/blobs" / ("f" * 64)
        old = time.time() - 7200
        os.utime(link, (old, old), follow_symlinks=False)
        shutil.rmtree(self.cache / "models--an-org--original")  # by hand
        found = self.json("models", "prune", "--dry-run")
        self.assertEqual((found["bytes"], self.stored()), (5000, ["5", "6"]))
        self.json("models", "prune", "--yes")
        self.assertEqual(self.stored(), ["5"])
        shutil.rmtree(self.cache / "models--an-org--copy")
        self.json("models", "prune", "--yes")
        self.assertEqual(self.stored(), [])

    def test_a_file_that_another_process_links_now_stays(self):
        path = next(path for path in self.store.glob("*/*") if "." not in path.name)
        with path.with_name(path.name + ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            for name in self.names:
                self.json("models", "rm", name, "--yes")
            self.assertEqual(self.stored(), ["5"])
        self.json("models", "prune", "--yes")
        self.assertEqual(self.stored(), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
