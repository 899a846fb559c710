"""lit's configuration: what a test is, and what it may ask for.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import os
import re
import shutil
import subprocess

import lit.formats

config.name = "moe-opt"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.join(config.moe_source_dir, "test")
config.test_exec_root = os.path.join(config.moe_binary_dir, "test")

config.environment["PATH"] = os.pathsep.join(
    [os.path.join(config.moe_binary_dir, "bin"), config.llvm_tools_dir, config.environment["PATH"]]
)
config.substitutions.append(("%examples", os.path.join(config.moe_source_dir, "examples")))
config.substitutions.append(("%source_dir", config.moe_source_dir))
config.substitutions.append(("%ptxas", config.ptxas))
config.substitutions.append(("%python", shutil.which("python3") or "python3"))
# %exits N COMMAND: it ends with this exit code; %limited BYTES COMMAND: its files end there; %interrupted FOLDER COMMAND: by a signal as it writes.
for name in ["exits", "limited", "interrupted"]:
    config.substitutions.insert(0, (f"%{name}", f"%python {config.test_source_root}/Inputs/{name}.py"))
# A test that says FileCheck gets variables that end with their CHECK-LABEL block.
config.substitutions.append((r"\bFileCheck\b", "FileCheck --enable-var-scope --dump-input-filter=error"))

# glibc otherwise gives large blocks back at once, and each launch of the emulator takes them again, page by page.
config.environment["MALLOC_MMAP_THRESHOLD_"] = config.environment["MALLOC_TRIM_THRESHOLD_"] = str(1 << 30)
# In front of a command that goes the same ways through our code as others of its file: the sanitizers do not see it.
config.substitutions.append(("%again", "true ||" if config.sanitize else ""))
# The sanitizers see one run of a kernel, elsewhere two must give the same bits: the second goes the same ways.
config.substitutions.append(("%runs", "1" if config.sanitize else "2"))
# Of many cases of one kind the sanitizers, which take five times as long, see each third.
config.substitutions.append(("%times", "3" if config.sanitize else "1"))

if config.ptxas and os.path.exists(config.ptxas):
    config.available_features.add("ptxas")
    # The one that ./dev installs, of which registers and counts of instructions are known.
    with open(os.path.join(config.moe_source_dir, "dev")) as dev:
        tested = re.search(r"^ptxas_version=(.*)$", dev.read(), re.MULTILINE).group(1)
    if f"V{tested}\n" in subprocess.run([config.ptxas, "--version"], capture_output=True, text=True).stdout:
        config.available_features.add("ptxas-of-dev")
if os.path.exists("/usr/local/cuda/bin/ptxas"):
    config.available_features.add("cuda-toolkit")  # whose ptxas moe-opt finds where there is no other
if config.sanitize:
    config.available_features.add("sanitize")
    # libMLIR and libLLVM are not instrumented and keep memory for the life of the process.
    config.environment["ASAN_OPTIONS"] = "detect_leaks=0"
try:
    name = subprocess.run(
        ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"], capture_output=True, text=True
    ).stdout.split()
    if "9.0" in name:
        config.available_features.add("cuda-sm90")
except OSError:
    pass  # no driver: tests that need one are skipped as unsupported
