"""python -m foretoken_tune train|measure JOB.json"""

import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before PyTorch: the same sums in every run

from .job import read_job  # noqa: E402
from .training import measure, say, train  # noqa: E402

TASKS = {"train": train, "measure": measure}


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] not in TASKS:
        sys.stderr.write((__doc__ or "") + "\n")
        return 2
    try:
        return TASKS[arguments[0]](read_job(arguments[1]))
    except MemoryError:
        say(phase="failed", message="memory ran out; give fewer --hours or free some memory")
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        say(phase="failed", message=f"{type(error).__name__}: {error}")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
