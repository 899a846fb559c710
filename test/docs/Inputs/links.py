"""Prints each link of the pages below a folder that leads to no file, or to a heading that its page has not.

Why it exists: pages point at one another's sections, and a section that moves takes its links along only if somebody looks.

    links.py FOLDER

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import re
import sys
from functools import cache
from pathlib import Path

FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def pages(folder):
    kept = ["*.md", "docs/**/*.md", "python/**/*.md", "test/**/*.md", "third_party/*.md"]
    return sorted({page for pattern in kept for page in folder.glob(pattern)})


@cache
def anchors(page):
    """What may follow # in a link to the page: its headings as GitHub writes them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)", FENCED.sub("", page.read_text()), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        found.add(re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", "-"))
    return found


def wrong(page):
    for link in LINK.findall(FENCED.sub("", page.read_text())):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if ":" in path:
            continue
        if not target.exists():
            yield f"{link}: there is no such file"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            yield f"{link}: the page has no such heading"


def report(wrong, right):
    """Prints what is wrong(page) of the pages below the folder on the command line, or that there is nothing: `right`; exits with 1 where there is."""
    folder = Path(sys.argv[1]).resolve()
    found = [f"{page.relative_to(folder)}: {what}" for page in pages(folder) for what in wrong(page)]
    print("\n".join(found) or f"{len(pages(folder))} pages, {right}")
    sys.exit(bool(found))


if __name__ == "__main__":
    report(wrong, "all links lead somewhere")
