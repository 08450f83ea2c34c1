#!/usr/bin/env python3
"""Prints `passed failed skipped` of a JUnit file that ctest wrote; tools/check adds them up. A second file
is a later run of the failed tests alone: those that passed in it count as passed and are named on stderr."""

import sys
import xml.etree.ElementTree as ElementTree


def failures(suite):
    return {case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None}


def main():
    suite = ElementTree.parse(sys.argv[1]).getroot()
    total, failed = int(suite.get("tests")), int(suite.get("failures"))
    skipped = int(suite.get("skipped", 0)) + int(suite.get("disabled", 0))
    if len(sys.argv) > 2:
        alone = ElementTree.parse(sys.argv[2]).getroot()
        ran = {case.get("name") for case in alone.iter("testcase")}
        mended = sorted((failures(suite) & ran) - failures(alone))
        for name in mended:
            print(f"passed only alone: {name}", file=sys.stderr)
        failed -= len(mended)
    print(total - failed - skipped, failed, skipped)


if __name__ == "__main__":
    main()
