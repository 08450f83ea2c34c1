#!/usr/bin/env python3
"""Fails when this tree decodes slower than an earlier commit: both builds in one run, pair by pair, in random order.

    tools/speed_guard.py                 build/release against the last tag, or where the branch left main
    SPEED_BASE=HEAD~3 tools/speed_guard.py
    tools/speed_guard.py --before OLD/foretoken --after NEW/foretoken

A figure is lost when the median of its paired ratios (after / before) is under 0.95 in three tries; one good try is
enough, since a busy machine makes noise and never speed. The earlier commit is built in .cache/speed/.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEAST = 0.95
TRIES = 3
PAIRS = 5
# Small enough for seconds, with real widths: weights come from memory, and rounds, prompts and the host show.
MODELS = {
    "shipped": "",
    "0.8b, 8 layers": "synth:qwen3.5-0.8b?bits=4&layers=8&vocabulary=32768",
}


def git(*words):
    done = subprocess.run(["git", "-c", "safe.directory=*", "-C", str(ROOT), *words], capture_output=True, text=True,
                          check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def base_commit():
    """SPEED_BASE, else the last tag before HEAD, else where the branch left main, else the commit before."""
    head = git("rev-parse", "HEAD")
    named = os.environ.get("SPEED_BASE", "")
    if named:
        commit = git("rev-parse", named + "^{commit}")
        if not commit:
            sys.exit(f"speed: SPEED_BASE={named} is not a commit")
        return commit
    tag = git("describe", "--tags", "--abbrev=0", "HEAD^")
    forked = git("merge-base", "HEAD", "main")
    for commit in (tag and git("rev-parse", tag + "^{commit}"), forked, git("rev-parse", "HEAD^")):
        if commit and commit != head:
            return commit
    return ""


def build(commit):
    """The program of that commit, built once."""
    folder = ROOT / ".cache" / "speed" / commit[:12]
    program = folder / "build" / "release" / "foretoken"
    if program.exists():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    tree = subprocess.run(["git", "-c", "safe.directory=*", "-C", str(ROOT), "archive", commit], check=True,
                          capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", folder], input=tree, check=True)
    jobs = os.environ.get("JOBS", str(os.cpu_count()))
    for command in (["cmake", "--preset", "release", "--log-level=WARNING"],
                    ["cmake", "--build", "build/release", "-j", jobs, "--target", "foretoken"]):
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return program


def knows_decode(program):
    done = subprocess.run([program, "bench", "decode", "--help"], capture_output=True, text=True, check=False)
    return done.returncode == 0 and "--forced-acceptance" in done.stdout


def figures(program, model):
    """Tokens per second of one short run: plain, prompt and drafted; and the processor share of other programs."""
    command = [program, "bench", "decode", "--json", "--quiet", "--cycles", "2", "--tokens", "16", "--prompt-tokens",
               "256", "--forced-acceptance", "0.9,0.8,0.7"] + (["--model", model] if model else [])
    report = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    found = {"plain": report["plain_tokens_per_second"], "prompt": report["prompt_tokens_per_second"],
             "drafted": report["forced"][0]["tokens_per_second"]}
    return found, report.get("others_share", 0)


def paired_ratios(before, after, model, pairs, chance):
    """after / before by figure, one per pair; and the median share of other programs."""
    ratios, others = {}, []
    for _ in range(pairs):
        sides = [("before", before), ("after", after)]
        chance.shuffle(sides)
        runs = {side: figures(program, model) for side, program in sides}
        others += [share for _, share in runs.values()]
        found = {side: speeds for side, (speeds, _) in runs.items()}
        for name, value in found["after"].items():
            ratios.setdefault(name, []).append(value / found["before"][name])
    return ratios, statistics.median(others)


def guard(before, after, name, model, options, chance):
    """True if every figure passes; a figure is settled by the first try in which it passes."""
    open_figures = None
    for attempt in range(1, options.tries + 1):
        ratios, others = paired_ratios(before, after, model, options.pairs, chance)
        medians = {figure: statistics.median(values) for figure, values in ratios.items()}
        lost = {figure for figure, median in medians.items() if median < options.least}
        open_figures = lost if open_figures is None else open_figures & lost
        words = ", ".join(f"{figure} {median:.3f}" for figure, median in medians.items())
        print(f"speed: {name}: {words} (try {attempt}, median of {options.pairs} paired ratios; "
              f"others took {100 * others:.0f} % of the processors)", flush=True)
        if not open_figures:
            return True
    print(f"speed: {name}: {', '.join(sorted(open_figures))} under {options.least} in {options.tries} tries")
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="an earlier program (default: built from the commit)")
    parser.add_argument("--after", type=Path, default=ROOT / "build" / "release" / "foretoken")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--tries", type=int, default=TRIES)
    parser.add_argument("--least", type=float, default=LEAST, help="lowest median ratio that passes")
    parser.add_argument("--seed", type=int, default=None, help="of the order (default: another each time)")
    options = parser.parse_args()
    before = options.before
    if before is None:
        commit = base_commit()
        if not commit:
            print("speed: there is no earlier commit to compare with")
            return 0
        print(f"speed: this tree against {git('log', '-1', '--format=%h %s', commit)}", flush=True)
        before = build(commit)
    if not knows_decode(before):
        print("speed: the earlier commit has no `bench decode`; there is nothing to compare with")
        return 0
    chance = random.Random(options.seed)
    good = [guard(before, options.after, name, model, options, chance) for name, model in MODELS.items()]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
