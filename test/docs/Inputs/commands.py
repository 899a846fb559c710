"""Runs the commands that pages show, and prints where one prints something else than its page says: commands.py SOURCE PAGE...

Why it exists: who types an example as it is printed should see what is printed below it.

A block whose first line begins with `$ ` is a session: such lines are commands, the lines behind each are its standard output, where there are any. All blocks
of a page run in one shell, in a new folder that has the examples. The device that a line ends with may be another one, and what `--bench`
times is not run.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

SESSION = re.compile(r"^```\n(\$ .*?)^```", re.DOTALL | re.MULTILINE)
DEVICE = re.compile(r" on (cuda|emu)\S* \([^()]*\)$", re.MULTILINE)


def commands(page):
    """Of each command of the page, it and what it prints."""
    for session in SESSION.findall(page.read_text()):
        for command, output in re.findall(r"^\$ (.*\n)((?:(?!\$ ).*\n)*)", session, re.MULTILINE):
            if "--bench" not in command:
                yield command, output


def wrong(source, page):
    shown = list(commands(page))
    if not shown:
        yield "shows no command"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "examples").symlink_to(source / "examples")
        script = "".join(f"{command}printf '\\0%d\\0' $?\n" for command, _ in shown)
        ran = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    printed = ran.stdout.split("\0")
    if len(printed) != 2 * len(shown) + 1:
        yield f"{shown[len(printed) // 2][0].strip()}: the shell ends: {ran.stderr}"
    for (command, expected), found, code in zip(shown, printed[::2], printed[1::2]):
        if code != "0":
            yield f"{command.strip()}: exit code {code}: {ran.stderr}"
        elif expected and DEVICE.sub(" on a device", found) != DEVICE.sub(" on a device", expected):
            yield f"{command.strip()}: prints\n{found}"


def main():
    source = Path(sys.argv[1]).resolve()
    found = [f"{page}: {what}" for page in sys.argv[2:] for what in wrong(source, source / page)]
    print("\n".join(found) or f"{len(sys.argv) - 2} pages, all commands print what they show")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
