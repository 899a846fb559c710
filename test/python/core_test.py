"""moe_opt without any framework but numpy: what it computes, on the emulator, and what it refuses.

    python3 test/python/core_test.py

Results are compared in every bit with libmoe_ref, and MX casts with a formula in numpy that shares nothing with it.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import copy
import ctypes
import importlib.util
import json
import math
import os
import pathlib
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

import numpy

import moe_opt
from moe_opt import _bundles, _compiler, _dlpack, _library, _mixed, _program, _recipes, _shapes

MOE_OPT = pathlib.Path(__file__).resolve().parent.parent.parent / "build/bin/moe-opt"

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODES = {"floor": 0, "rceil": 1, "ceil": 2, "even": 3}
F32, BF16, E4M3, E8M0 = 0, 1, 3, 5


class Reference(ctypes.Structure):
    """moe_ref_tensor_t"""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_int),
        ("shape", ctypes.c_int64 * 5),
        ("strides", ctypes.c_int64 * 5),
    ]


def reference(array, dtype):
    """The view of an array."""
    strides = [stride // array.itemsize for stride in array.strides]
    size = ctypes.c_int64 * 5
    return Reference(array.ctypes.data, dtype, array.ndim, size(*array.shape), size(*strides))


def reference_quantize(x, axis, mode):
    """q and scales of libmoe_ref, as bytes."""
    library = ctypes.CDLL(_library.library_path("moe_ref"))
    pointer = ctypes.POINTER(Reference)
    library.moe_ref_mx_quantize.argtypes = [pointer, ctypes.c_int, ctypes.c_int64, ctypes.c_int, pointer, pointer]
    shape = list(x.shape)
    shape[axis] //= 32
    q, scales = numpy.empty(x.shape, numpy.uint8), numpy.empty(shape, numpy.uint8)
    tensors = [reference(x, BF16 if x.dtype == numpy.uint16 else F32), reference(q, E4M3), reference(scales, E8M0)]
    status = library.moe_ref_mx_quantize(tensors[0], axis, 32, MODES[mode], tensors[1], tensors[2])
    assert status == 0, status
    return q, scales


def numpy_quantize(x):
    """MX along the last axis with mode rceil, of finite values: q and scales, as bytes."""
    blocks = x.reshape(*x.shape[:-1], -1, 32).astype(numpy.float64)
    amax = numpy.abs(blocks).max(-1)
    # The product is rounded to fp32 once; frexp gives m * 2^e with 0.5 <= m < 1.
    mantissa, exponent = numpy.frexp((amax.astype(numpy.float32) * numpy.float32(1 / 448)).astype(numpy.float64))
    power = numpy.where(mantissa == 0.5, exponent - 1, exponent)
    scales = numpy.where(amax == 0, 0, numpy.clip(power + 127, 0, 254)).astype(numpy.uint8)
    values = numpy.clip(numpy.ldexp(blocks, (127 - scales.astype(int))[..., None]), -448, 448)
    # Every E4M3 magnitude; the nearest, and of two the one whose byte is even.
    codes = numpy.arange(0x7F)
    table = numpy.where(codes < 8, codes / 512.0, (1 + codes % 8 / 8) * 2.0 ** (codes // 8 - 7))
    above = numpy.searchsorted(table, numpy.abs(values)).clip(1, 0x7E)
    low, high = numpy.abs(values) - table[above - 1], table[above] - numpy.abs(values)
    byte = numpy.where((low < high) | ((low == high) & (above % 2 == 1)), above - 1, above)
    byte = byte | numpy.where(numpy.signbit(values), 0x80, 0)
    return byte.astype(numpy.uint8).reshape(x.shape), scales


def data(*shape, seed=0):
    """fp32 of all sizes, with zeros and a block of zeros."""
    random = numpy.random.default_rng(seed)
    x = random.standard_normal(shape, dtype=numpy.float32) * numpy.exp2(random.integers(-40, 40, shape)).astype(numpy.float32)
    x.reshape(-1)[::97] = 0
    x.reshape(-1)[:64] = 0
    return x


def scaled(random, numbers):
    """numbers, as f32, of which each MX block along the last dimension is multiplied by a power of two of its own, 2^-2 to 2^2."""
    powers = numpy.exp2(random.integers(-2, 3, (*numbers.shape[:-1], numbers.shape[-1] // 32)))
    return (numbers * powers.repeat(32, axis=-1)).astype(numpy.float32)


def bf16_bits(x):
    """f32 rounded to the nearest bf16, to even."""
    bits = x.view(numpy.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(numpy.uint16)


def as_bytes(array):
    return array.view(numpy.uint8)


# Tokens of each expert, for each of the products with scales of FP8 blocks: fewest, few, some and many.
BLOCK_GROUPS = ([3, 0, 20], [3, 0, 80], [100, 0, 150], [1024, 0, 600])


def blocks_of(random, groups, n, k, tokens):
    """Tokens (M, K) and weights (E, N, K) of -1, 0 and 1 as E4M3, scales of their FP8 blocks, powers of two, and the product, whose sums are exact."""
    def quantized(*shape):
        values = random.integers(-1, 2, shape)
        return values.astype(numpy.float32), numpy.array([0xB8, 0, 0x38], numpy.uint8)[values + 1]

    blocks, (a, qa), (b, qb) = -(-k // 128), quantized(tokens, k), quantized(len(groups), n, k)
    sa, sb = (numpy.exp2(random.integers(-2, 3, shape)).astype(numpy.float32) for shape in ((tokens, blocks), (len(groups), -(-n // 128), blocks)))
    x, w = a * sa.repeat(128, 1)[:, :k], b * sb.repeat(128, 1)[:, :n].repeat(128, 2)[..., :k]
    product = numpy.concatenate([x[end - size : end] @ w[e].T for e, (end, size) in enumerate(zip(numpy.cumsum(groups), groups))])
    return qa, qb, sa, sb, product


class Exported:
    """A tensor of a framework that this package does not know."""

    def __init__(self, array, **device):
        self.array = array
        self.device = device.get("device")

    def __dlpack__(self, **options):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.device or self.array.__dlpack_device__()


class Casts(unittest.TestCase):
    def test_mx_is_the_reference(self):
        for shape in ((64, 256), (3, 32, 64)):
            x = data(*shape)
            for axis in (len(shape) - 1, len(shape) - 2):
                with self.subTest(shape=shape, axis=axis):
                    q, scales = moe_opt.quantize_mx(x, axis)
                    expected = reference_quantize(x, axis, "rceil")
                    self.assertTrue(numpy.array_equal(as_bytes(numpy.ascontiguousarray(q)), expected[0]))
                    self.assertTrue(numpy.array_equal(as_bytes(scales), expected[1]))

    def test_mx_of_groups_is_the_reference_of_each(self):
        x, ends = data(150, 64), [0, 33, 33, 97, 141]
        q, scales = moe_opt.quantize_mx(x, 0, offs=numpy.array(ends, numpy.int32))
        self.assertEqual((q.shape[0] % 128, scales.shape[1]), (0, 64))
        for group, (start, end) in enumerate(zip([0, *ends], ends)):
            blocks = -(-(end - start) // 32)
            rows = numpy.zeros((32 * blocks, 64), numpy.float32)
            rows[: end - start] = x[start:end]
            expected = reference_quantize(rows, 0, "rceil")
            first = start // 32 + group
            self.assertTrue(numpy.array_equal(as_bytes(numpy.ascontiguousarray(q))[start:end], expected[0][: end - start]))
            self.assertTrue(numpy.array_equal(as_bytes(scales)[first : first + blocks], expected[1]))

    def test_groups_may_begin_at_multiples(self):
        x, ends = data(150, 64), [0, 33, 33, 97, 141]
        offs = numpy.array(ends, numpy.int32)
        plain, aligned = (as_bytes(numpy.ascontiguousarray(moe_opt.quantize_mx(x, 0, offs=offs, **align)[0])) for align in ({}, {"align": 128}))
        self.assertEqual(aligned.shape, ((2 + len(ends)) * 128, 64))
        for group, (start, end) in enumerate(zip([0, *ends], ends)):
            rows = aligned[(start // 128 + group) * 128 :][: -(-(end - start) // 128) * 128]
            self.assertTrue(numpy.array_equal(rows[: end - start], plain[start:end]))
            self.assertFalse(rows[end - start :].any())
        for message, arguments in (
            ("align = 64.*; align can be 128, None;", {"axis": 0, "offs": offs, "align": 64}),
            ("align = '128'.*; align can be 128, None;", {"axis": 0, "offs": offs, "align": "128"}),
            ("; align can be None;", {"axis": 1, "align": 128}),
            ("; axis can be 0;", {"axis": 1, "offs": offs, "align": 128}),
            ("; (mode can be 'rceil'|align can be None);", {"axis": 0, "offs": offs, "align": 128, "mode": "floor"}),
            ("; offs can be i32 of rank 1 beside those before it;", {"axis": 0, "offs": offs[None]}),
        ):
            with self.assertRaisesRegex(moe_opt.NotFound, message):
                moe_opt.quantize_mx(x, **arguments)

    def test_mx_is_the_formula(self):
        x = data(64, 512, seed=1)
        q, scales = moe_opt.quantize_mx(x)
        expected = numpy_quantize(x)
        self.assertTrue(numpy.array_equal(as_bytes(scales), expected[1]))
        self.assertTrue(numpy.array_equal(as_bytes(q), expected[0]))
        # The formula would see a wrong cast: the reference's modes differ from each other.
        other = reference_quantize(x, 1, "floor")
        self.assertFalse(numpy.array_equal(other[0], expected[0]))

    def test_bf16_bits(self):
        bits = (data(32, 64).view(numpy.uint32) >> 16).astype(numpy.uint16)
        q, scales = moe_opt.quantize_mx(bits)
        expected = reference_quantize(bits, 1, "rceil")
        self.assertTrue(numpy.array_equal(as_bytes(q), expected[0]))
        self.assertTrue(numpy.array_equal(as_bytes(scales), expected[1]))

    def test_no_tokens(self):
        q, scales = moe_opt.quantize_mx(numpy.empty((0, 64), numpy.float32))
        self.assertEqual((q.shape, scales.shape), ((0, 64), (0, 2)))

    def test_product(self):
        random = numpy.random.default_rng(2)
        qa = (0x38 + random.integers(0, 2, (48, 64)) * 0x80).astype(numpy.uint8)  # 1 and -1
        qb = (0x38 + random.integers(0, 2, (2, 32, 64)) * 0x80).astype(numpy.uint8)
        sa, sb = numpy.full(48, 0.5, numpy.float32), numpy.full((2, 32), 2, numpy.float32)
        offs = numpy.array([17, 40], numpy.int32)
        out = moe_opt.scaled_mm(qa, qb.swapaxes(1, 2), sa, sb, offs, out_dtype="f32")
        a, b = 1 - (qa >> 7) * 2.0, 1 - (qb >> 7) * 2.0
        self.assertTrue(numpy.array_equal(out[:17], a[:17] @ b[0].T))
        self.assertTrue(numpy.array_equal(out[17:40], a[17:40] @ b[1].T))

    def test_product_in_mx_blocks(self):
        """Few tokens, some, more and many, of which weights of 1024 columns become bf16 in the product; fast and promoted sums; scales with a
        type of their own and as bytes."""
        random = numpy.random.default_rng(3)
        for rows, columns in ((40, 64), (300, 64), (600, 64), (300, 1024), (800, 1024)):
            weights = random.integers(-1, 2, (2, 32, columns)).astype(numpy.float32)  # sums that bf16 has
            tokens = random.integers(-1, 2, (rows, columns)).astype(numpy.float32)
            offs = numpy.array([17, rows - 3], numpy.int32)
            expected = numpy.concatenate([tokens[:17] @ weights[0].T, tokens[17 : rows - 3] @ weights[1].T])
            a, sa, b, sb = (*moe_opt.quantize_mx(tokens), *moe_opt.quantize_mx(weights))
            for kind in (lambda x: x, as_bytes):
                for accumulate in ("fast", "promoted"):
                    with self.subTest(rows=rows, kind=kind, accumulate=accumulate):
                        operands = (kind(a), kind(b).swapaxes(1, 2), kind(sa), kind(sb).swapaxes(1, 2))
                        out = moe_opt.scaled_mm(*operands, offs, accumulate)[: rows - 3]
                        found = (out.view(numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
                        self.assertTrue(numpy.array_equal(found, expected))

    @unittest.skipUnless(MOE_OPT.exists(), "needs moe-opt")
    def test_the_compiler_chooses_so_too(self):
        """Of products in MX blocks, by sizes: what the bundle is compiled from beside what moe-opt makes of these sizes. The choice stands in
        two places, mx_choice and passes/ExpandMx.c: a wheel has bundles and no compiler, and the compiler makes code for one choice only. Up to 64 tokens
        of each expert both choose by time whether by blocks, with more only Python does; and the compiler's tile is by time up to 480 tiles of 128 rows."""
        in_f16, in_bf16, by_blocks = "mm.mixed_mm_scaled\"", "mm.mixed_mm\"", "mm.scaled_mm\""
        kinds = {"most": in_bf16, "many": "dequantize_mm", "few": by_blocks, None: by_blocks}
        tiles = {(16, 2, 2): 32, (36, 1, 4): 64, (76, 1, 3): 128, (384, 1, 4): 128}  # tokens of each
        swapped = ", affine_map<(d0, d1, d2) -> (d0, d2, d1)>"
        for m, n, k, e, rows, chosen in (
            (128, 64, 1024, 2, True, (16, 2, 2)), (130, 64, 1024, 2, True, (16, 2, 2)), (64, 2048, 7168, 1, False, (16, 2, 2)),
            (256, 3584, 1024, 8, False, (36, 1, 4)), (256, 4096, 1056, 8, False, (36, 1, 4)), (512, 4096, 7168, 8, True, (384, 1, 4)),
            (1000, 4096, 7168, 8, True, (76, 1, 3)), (3072, 4096, 7168, 8, False, (76, 1, 3)), (256, 4096, 1024, 8, True, "few"),
            (8, 4096, 1024, 8, False, "few"), (8, 512, 512, 4, True, "few"), (512, 4096, 1056, 8, True, "few"),
            (3073, 4096, 7168, 8, False, "most"), (769, 64, 1024, 2, True, "most"), (770, 64, 1024, 2, False, "most"), (2304, 64, 1024, 2, True, "most"),
            (2305, 64, 1024, 2, True, "many"), (200, 64, 1056, 2, True, None), (600, 64, 1056, 2, True, "many"),
        ):  # fmt: skip
            with self.subTest(m=m, n=n, k=k, rows=rows):
                found = _recipes.mx_choice("fast", (m, k), (e, k, n), (e,), rows, "bf16")
                is_tile = isinstance(chosen, tuple)
                choice = dict(zip(("tokens", "ctas", "warpgroups"), chosen)) if is_tile else {"tokens": chosen}
                self.assertEqual(found, {"accumulate": "fast"} | choice if chosen else {"accumulate": "promoted"})
                types = [f"tensor<{m}x{k}xf8E4M3FN>", f"tensor<{e}x{k}x{n}xf8E4M3FN{swapped}>", f"tensor<{m}x{k // 32}xf8E8M0FNU>",
                         f"tensor<{e}x{k // 32}x{n}xf8E8M0FNU{swapped if rows else ''}>", f"tensor<{e}xi32>"]  # fmt: skip
                arguments = ", ".join(f"%{i}: {kind}" for i, kind in enumerate(types))
                source = (
                    f'func.func @f({arguments}) -> tensor<{m}x{n}xbf16> {{\n  %out = "scaled_grouped_mm.scaled_mm"(%0, %1, %2, %3, %4) '
                    f'{{accumulate = "fast"}} : ({", ".join(types)}) -> tensor<{m}x{n}xbf16>\n  return %out : tensor<{m}x{n}xbf16>\n}}\n'
                )
                made = subprocess.run([MOE_OPT, "-", "--emit=scheduled"], input=source, text=True, capture_output=True, check=True).stdout
                self.assertRegex(made, in_f16 if is_tile else kinds[chosen])
                if is_tile:
                    self.assertRegex(made, f"split = {chosen[1]} .*tile_n = {tiles[chosen]} .*warpgroups = {chosen[2]} ")

    def test_products_of_fp8_blocks(self):
        """As checkpoints have them: from the fewest tokens to many, whose products are four. Blocks at the ends of K and N are short."""
        random = numpy.random.default_rng(5)
        for groups in BLOCK_GROUPS:
            qa, qb, sa, sb, expected = blocks_of(random, groups, 208, 336, sum(groups) + 2)
            offs = numpy.cumsum(groups).astype(numpy.int32)
            for accumulate in ("fast", "promoted"):  # sums are promoted in either case
                with self.subTest(groups=groups, accumulate=accumulate):
                    scales = numpy.asfortranarray(sa), sb.swapaxes(1, 2)
                    out = moe_opt.scaled_mm(qa, qb.swapaxes(1, 2), *scales, offs, accumulate)
                    self.assertTrue(numpy.array_equal(out[: offs[-1]].view(numpy.uint16), bf16_bits(expected)))
        with self.assertRaisesRegex(moe_opt.InvalidArgument, "sa.*stride"):
            moe_opt.scaled_mm(qa, qb.swapaxes(1, 2), sa, sb.swapaxes(1, 2), offs)
        with self.assertRaisesRegex(moe_opt.NotFound, "accumulate can be"):
            moe_opt.scaled_mm(qa, qb.swapaxes(1, 2), *scales, offs, "exact")
        for rank_0 in ((qa, numpy.array(2, numpy.int32)), (qa[0, 0], offs)):
            with self.assertRaisesRegex(moe_opt.NotFound, "of rank 0"):
                moe_opt.scaled_mm(rank_0[0], qb.swapaxes(1, 2), *scales, rank_0[1])

    @unittest.skipUnless((ROOT / "python/make_bundles.py").exists() and MOE_OPT.exists(), "needs the source tree")
    def test_schedules_of_fp8_blocks(self):
        """Those of the package are what the compiler gives so many tokens."""
        loading = importlib.util.spec_from_file_location("make_bundles", ROOT / "python/make_bundles.py")
        make_bundles = importlib.util.module_from_spec(loading)
        loading.loader.exec_module(make_bundles)
        bundles = {bundle.choice["tokens"]: bundle for bundle in make_bundles.block_products() if bundle.name.endswith("-bf16")}
        for size, tokens in (("fewest", 16), ("few", 32), ("some", 256), ("many", 4096)):
            source = bundles[size].source()
            chosen = []
            for text in (source, source.replace(f", schedule = {{{bundles[size].schedule}}}", "").replace("?x?x?x", "8x512x1024x").replace("<?xi32", "<8xi32")):
                if text is not source:
                    text = text.replace("?x?xf8", f"{8 * tokens}x512xf8").replace("?x?xbf16", f"{8 * tokens}x1024xbf16").replace("8x512x1024xf32", "8x4x8xf32")
                    text = text.replace("?x?xf32", f"{8 * tokens}x4xf32")
                made = subprocess.run([MOE_OPT, "-", "--moe-select-schedule"], input=text, text=True, capture_output=True, check=True).stdout
                chosen.append(re.search("schedule = {[^}]*}", made)[0])
            self.assertEqual(*chosen, size)

    def test_products_of_few_experts(self):
        """The tiles of MX_SIZES: each has every bit, in groups of no tokens, of few and of more than a tile has room for, in both orders of scales."""
        random = numpy.random.default_rng(3)
        rows, columns, offs = 64, 512, numpy.array([0, 3, 150, 150, 279], numpy.int32)
        # Each MX block has a power of two of its own.
        weights = scaled(random, random.integers(-1, 2, (5, rows, columns)))
        tokens = scaled(random, random.integers(-1, 2, (300, columns)))
        ends = [0, *offs]
        expected = bf16_bits(numpy.concatenate([tokens[ends[e] : ends[e + 1]] @ weights[e].T for e in range(5)]))
        a, sa, b, sb = (*moe_opt.quantize_mx(tokens), *moe_opt.quantize_mx(weights))
        self.assertGreater(min(len(numpy.unique(as_bytes(sa))), len(numpy.unique(as_bytes(sb)))), 3)
        for order in ((0, 2, 1), (0, 1, 2)):
            scales = sb.swapaxes(1, 2) if order == (0, 2, 1) else numpy.ascontiguousarray(sb.swapaxes(1, 2))
            self.assertEqual(set(_bundles.mx_tiles(order)), set(_mixed.MX_SIZES))
            for size in _mixed.MX_SIZES:
                with self.subTest(order=order, size=size), mock.patch.object(_recipes, "_fastest", return_value=size):
                    out = moe_opt.scaled_mm(a, b.swapaxes(1, 2), sa, scales, offs)[:279]
                    self.assertTrue(numpy.array_equal(out.view(numpy.uint16), expected))

    def test_products_of_few_experts_by_size(self):
        """Which of them is used: few experts have divided columns, those that fill rounds tiles of 256 rows."""
        for order in ((0, 2, 1), (0, 1, 2)):
            tiles = _bundles.mx_tiles(order)
            self.assertEqual(_mixed.mx_size(tiles, 8, 1, 1024, 7168)[1:], (2, 2))  # eight tiles of 128 rows
            self.assertEqual(_mixed.mx_size(tiles, 8, 1, 1024, 480), _mixed.MX_BY_BLOCKS)  # less than two CTAs divide
            for few in (0, 16):
                self.assertEqual(_mixed.mx_size(tiles, 8, 4, 64, few), _mixed.MX_BY_BLOCKS)
            self.assertEqual(_mixed.mx_size(tiles, 60 * 128, 128, 4096, 4096)[1:], (1, 4))

    def test_product_of_few_tokens(self):
        """No tokens at all, none that chose an expert, one expert: only rows of groups are written."""
        weights = numpy.full((3, 32, 64), 0x3F80, numpy.uint16)  # ones
        for rows, sizes in ((0, [0, 0, 0]), (5, [0, 0, 0]), (5, [5]), (0, [0])):
            with self.subTest(rows=rows, sizes=sizes):
                tokens, offs = numpy.full((rows, 64), 0x4000, numpy.uint16), numpy.cumsum(sizes, dtype=numpy.int32)
                (function,) = moe_opt.load("grouped_mm-fp8_rowwise-inference")
                out = numpy.full((rows, 32), 7, numpy.uint16)
                function(tokens, weights[: len(sizes)].swapaxes(1, 2), offs, out=[out])
                self.assertIs(function(tokens, weights[: len(sizes)].swapaxes(1, 2), offs, out=out), out)  # of one result
                expected = numpy.full((rows, 32), 7, numpy.uint16)
                expected[: sum(sizes)] = 0x4300  # 64 times 2
                self.assertTrue(numpy.array_equal(out, expected))
                self.assertEqual(function.reports(tokens), [])

    def test_reports(self):
        name, _ = moe_opt._bundles.find(
            "scaled_grouped_mm.scaled_mm",
            {"accumulate": "fast"},
            [("f8E4M3FN", 2), ("f8E4M3FN", 3), ("f32", 1), ("f32", 2), ("i32", 1)],
            ["f32"],
        )
        (function,) = moe_opt.load(name)
        qa, qb = numpy.zeros((16, 64), numpy.uint8), numpy.zeros((2, 32, 64), numpy.uint8).swapaxes(1, 2)
        scales = numpy.ones(16, numpy.float32), numpy.ones((2, 32), numpy.float32)
        function(qa, qb, *scales, numpy.array([8, 16], numpy.int32))
        self.assertEqual(function.reports(qa), [])
        function(qa, qb, *scales, numpy.array([8, 99], numpy.int32))
        self.assertEqual(function.reports(qa), ["an offset is beyond the rows"])
        self.assertEqual(function.reports(qa), [])


