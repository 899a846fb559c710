#!/usr/bin/env python3
"""Writes the man page and the shell completions of a tool from what its --help prints, which comes from the table of its flags:
documents.py TOOL FOLDER.

The files are TOOL.1, TOOL.bash, _TOOL (zsh) and TOOL.fish.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import os
import re
import subprocess
import sys
from pathlib import Path


def read_help(tool):
    """(usage, introduction, [(group, [(short, long, value, text)])], conclusion)"""
    environment = dict(os.environ, ARGP_HELP_FMT="rmargin=2000,opt-doc-col=60")
    text = subprocess.run([tool, "--help"], env=environment, check=True, capture_output=True, text=True).stdout
    lines = text.splitlines()
    usage, introduction, groups, conclusion = lines[0].removeprefix("Usage: "), lines[1], [], []
    for line in lines[2:]:
        flag = re.match(r"\s+(?:-([\w?])(?: \w+)?(?:, )?)?(--[\w-]+|--PASS)?(?:\[?=(\[?[^ ]+))?(?: (\w+))?\s\s+(\S.*)$", line)
        if re.match(r" \S.*:$", line):
            groups.append((line.strip().rstrip(":"), []))
        elif flag and groups and (flag[1] or flag[2]):
            value = flag[3] or (flag[4] if not flag[2] else None)
            groups[-1][1].append((flag[1], flag[2], value, flag[5]))
        elif line.startswith("Exit codes") or (conclusion and line.strip()):
            conclusion.append(line)
    return usage, introduction, [(name, flags) for name, flags in groups if flags], " ".join(conclusion)


def escape(text):
    return text.replace("\\", "\\e").replace("-", "\\-")


def is_optional(value):
    """Whether it may be left out: of "[=FILE]" the value is "FILE]", of "=ARG=FILE[:TENSOR]" it is all behind the first "="."""
    return value.count("]") > value.count("[")


def shown_value(long, value):
    if is_optional(value):
        return f"[={value}"
    return f"={value}" if long else f" {value}"


def man(name, version, parsed):
    usage, introduction, groups, conclusion = parsed
    page = [f'.TH {name.upper()} 1 "" "{version}"', ".SH NAME", f"{escape(name)} \\- {escape(introduction.split('.')[0])}"]
    page += [".SH SYNOPSIS", escape(usage), ".SH DESCRIPTION", escape(introduction), ".SH OPTIONS"]
    for group, flags in groups:
        page.append(f".SS {escape(group)}")
        for short, long, value, text in flags:
            shown = ", ".join(filter(None, [f"-{short}" if short else None, long]))
            page += [".TP", f".B {escape(shown)}" + (escape(shown_value(long, value)) if value else ""), escape(text)]
    page += [".SH EXIT STATUS", escape(conclusion), ".SH SEE ALSO", f"The pages in share/doc/moe\\-opt, docs/{escape(name)}.md first."]
    return "\n".join(page) + "\n"


def flags_of(parsed):
    return [flag for _, flags in parsed[2] for flag in flags if (flag[0] or flag[1]) and flag[1] != "--PASS"]


def bash(name, parsed):
    function = "_" + name.replace("-", "_")
    words = " ".join((long + ("=" if value and not is_optional(value) else "")) for _, long, value, _ in flags_of(parsed) if long)
    return f"""# bash completion of {name}
{function}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}}
  if [[ $word == -* && $word != *=* ]]; then
    mapfile -t COMPREPLY < <(compgen -W '{words}' -- "$word")
    [[ ${{COMPREPLY[0]-}} != *= ]] || compopt -o nospace
  else
    mapfile -t COMPREPLY < <(compgen -f -- "${{word#*=}}")
  fi
}}
complete -o filenames -F {function} {name}
"""


def zsh(name, parsed):
    rows = []
    for short, long, value, text in flags_of(parsed):
        text = re.sub(r"([\[\]:'\\])", r"\\\1", text).replace("'", "")
        for flag in filter(None, [f"-{short}" if short else None, long]):
            rows.append(f"  '{flag}{'=' if value and flag.startswith('--') else ''}[{text}]{':value:_files' if value else ''}'")
    return f"#compdef {name}\n_arguments \\\n" + " \\\n".join(rows + ["  '*:file:_files'"]) + "\n"


def fish(name, parsed):
    rows = []
    for short, long, value, text in flags_of(parsed):
        text = text.replace("\\", "\\\\").replace("'", "\\'")
        row = f"complete -c {name}" + (f" -s {short}" if short else "") + (f" -l {long[2:]}" if long else "")
        rows.append(row + (" -r" if value and not is_optional(value) else "") + f" -d '{text}'")
    return "\n".join(rows) + "\n"


def main():
    tool, folder = sys.argv[1], Path(sys.argv[2])
    name = Path(tool).name
    version = subprocess.run([tool, "--version"], check=True, capture_output=True, text=True).stdout.split(" (")[0].strip()
    parsed = read_help(tool)
    if not parsed[2]:
        sys.exit(f"documents.py: {tool} --help lists no flags")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.1").write_text(man(name, version, parsed))
    (folder / f"{name}.bash").write_text(bash(name, parsed))
    (folder / f"_{name}").write_text(zsh(name, parsed))
    (folder / f"{name}.fish").write_text(fish(name, parsed))


main()
