"""Compiling at run time, by libmoe_compiler, with a cache on disk.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import pathlib
import shutil
import tempfile
from typing import Any, Optional

from moe_opt import _library
from moe_opt._library import InvalidBundle, MoeError
from moe_opt._program import Program


class CompileError(MoeError):
    """The source was refused; the text is what moe-opt would print, with file, line and column."""


class _Diagnostic(ctypes.Structure):
    _fields_ = [
        ("severity", ctypes.c_int),
        ("file", ctypes.c_char_p),
        ("line", ctypes.c_int),
        ("column", ctypes.c_int),
        ("message", ctypes.c_char_p),
        ("rendered", ctypes.c_char_p),
    ]


_Callback = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Diagnostic), ctypes.c_void_p)


class _Printing(ctypes.Structure):
    _fields_ = [
        ("generic", ctypes.c_bool),
        ("debug_info", ctypes.c_bool),
        ("pretty_debug_info", ctypes.c_bool),
        ("local_scope", ctypes.c_bool),
        ("skip_regions", ctypes.c_bool),
        ("assume_verified", ctypes.c_bool),
        ("name_prefix", ctypes.c_bool),
        ("has_elide_elements", ctypes.c_bool),
        ("elide_elements", ctypes.c_size_t),
        ("has_elide_resources", ctypes.c_bool),
        ("elide_resources", ctypes.c_size_t),
    ]


class _Options(ctypes.Structure):
    _fields_ = [
        ("target", ctypes.c_char_p),
        ("opt_level", ctypes.c_int),
        ("ptxas", ctypes.c_char_p),
        ("on_diagnostic", _Callback),
        ("user", ctypes.c_void_p),
        ("print_ir_before_all", ctypes.c_bool),
        ("print_ir_after_all", ctypes.c_bool),
        ("timing", ctypes.c_bool),
        ("print_ir_after_change", ctypes.c_bool),
        ("print_ir_after_failure", ctypes.c_bool),
        ("print_ir_module_scope", ctypes.c_bool),
        ("pass_statistics", ctypes.c_bool),
        ("verify", ctypes.c_int),
        ("allow_unregistered_dialects", ctypes.c_bool),
        ("print_ir_tree_dir", ctypes.c_char_p),
        ("line_info", ctypes.c_char_p),
        ("printing", _Printing),
    ]


_POINTER = ctypes.POINTER(ctypes.c_void_p)
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "moe_compiler_version": (ctypes.c_char_p, []),
    "moe_compiler_options_default": (_Options, []),
    "moe_compiler_ptxas": (ctypes.c_char_p, [ctypes.POINTER(_Options)]),
    "moe_compiler_create": (ctypes.c_int, [ctypes.POINTER(_Options), _POINTER]),
    "moe_compiler_destroy": (None, [ctypes.c_void_p]),
    "moe_module_parse": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, _POINTER]),
    "moe_module_destroy": (None, [ctypes.c_void_p]),
    "moe_module_lower": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p]),
    "moe_module_write_bundle": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p]),
}


@functools.lru_cache(maxsize=None)
def _library_of_compiler() -> ctypes.CDLL:
    path = _library.library_path("moe_compiler")
    try:
        return _library.bind(ctypes.CDLL(path), _SIGNATURES)
    except OSError as error:
        raise CompileError(f"libmoe_compiler is not installed: {error}; moe_opt.load takes what moe-opt compiled elsewhere") from error


def _identity(path: str) -> str:
    """What stands for a file in the names of the cache, as a version has many builds."""
    resolved = pathlib.Path(path).resolve()
    if not resolved.exists():
        return path
    stat = resolved.stat()
    return f"{resolved} {stat.st_size} {stat.st_mtime_ns}"


def _options(opt_level: int, ptxas: Optional[str]) -> _Options:
    options = _library_of_compiler().moe_compiler_options_default()
    options.opt_level, options.ptxas = opt_level, os.fsencode(ptxas) if ptxas else None
    return options


def _key(text: str, opt_level: int, ptxas: Optional[str]) -> str:
    """The name of a bundle in the cache."""
    library = _library_of_compiler()
    assembler = os.fsdecode(library.moe_compiler_ptxas(ctypes.byref(_options(opt_level, ptxas))) or b"")
    parts = (library.moe_compiler_version().decode(), _identity(_library.library_path("moe_compiler")), str(opt_level), ptxas or "", assembler and _identity(assembler), text)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def cache_folder() -> pathlib.Path:
    """Where compiled bundles are kept: moe-opt in the user's cache folder. It may be removed at any time."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (pathlib.Path(base) if os.path.isabs(base) else pathlib.Path.home() / ".cache") / "moe-opt"