class Programs(unittest.TestCase):
    def setUp(self):
        name, _ = moe_opt._bundles.find("mx_quantize.quantize", {"axis": 1, "block": 32, "mode": "rceil"}, [("f32", 2)], ["f8E4M3FN"])
        self.folder = moe_opt._bundles.folder() / name
        self.program = moe_opt.load(name)
        self.x = data(32, 64)

    def refuses(self, error, text, call):
        with self.assertRaises(error) as caught:
            call()
        self.assertIn(text, str(caught.exception))

    def test_signature(self):
        (function,) = self.program
        self.assertEqual(function.arguments[0].shape, ("x.0", "x.1"))
        self.assertEqual(function.arguments[0].dtype, "f32")
        self.assertEqual([result.dtype for result in function.results], ["f8E4M3FN", "f8E8M0FNU"])
        self.assertEqual(function.results[1].shape, ("x.0", None))
        self.assertIs(self.program[function.name], function)
        self.assertIs(getattr(self.program, function.name), function)
        self.assertEqual(len(self.program), 1)

    def test_out(self):
        expected = self.program(self.x)
        out = numpy.empty((32, 64), numpy.uint8), numpy.empty((32, 2), numpy.uint8)
        result = self.program(self.x, out=out)
        self.assertIs(result[0], out[0])
        for got, want in zip(out, expected):
            self.assertTrue(numpy.array_equal(got, as_bytes(want)))

    def test_dlpack(self):
        expected = self.program(self.x)
        out = numpy.empty((32, 64), numpy.uint8), numpy.empty((32, 2), numpy.uint8)
        self.program(Exported(self.x), out=tuple(map(Exported, out)))
        self.assertTrue(numpy.array_equal(out[0], as_bytes(expected[0])))
        self.refuses(TypeError, "give `out`", lambda: self.program(Exported(self.x)))

    def test_memory(self):
        expected = self.program(self.x)
        out = numpy.empty((32, 64), numpy.uint8), numpy.empty((32, 2), numpy.uint8)
        dtypes = "f8E4M3FN", "f8E8M0FNU"
        tensors = [moe_opt.Memory(array.ctypes.data, array.shape, dtype, device=None) for array, dtype in zip(out, dtypes)]
        self.program(moe_opt.Memory(self.x.ctypes.data, (32, 64), "f32", device=None), out=tensors)
        self.assertTrue(numpy.array_equal(out[0], as_bytes(expected[0])))
        for address, shape in ((2**64 + self.x.ctypes.data, (32, 64)), (self.x.ctypes.data, (2**64 + 32, 64))):
            beyond = moe_opt.Memory(address, shape, "f32", device=None)
            self.refuses(moe_opt.InvalidArgument, "argument 'x': has the address", lambda beyond=beyond: self.program(beyond, out=tensors))
        masked = numpy.ma.array(self.x, mask=self.x > 0)
        self.refuses(moe_opt.InvalidArgument, "argument 'x': is a masked array", lambda: self.program(masked))
        self.refuses(TypeError, "a function is asked for by its name", lambda: self.program[0])
        turned = moe_opt.Memory(self.x.ctypes.data, (32, 64), "f32", device=None, order=(1, 0))
        self.refuses(moe_opt.InvalidArgument, "has stride 32; it must be 1", lambda: self.program(turned, out=tensors))
        self.refuses(moe_opt.InvalidArgument, "has the order (1, 1)", lambda: self.program(turned._replace(order=(1, 1)), out=tensors))
        self.refuses(TypeError, "the device of a Memory is 'cuda:0'", lambda: self.program(turned._replace(device="cuda:0"), out=tensors))
        self.refuses(TypeError, "has the shape 32; it must be integers", lambda: self.program(turned._replace(shape=32), out=tensors))
        self.refuses(moe_opt.InvalidArgument, "has elements of f64", lambda: self.program(turned._replace(dtype="f64"), out=tensors))

    def test_bf16_bits_of_others(self):
        bits = (self.x.view(numpy.uint32) >> 16).astype(numpy.uint16)
        expected = moe_opt.quantize_mx(bits)
        name, _ = moe_opt._bundles.find("mx_quantize.quantize", {"axis": 1, "block": 32, "mode": "rceil"}, [("bf16", 2)], ["f8E4M3FN"])
        out = numpy.empty((32, 64), numpy.uint8), numpy.empty((32, 2), numpy.uint8)
        moe_opt.load(name)(Exported(bits), out=out)
        self.assertTrue(numpy.array_equal(out[0], as_bytes(expected[0])))

    def test_errors_have_the_names_that_people_import(self):
        for name in ("MoeError", "InvalidArgument", "CompileError"):
            self.assertEqual((getattr(moe_opt, name).__module__, getattr(moe_opt, name).__name__), ("moe_opt", name))

    def test_refusals(self):
        x, program = self.x, self.program
        name = next(iter(program)).name
        self.refuses(moe_opt.InvalidArgument, "argument 'x': dimension 1 has stride 2", lambda: program(x[:, ::2]))
        self.refuses(moe_opt.InvalidArgument, "must be a multiple of 32", lambda: program(numpy.ascontiguousarray(x[:, :40])))
        self.refuses(moe_opt.InvalidArgument, "has elements of float64; they must be f32", lambda: program(x.astype(numpy.float64)))
        self.refuses(moe_opt.InvalidArgument, "of another byte order", lambda: program(x.astype(">f4")))
        self.refuses(moe_opt.InvalidArgument, "has elements of complex64", lambda: program(x.astype(numpy.complex64)))
        self.refuses(moe_opt.InvalidArgument, "has rank 1; it must be 2", lambda: program(x[0]))
        self.refuses(TypeError, "argument 'x': is a int", lambda: program(3))
        self.refuses(moe_opt.InvalidArgument, "got 2 arguments; it takes 1: x", lambda: program(x, x))
        self.refuses(moe_opt.InvalidArgument, "got 0 arguments", program)
        self.refuses(moe_opt.InvalidArgument, "out has 1 tensors; there are 2 results", lambda: program(x, out=[x]))
        self.refuses(moe_opt.NotFound, f"there are: '{name}'", lambda: program["nothing"])
        self.refuses(AttributeError, name, lambda: program.nothing)
        self.refuses(moe_opt.NotFound, "no bundle of mx_quantize.quantize with axis = 1, block = 32, mode = 'up'", lambda: moe_opt.quantize_mx(x, mode="up"))
        self.refuses(moe_opt.NotFound, "mode can be ", lambda: moe_opt.quantize_mx(x, mode="up"))
        weights, offs = numpy.zeros((1, 16, 64), numpy.float32), numpy.array([32], numpy.int32)
        self.refuses(moe_opt.NotFound, "; a can be bf16 of rank 2", lambda: moe_opt.grouped_mm(x, weights.swapaxes(1, 2), offs))
        self.refuses(moe_opt.InputOutputError, "none: there is no such folder, and no bundle of the package has this name", lambda: moe_opt.load("none"))
        self.refuses(moe_opt.InputOutputError, "; a bundle is a folder that moe-opt --emit=bundle writes", lambda: moe_opt.load("./none"))
        self.refuses(moe_opt.InvalidArgument, "axis is 2", lambda: moe_opt.quantize_mx(x, 2))
        self.refuses(moe_opt.InvalidArgument, "x has rank 1; it must be 2 or 3", lambda: moe_opt.quantize_fp8(x[0]))
        self.refuses(moe_opt.NotFound, "granularity can be ", lambda: moe_opt.quantize_fp8(numpy.zeros((32, 64), numpy.uint16), "line"))
        self.refuses(TypeError, "axis is None; it must be a number", lambda: moe_opt.quantize_mx(x, None))
        self.refuses(TypeError, "x is a list; it must be a tensor", lambda: moe_opt.quantize_mx([1.0]))
        self.refuses(TypeError, "x is a NoneType; it must be a tensor", lambda: moe_opt.quantize_mx(None))
        self.refuses(TypeError, "dtype is <class 'numpy.uint8'>; it must be a name", lambda: moe_opt.quantize_mx(x, dtype=numpy.uint8))
        self.refuses(moe_opt.InvalidArgument, "path is NULL or empty", lambda: moe_opt.load(""))
        self.refuses(moe_opt.InvalidArgument, "a path has no NUL", lambda: moe_opt.load("a\0b"))
        fixed = numpy.empty((32, 64), numpy.uint8)
        fixed.flags.writeable = False
        self.refuses(moe_opt.InvalidArgument, "result 'q': is read-only", lambda: program(x, out=(fixed, numpy.empty((32, 2), numpy.uint8))))
        own = x.view(numpy.uint8).reshape(-1)[: x.size].reshape(x.shape)
        self.refuses(moe_opt.InvalidArgument, "overlaps argument 'x'", lambda: program(x, out=(own, numpy.empty((32, 2), numpy.uint8))))

    def test_cuda_without_a_driver(self):
        # On a machine with a driver the address is one of the host, which the runtime cannot know: nothing is launched there.
        class Far(Exported):
            def __dlpack__(self, **options):
                self.stream = options["stream"]
                raise BufferError("cannot export")

        far = Far(self.x, device=(2, 0))
        self.refuses(moe_opt.InvalidArgument, "argument 'x': cannot export", lambda: self.program(far))
        self.assertEqual(far.stream, 1)
        self.refuses(moe_opt.InvalidArgument, "cannot export", lambda: self.program(far, stream=77))
        self.assertEqual(far.stream, 77)
        stream = mock.Mock(__cuda_stream__=lambda: (0, 78))
        self.refuses(moe_opt.InvalidArgument, "cannot export", lambda: self.program(far, stream=stream))
        self.assertEqual(far.stream, 78)
        (function,) = self.program
        self.refuses(moe_opt.InvalidArgument, "is not known; say which one the calls were on", lambda: function.reports(far))
        self.refuses(TypeError, "stream is a str", lambda: self.program(far, stream="7"))
        for stream in (-1, 2**64):
            self.refuses(moe_opt.InvalidArgument, f"stream is {stream}, which is no address", lambda stream=stream: self.program(far, stream=stream))

    def test_no_memory(self):
        with mock.patch.object(_dlpack, "_aligned", side_effect=MemoryError("Unable to allocate")):
            self.refuses(moe_opt.OutOfMemory, "function 'quantize': result 'q': no memory for f8E4M3FN [32, 64]", lambda: self.program(self.x))

    def test_copied_and_pickled(self):
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary) / "bundle"
            shutil.copytree(self.folder, folder)
            for program, name in ((self.program, self.folder.name), (moe_opt.load(folder), str(folder))):
                self.assertIs(copy.deepcopy([program])[0], program)
                self.assertIs(copy.copy(program), program)
                self.assertEqual(program.__reduce__()[1], (name,))
                (function,) = program
                self.assertIs(copy.deepcopy(function), function)
                expected = program(self.x)
                for again in (pickle.loads(pickle.dumps(program)), pickle.loads(pickle.dumps(function))):
                    self.assertTrue(all(numpy.array_equal(as_bytes(one), as_bytes(other)) for one, other in zip(again(self.x), expected)))
        self.assertEqual(repr(self.program), f"<moe_opt.Program {self.folder}: {next(iter(self.program)).name}>")

    def test_streams_of_several_frameworks(self):
        """Tensors of the framework whose current stream runs the function are in its order; those of any other wait for it."""
        class Known(Exported):
            def __dlpack__(self, **options):
                self.stream = options["stream"]
                return self.array.__dlpack__()

        class Other(Known):
            pass

        Known.__module__, Other.__module__ = "known.tensors", "other.tensors"
        with mock.patch.dict(sys.modules, known=None), mock.patch.dict(moe_opt._dlpack._STREAMS, known=lambda module, device: 55):
            for kinds, streams in (((Known, Known, Known), (-1, -1, -1)), ((Known, Other, Known), (-1, 55, -1)), ((Other, Known, Other), (1, 1, 1))):
                arrays = self.x, numpy.empty((32, 64), numpy.uint8), numpy.empty((32, 2), numpy.uint8)
                tensors = [kind(array, device=(2, 0)) for kind, array in zip(kinds, arrays)]
                self.program(tensors[0], out=tensors[1:])
                self.assertEqual(tuple(tensor.stream for tensor in tensors), streams)

    def test_damaged(self):
        with tempfile.TemporaryDirectory() as temporary:
            copy = pathlib.Path(temporary) / "bundle"
            shutil.copytree(self.folder, copy)
            (copy / "kernels.ptx").write_bytes((copy / "kernels.ptx").read_bytes()[:-1])
            self.refuses(moe_opt.InvalidBundle, "kernels.ptx: has", lambda: moe_opt.load(copy))
            (copy / "kernels.ptx").unlink()
            self.refuses(OSError, "No such file", lambda: moe_opt.load(copy))
        self.refuses(moe_opt.InputOutputError, "manifest.json", lambda: moe_opt.load("/nowhere"))

    def test_damaged_package(self):
        with tempfile.TemporaryDirectory() as temporary:
            index, folder = pathlib.Path(temporary) / "index.json", self.folder.parent
            with mock.patch.object(moe_opt._bundles, "folder", lambda: index.parent):
                for text, error, message in (
                    ((folder / "index.json").read_text()[:100], moe_opt.InvalidBundle, "index.json: "),
                    ("[]", moe_opt.InvalidBundle, "index.json: is a list; it must be an object"),
                    ('{"version": 2}', moe_opt.NotFound, "index.json: has version 2; this package knows 1"),
                    ('{"version": 1}', moe_opt.InvalidBundle, "index.json: bundles is a NoneType; it must be a list"),
                    ('{"version": 1, "bundles": [{}]}', moe_opt.InvalidBundle, "index.json: bundles[0] does not describe a bundle"),
                ):
                    index.write_text(text)
                    self.refuses(error, message, moe_opt._bundles.index.__wrapped__)
                entry = next(entry for entry in json.loads((folder / "index.json").read_text())["bundles"] if entry["op"] == "mx_quantize.quantize")
                for field in entry:
                    for wrong in (None, [1], {"call": 1}):
                        index.write_text(json.dumps({"version": 1, "bundles": [entry, entry | {field: wrong}]}))
                        if field != "attributes" or not isinstance(wrong, dict):
                            self.refuses(moe_opt.InvalidBundle, "index.json: bundles[1] does not", moe_opt._bundles.index.__wrapped__)
                tile = {"tokens": 8, "rows": 64, "ctas": 1, "at_once": 1, "divided": 0, "f16": 0, "columns": 32, "us": [4, 0.5, 1, 0]}
                index.write_text(json.dumps({"version": 1, "bundles": [entry | {"tile": tile}]}))
                moe_opt._bundles.index.__wrapped__()
                wrong = [("us", us) for us in ([4, 0.5, 1], [4, 0.5, 1, 0, 0], ["4"] * 4, [True] * 4, [math.nan] * 4, [-1, 0, 0, 0], [10**400, 0, 0, 0], None, {})]
                for name, value in (*wrong, ("ctas", 3), ("at_once", 0), ("rows", 0), ("tokens", True), ("columns", -1)):
                    index.write_text(json.dumps({"version": 1, "bundles": [entry | {"tile": tile | {name: value}}]}))
                    self.refuses(moe_opt.InvalidBundle, "index.json: bundles[0] does not", moe_opt._bundles.index.__wrapped__)
                shutil.copytree(self.folder, index.parent / "whole")
                self.refuses(moe_opt.NotFound, "no function 'other'", lambda: _shapes.description("whole", "other"))
                shutil.copytree(self.folder, index.parent / "bundle")
                manifest = index.parent / "bundle" / "manifest.json"
                manifest.write_bytes(manifest.read_bytes()[:500])
                self.refuses(moe_opt.InvalidBundle, "bundle/manifest.json:", lambda: _shapes.description("bundle", "quantize"))

    def test_emulator(self):
        self.addCleanup(moe_opt.set_emulator)
        expected = as_bytes(self.program(self.x)[0])
        moe_opt.set_emulator(step_limit=10)
        self.refuses(moe_opt.LimitReached, "the limit of 10 steps", lambda: self.program(self.x))
        moe_opt.set_emulator(schedule=3, threads=1, step_limit=10**6)
        self.assertTrue(numpy.array_equal(as_bytes(self.program(self.x)[0]), expected))
        self.refuses(moe_opt.InvalidArgument, "step_limit is -1; it must be 0 to", lambda: moe_opt.set_emulator(step_limit=-1))
        self.refuses(TypeError, "threads is 'all'; it must be a number", lambda: moe_opt.set_emulator(threads="all"))
        self.refuses(moe_opt.InvalidArgument, "threads is 2147483648", lambda: moe_opt.set_emulator(threads=2**31))
        moe_opt.set_emulator()
        self.assertTrue(numpy.array_equal(as_bytes(self.program(self.x)[0]), expected))

    def test_threads(self):
        expected = as_bytes(self.program(self.x)[0])
        wrong = []

        def work():
            for _ in range(20):
                if not numpy.array_equal(as_bytes(self.program(self.x)[0]), expected):
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_lifetime(self):
        function = next(iter(moe_opt.load(self.folder)))  # the program is gone
        self.assertTrue(numpy.array_equal(as_bytes(function(self.x)[1]), as_bytes(self.program(self.x)[1])))


