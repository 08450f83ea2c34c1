"""The calibration cache that the tests of one build share. A start that measures takes 0.3 s of processor time
longer than one that reads a file of an earlier start."""
import pathlib


def calibration_folder(program):
    return str(pathlib.Path(program).resolve().parent / "tests/calibration")
