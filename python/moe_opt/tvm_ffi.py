"""Functions of programs as functions of tvm-ffi.

    import moe_opt.tvm_ffi, tvm_ffi

    functions = moe_opt.tvm_ffi.functions("bundle/")
    functions["grouped_mm"](tokens, weights, offs, out)      # arguments, then results, of any framework that tvm-ffi knows

They run on the stream of tvm-ffi's environment (`tvm_ffi.use_torch_stream`, `tvm_ffi.use_raw_stream`), which for tensors of torch is torch's
own. They return nothing; errors are ValueError and RuntimeError.

A bundle can also become a library that any program of tvm-ffi loads, with the function `grouped_mm` as the symbol `__tvm_ffi_grouped_mm`:

    python -m moe_opt.tvm_ffi bundle/ -o grouped_mm.c
    cc -shared -fPIC -o grouped_mm.so grouped_mm.c $(pkg-config --cflags --libs moe_rt) -Wl,-rpath,$(pkg-config --variable=libdir moe_rt)

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from __future__ import annotations

import argparse
import ctypes
import json
import os
import pathlib
import re
import sys
from typing import Any, Iterable

from moe_opt import _bundles, _files, _library

_SIGNATURES = {"moe_rt_tvm_ffi_register": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p])}
_programs: list[_library.ProgramHandle] = []  # registered functions live as long as the process, and so do their programs


def functions(path: str | os.PathLike[str], prefix: str = "") -> dict[str, Any]:
    """The functions of a bundle, a folder or the name of one of the package, by name, as tvm_ffi.Function. They are also global functions, called PREFIX.NAME, or by default
    moe_opt.FOLDER.NAME; such a function that was there is replaced.

    ImportError where apache-tvm-ffi is not installed, and the errors of `moe_opt.load`."""
    import tvm_ffi  # pylint: disable=import-outside-toplevel

    library = _library.bind(_library.lib, _SIGNATURES)
    path = _bundles.named(path) or path
    handle = _library.ProgramHandle(path)
    prefix = prefix or f"moe_opt.{pathlib.Path(path).resolve().name}"
    found = {}
    for index in range(library.moe_rt_program_function_count(handle.handle)):
        address = library.moe_rt_program_function(handle.handle, index)
        name = _library.FunctionInfo.from_address(address).name.decode()
        _library.check(library.moe_rt_tvm_ffi_register(handle.handle, address, f"{prefix}.{name}".encode()))
        _programs.append(handle)
        found[name] = tvm_ffi.get_global_func(f"{prefix}.{name}")
    return found


def _array(name: str, data: bytes) -> Iterable[str]:
    yield f"static const unsigned char {name}[] = {{\n"
    for start in range(0, len(data), 24):
        yield f"  {','.join(map(str, data[start:start + 24]))},\n"
    yield "};\n"


def source(path: str | os.PathLike[str]) -> str:
    """C source of a library with the bundle inside and a symbol `__tvm_ffi_NAME` for each function, to be linked with libmoe_rt.

    ValueError where a function's name is no identifier of C."""
    folder = pathlib.Path(path)
    handle = _library.ProgramHandle(folder)  # checks the bundle
    names = [
        _library.FunctionInfo.from_address(_library.lib.moe_rt_program_function(handle.handle, i)).name.decode()
        for i in range(_library.lib.moe_rt_program_function_count(handle.handle))
    ]
    for name in names:
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise ValueError(f"{folder}: function '{name}' is no identifier of C")
    manifest = (folder / "manifest.json").read_bytes()
    artifacts = json.loads(manifest)["artifacts"]
    files = {kind: (folder / artifacts[kind]["file"]).read_bytes() for kind in ("ptx", "cubin") if kind in artifacts}
    text = [
        f"/* The bundle {json.dumps(folder.resolve().name)[1:-1].replace('*/', '')} as functions of tvm-ffi.\n *\n"
        " * Written by python -m moe_opt.tvm_ffi. */\n#include <moe/runtime.h>\n\n"
    ]
    members = [f".name = {json.dumps(folder.resolve().name)}"]
    for kind, data in {"manifest": manifest, **files}.items():
        text.extend(_array(kind, data))
        members.append(f".{kind} = {'(const char *)' if kind == 'manifest' else ''}{kind}, .{kind}_bytes = sizeof {kind}")
    text.append(f"\nstatic moe_rt_embedded_t embedded = {{.bundle = {{{', '.join(members)}}}}};\n")
    for name in names:
        parameters = "void *self, const void *args, int32_t num_args, void *result"
        text.append(
            f"\n__attribute__((visibility(\"default\"))) int __tvm_ffi_{name}({parameters});\n"
            f"int __tvm_ffi_{name}({parameters}) {{\n  (void)self;\n"
            f'  return moe_rt_tvm_ffi_call_embedded(&embedded, "{name}", args, num_args, result);\n}}\n'
        )
    return "".join(text)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m moe_opt.tvm_ffi", description="Writes C source that makes a bundle a library of tvm-ffi.")
    parser.add_argument("bundle", help="a folder that moe-opt --emit=bundle wrote")
    parser.add_argument("-o", dest="output", required=True, help="the file to write")
    arguments = parser.parse_args()
    output = pathlib.Path(arguments.output)
    try:
        text = source(arguments.bundle)
        if output.exists() and not output.is_file():  # a pipe or a device
            output.write_text(text, encoding="utf-8")
        else:
            with _files.replacing(output) as temporary:
                temporary.write_text(text, encoding="utf-8")
    except OSError as error:
        if isinstance(error, _library.MoeError):
            sys.exit(f"moe_opt.tvm_ffi: {error}")
        sys.exit(f"moe_opt.tvm_ffi: {error.filename or output}: {error.strerror}")
    except (_library.MoeError, ValueError) as error:
        sys.exit(f"moe_opt.tvm_ffi: {error}")


if __name__ == "__main__":
    _main()
