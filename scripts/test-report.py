#!/usr/bin/env python3
"""Says how the tests of some builds ended and where the time went: test-report.py BUILD...

Each BUILD has tests.xml of ctest, the reports of its GoogleTest programs beside it, and ninja's log. Prints the slowest
tests and build steps, and one closing line. The cases of a GoogleTest program count, not the program.
"""

import pathlib
import re
import sys
import xml.etree.ElementTree as xml

SLOWEST = 10


def cases_of(build):
    """(seconds, name, "passed" | "failed" | "skipped") of every case, but those of a program that broke off."""
    for test in xml.parse(build / "tests.xml").getroot().iter("testcase"):
        name = test.get("name")
        failed = test.find("failure") is not None
        skipped = test.find("skipped") is not None
        report = build / "reports" / (name.replace("/", "_") + ".xml")
        inside = list(cases_in(report, name.split("/")[0])) if report.exists() else []
        if inside and failed == any(result == "failed" for _, _, result in inside):
            yield from inside
        else:
            yield float(test.get("time")), name, "failed" if failed else "skipped" if skipped else "passed"


def cases_in(report, program):
    for case in xml.parse(report).getroot().iter("testcase"):
        if case.get("status") != "run":
            continue
        result = "failed" if case.find("failure") is not None else case.get("result")
        name = f"{program}/{case.get('classname')}.{case.get('name')}"
        yield float(case.get("time")), name, {"completed": "passed"}.get(result, result)


def steps_of(build):
    """(seconds, name) of what ninja made last."""
    steps = {}
    for line in (build / ".ninja_log").read_text().splitlines():
        fields = line.split("\t")
        if len(fields) == 5:
            steps[fields[3]] = (int(fields[1]) - int(fields[0])) / 1000
    for name, seconds in steps.items():
        yield seconds, re.sub(r"(src/weft/\w+/)?CMakeFiles/(\w+)\.dir/.*?([^/]+)\.o$", r"\2: \3", name)


def print_slowest(what, rows):
    print(f"slowest {what}:")
    for seconds, name in sorted(rows, reverse=True)[:SLOWEST]:
        print(f"  {seconds:7.1f} s  {name}")


def main():
    builds = [pathlib.Path(name) for name in sys.argv[1:]]
    cases = [(seconds, f"{build.name}: {name}", result) for build in builds for seconds, name, result in cases_of(build)]
    print_slowest("tests", [case[:2] for case in cases])
    print_slowest("build steps", [(seconds, f"{build.name}: {name}") for build in builds for seconds, name in steps_of(build)])
    count = {result: sum(case[2] == result for case in cases) for result in ("passed", "failed", "skipped")}
    print(f"{count['passed']} passed, {count['failed']} failed" + (f", {count['skipped']} skipped" if count["skipped"] else ""))
    return 1 if count["failed"] or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
