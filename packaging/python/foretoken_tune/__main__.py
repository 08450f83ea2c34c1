"""python -m foretoken_tune train|measure JOB.json"""

import sys

from .job import read_job
from .training import measure, say, train

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
