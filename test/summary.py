"""summary.py - adds up test results, and prints 'N passed, N failed, N skipped'.

Why it exists: ctest counts programs, and one of them is lit with hundreds of tests. Where a program reports its own count,
as lit and cmocka do, that is taken; where it failed without one, a crash say, it counts as one failed test.

Usage: summary.py [RESULTS.xml | NAME=passed|failed|skipped]...    (RESULTS.xml: from ctest --output-junit)

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import re
import sys
import xml.etree.ElementTree
from collections import Counter

COUNTS = {
    "passed": [r"^\[  PASSED  \] (\d+) test", r"^ +(?:Passed|Passed With Retry|Expectedly Failed) *: (\d+)"],
    "failed": [r"^\[  FAILED  \] .*?(\d+) test", r"^ +(?:Failed|Timed Out|Unresolved|Unexpectedly Passed) *: (\d+)"],
    "skipped": [r"^\[  SKIPPED \] .*?(\d+) test", r"^ +(?:Unsupported|Skipped|Excluded) *: (\d+)"],
}


def counts_of(case):
    """What one ctest did."""
    status = {"run": "passed", "notrun": "skipped", "disabled": "skipped"}.get(case.get("status"), "failed")
    if case.find("failure") is not None:
        status = "failed"
    elif case.find("skipped") is not None:
        status = "skipped"
    output = case.findtext("system-out") or ""
    counts = Counter(
        {
            name: sum(int(number) for pattern in patterns for number in re.findall(pattern, output, re.MULTILINE))
            for name, patterns in COUNTS.items()
        }
    )
    agrees = (counts["failed"] > 0) == (status == "failed")
    return counts if counts.total() and agrees and status != "skipped" else counts | Counter({status: 1})


total = Counter()
for argument in sys.argv[1:]:
    if argument.endswith(".xml"):
        cases = xml.etree.ElementTree.parse(argument).getroot().iter("testcase")
        total.update(sum((counts_of(case) for case in cases), Counter()))
    else:
        total[argument.partition("=")[2]] += 1
print(", ".join(f"{total[name]} {name}" for name in COUNTS))
sys.exit(1 if total["failed"] or not total["passed"] else 0)
