"""Checks what a wheel is made of: its tag against the symbols of its libraries, its size, its files.

    python3 test/python/wheel_check.py WHEEL AUDITWHEEL

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import json
import pathlib
import re
import subprocess
import sys
import zipfile

LIBRARIES = {f"moe_opt/lib/lib{name}.so.0" for name in ("moe_rt", "moe_emu", "moe_ref")}
LICENSES = {"LICENSE", "LICENSE.jansson", "LICENSE.xxhash"}  # that of the project, and those of what the libraries hold


def main(wheel, auditwheel):
    tag = re.fullmatch(r"moe_opt-[0-9.]+-py3-none-(manylinux_\d+_\d+_\w+)\.whl", pathlib.Path(wheel).name)
    assert tag, f"{wheel} is not named as a wheel for every Python 3 of a manylinux"
    report = subprocess.run([auditwheel, "show", wheel], check=True, capture_output=True, text=True).stdout
    consistent = re.search(r'consistent\s+with\s+the\s+following\s+platform\s+tag:\s+"(\w+)"', report)
    assert consistent and consistent[1] == tag[1], f"the wheel says {tag[1]}; auditwheel says:\n{report}"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        licenses = {name.rsplit("/", 1)[1] for name in names if ".dist-info/licenses/" in name}
        assert licenses == LICENSES, f"the wheel has the licenses {sorted(licenses)}"
        missing = (LIBRARIES | {"moe_opt/py.typed", "moe_opt/__init__.py"}) - names
        assert not missing, f"the wheel lacks {missing}"
        assert not [name for name in names if "__pycache__" in name], "the wheel has compiled Python"
        bundles = json.loads(archive.read("moe_opt/bundles/index.json"))["bundles"]
        for bundle in bundles:
            for file in ("manifest.json", "kernels.ptx"):
                assert f"moe_opt/bundles/{bundle['bundle']}/{file}" in names, f"the wheel lacks {file} of {bundle['bundle']}"
        cubins = sum(name.endswith(".cubin") for name in names)
        metadata = archive.read(next(name for name in names if name.endswith("METADATA"))).decode()
        needed = re.findall("^Requires-Dist: (.*)$", metadata, re.MULTILINE)
        always = [requirement for requirement in needed if "extra ==" not in requirement]
        assert always == ["numpy"], f"the wheel needs {always}"
    print(f"{tag[1]}: {len(bundles)} bundles, {cubins} with a cubin")


if __name__ == "__main__":
    main(*sys.argv[1:])
