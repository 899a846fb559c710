"""Prints each line of a table below a folder that would not be shown as one: tables.py FOLDER.

Why it exists: an empty line within a table, or a bar too many, turns rows into text, and only who looks at the page as shown sees it.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import re

from links import FENCED, report

TABLE = re.compile(r"^(?:\|.*\n?)+", re.MULTILINE)


def cells(row):
    return len(re.split(r"(?<!\\)\|", row)) - 2


def wrong(page):
    for table in TABLE.findall(FENCED.sub("", page.read_text())):
        head, *rows = table.splitlines()
        if not rows or not re.fullmatch(r"\|(\s*-+\s*\|)+", rows[0]):
            yield f"{head[:60]}: a table without a head"
            continue
        for row in rows:
            if cells(row) != cells(head):
                yield f"{row[:60]}: has {cells(row)} cells, the head {cells(head)}"


if __name__ == "__main__":
    report(wrong, "all tables have a head and rows as long")