class ExchangeTable(ctypes.Structure):
    """DLPackExchangeAPI"""

    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("prev_api", ctypes.c_void_p),
        ("managed_tensor_allocator", ctypes.c_void_p),
        ("managed_tensor_from_py_object_no_sync", ctypes.c_void_p),
        ("managed_tensor_to_py_object_no_sync", ctypes.c_void_p),
        ("dltensor_from_py_object_no_sync", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_dlpack.Tensor))),
        ("current_work_stream", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)),
    ]


class Objects(unittest.TestCase):
    """Calls by a framework's exchange table, which here is one of numpy arrays."""

    def setUp(self):
        self.views = []

        def view(array, out):
            if not isinstance(array, numpy.ndarray):
                return -1
            self.views.append(_dlpack.view_numpy(array, "", False))
            out[0] = self.views[-1].tensor
            return 0

        kinds = dict(ExchangeTable._fields_)
        self.view = kinds["dltensor_from_py_object_no_sync"](view)
        # Nobody asks for memory here: the function has no temporaries.
        self.table = ExchangeTable(
            (ctypes.c_uint32 * 2)(1, 3), None, 1, None, None, self.view, kinds["current_work_stream"](lambda *_: -1)
        )
        new_capsule = ctypes.pythonapi.PyCapsule_New
        new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.name = b"dlpack_exchange_api"  # the capsule points to it
        capsule = new_capsule(ctypes.addressof(self.table), self.name, None)
        bundle, function = moe_opt._bundles.find("mx_quantize.quantize", {"axis": 1, "block": 32, "mode": "rceil"}, [("f32", 2)], ["f8E4M3FN"])
        program = _library.program(moe_opt._bundles.folder() / bundle)
        self.run_objects = _library.object_call(program, program.function(function), capsule, in_order=False)
        self.x, self.q, self.scales = data(32, 64), numpy.empty((32, 64), numpy.uint8), numpy.empty((32, 2), numpy.uint8)

    def test_call(self):
        tensors = [self.x, self.q, self.scales]
        counts = [sys.getrefcount(tensor) for tensor in tensors]
        for _ in range(3):
            self.q[:] = 0
            self.assertEqual(self.run_objects(*tensors), 0)
            self.views.clear()
            self.assertTrue(numpy.array_equal(self.q, reference_quantize(self.x, 1, "rceil")[0]))
        self.assertEqual([sys.getrefcount(tensor) for tensor in tensors], counts)

    def test_refusals(self):
        for wrong, message in (
            ([], "got 0 tensors; it must be 1 to 32"),
            ([self.x], "got 1 tensors; it takes 1 arguments and 2 results"),
            ([self.x] * 33, "got 33 tensors; it must be 1 to 32"),
            ([self.x, "q", self.scales], "tensor 1 has no view in DLPack"),
            ([self.x, self.q, self.x], "result 'scales': has elements of float32"),
        ):
            with self.assertRaisesRegex(moe_opt.InvalidArgument, message):
                _library.check(self.run_objects(*wrong))
        with self.assertRaisesRegex(TypeError, "no keyword arguments"):
            self.run_objects(x=self.x)


