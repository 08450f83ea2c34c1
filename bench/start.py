#!/usr/bin/env python3
"""How long a start takes, in readings of the model's file. Standard library only.

    bench/peers/synth_gguf.py "qwen3.5-4b?type=q4_k_m" 4b.gguf      a file of random weights (needs numpy and gguf)
    bench/start.py build/release/foretoken 4b.gguf [--pairs 5] [-- FLAGS OF SERVE]

Each pair reads the file with `cat FILE >/dev/null`, then starts `foretoken serve` until /health answers 200. Both run
with the file not in the page cache (as root only: it is dropped before each), then with the file in it. One start
before the pairs measures the calibration that later starts load. Seconds are wall time; "cpu" is user and system time.
"""

import argparse
import os
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

DROP = Path("/proc/sys/vm/drop_caches")


def used():
    use = resource.getrusage(resource.RUSAGE_CHILDREN)
    return use.ru_utime + use.ru_stime


def reading(options, _):
    begin = time.monotonic()
    with open(os.devnull, "wb") as nowhere:
        subprocess.run(["cat", options.model], check=True, stdout=nowhere)
    return time.monotonic() - begin


def ready(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1) as reply:
            return reply.status == 200
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def start(options, home):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [options.foretoken, "serve", "--model", options.model, "--port", str(port), *options.flags]
    begin = time.monotonic()
    with open(home / "log", "wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "XDG_CACHE_HOME": str(home)})
    while not ready(port):
        if server.poll() is not None:
            sys.exit(f"start: the server ended:\n{(home / 'log').read_text(encoding='utf-8', errors='replace')}")
        time.sleep(0.01)
    taken = time.monotonic() - begin
    server.send_signal(signal.SIGTERM)
    server.wait()
    return taken


def measure(work, options, home):
    before = used()
    taken = work(options, home)
    return taken, used() - before


def row(name, runs):
    walls = ", ".join(f"{wall:.2f}" for wall, _ in runs)
    cpu = statistics.median(cpu for _, cpu in runs)
    return f"| {name} | {statistics.median(wall for wall, _ in runs):.2f} | {walls} | {cpu:.2f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("foretoken")
    parser.add_argument("model")
    parser.add_argument("--pairs", type=int, default=5, help="of each kind (default 5)")
    parser.add_argument("flags", nargs="*", help="of serve, after --")
    options = parser.parse_args()
    kinds = ["in the page cache"] if os.geteuid() != 0 else ["not in the page cache", "in the page cache"]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        first = measure(start, options, home)
        print(f"the first start, which calibrates: {first[0]:.2f} s, cpu {first[1]:.2f} s\n")
        print("| | seconds, median | each | cpu |\n| --- | --- | --- | --- |")
        for kind in kinds:
            runs = {reading: [], start: []}
            for _ in range(options.pairs):
                for work, found in runs.items():
                    if kind == kinds[-1]:
                        reading(options, home)
                    else:
                        os.sync()
                        DROP.write_text("3", encoding="ascii")
                    found.append(measure(work, options, home))
            print(row(f"reading, {kind}", runs[reading]))
            print(row(f"start, {kind}", runs[start]))
            ratios = [ours[0] / theirs[0] for theirs, ours in zip(runs[reading], runs[start])]
            print(f"| readings of a start | {statistics.median(ratios):.2f} | "
                  f"{', '.join(f'{ratio:.2f}' for ratio in ratios)} | |", flush=True)


if __name__ == "__main__":
    main()
