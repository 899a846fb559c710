"""What the tests of kernels with random schedules share: how one runs on the emulator, and what is said of all.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import subprocess

NO_REGISTERS = "may take fewer registers"  # what the compiler says where ptxas has none
CHECK = ["--device", "emu", "--runs", "1", "--threads", "1", "--step-limit", "100000000", "--exact"]


def call(*command, text=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr).strip()


def is_accepted(source):
    """Whether the compiler takes the schedule of a source."""
    return not call("moe-opt", "-", "--emit=scheduled", text=source)[0]


def error_of(rnd, source, folder, calls):
    """The error of a source that is compiled to a bundle in `folder`, or of the first of these calls of moe-run, lists of arguments, that has one; else ""."""
    failed, said = call("moe-opt", "-", "--emit=bundle", "-o", folder, text=source)
    for arguments in calls:
        if not failed:
            failed, said = call("moe-run", folder, *CHECK, *arguments, "--random", str(rnd.randint(1, 99)), "--schedule", str(rnd.randint(0, 9)))
    return said if failed else ""


def report(outcomes, verdict):
    """Prints the errors of outcomes, (name, error) each, but of those without registers, and of how many `verdict` is true; gives whether there are any."""
    tight = sum(NO_REGISTERS in error for _, error in outcomes)
    wrong = [f"{name}: {error}" for name, error in outcomes if error and NO_REGISTERS not in error]
    print(*wrong, f"{len(outcomes) - tight - len(wrong)} of {len(outcomes)} {verdict}, {tight} have no registers", sep="\n")
    return bool(wrong)
