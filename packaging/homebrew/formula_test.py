#!/usr/bin/env python3
"""Checks of foretoken.rb without Homebrew: it names a formula for everything that cmake looks for, and
its cmake lines run in an empty prefix. Configures; FORETOKEN_FULL=1 also builds, installs and runs its test."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FORMULA = ROOT / "packaging/homebrew/foretoken.rb"
# As Homebrew's std_cmake_args has them.
STANDARD = ["-DCMAKE_INSTALL_LIBDIR=lib", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_FIND_FRAMEWORK=LAST",
            "-DCMAKE_VERBOSE_MAKEFILE=ON", "-Wno-dev"]
NOT_FOR_USERS = {"Threads", "GTest", "benchmark"}
OTHER_NAMES = {"nlohmann_json": "nlohmann-json", "CLI11": "cli11", "PkgConfig": "pkgconf", "Boost": "boost",
               "OpenSSL": "openssl@3", "CURL": "curl", "SQLite3": "sqlite"}

# Formula's words, recorded.
READER = r"""
require "json"
$said = {"needs" => [], "install" => [], "test" => []}
class Formula
  def self.method_missing(name, *given) = nil
  def self.respond_to_missing?(*) = true
  def self.depends_on(what) = ($said["needs"] << (what.is_a?(Hash) ? what.keys[0] : what).to_s)
  def self.uses_from_macos(what) = ($said["needs"] << what)
  def self.test(&body) = (@test = body)
  def self.written = @test
  def std_cmake_args = ["STANDARD"]
  def bin = self
  def /(name) = "BIN/#{name}"
  def system(*words) = ($said[$now] << words)
end
load ARGV[0]
$now = "install"
Foretoken.new.install
$now = "test"
Foretoken.new.instance_eval(&Foretoken.written)
puts JSON.generate($said)
"""


class FormulaTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done = subprocess.run(["ruby", "-e", READER, str(FORMULA)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        cls.said = json.loads(done.stdout)

    def test_ruby_takes_it(self):
        subprocess.run(["ruby", "-c", str(FORMULA)], check=True, capture_output=True)

    def test_everything_that_cmake_looks_for_is_named(self):
        text = (ROOT / "cmake/dependencies.cmake").read_text(encoding="utf-8")
        wanted = set(re.findall(r"find_package\((\w+)", text)) | set(re.findall(r"pkg_check_modules\((\w+)", text))
        self.assertIn("fmt", wanted)
        for package in wanted - NOT_FOR_USERS:
            self.assertIn(OTHER_NAMES.get(package, package), self.said["needs"])
        for tool in ("cmake", "ninja", "rust", "node"):
            self.assertIn(tool, self.said["needs"])

    def test_its_cmake_lines_run_in_an_empty_prefix(self):
        self.assertEqual([words[0] for words in self.said["install"]], ["cmake"] * 3)
        with tempfile.TemporaryDirectory() as folder:
            build, prefix = Path(folder) / "build", Path(folder) / "prefix"
            lines = [self.placed(words, build, prefix) for words in self.said["install"]]
            full = bool(os.environ.get("FORETOKEN_FULL"))
            for line in lines if full else lines[:1]:
                done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr[-2000:])
                self.assertNotIn("Manually-specified variables were not used", done.stderr)
            self.assertTrue((build / "build.ninja").exists())
            for words in self.said["test"] if full else []:
                line = [word.replace("BIN/", f"{prefix}/bin/") for word in words]
                environment = {"HOME": folder, "PATH": "/usr/bin:/bin"}
                done = subprocess.run(line, cwd="/", env=environment, capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr[-2000:])

    @staticmethod
    def placed(words, build, prefix):
        line = []
        for word in words:
            if word == "STANDARD":
                line += [f"-DCMAKE_INSTALL_PREFIX={prefix}", *STANDARD]
            else:
                line.append(str(build) if word == "build" else word)
        return line


if __name__ == "__main__":
    for need in ("ruby", "cmake", "ninja"):
        if shutil.which(need) is None:
            print(f"formula: there is no {need}")
            sys.exit(77)
    unittest.main()
