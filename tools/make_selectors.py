#!/usr/bin/env python3
"""Lists the selectors of Apple's metal-cpp that src/backends/metal/macos may send: tools/make_selectors.py WHEEL
writes src/backends/metal/macos/selectors.txt from the headers in a wheel of mlx-metal (PyPI), which ships metal-cpp.
Only selectors of classes that the device uses are kept."""

import re
import sys
import zipfile
from pathlib import Path

OUT = Path(__file__).resolve().parent.parent / "src/backends/metal/macos/selectors.txt"
KEPT = re.compile(
    r"^(newLibrary|newFunction|newComputePipeline|newBuffer|newCommandQueue|contents|commandBuffer|computeCommand"
    r"|setComputePipelineState|setBuffer|setBytes|dispatchThreadgroups|endEncoding|commit|waitUntil|status|error"
    r"|localizedDescription|name|supportsFamily|recommendedMax|maxBufferLength|maxTotalThreads|currentAllocated|setMath"
    r"|setFastMath|release|retain|stringWithCString|UTF8String|respondsToSelector|GPUEndTime|GPUStartTime|new$|alloc$"
    r"|init$"
    r"|newBinaryArchive|addComputePipelineFunctions|serializeToURL|setUrl|setURL|fileURLWithPath|setComputeFunction"
    r"|setBinaryArchives|arrayWithObject)"
)


def main():
    found = set()
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        for name in wheel.namelist():
            if "metal_cpp/" in name and name.endswith(("HeaderBridge.hpp", "NSPrivate.hpp", "NSObject.hpp")):
                text = wheel.read(name).decode()
                found |= set(re.findall(r'DEF_SEL\(\s*\w+,\s*"([^"]+)"\s*\)', text))
    kept = sorted(selector for selector in found if KEPT.match(selector))
    OUT.write_text("\n".join(kept) + "\n", encoding="utf-8")
    print(f"{len(kept)} of {len(found)} selectors")


if __name__ == "__main__":
    main()
