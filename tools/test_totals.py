#!/usr/bin/env python3
"""Prints `passed failed skipped` of a JUnit file that ctest wrote; tools/check adds them up."""

import sys
import xml.etree.ElementTree as ElementTree


def main():
    suite = ElementTree.parse(sys.argv[1]).getroot()
    total, failed = int(suite.get("tests")), int(suite.get("failures"))
    skipped = int(suite.get("skipped", 0)) + int(suite.get("disabled", 0))
    print(total - failed - skipped, failed, skipped)


if __name__ == "__main__":
    main()
