"""Puts the libraries and the bundles that ./dev wheel has built into the wheel, and says which platform it is for.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import pathlib

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIBRARIES = ("moe_rt", "moe_emu", "moe_ref")


class CustomBuildHook(BuildHookInterface):
    """Called by hatchling before it writes the wheel."""

    def initialize(self, version, build_data):
        root = pathlib.Path(self.root).parent
        built = root / "build-wheel"
        files = {built / "lib" / f"lib{name}.so.0": f"moe_opt/lib/lib{name}.so.0" for name in LIBRARIES}
        files[built / "bundles"] = "moe_opt/bundles"
        for file in files:
            if not file.exists():
                raise FileNotFoundError(f"{file} is missing: ./dev wheel makes it")
        build_data["force_include"].update({str(file): target for file, target in files.items()})
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{(built / 'platform').read_text().strip()}"
