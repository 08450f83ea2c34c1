"""`python -m foretoken ...` and the command `foretoken`: become the program."""
import os
import sys

from ._server import program


def main() -> None:
    path = program()
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