class Tables(unittest.TestCase):
    @unittest.skipUnless((ROOT / "python/make_bundles.py").exists(), "needs the source tree")
    def test_bundles_that_nobody_has(self):
        for only, message in (("no such name", "no bundle has such a name; --list prints all"), ("(", "unterminated")):
            asked = subprocess.run([sys.executable, ROOT / "python/make_bundles.py", "--list", "--only", only], capture_output=True, text=True, check=False)
            self.assertEqual((asked.returncode, asked.stdout), (2, ""))
            self.assertIn(message, asked.stderr)

    @unittest.skipUnless((ROOT / "include/moe/runtime.h").exists(), "needs the source tree")
    def test_statuses(self):
        text = (ROOT / "include/moe/runtime.h").read_text()
        names = {int(number): name for name, number in re.findall(r'X\(MOE_RT_(\w+), (\d+), "[^"]*"\)', text.split("MOE_RT_REPORTS(X)")[0])}
        found = {0: "OK"}
        for number, error in _library._EXCEPTIONS.items():
            found[number] = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", error.__name__).upper().replace("INPUT_OUTPUT", "IO")
        self.assertEqual(found, names)
        reports = re.findall(r'X\(MOE_RT_\w+, (\d+), "([^"]*)"\)', text.split("MOE_RT_REPORTS(X)")[1].split("typedef")[0])
        self.assertEqual(_program._REPORTS, {int(number): text for number, text in reports})

    @unittest.skipUnless((ROOT / "lib/Kernels").exists(), "needs the source tree")
    def test_what_the_compiler_says_too(self):
        """A wheel has no compiler: numbers by which both choose a product stand in C and in Python."""
        for path, names in {
            "include/moe/limits.h": {"MOE_MAX_GROUPS": _mixed.MOST_EXPERTS},
            "lib/Kernels/Requirements.h": {"MOE__FEW_TOKENS": _recipes.FEW_TOKENS},
            "passes/ExpandMx.c": {"MOST_TOKENS_BY_BLOCKS": _recipes.BLOCKS_TOKENS, "MOST_TOKENS_MIXED": _recipes.MIXED_TOKENS},
            "lib/Kernels/scaled_grouped_mm/Candidates.c": {"FEWEST_TOKENS": _recipes.FEWEST_TOKENS, "TOKENS_OF_THREE": _recipes.SOME_TOKENS},
            "lib/Kernels/mixed_mm/F16.h": {"MOE__MX_MOST_IN_F16": _mixed.MX_MOST},
            "lib/Kernels/mixed_mm/CandidatesFew.c": {
                "SKEW": _mixed._SKEW, "MANY_TILES": _mixed._MANY_TILES, "MANY_ROUNDS": _mixed._MANY_ROUNDS,
                "OF_QUANTIZER": 1000 * _mixed._US_OF_F16, "ELEMENTS_OF_NS": _mixed._ELEMENTS_PER_US / 1000,
            },
        }.items():  # fmt: skip
            text = (ROOT / path).read_text()
            for name, value in names.items():
                with self.subTest(path=path, name=name):
                    self.assertEqual([float(found) for found in re.findall(rf"^#define {name} ([\d.]+)", text, re.MULTILINE)], [value])

    @unittest.skipUnless((ROOT / "include/moe/dtypes.def").exists(), "needs the source tree")
    def test_element_types(self):
        text = (ROOT / "include/moe/dtypes.def").read_text()
        rows = re.findall(r'^MOE_DTYPE\(\w+, "(\w+)", (\d+), kDL(\w+),', text, re.MULTILINE)
        codes = {"Int": 0, "UInt": 1, "Float": 2, "Bfloat": 4, "Float8_e4m3fn": 10, "Float8_e5m2": 12, "Float8_e8m0fnu": 14}
        self.assertEqual(
            {name: (codes[code], int(bits)) for name, bits, code in rows},
            {name: (element.code, element.bits) for name, element in _dlpack.ELEMENT_TYPES.items()},
        )

    def test_numpy_types(self):
        with mock.patch.dict(sys.modules, {"ml_dtypes": None}):
            self.assertEqual(_dlpack.numpy_dtype("f8E4M3FN"), numpy.uint8)
            self.assertEqual(_dlpack.numpy_dtype("bf16"), numpy.uint16)
        if importlib.util.find_spec("ml_dtypes"):
            self.assertEqual(_dlpack.numpy_dtype("f8E4M3FN").name, "float8_e4m3fn")

    def test_bundles(self):
        entries = moe_opt.bundles()
        self.assertTrue(entries)
        for entry in entries:
            program = moe_opt.load(entry["bundle"])
            for name in entry["functions"].values():
                self.assertIn(name, [function.name for function in program])


