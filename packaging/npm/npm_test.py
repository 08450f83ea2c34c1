#!/usr/bin/env python3
"""Installs the npm packages into an empty folder without a network, runs the command there and removes them:
npm_test.py FOLDER-OF-TGZ; without npm the test is skipped (exit code 77)."""
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None


class Npm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        (cls.folder / "package.json").write_text("{}\n", encoding="utf-8")
        cpu = {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]
        packages = [package for package in sorted(FOLDER.glob("foretoken-*.tgz"))
                    if "-linux-" not in package.name or f"-linux-{cpu}-" in package.name]
        assert len(packages) == 2, packages
        cls.tool("npm", "install", "--offline", "--no-audit", "--no-fund", "--loglevel=error", *packages)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def tool(cls, *words, check=True):
        done = subprocess.run(list(map(str, words)), cwd=cls.folder, check=False, capture_output=True, text=True)
        if check and done.returncode != 0:
            raise AssertionError(f"{words} ended with {done.returncode}: {done.stderr}")
        return done

    def command(self, *words):
        return ["npx", "--offline", "foretoken", *words]

    def test_1_npx_answers(self):
        answer = self.tool(*self.command("run", "-q", "-p", "What is the capital of France?", "-n", "12")).stdout
        print(answer.strip())
        self.assertTrue(answer.strip())

    def test_2_the_exit_status_is_the_programs(self):
        self.assertEqual(self.tool(*self.command("run", "--no-such-flag"), check=False).returncode, 2)

    def test_3_a_signal_ends_the_server(self):
        cli = self.folder / "node_modules/foretoken/cli.js"
        server = subprocess.Popen(["node", str(cli), "serve", "--port", "0", "--json"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        with server:
            self.assertIn("{", server.stdout.readline())
            server.send_signal(signal.SIGTERM)
            self.assertEqual(server.wait(60), 0)

    def test_4_another_platform_is_named(self):
        platform = next((self.folder / "node_modules").glob("foretoken-linux-*"))
        platform.rename(self.folder / "away")
        failed = self.tool(*self.command("--version"), check=False)
        (self.folder / "away").rename(platform)
        self.assertEqual(failed.returncode, 1)
        self.assertIn("there is no program for", failed.stderr)

    def test_5_nothing_remains(self):
        self.tool("npm", "uninstall", "--offline", "--no-audit", "--no-fund", "foretoken",
                  *(path.name for path in (self.folder / "node_modules").glob("foretoken-*")))
        self.assertEqual(list((self.folder / "node_modules").glob("foretoken*")), [])


if __name__ == "__main__":
    if FOLDER is None:
        sys.exit(__doc__)
    if shutil.which("npm") is None:
        sys.exit(77)
    unittest.main(verbosity=0)
