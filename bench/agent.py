#!/usr/bin/env python3
"""The gain of the prefix cache for a coding agent: a conversation in the shape of Claude Code with a server that this
program starts, and again after a restart. Standard library only.

    bench/agent.py [--turns N] [--after N] [--words N] [--pause SECONDS] -- FLAGS OF SERVE
    bench/agent.py --turns 28 --words 850 -- --model synth:qwen3.5-27b --backend cuda --cache-dir auto

One line a turn: tokens of its prompt, how many were read from the cache, the share of the part that it has in
common with the turn before, seconds of the whole request (16 answered tokens). `--pause`: between two turns, as of an
agent that waits for its tools. After --turns the server is stopped and started again with the same folder for --after
turns.
"""
import argparse
import os
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "server"))
import agent_test  # noqa: E402
from server_process import Server  # noqa: E402


def turns(server, agent, numbers, before, arguments):
    for turn in numbers:
        body = agent.next_body(turn)
        begin = time.monotonic()
        answer = agent_test.post(server, "/v1/messages", body)
        seconds = time.monotonic() - begin
        usage = answer["usage"]
        read = usage["cache_read_input_tokens"]
        prompt = usage["input_tokens"] + usage["cache_creation_input_tokens"] + read
        share = min(1.0, read / (before - agent_test.HEADER)) if before > agent_test.HEADER else 0.0
        print(f"turn {turn:3}  prompt {prompt:7}  cached {read:7}  share {share:.2f}  {seconds:.2f} s", flush=True)
        agent.remember(answer, turn)
        before = prompt
        time.sleep(arguments.pause)
    return before


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=16)
    parser.add_argument("--after", type=int, default=3)
    parser.add_argument("--words", type=int, default=320, help="words of a tool's result")
    parser.add_argument("--pause", type=float, default=0)
    parser.add_argument("flags", nargs="*")
    arguments = parser.parse_args()
    agent_test.WORDS = arguments.words
    agent_test.COMPACTS = -1
    agent = agent_test.Agent()
    with tempfile.TemporaryDirectory() as home:
        environment = {**agent_test.DEFAULTS, "XDG_CACHE_HOME": os.environ.get("AGENT_CACHE", home)}
        with Server(*arguments.flags, environment=environment) as server:
            facts = {name: server.facts.get(name) for name in ("context", "slots", "cache_mb", "cache_host_mb")}
            print(f"serve: {facts}", flush=True)
            before = turns(server, agent, range(arguments.turns), 0, arguments)
            begin = time.monotonic()
        print(f"stopped in {time.monotonic() - begin:.1f} s", flush=True)
        begin = time.monotonic()
        with Server(*arguments.flags, environment=environment) as server:
            print(f"started in {time.monotonic() - begin:.1f} s", flush=True)
            turns(server, agent, range(arguments.turns, arguments.turns + arguments.after), before, arguments)


if __name__ == "__main__":
    main()
