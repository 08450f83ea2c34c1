#!/usr/bin/env python3
"""The throughput lost on the way through Ray: tokens a second of three replicas whose programs the clients
ask directly, and of the same programs through the gateway, in turn; and the processor time of each part.

    .cache/ray/bin/python -W ignore deploy/ray/aggregate.py [--streams 24] [--tokens 200] [--seconds 8] [--pairs 5]
                                                            [--whole] [--apart] [--model MODEL] [VARIANT ...]

A variant is a setting of Ray Serve (first_token.py). Prompts are two words, so that they cost nothing. They differ, or
the router would send all to one replica's cache. The clients only count events. On few cores the servers, Ray and the
clients take from each other; the tokens a second also depend on what else runs, the processor time hardly.
"""
import argparse
import asyncio
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from first_token import HERE, USUAL, VARIANTS

REPLICAS, SLOTS = 3, 8
PARTS = {"haproxy": ("haproxy",), "gateway": ("ray::ServeReplica:", "gateway"),
         "replica": ("ray::ServeReplica:", "model-"),
         "proxy": ("ray::", "Proxy"), "program": ("serve", "--json"), "clients": ("aggregate.py", "--load")}


def words_of(folder):
    try:
        return (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def processes():
    """{process id: its part} of this machine; all other processes of Ray are `ray`."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        words = words_of(folder)
        part = next((name for name, marks in PARTS.items() if all(mark in words for mark in marks)), None)
        if part or "ray::" in words or "/ray/" in words:
            found[int(folder.name)] = part or "ray"
    return found


def stat_of(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")")[1].split()


def seconds_of(parts):
    """Processor seconds of each part so far."""
    sums = {}
    for pid, part in parts.items():
        try:
            used = sum(map(int, stat_of(pid)[11:13])) / os.sysconf("SC_CLK_TCK")
        except OSError:
            continue
        sums[part] = sums.get(part, 0) + used
    return sums


async def answer(reader, whole, tokens):
    """Reads one answer -> its tokens."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
    if not head.startswith(b"HTTP/1.1 200 "):
        raise RuntimeError(f"refused: {head.decode()}{(await reader.read(500)).decode()}")
    if whole:
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
        await reader.readexactly(int(length.split(b":")[1]))
        return tokens
    found, tail = 0, b""
    while not tail.endswith(b"0\r\n\r\n"):
        piece = await asyncio.wait_for(reader.read(1 << 16), 60)
        if not piece:
            raise ConnectionError(f"closed in the middle: {tail}")
        found += (tail[-8:] + piece).count(b"data: {") - tail[-8:].count(b"data: {")
        tail = (tail + piece)[-16:]
    return found


async def ask(url, number, options, until):
    """Tokens of one stream or of answers in a row until the time is over."""
    key, _, address = url.removeprefix("http://").rpartition("@")
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    tokens, fresh = 0, True
    number += 1000
    while time.monotonic() < until:
        body = json.dumps({"model": "tiny", "prompt": f"{number} Hi", "max_tokens": options.tokens, "ignore_eos": True,
                           "temperature": 1, "seed": number, "stream": not options.whole}).encode()
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
                     b"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s"
                     % (host.encode(), key.encode(), len(body), body))
        try:
            tokens += await answer(reader, options.whole, options.tokens)
            number, fresh = number + 1000, False
        except (asyncio.IncompleteReadError, ConnectionResetError) as closed:
            # HAProxy closes kept connections when it takes new settings, for example soon after the start.
            if fresh or getattr(closed, "partial", b""):
                raise
            reader, writer = await asyncio.open_connection(host, int(port))
            fresh = True
    writer.close()
    return tokens


async def load(options):
    """Asks the addresses at once and prints the tokens a second."""
    begin = time.monotonic()
    tokens = await asyncio.gather(*(ask(options.load[at % len(options.load)], at, options, begin + options.seconds)
                                    for at in range(options.streams)))
    print(json.dumps({"tokens": sum(tokens), "seconds": time.monotonic() - begin}))


def measure(urls, options):
    """-> (tokens a second, processor milliseconds of each part for 1,000 tokens)."""
    words = [sys.executable, __file__, "--load", *urls, "--streams", str(options.streams), "--tokens",
             str(options.tokens), "--seconds", str(options.seconds), *(["--whole"] if options.whole else [])]
    parts = processes()
    before = seconds_of(parts)
    used = os.times()
    found = json.loads(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout)
    after, clients = seconds_of(parts), os.times()
    spent = {part: after.get(part, 0) - before[part] for part in before}
    spent["clients"] = clients.children_user + clients.children_system - used.children_user - used.children_system
    return found["tokens"] / found["seconds"], {part: 1e6 * spent[part] / found["tokens"] for part in spent}


