"""Times mlx-lm on the processor: prompt and greedy tokens a second of one model folder, as JSON.

    python mlx_decode.py MODEL_FOLDER PROMPT_TOKENS TOKENS
"""

import json
import random
import sys
import time

import mlx.core as mx

mx.set_default_device(mx.cpu)

from mlx_lm import load  # noqa: E402  after the device is chosen
from mlx_lm.generate import generate_step  # noqa: E402


def main():
    folder, prompt_tokens, tokens = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    model, _ = load(folder)
    chance = random.Random(0)
    prompt = mx.array([chance.randrange(4096) for _ in range(prompt_tokens)])
    times = [time.perf_counter()]
    for _ in generate_step(prompt, model, max_tokens=tokens + 1):
        times.append(time.perf_counter())
    print(json.dumps({"prompt": prompt_tokens / (times[1] - times[0]), "plain": tokens / (times[-1] - times[1])}))


if __name__ == "__main__":
    main()
