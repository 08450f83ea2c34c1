#!/usr/bin/env python3
"""Writes the software bill of materials as CycloneDX 1.6, from the locks: sbom.py FILE

Crates come from src/text_ffi/Cargo.lock, npm packages of the page from webui/package-lock.json, both with the
checksum of the lock; libraries of the distribution with the version that is installed here. The licences are those of
THIRD_PARTY.md. Validated against the schema before it is written. The same tree gives the same bytes.
"""
import base64
import json
import os
import re
import subprocess
import sys
import tomllib
import uuid
from datetime import datetime, timezone
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import third_party  # noqa: E402

# Debian's source of each library that is linked, and of what a portable program holds in addition.
DEBIAN = {"fmt": "libfmt-dev", "spdlog": "libspdlog-dev", "nlohmann/json": "nlohmann-json3-dev",
          "CLI11": "libcli11-dev", "toml++": "libtomlplusplus-dev", "libedit": "libedit-dev", "xxHash": "libxxhash-dev",
          "Boost (Beast, Asio and what they include)": "libboost1.81-dev", "OpenSSL (libcrypto)": "libssl-dev",
          "libcurl": "libcurl4-openssl-dev", "SQLite": "libsqlite3-dev",
          "libjpeg-turbo": "libjpeg62-turbo-dev", "libpng": "libpng-dev",
          "libwebp": "libwebp-dev"}
RUNTIME = [("libstdc++-12-dev", "GPL-3.0-or-later WITH GCC-exception-3.1"), ("libbsd-dev", "BSD-3-Clause"),
           ("libmd-dev", "BSD-3-Clause"), ("libncurses-dev", "X11-distribute-modifications-variant")]


def licences(text):
    return [] if text.startswith(("see ", "not ")) else [LicenseFactory().make_from_string(text)]


def component(name, version, licence, purl, digest=None):
    hashes = [HashType(alg=digest[0], content=digest[1])] if digest else []
    return Component(type=ComponentType.LIBRARY, name=name, version=version, licenses=licences(licence), purl=purl,
                     bom_ref=str(purl), hashes=hashes)


def crates():
    lock = tomllib.loads((ROOT / "src/text_ffi/Cargo.lock").read_text(encoding="utf-8"))
    sums = {(one["name"], one["version"]): one.get("checksum") for one in lock["package"]}
    for name, version, licence in third_party.crates():
        yield component(name, version, licence, PackageURL("cargo", None, name, version),
                        (HashAlgorithm.SHA_256, sums[name, version]))


def page_packages():
    lock = json.loads((ROOT / "webui/package-lock.json").read_text(encoding="utf-8"))["packages"]
    for name, version, licence in third_party.page_packages():
        algorithm, digest = lock[f"node_modules/{name}"]["integrity"].split("-", 1)
        assert algorithm == "sha512", name
        yield component(name, version, licence, PackageURL("npm", None, name, version),
                        (HashAlgorithm.SHA_512, base64.b64decode(digest).hex()))


def distribution():
    linked = [row for row in third_party.LIBRARIES if row[3].startswith("program")]
    unknown = [name for name, *_ in linked if name not in DEBIAN]
    if unknown:
        sys.exit(f"sbom.py: no package is known for {', '.join(unknown)}; add it to DEBIAN")
    named = [(DEBIAN[name], licence) for name, _, licence, _ in linked]
    for package, licence in named + RUNTIME:
        command = ["dpkg-query", "-W", "-f=${Version}", package]
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
        if asked.returncode != 0:  # another distribution
            print(f"sbom.py: {package} is not installed by dpkg here; left out", file=sys.stderr)
            continue
        yield component(package, asked.stdout, licence, PackageURL("deb", "debian", package, asked.stdout))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    project = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    version = re.search(r"project\(foretoken VERSION ([\d.]+)", project)[1]
    bom = Bom()
    bom.metadata.component = Component(type=ComponentType.APPLICATION, name="foretoken", version=version,
                                       licenses=licences("Apache-2.0"), bom_ref=f"foretoken@{version}")
    bom.metadata.timestamp = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), timezone.utc)
    for one in (*crates(), *page_packages(), *distribution()):
        bom.components.add(one)
    bom.register_dependency(bom.metadata.component, bom.components)
    content = "\n".join(f"{one.purl}" for one in sorted(bom.components, key=lambda each: str(each.purl)))
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, f"foretoken {version} {content}")
    text = JsonV1Dot6(bom).output_as_string(indent=2)
    invalid = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if invalid:
        sys.exit(f"sbom.py: the bill is not CycloneDX: {invalid}")
    Path(sys.argv[1]).write_text(text + "\n", encoding="utf-8")
    print(f"{Path(sys.argv[1]).name}: {len(bom.components)} components")


if __name__ == "__main__":
    main()
