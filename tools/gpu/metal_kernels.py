#!/usr/bin/env python3
"""Compiles the kernels of the metal backend as CUDA, with the compiler of tools/setup cuda; no GPU is needed:

    tools/gpu/metal_kernels.py OUT [--arch sm_90] [--plain-exp] [--most-threads N]

OUT: an image that build/release/tests/metal_on_cuda loads on a machine with a GPU of that kind (or, for
compute_80, of any later kind). --plain-exp: CUDA's exp and log instead of on_cuda/exp_log.h.
--most-threads: of a threadgroup; fewer leave more registers, for timing (1024: every shape)."""

import argparse
import ctypes
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LIBRARIES = ROOT / ".cache/cuda/nvidia/cuda_nvrtc/lib"
OPTIONS = ["--std=c++17", "--fmad=false", "--prec-div=true", "--prec-sqrt=true", "--ftz=false", "-default-device"]


def text_of(nvrtc, program, size, get):
    count = ctypes.c_size_t()
    getattr(nvrtc, size)(program, ctypes.byref(count))
    buffer = ctypes.create_string_buffer(count.value)
    getattr(nvrtc, get)(program, buffer)
    return buffer.raw


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--plain-exp", action="store_true")
    parser.add_argument("--most-threads", type=int, default=1024)
    given = parser.parse_args()
    given.out = given.out.resolve()
    os.chdir(ROOT)  # NVRTC looks there first for what the source includes
    if not (LIBRARIES / "libnvrtc.so.12").exists():
        sys.exit("metal_kernels: there is no compiler; run tools/setup cuda")
    builtins = next(LIBRARIES.glob("libnvrtc-builtins.so.*"))
    ctypes.CDLL(str(builtins), mode=os.RTLD_GLOBAL)
    nvrtc = ctypes.CDLL(str(LIBRARIES / "libnvrtc.so.12"))
    source = (ROOT / "src/backends/metal/on_cuda/kernels.cu").read_bytes()
    program = ctypes.c_void_p()
    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"kernels.cu", 0, None, None) != 0:
        sys.exit("metal_kernels: NVRTC refuses to start")
    words = [f"--gpu-architecture={given.arch}", f"--include-path={ROOT}", *OPTIONS]
    words += [f"-DFT_MOST_THREADS={given.most_threads}"]
    words += ["-DFT_PLAIN_EXP"] if given.plain_exp else []
    options = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
    status = nvrtc.nvrtcCompileProgram(program, len(words), options)
    log = text_of(nvrtc, program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog").rstrip(b"\0").decode()
    if status != 0:
        sys.exit(log)
    kind = "PTX" if given.arch.startswith("compute") else "CUBIN"
    image = text_of(nvrtc, program, f"nvrtcGet{kind}Size", f"nvrtcGet{kind}")
    given.out.write_bytes(image)
    print(f"metal_kernels: {given.out}, {len(image)} bytes for {given.arch}")


if __name__ == "__main__":
    main()