SOURCE = """
func.func @twice(%x: tensor<?x64xf32>) -> (tensor<?x64xf8E4M3FN>, tensor<?x2xf8E8M0FNU>) {
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<?x64xf32>) -> (tensor<?x64xf8E4M3FN>, tensor<?x2xf8E8M0FNU>)
  return %q, %s : tensor<?x64xf8E4M3FN>, tensor<?x2xf8E8M0FNU>
}
"""


CONSTANT = """
func.func @product(%w: tensor<1x1x512xui8> {moe.constant}, %scales: tensor<16x1xbf16, affine_map<(n, j) -> (j, n)>>, %x: tensor<?x64xbf16>) -> tensor<?x16xbf16> {
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x) {format = "i4", group_size = 64 : i64, layout = "16x64"}
      : (tensor<1x1x512xui8>, tensor<16x1xbf16, affine_map<(n, j) -> (j, n)>>, tensor<?x64xbf16>) -> tensor<?x16xbf16>
  return %out : tensor<?x16xbf16>
}
"""


def has_compiler():
    try:
        _compiler._library_of_compiler()
        return True
    except moe_opt.CompileError:
        return False


class Compiling(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.cache = pathlib.Path(self.temporary.name) / "cache"

    @unittest.skipIf(has_compiler(), "there is a libmoe_compiler")
    def test_without_compiler(self):
        with self.assertRaises(moe_opt.CompileError) as caught:
            moe_opt.compile(SOURCE, cache=self.cache)
        self.assertIn("libmoe_compiler is not installed", str(caught.exception))

    @unittest.skipUnless(has_compiler(), "needs libmoe_compiler")
    def test_cache(self):
        x = data(32, 64)
        q, scales = moe_opt.compile(SOURCE, cache=self.cache)(x)
        expected = reference_quantize(x, 1, "floor")
        self.assertTrue(numpy.array_equal(as_bytes(q), expected[0]))
        self.assertTrue(numpy.array_equal(as_bytes(scales), expected[1]))
        (entry,) = self.cache.iterdir()
        with mock.patch.object(_compiler, "_write_bundle", side_effect=AssertionError("compiled again")):
            moe_opt.compile(SOURCE, cache=self.cache)
        moe_opt.compile(SOURCE, cache=self.cache, opt_level=2)
        self.assertEqual(len(list(self.cache.iterdir())), 2)
        (entry / "kernels.ptx").write_text("damaged")
        moe_opt.compile(SOURCE, cache=self.cache)
        self.assertNotEqual((entry / "kernels.ptx").read_text(), "damaged")

    @unittest.skipUnless(has_compiler(), "needs libmoe_compiler")
    def test_cache_follows_the_assembler(self):
        ptxas, keys = pathlib.Path(self.temporary.name) / "ptxas", []
        for text in (None, "one", "another"):
            if text:
                ptxas.write_text(text)
                ptxas.chmod(0o755)
            keys += [_compiler._key(SOURCE, 3, str(ptxas)), _compiler._key(SOURCE, 3, str(ptxas))]
        self.assertEqual(keys[::2], keys[1::2])
        self.assertEqual(len(set(keys)), 3)
        folder = os.getcwd()
        self.addCleanup(os.chdir, folder)
        os.chdir(self.temporary.name)
        ptxas.unlink()
        self.assertEqual(_compiler._key(SOURCE, 3, str(ptxas)), keys[0])

    @unittest.skipUnless(has_compiler(), "needs libmoe_compiler")
    def test_without_an_assembler(self):
        moe_opt.compile(SOURCE, cache=self.cache, ptxas="none")
        (entry,) = self.cache.iterdir()
        self.assertEqual(sorted(file.name for file in entry.iterdir()), ["kernels.ptx", "manifest.json"])

    @unittest.skipUnless(has_compiler(), "needs libmoe_compiler")
    def test_errors(self):
        with self.assertRaises(moe_opt.CompileError) as caught:
            moe_opt.compile("func.func @f(", name="mine.mlir", cache=self.cache)
        self.assertIn("mine.mlir:1:", str(caught.exception))
        self.assertEqual(list(self.cache.iterdir()), [])
        with self.assertRaisesRegex(moe_opt.InvalidArgument, "opt_level is 4; it must be 0 to 3"):
            moe_opt.compile(SOURCE, cache=self.cache, opt_level=4)
        with self.assertRaisesRegex(TypeError, "opt_level is '3'; it must be a number"):
            moe_opt.compile(SOURCE, cache=self.cache, opt_level="3")
        with self.assertRaisesRegex(TypeError, "text is of type bytes; it must be a str"):
            moe_opt.compile(SOURCE.encode(), cache=self.cache)
        with self.assertRaisesRegex(moe_opt.InputOutputError, "/dev/null/kept, which cannot be written: Not a directory"):
            moe_opt.compile(SOURCE, cache="/dev/null/kept")

    @unittest.skipUnless(has_compiler(), "needs libmoe_compiler")
    def test_overlap(self):
        """A call waits for the kernel before it, unless it may overlap."""
        program = moe_opt.compile(CONSTANT, cache=self.cache)
        self.assertEqual([argument.constant for argument in program["product"].arguments], [True, False, False])
        scales, x = (numpy.full(shape, 0x3F80, numpy.uint16) for shape in ((16, 1), (3, 64)))
        operands = numpy.full((1, 1, 512), 0x11, numpy.uint8), scales, x
        for overlap, other in ((False, "moe_rt_call_run"), (True, "moe_rt_call_run_in_order")):
            with mock.patch.object(_library.lib, other, side_effect=AssertionError("the other function")):
                found = program(*operands, overlap=overlap).view(numpy.uint16)
            self.assertTrue((found == 0x4280).all(), "64, as bf16")

    @unittest.skipUnless(has_compiler(), "needs libmoe_compiler")
    def test_two_processes(self):
        code = f"import moe_opt; moe_opt.compile({SOURCE!r}, cache={str(self.cache)!r}).load_on(__import__('numpy').zeros(1))"
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
        processes = [subprocess.Popen([sys.executable, "-c", code], env=environment) for _ in range(3)]
        self.assertEqual([process.wait() for process in processes], [0, 0, 0])
        self.assertEqual(len(list(self.cache.iterdir())), 1)

    def test_cache_folder(self):
        with mock.patch.dict(os.environ, {"XDG_CACHE_HOME": "/somewhere"}):
            self.assertEqual(str(_compiler.cache_folder()), "/somewhere/moe-opt")
        with mock.patch.dict(os.environ, {"XDG_CACHE_HOME": "relative", "HOME": "/home/me"}):
            self.assertEqual(str(_compiler.cache_folder()), "/home/me/.cache/moe-opt")


if __name__ == "__main__":
    unittest.main()
