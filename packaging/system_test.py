#!/usr/bin/env python3
"""The files that `cmake --install` and the Debian package install: packaging/system_test.py BUILD

The systemd unit resolves, docs/install.md removes what was installed, and lintian finds no fault in the .deb.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else ROOT / "build/release"


def run(*words, **more):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        raise AssertionError(f"{words} ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout + done.stderr


def program_of(unit):
    return re.search(r'^ExecStart="(.*)" serve$', unit.read_text(), re.M)[1]


def documented(word):
    """The commands of docs/install.md in whose block `word` is, without their comments."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "docs/install.md").read_text(), re.S)
    return next(block for block in blocks if word in block).splitlines()


class Installed(unittest.TestCase):
    def setUp(self):
        self.home = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="foretoken home ")))
        self.prefix = self.home / ".local"
        (self.home / "run").mkdir(mode=0o700)
        self.environment = {**os.environ, "HOME": str(self.home), "XDG_RUNTIME_DIR": str(self.home / "run")}
        lines = documented("cmake --install")
        self.install = [line for line in lines if line.startswith("cmake --install")]
        self.remove = [line for line in lines if line.startswith(("xargs", "find"))]
        self.shell(self.install)

    def shell(self, lines):
        self.assertTrue(lines)
        text = "\n".join(lines).replace("build/release", str(BUILD))
        run("bash", "-euc", text, cwd=ROOT, env=self.environment)

    def test_the_unit_of_a_persons_prefix_is_found_and_resolves(self):
        unit = self.prefix / "share/systemd/user/foretoken.service"
        self.assertTrue(os.access(program_of(unit), os.X_OK), unit.read_text())
        if shutil.which("systemd-analyze") is None:
            self.skipTest("there is no systemd-analyze")
        self.assertIn(str(unit.parent), run("systemd-analyze", "--user", "unit-paths", env=self.environment))
        self.assertEqual(run("systemd-analyze", "--user", "verify", unit, env=self.environment), "")

    def test_the_documented_lines_remove_it_and_nothing_else(self):
        mine = self.prefix / "share/foretoken/heads/mine"
        mine.parent.mkdir(parents=True)
        mine.write_text("kept")
        self.shell(self.remove)
        left = [path for path in self.prefix.rglob("*") if not path.is_dir()]
        self.assertEqual(left, [mine])
        self.assertEqual([path for path in self.prefix.rglob("foretoken") if path != mine.parents[1]], [])


@unittest.skipUnless(shutil.which("dpkg-shlibdeps"), "needs dpkg-dev")
class Debian(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="foretoken-deb-")))
        run("cpack", "-G", "DEB", "-B", cls.folder, cwd=BUILD)
        cls.package = next(cls.folder.glob("*.deb"))
        run("dpkg-deb", "-x", cls.package, cls.folder / "root")

    def test_the_unit_names_the_installed_program(self):
        unit = self.folder / "root/usr/share/systemd/user/foretoken.service"
        self.assertEqual(program_of(unit), "/usr/bin/foretoken")

    def test_its_papers_are_there(self):
        doc = self.folder / "root/usr/share/doc/foretoken"
        self.assertIn("Apache-2.0", (doc / "copyright").read_text())
        self.assertTrue((doc / "changelog.gz").exists())
        self.assertTrue((self.folder / "root/usr/share/man/man1/foretoken.1.gz").exists())
        self.assertNotIn("localhost", run("dpkg-deb", "-f", self.package, "Maintainer"))

    @unittest.skipUnless(shutil.which("lintian"), "there is no lintian: apt install lintian")
    def test_lintian_finds_no_fault(self):
        self.assertEqual(run("lintian", "--fail-on", "error,warning", "--allow-root", self.package), "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
