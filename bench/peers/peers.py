#!/usr/bin/env python3
"""Our plain decoding and prompts compared with llama.cpp's, on the same shapes, machine and minutes.

    bench/peers/peers.py build                      llama.cpp from the sources in llama-cpp-python's sdist
    bench/peers/peers.py compare qwen3.5-0.8b       interleaved runs, ratios of each pair, their median
    bench/peers/peers.py compare qwen3.5-4b --pairs 3 --json > pairs.json
    bench/peers/peers.py compare "qwen3.5-35b-a3b?layers=8"
    bench/peers/peers.py compare "qwen3.5-4b?type=q4_k_m"    both sides read the same GGUF file
    bench/peers/peers.py compare FILE.gguf          the same with a file of yours
    bench/peers/peers.py build --gpu                llama.cpp for this machine's NVIDIA GPU (needs nvcc)
    bench/peers/peers.py compare FILE.gguf --gpu    both sides on the GPU
    bench/peers/peers.py mlx                        the shipped model compared with mlx-lm on the processor

All output is in bench/out/peers/ (not in git): a virtual environment, the sources, the build with
-march=native, GGUF files of random weights (synth_gguf.py). Both sides use as many threads, 4.5 bits a weight in every
matrix, a prompt of 512 tokens and decoding after it; the read bandwidth is measured before and after each side.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
OUT = ROOT / "bench" / "out" / "peers"
PYTHON = OUT / "venv" / "bin" / "python"
MLX_PYTHON = OUT / "mlx-venv" / "bin" / "python"
SHIPPED = ROOT / "assets" / "qwen3.5-tiny"
BUILDS = {False: OUT / "build", True: OUT / "build-gpu"}
PACKAGE = "llama-cpp-python"  # its sdist holds the sources of llama.cpp
CMAKE = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_CURL=OFF",
         "-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_SERVER=OFF"]

GPU_CMAKE = ["-DGGML_CUDA=ON", "-DCMAKE_CUDA_ARCHITECTURES=native"]


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, **options)


def make_environment(python, *packages):
    if python.exists():
        return
    OUT.mkdir(parents=True, exist_ok=True)
    venv.create(python.parent.parent, with_pip=True)
    run(python, "-m", "pip", "install", "--quiet", *packages)


def sources():
    """The folder of llama.cpp's sources, fetched once."""
    found = sorted(OUT.glob("llama_cpp_python-*/vendor/llama.cpp"))
    if found:
        return found[-1]
    run(PYTHON, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation", "--no-binary", PACKAGE,
        PACKAGE, "--dest", OUT / "sdist")
    archive = sorted((OUT / "sdist").glob("*.tar.gz"))[-1]
    with tarfile.open(archive) as tar:
        tar.extractall(OUT, filter="data")
    return sources()


def llama_bench(options):
    return BUILDS[options.gpu] / "bin" / "llama-bench"


def build(options):
    make_environment(PYTHON, "numpy", "gguf", "scikit-build-core")
    folder = sources()
    if '"qwen35"' not in (folder / "src" / "llama-arch.cpp").read_text(encoding="utf-8"):
        sys.exit(f"peers: {folder} does not support the architecture qwen35; use a newer {PACKAGE}")
    into = BUILDS[options.gpu]
    run("cmake", "-S", folder, "-B", into, *CMAKE, *(GPU_CMAKE if options.gpu else []))
    run("nice", "-n", "10", "cmake", "--build", into, "--target", "llama-bench", "-j", os.cpu_count())


def gguf_of(shape):
    path = OUT / f"{shape}.gguf"
    if not path.exists():
        part = path.with_suffix(".part")
        run(PYTHON, HERE / "synth_gguf.py", shape, part)
        part.rename(path)
    return path


def read_bandwidth(options):
    report = run(options.foretoken, "doctor", "--json", "--threads", options.threads, capture_output=True)
    return json.loads(report.stdout)["read_gb_per_s"]


def ours(options, model):
    report = json.loads(run(options.foretoken, "bench", "decode", "--plain", "--json", "--quiet", "--cycles", "3",
                            "--model", model, "--prompt-tokens", options.prompt, "--tokens", options.tokens,
                            *(["--backend", "cuda"] if options.gpu else ["--threads", options.threads]),
                            capture_output=True).stdout)
    return {"plain": report["plain_tokens_per_second"], "prompt": report["prompt_tokens_per_second"],
            "bytes": report["bytes_per_token"], "name": report["backend"]}


def mlx(options, model):
    figures = json.loads(run(MLX_PYTHON, HERE / "mlx_decode.py", model, options.prompt, options.tokens,
                             capture_output=True).stdout)
    return {**figures, "name": "mlx-lm on the processor, all cores"}


def llama_cpp(options, model):
    # All layers on the GPU, flash attention: its fastest choice there.
    where = ["-ngl", "99", "-fa", "1"] if options.gpu else ["-t", options.threads]

    def figures(*what):
        command = [llama_bench(options), "-m", model, *where, "-r", "3", "-o", "json", *what]
        return json.loads(run(*command, capture_output=True).stdout)[0]

    prompt = figures("-p", options.prompt, "-n", "0")
    plain = figures("-p", "0", "-n", options.tokens, "-d", options.prompt)
    return {"plain": statistics.median(plain["samples_ts"]), "prompt": statistics.median(prompt["samples_ts"]),
            "name": f"llama.cpp {plain['build_commit']}"}