def programs():
    """The address of each replica's program, with its key; asked as the gateway asks (replica.py)."""
    from ray import serve

    handle, asked, found = serve.get_deployment_handle("model-tiny", "default").options(stream=True), [], set()
    while len(found) < REPLICAS:
        place = next(iter(handle.answer.remote(affinity=[], asked=asked)))
        with socket.create_connection(place["holds"]) as hold:
            hold.sendall(place["ticket"].encode() + b"\n")
        found.add(place["url"].replace("http://", f"http://{place['key']}@"))
    return sorted(found)


def set_apart():
    """The replicas keep the first half of the cores, as on separate machines; everything else has the other half."""
    cores = sorted(os.sched_getaffinity(0))
    halves = {True: cores[:len(cores) // 2], False: cores[len(cores) // 2:]}
    for pid, part in {**processes(), os.getpid(): "clients"}.items():
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), halves[part in ("program", "replica")])


def one(variant, options):
    import ray
    from ray import serve

    sys.path.insert(0, str(HERE))
    from foretoken_ray.application import build

    port = 18000 + os.getpid() % 2000
    flags = {"slots": SLOTS, "cache-mb": 128, "calibration": "measure"}
    model = {"name": "tiny", "model": options.model, "replicas": {"least": REPLICAS, "most": REPLICAS}, "cpus": 1,
             "flags": flags}
    with tempfile.TemporaryDirectory(prefix="ft") as folder:
        ray.init(num_cpus=16, include_dashboard=False, object_store_memory=100 << 20, log_to_driver=False,
                 logging_level="ERROR", _temp_dir=folder,
                 runtime_env={"env_vars": {"PYTHONPATH": str(HERE), **VARIANTS[variant]}})
        serve.start(http_options={"port": port})
        serve.run(build({"models": [model]}), route_prefix="/")
        ways = {"direct": programs(), "gateway": [f"http://127.0.0.1:{port}"]}
        if options.apart:
            set_apart()
        nice = {part: int(stat_of(pid)[16]) for pid, part in processes().items()}
        for way in ways.values():  # calibrates, connects
            measure(way, options)
        rounds = [{way: measure(urls, options) for way, urls in ways.items()} for _ in range(options.pairs)]
        print(json.dumps({"rounds": rounds, "nice": nice}), flush=True)
        serve.shutdown()
        ray.shutdown()


def report(variant, found):
    ratios = [each["gateway"][0] / each["direct"][0] for each in found["rounds"]]
    rates = {way: statistics.median(each[way][0] for each in found["rounds"]) for way in ("direct", "gateway")}
    print(f"{variant}: {rates['direct']:.0f} tokens/s asked directly, {rates['gateway']:.0f} through the gateway; "
          f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    for way in rates:
        parts = {part for each in found["rounds"] for part in each[way][1]}
        costs = {part: statistics.median(each[way][1].get(part, 0) for each in found["rounds"]) for part in parts}
        print(f"  {way:6} processor ms for 1,000 tokens: " + ", ".join(
            f"{part} {costs[part]:.0f}" for part in sorted(costs, key=costs.get, reverse=True) if costs[part] >= 1),
              flush=True)
    print("  nice values: " + ", ".join(f"{part} {value}" for part, value in sorted(found["nice"].items())))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=REPLICAS * SLOTS)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--whole", action="store_true", help="answers that are not streamed")
    parser.add_argument("--apart", action="store_true", help="half of the cores is for the replicas alone")
    parser.add_argument("--model", help="what --model of serve takes; default: the shipped model")
    parser.add_argument("--load", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("variants", nargs="*", metavar="VARIANT", default=["usual", "haproxy"])
    options = parser.parse_args()
    if options.load:
        asyncio.run(load(options))
    elif options.one:
        one(options.variants[0], options)
    else:
        for variant in options.variants:
            rest = [word for word in sys.argv[1:] if word not in VARIANTS]
            done = subprocess.run([sys.executable, "-W", "ignore", __file__, variant, "--one", *rest],
                                  capture_output=True, text=True, check=False,
                                  # The process that starts the cluster has no loop for its own requests.
                                  env={**os.environ, **USUAL, **VARIANTS[variant],
                                       "RAY_SERVE_RUN_ROUTER_IN_SEPARATE_LOOP": "1"})
            lines = [line for line in done.stdout.splitlines() if line.startswith('{"rounds"')]  # Ray prints too
            if done.returncode != 0 or not lines:
                print(f"{variant} failed: {done.stderr[-2000:]}")
                continue
            report(variant, json.loads(lines[0]))


if __name__ == "__main__":
    main()
