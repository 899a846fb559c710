"""Reads what moe-run --check --json prints, and sees that all results are right, and as near to the product of the unquantized operands
as a recipe promises: quality.py RESULT=DB...

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import json
import sys

least = {name: float(db) for name, db in (argument.split("=") for argument in sys.argv[1:])}
report = json.load(sys.stdin)
assert report["ok"]
for case in report["cases"]:
    assert {result["name"] for result in case["results"]} == set(least)
    for result in case["results"]:
        assert result["judged_by"] == "bound" and result["unquantized_sqnr_db"] >= least[result["name"]], result
print(f"{len(report['cases'])} cases have the quality")