def _write_bundle(text: str, name: str, opt_level: int, ptxas: Optional[str], target: pathlib.Path) -> None:
    """Compiles into a folder; CompileError has all diagnostics."""
    library = _library_of_compiler()
    diagnostics: list[str] = []

    def note(diagnostic: Any, _user: Optional[int]) -> None:
        diagnostics.append((diagnostic.contents.rendered or b"").decode(errors="replace"))

    callback = _Callback(note)  # lives until the compiler is gone

    def check(status: int) -> None:
        if status:
            raise CompileError("".join(diagnostics).rstrip("\n") or f"{name}: the compiler gave status {status} and no reason")

    options = _options(opt_level, ptxas)
    options.on_diagnostic = callback
    compiler, module = ctypes.c_void_p(), ctypes.c_void_p()
    source = text.encode()
    try:
        check(library.moe_compiler_create(ctypes.byref(options), ctypes.byref(compiler)))
        check(library.moe_module_parse(compiler, name.encode(), source, len(source), ctypes.byref(module)))
        check(library.moe_module_lower(module, b"bundle"))
        check(library.moe_module_write_bundle(module, os.fsencode(target)))
    finally:
        library.moe_module_destroy(module)
        library.moe_compiler_destroy(compiler)


def _place(new: pathlib.Path, target: pathlib.Path) -> None:
    """Gives a complete folder its name. Another process may have been first: then its folder, which is equal, stays."""
    try:
        os.rename(new, target)
    except OSError:
        if not (target / "manifest.json").exists():
            raise


def compile(  # pylint: disable=redefined-builtin
    text: str,
    *,
    name: str = "<text>",
    opt_level: int = 3,
    ptxas: Optional[str] = None,
    cache: str | os.PathLike[str] | None = None,
) -> Program:
    """Compiles MLIR text to a program, or takes it from the cache.

    text: functions over the dialects mx_quantize and scaled_grouped_mm, in any stage up to "scheduled".
    name: stands for the file in diagnostics.
    opt_level: of LLVM, 0 to 3. ptxas: the path of the assembler, or "none"; otherwise it is searched for. Without one there is no cubin.
    cache: the folder of compiled bundles, otherwise moe-opt in the user's cache folder ($XDG_CACHE_HOME, ~/.cache).

    A bundle's name in the cache is the hash of the text, the options, the compiler and the assembler. Processes may share a cache: bundles appear whole.
    CompileError has the diagnostics, or says that libmoe_compiler is not installed. InputOutputError: the cache cannot be
    written. TypeError: text, name or ptxas is no str, or opt_level no number. InvalidArgument: opt_level is another number.
    """
    for argument, value in (("text", text), ("name", name), ("ptxas", ptxas)):
        if not isinstance(value, str) and (argument, value) != ("ptxas", None):
            raise TypeError(f"{argument} is of type {type(value).__name__}; it must be a str")
    if not isinstance(opt_level, int):
        raise TypeError(f"opt_level is {opt_level!r}; it must be a number")
    if not 0 <= opt_level <= 3:
        raise _library.InvalidArgument(f"opt_level is {opt_level}; it must be 0 to 3")
    folder = cache_folder() if cache is None else pathlib.Path(cache)
    target = folder / _key(text, opt_level, ptxas)
    if target.exists():
        try:
            return Program(_library.ProgramHandle(target))
        except (InvalidBundle, _library.InputOutputError):  # damaged, by whomever: compiled anew
            shutil.rmtree(target, ignore_errors=True)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.TemporaryDirectory(prefix="new-", dir=folder)  # pylint: disable=consider-using-with
    except OSError as error:
        raise _library.InputOutputError(f"compiled bundles are kept in {folder}, which cannot be written: {error.strerror}; `cache` names another folder") from error
    with temporary:
        new = pathlib.Path(temporary.name) / "bundle"
        _write_bundle(text, name, opt_level, ptxas, new)
        _place(new, target)
    return Program(_library.ProgramHandle(target))
