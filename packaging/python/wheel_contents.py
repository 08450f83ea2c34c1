"""The wheel besides src/: the portable program, the models of assets/, the licences; its version and tag.

Both are hooks of hatchling. The environment names what packaging/build made:
  FORETOKEN_PROGRAM   the portable program
  FORETOKEN_PLATFORM  the platform tag that auditwheel gave it, for example manylinux_2_28_x86_64
"""
import os
import pathlib
import re

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

ROOT = pathlib.Path(__file__).resolve().parents[2]


def version():
    """The one version number: project() of CMakeLists.txt."""
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(foretoken VERSION ([\d.]+)", text)[1]


class CustomMetadataHook(MetadataHookInterface):
    def update(self, metadata):
        metadata["version"] = version()


class CustomBuildHook(BuildHookInterface):
    def initialize(self, _version, build_data):
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['FORETOKEN_PLATFORM']}"
        include = build_data["force_include"]
        include[os.environ["FORETOKEN_PROGRAM"]] = "foretoken/bin/foretoken"
        include[str(ROOT / "assets")] = "foretoken/share/foretoken/assets"
