"""moe_opt.tvm_ffi on the CPU, by the emulator; needs apache-tvm-ffi.

    python3 test/python/tvm_ffi_test.py

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import ctypes
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy

try:
    import tvm_ffi
except ImportError:
    sys.exit("skipped: there is no apache-tvm-ffi")

import moe_opt
import moe_opt.tvm_ffi
from moe_opt import _library

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class Functions(unittest.TestCase):
    def setUp(self):
        name, self.function = moe_opt._bundles.find("mx_quantize.quantize", {"axis": 1, "block": 32, "mode": "rceil"}, [("f32", 2)], ["f8E4M3FN"])
        self.folder = moe_opt._bundles.folder() / name
        self.x = numpy.random.default_rng(0).standard_normal((32, 64), dtype=numpy.float32)
        self.q, self.scales = numpy.empty((32, 64), numpy.uint8), numpy.empty((32, 2), numpy.uint8)

    def check(self, function):
        tensors = [tvm_ffi.from_dlpack(array) for array in (self.x, self.q, self.scales)]
        self.assertIsNone(function(*tensors))
        expected = moe_opt.quantize_mx(self.x)
        self.assertTrue(numpy.array_equal(self.q, expected[0].view(numpy.uint8)))
        self.assertTrue(numpy.array_equal(self.scales, expected[1].view(numpy.uint8)))
        self.q[:] = 0
        function(self.x, self.q, self.scales)  # tvm-ffi takes arrays as they are
        self.assertTrue(numpy.array_equal(self.q, expected[0].view(numpy.uint8)))
        with self.assertRaisesRegex(ValueError, "argument 'x': dimension 1 is 40; it must be a multiple of 32"):
            function(numpy.zeros((32, 40), numpy.float32), self.q, self.scales)
        with self.assertRaisesRegex(ValueError, "got 1 tensors; it takes 1 arguments and 2 results"):
            function(self.x)
        with self.assertRaisesRegex(ValueError, "value 1 is no tensor"):
            function(self.x, 3, self.scales)

    def test_global(self):
        functions = moe_opt.tvm_ffi.functions(self.folder)
        self.check(functions[self.function])
        self.check(tvm_ffi.get_global_func(f"moe_opt.{self.folder.name}.{self.function}"))
        moe_opt.tvm_ffi.functions(self.folder, "mine")
        self.check(tvm_ffi.get_global_func(f"mine.{self.function}"))
        with self.assertRaises(moe_opt.InputOutputError):
            moe_opt.tvm_ffi.functions("/nowhere")

    @unittest.skipUnless(shutil.which("cc") and (ROOT / "include/moe/runtime.h").exists(), "needs a C compiler and the headers")
    def test_library(self):
        with tempfile.TemporaryDirectory() as temporary:
            source, library = pathlib.Path(temporary) / "x.c", pathlib.Path(temporary) / "x.so"
            subprocess.run([sys.executable, "-m", "moe_opt.tvm_ffi", str(self.folder), "-o", str(source)], check=True)
            includes = [f"-I{ROOT / 'include'}", f"-I{ROOT / 'third_party'}"]
            subprocess.run(
                ["cc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *includes, "-o", str(library), str(source), _library.runtime_path()],
                check=True,
            )
            symbols = ctypes.CDLL(str(library))
            self.assertTrue(hasattr(symbols, f"__tvm_ffi_{self.function}"))
            self.check(getattr(tvm_ffi.load_module(str(library)), self.function))
        wrong = subprocess.run([sys.executable, "-m", "moe_opt.tvm_ffi", "/nowhere", "-o", "x"], capture_output=True, text=True, check=False)
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("moe_opt.tvm_ffi: /nowhere/manifest.json", wrong.stderr)

    def test_a_full_disk(self):
        """What was there before stays. A limit on the size of files stands for the full disk."""
        with tempfile.TemporaryDirectory() as temporary:
            source = pathlib.Path(temporary) / "x.c"
            source.write_text("before", encoding="utf-8")
            run = subprocess.run(
                [sys.executable, "-m", "moe_opt.tvm_ffi", str(self.folder), "-o", str(source)], capture_output=True, text=True, check=False,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
            )  # fmt: skip
            self.assertEqual((run.returncode, run.stderr), (1, f"moe_opt.tvm_ffi: {source}: File too large\n"))
            self.assertEqual([path.read_text(encoding="utf-8") for path in pathlib.Path(temporary).iterdir()], ["before"])


if __name__ == "__main__":
    unittest.main()
