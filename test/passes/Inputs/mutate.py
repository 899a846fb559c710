"""Damages valid IR in many small ways, and sees that moe-opt never crashes.

Why: whoever edits IR by hand makes such mistakes, and the passes read types and attributes of ops that MLIR itself knows little of.
Every mutation replaces one token of the text (a number, a type, a name, an attribute) by another, at one place. The compiler may take
it (exit 0) or refuse it (exit 1) with an error that names a place; a crash, exit 70 or an error without a place is a failure.

  mutate.py MOE_OPT PTXAS TIMES FILE STEP [REGION]     every TIMES * STEP-th mutation of FILE, or of what in it matches the expression REGION

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import concurrent.futures
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile

# Of processor time, for each process: it counts what is computed, however busy the machine is. What waits forever is ended by lit.
MAX_CPU_SECONDS = 300

# What is replaced, and by what.
MUTATIONS = [
    (r"(?<!#)\b\d+\b", ["0", "1", "-1", "17", "2147483648", "9223372036854775807", "99999999999999999999"]),
    (r"\?", ["0", "3", "32"]),
    (r"\b(?:bf16|f32|f8E4M3FN|f8E5M2|f8E8M0FNU)\b", ["f16", "i8", "f8E8M0FNU", "index", "vector<4xf32>"]),
    (r"\bi(?:64|32)\b", ["i1", "i128", "si64", "f32", "index"]),
    (r'"[^"\n]*"', ['""', '"x"', "3", "unit", '"\\FF\\00"', "[]", "{}"]),
    (r"tensor<[^<>]*(?:<[^<>]*>)?[^<>]*>", ["tensor<*xbf16>", "tensor<bf16>", "memref<4xf32>", "i32", "tensor<1x2x3x4x5x6xbf16>"]),
    (r"affine_map<[^>]*>[^>]*>", ["affine_map<() -> ()>", "affine_map<(a, b, c) -> (a, b, a)>", "affine_map<(a) -> (a)>", '"x"']),
    (r"\[[^\[\]\n]*\]", ["[]", "[0]", "[2, 1, 0]", "[0, 0, 0]", '["x"]', "[[1]]", "[-1, 9]"]),
    (r"\{[^{}\n]*\}", ["{}", "{x = 1}", "{dim = [7, 0]}", "{dim = [0, 9]}", "{dim = 0}"]),
    (r"@[\w-]+", ["@x", '@"a b"', '@"\\FF"']),
    (r"%\w+", ["%w", "%undefined"]),
    (r"\b(?:axis|block|mode|schedule|kernel|kind|tensor|grid|parameters|requires|dim|value|multiple_of)\b(?= =)", ["typo"]),
]


# MLIR's own parser crashes on these, mlir-opt as well.
CRASHES_OF_MLIR = re.compile(r"custom op 'linalg.transpose' (integer value too large|expected integer value)")


def mutations(text, region):
    start, end = re.search(region, text, re.S).span()
    for pattern, replacements in MUTATIONS:
        for match in re.compile(pattern).finditer(text, start, end):
            for replacement in replacements:
                if replacement != match.group():
                    yield text[: match.start()] + replacement + text[match.end() :]


def problem(moe_opt, ptxas, text):
    """What is wrong with how moe-opt treats the text, "" if nothing is."""
    with tempfile.TemporaryDirectory() as folder:
        command = [moe_opt, "-", "--emit=manifest", "--ptxas=" + ptxas, "--reproducer=" + os.path.join(folder, "r")]
        # Not text: MLIR repeats what it was given, valid UTF-8 or not.
        run = subprocess.run(command, input=text.encode(), capture_output=True)
    if run.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return "does not end"
    if run.returncode == 0:
        return ""
    errors = run.stderr.decode(errors="replace")
    if CRASHES_OF_MLIR.search(errors):
        return ""
    if run.returncode != 1:
        return f"exit code {run.returncode}: {errors[:600]}"
    return "" if re.search(r"^<stdin>:\d+:\d+: error: ", errors, re.M) else f"no error with a place: {errors[:600]}"


def main():
    moe_opt, ptxas, times, path, step, *region = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS,) * 2)  # moe-opt inherits it, and starts at zero
    with open(path) as file:
        text = file.read()
    cases = list(dict.fromkeys(mutations(text, *(region or [".*"]))))[:: int(times) * int(step)]
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for case, what in zip(cases, pool.map(lambda case: problem(moe_opt, ptxas, case), cases)):
            if what:
                failures += 1
                changed = [line for line in case.splitlines() if line not in text.splitlines()]
                print(f"error: {what}\n  where a line was changed to: {' '.join(changed)[:1500]}")
    print(f"{len(cases)} mutations, {failures} failures")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
