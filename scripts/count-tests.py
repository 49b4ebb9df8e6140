#!/usr/bin/env python3
"""Adds up JUnit files written by ctest and prints one closing line."""

import sys
import xml.etree.ElementTree as xml

suites = [xml.parse(name).getroot() for name in sys.argv[1:]]
total, failed, skipped = (sum(int(suite.get(what, 0)) for suite in suites) for what in ("tests", "failures", "skipped"))
print(f"{total - failed - skipped} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
sys.exit(1 if failed or total == 0 else 0)
