#!/usr/bin/env python3
"""Installs a wheel into an empty virtual environment, uses it there, removes it: wheel_test.py WHEEL"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import venv

WHEEL = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None
QUESTION = "What is the capital of France?"

USE = """
import foretoken, json, urllib.request
with foretoken.Server(slots=2, alias=["a", "b"], api_key="secret") as server:
    assert server.base_url.endswith("/v1") and server.model == "qwen3.5-tiny", server.model
    answer = server.generate("{question}", max_tokens=20, temperature=0)
    assert "".join(server.stream("{question}", max_tokens=20, temperature=0)) == answer.text
    assert answer.speculation["engaged"] and answer.usage["completion_tokens"] > 3, answer
    server.generate([{{"role": "user", "content": "Hi"}}], model="b", max_tokens=2)
    try:
        server.generate("Hi", temperature=-1)
        raise SystemExit("a wrong field was accepted")
    except foretoken.RequestError as error:
        assert error.status == 400 and error.param == "temperature", error
    try:
        foretoken.Server(port=int(server.url.split(":")[-1])).start()
        raise SystemExit("a taken port was accepted")
    except foretoken.StartError as error:
        assert "is used" in str(error), error
assert server.stop() == 0
assert foretoken.generate("{question}", max_tokens=20, temperature=0).text == answer.text
print(answer.text)
""".format(question=QUESTION)


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        venv.create(cls.folder / "venv", with_pip=True)
        cls.before = cls.files()
        begin = time.monotonic()
        cls.run_tool("pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", WHEEL)
        print(f"installed in {time.monotonic() - begin:.1f} s")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def run_tool(cls, tool, *arguments):
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(cls.folder)}
        done = subprocess.run([cls.folder / "venv/bin" / tool, *map(str, arguments)], cwd=cls.folder, check=False,
                              capture_output=True, text=True, env=environment)
        if done.returncode != 0:
            raise AssertionError(f"{tool} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    @classmethod
    def files(cls):
        return {path for path in (cls.folder / "venv").rglob("*") if "__pycache__" not in path.parts}

    def test_1_the_command_answers(self):
        begin = time.monotonic()
        text = self.run_tool("foretoken", "run", "-q", "-p", QUESTION, "-n", 12)
        print(f"first tokens after {time.monotonic() - begin:.1f} s: {text.strip()}")
        self.assertTrue(text.strip())

    def test_2_the_module_is_the_program_of_the_same_version(self):
        version = WHEEL.name.split("-")[1]
        self.assertEqual(self.run_tool("python", "-m", "foretoken", "--version").strip(), f"foretoken {version}")

    def test_3_the_client_starts_answers_and_stops(self):
        self.assertTrue(self.run_tool("python", "-c", USE).strip())

    def test_4_a_signal_reaches_the_program(self):
        server = subprocess.Popen([self.folder / "venv/bin/foretoken", "serve", "--port", "0", "--json"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                  env={**os.environ, "HOME": str(self.folder)})
        with server:
            self.assertIn("{", server.stdout.readline())
            server.send_signal(signal.SIGTERM)
            self.assertEqual(server.wait(60), 0)

    def test_5_the_tag_is_true(self):
        """The program needs no later glibc than its tag allows, and no other library."""
        program = next((self.folder / "venv").rglob("bin/foretoken.*"), None) or next(
            path for path in (self.folder / "venv").rglob("foretoken/bin/foretoken"))
        wanted = subprocess.run(["objdump", "-T", program], capture_output=True, text=True, check=True).stdout
        newest = max(tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_(\d+\.\d+)", wanted))
        tag = tuple(map(int, re.search(r"manylinux_(\d+)_(\d+)_", WHEEL.name).groups()))
        self.assertLessEqual(newest, tag)
        needed = subprocess.run(["objdump", "-p", program], capture_output=True, text=True, check=True).stdout
        libraries = set(re.findall(r"NEEDED +(\S+)", needed))
        self.assertLessEqual(libraries, {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2",
                                         "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"})

    def test_6_nothing_remains(self):
        self.run_tool("pip", "uninstall", "--quiet", "--yes", "foretoken")
        self.assertEqual(self.files(), self.before)


if __name__ == "__main__":
    if WHEEL is None:
        sys.exit(__doc__)
    unittest.main(verbosity=0)