def processor_times():
    """Seconds of all cores, of them busy, of them ours: Linux counts the first two since the start."""
    ticks = os.sysconf("SC_CLK_TCK")
    fields = [int(word) / ticks for word in Path("/proc/stat").read_text(encoding="ascii").split()[1:9]]
    own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(fields), sum(fields) - fields[3] - fields[4], sum(use.ru_utime + use.ru_stime for use in own)


def measure(work, options, model):
    before = 0 if options.gpu else read_bandwidth(options)
    begin = processor_times()
    figures = work(options, model)
    every, busy, own = (now - then for now, then in zip(processor_times(), begin))
    figures["others"] = max(0, busy - own) / every
    figures["bandwidth"] = 0 if options.gpu else (before + read_bandwidth(options)) / 2
    return figures


def summary(pairs):
    bytes_per_token = pairs[0]["ours"]["bytes"]
    result = {"pairs": pairs, "bytes_per_token": bytes_per_token}
    for side in ("ours", "theirs"):
        shares = [pair[side]["plain"] * bytes_per_token / (pair[side]["bandwidth"] * 1e9)
                  for pair in pairs if pair[side]["bandwidth"]] or [0]
        result[side] = {"name": pairs[0][side]["name"], "limit_share": statistics.median(shares)}
        for what in ("plain", "prompt", "bandwidth", "others"):
            result[side][what] = statistics.median(pair[side][what] for pair in pairs)
    for what in ("plain", "prompt"):
        ratios = [pair["ours"][what] / pair["theirs"][what] for pair in pairs]
        result[f"{what}_ratio"] = statistics.median(ratios)
        result[f"{what}_ratios"] = ratios
    return result


def compare_llama_cpp(options):
    if not llama_bench(options).exists():
        sys.exit(f"peers: there is no llama-bench yet; run bench/peers/peers.py build{' --gpu' * options.gpu}")
    if options.shape.endswith(".gguf"):
        return compare(options, options.shape, llama_cpp, options.shape)
    join = "&" if "?" in options.shape else "?"
    path = gguf_of(options.shape)
    model = path if "type=" in options.shape else f"synth:{options.shape}{join}bits=4&group=64"
    return compare(options, model, llama_cpp, path)


def compare_mlx(options):
    make_environment(MLX_PYTHON, "mlx[cpu]", "mlx-lm")
    options.shape = SHIPPED.name
    compare(options, str(SHIPPED), mlx, SHIPPED)


def compare(options, our_model, peer, peer_model):
    sides = {"ours": (ours, our_model), "theirs": (peer, peer_model)}
    pairs = []
    for index in range(options.pairs):
        order = ("ours", "theirs") if index % 2 == 0 else ("theirs", "ours")
        pairs.append({side: measure(sides[side][0], options, sides[side][1]) for side in order})
        print(f"pair {index + 1} of {options.pairs}: {pairs[-1]}", file=sys.stderr)
    result = summary(pairs)
    if options.json:
        print(json.dumps(result, indent=1))
        return
    where = "GPU" if options.gpu else f"{options.threads} threads"
    print(f"{options.shape}, {where}, {result['bytes_per_token'] / 1e6:.0f} MB a token")
    for line in rows(result, options.gpu):
        print("| " + " | ".join(line) + " |")


def rows(result, gpu):
    """The table. The read bandwidth is that of the processor, so it says nothing about a GPU."""
    yield ["side", "tokens/s", "prompt tokens/s", *([] if gpu else ["share of the limit", "read GB/s"]),
           "processors taken by others"]
    yield ["---"] * (4 if gpu else 6)
    for side in ("ours", "theirs"):
        figures = result[side]
        limit = [] if gpu else [f"{figures['limit_share']:.2f}", f"{figures['bandwidth']:.1f}"]
        yield [figures["name"], f"{figures['plain']:.1f}", f"{figures['prompt']:.0f}", *limit,
               f"{100 * figures['others']:.0f} %"]
    yield ["ratio", f"{result['plain_ratio']:.2f}", f"{result['prompt_ratio']:.2f}", *[""] * (1 if gpu else 3)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    making = commands.add_parser("build", help="fetch and build llama.cpp")
    making.set_defaults(work=build)
    pairs = commands.add_parser("compare", help="interleaved pairs with llama.cpp on one shape")
    pairs.set_defaults(work=compare_llama_cpp)
    pairs.add_argument("shape", help="qwen3.5-0.8b, -2b, -4b, -9b, -27b or -35b-a3b; ?layers=N: fewer layers; "
                       "?type=q4_0 or q4_k_m: both read a GGUF file of that type; or the path of a GGUF file")
    beside_mlx = commands.add_parser("mlx", help="interleaved pairs with mlx-lm on the shipped model")
    beside_mlx.set_defaults(work=compare_mlx)
    for command in (pairs, beside_mlx):
        command.add_argument("--pairs", type=int, default=5, help="runs of each side (default 5)")
        command.add_argument("--threads", type=int, default=2, help="of each side (default 2)")
        command.add_argument("--prompt", type=int, default=512, help="tokens of the prompt (default 512)")
        command.add_argument("--tokens", type=int, default=32, help="decoded in one sample (default 32)")
        command.add_argument("--foretoken", type=Path, default=ROOT / "build" / "release" / "foretoken",
                             help="our program (default build/release/foretoken)")
        command.add_argument("--json", action="store_true", help="every pair, as JSON")
    for command in (making, pairs):
        command.add_argument("--gpu", action="store_true", help="on the NVIDIA GPU; the processor otherwise")
    beside_mlx.set_defaults(gpu=False)
    options = parser.parse_args()
    options.work(options)


if __name__ == "__main__":
    main()
