"""moe_opt.convert on small files that are written here as each format's documentation says; needs safetensors and ml_dtypes.

    python3 test/python/convert_test.py

Weights, zero points and scales are chosen first. The formats are packed from them one number at a time, by code that shares nothing with
the converter, and what it writes is dequantized one number at a time.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy

try:
    import ml_dtypes
    import safetensors
    from safetensors.numpy import save_file
except ImportError as error:
    sys.exit(f"skipped: {error}")

import moe_opt
from moe_opt import convert

N, K = 16, 96
E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]


def words(nibbles):
    """Rows of nibbles, a multiple of eight, as int32, the first lowest."""
    rows = []
    for row in nibbles:
        rows.append([sum(int(row[8 * j + i]) << 4 * i for i in range(8)) for j in range(len(row) // 8)])
    return numpy.array(rows, numpy.int64).astype(numpy.uint32).view(numpy.int32)


class Weights:
    """Weights 0 to 15, a zero point and a scale for each group of a row, and the numbers that they stand for."""

    def __init__(self, seed=0, group=32, symmetric=False, dtype=numpy.float16, least=1, most=15, n=N, k=K):
        random = numpy.random.default_rng(seed)
        self.w = random.integers(0, 16, (n, k))
        self.z = numpy.full((n, k // group), 8) if symmetric else random.integers(least, most + 1, (n, k // group))
        self.s = random.uniform(0.5, 2, (n, k // group)).astype(dtype)
        self.values = numpy.empty((n, k))
        for row in range(n):
            for column in range(k):
                j = column // group
                self.values[row, column] = (int(self.w[row, column]) - int(self.z[row, j])) * float(self.s[row, j])
        self.group = group

    def gptq(self, prefix, less=1):
        """AutoGPTQ: a word of qweight has eight rows of K, one of qzeros eight columns of N; a zero point is stored less 1."""
        return {
            f"{prefix}.qweight": numpy.ascontiguousarray(words(self.w).T),
            f"{prefix}.qzeros": words(self.z.T - less),
            f"{prefix}.scales": numpy.ascontiguousarray(self.s.T),
            f"{prefix}.g_idx": numpy.array([k // self.group for k in range(self.w.shape[1])], numpy.int32),
        }

    def awq(self, prefix):
        """AutoAWQ, GEMM: qweight (K, N/8); the nibbles of a word, lowest first, are the columns 0, 2, 4, 6, 1, 3, 5, 7 of its eight."""
        def pack(matrix):
            mixed = matrix.copy()
            for first in range(0, matrix.shape[1], 8):
                for place, column in enumerate((0, 2, 4, 6, 1, 3, 5, 7)):
                    mixed[:, first + place] = matrix[:, first + column]
            return words(mixed)

        return {f"{prefix}.qweight": pack(self.w.T), f"{prefix}.qzeros": pack(self.z.T), f"{prefix}.scales": numpy.ascontiguousarray(self.s.T)}

    def compressed(self, prefix, zeros="packed"):
        """compressed-tensors, pack-quantized: -8 to 7, plus 8, along K; zero points likewise, along N."""
        tensors = {
            f"{prefix}.weight_packed": words(self.w),
            f"{prefix}.weight_scale": self.s,
            f"{prefix}.weight_shape": numpy.array(self.w.shape, numpy.int64),
        }
        if zeros == "packed":
            tensors[f"{prefix}.weight_zero_point"] = numpy.ascontiguousarray(words(self.z.T).T)
        elif zeros == "bytes":
            tensors[f"{prefix}.weight_zero_point"] = (self.z - 8).astype(numpy.int8)
        return tensors


def values(tensors, metadata, name):
    """What a converted tensor stands for, one number at a time."""
    weight, scales, zeros = tensors[f"{name}.weight"], tensors[f"{name}.scales"], tensors.get(f"{name}.zero_points")
    kind, group = metadata[f"{name}.weight.format"], int(metadata[f"{name}.weight.group_size"])
    if kind == "f8E4M3FN":
        assert weight.dtype == ml_dtypes.float8_e4m3fn and group == 32
        found = numpy.empty(weight.shape)
        for index in numpy.ndindex(found.shape):
            found[index] = float(weight[index]) * float(scales[(*index[:-1], index[-1] // group)])
        return found
    assert weight.dtype == numpy.uint8 and (zeros is None) == (kind != "ui4")
    found = numpy.empty((*weight.shape[:-1], weight.shape[-1] * 2))
    for index in numpy.ndindex(found.shape):
        *row, k = index
        code = int(weight[(*row, k // 2)]) >> (4 if k % 2 else 0) & 15
        place = (*row, k // group)
        if kind == "f4E2M1FN":
            number = E2M1[code]
        elif kind == "i4":
            number = code - 16 if code > 7 else code
        else:
            number = code - int(zeros[place])
        found[index] = number * float(scales[place])
    return found


def read(path):
    """Tensors and metadata of a file."""
    into = {}
    convert._read(pathlib.Path(path), into)
    with safetensors.safe_open(path, "np") as file:
        return into, file.metadata()


class Case(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def converted(self, tensors, source):
        """By way of files."""
        save_file(tensors, self.folder / "in.safetensors")
        convert.convert_files([self.folder / "in.safetensors"], self.folder / "out.safetensors", source)
        return read(self.folder / "out.safetensors")

    def check(self, tensors, source, expected, kind):
        """expected: the numbers of each converted tensor."""
        found, metadata = self.converted(tensors, source)
        for name, numbers in expected.items():
            self.assertEqual(metadata[f"{name}.weight.format"], kind)
            numpy.testing.assert_array_equal(values(found, metadata, name), numbers)
        return found, metadata


class Formats(Case):
    def test_gptq(self):
        for group in (32, K):
            one = Weights(group=group)
            found, _ = self.check(one.gptq("q_proj") | {"norm": numpy.ones(3, numpy.float32)}, "gptq", {"q_proj": one.values}, "ui4")
            self.assertEqual(set(found), {"q_proj.weight", "q_proj.scales", "q_proj.zero_points", "norm"})
            self.assertEqual(found["q_proj.zero_points"].shape, (N, K // group))
        one = Weights(symmetric=True)
        found, _ = self.check(one.gptq("q_proj"), "gptq", {"q_proj": one.values}, "i4")
        self.assertEqual(set(found), {"q_proj.weight", "q_proj.scales"})

    def test_gptq_zero_points(self):
        """Each format read as the other gives other numbers."""
        old, new = Weights(), Weights(least=0, most=14)
        new.z[0, 0] = 0
        new.values[0, :32] = new.w[0, :32] * float(new.s[0, 0])
        self.check(old.gptq("x"), "gptq", {"x": old.values}, "ui4")
        self.check(new.gptq("x", less=0), "gptq_v2", {"x": new.values}, "ui4")
        found, metadata = self.converted(new.gptq("x", less=0), "gptq")
        self.assertFalse((values(found, metadata, "x") == new.values).any())

    def test_awq(self):
        one = Weights(least=0)
        self.check(one.awq("q_proj"), "awq", {"q_proj": one.values}, "ui4")
        one = Weights(symmetric=True)
        self.check(one.awq("q_proj"), "awq", {"q_proj": one.values}, "i4")

    def test_compressed_tensors(self):
        for zeros in ("packed", "bytes"):
            one = Weights(least=0, dtype=ml_dtypes.bfloat16)
            self.check(one.compressed("q_proj", zeros), "compressed-tensors", {"q_proj": one.values}, "ui4")
        one = Weights(symmetric=True, group=32, dtype=ml_dtypes.bfloat16)
        found, _ = self.check(one.compressed("q_proj", None), "compressed-tensors", {"q_proj": one.values}, "i4")
        self.assertEqual(found["q_proj.scales"].dtype, ml_dtypes.bfloat16)

    def test_gpt_oss(self):
        random = numpy.random.default_rng(0)
        experts, codes = 3, random.integers(0, 16, (3, N, K))
        exponents = random.integers(120, 134, (experts, N, K // 32)).astype(numpy.uint8)
        blocks, expected = numpy.empty((experts, N, K // 32, 16), numpy.uint8), numpy.empty(codes.shape)
        for e, n, k in numpy.ndindex(codes.shape):
            expected[e, n, k] = E2M1[codes[e, n, k]] * 2.0 ** (int(exponents[e, n, k // 32]) - 127)
            if k % 2 == 0:  # the low four bits come first
                blocks[e, n, k // 32, k % 32 // 2] = codes[e, n, k] | codes[e, n, k + 1] << 4
        for between in "_.":
            tensors = {f"experts.gate_up_proj{between}blocks": blocks, f"experts.gate_up_proj{between}scales": exponents}
            bias = {"experts.gate_up_proj_bias": numpy.ones((experts, N), ml_dtypes.bfloat16)}
            found, _ = self.check(tensors | bias, "gpt-oss", {"experts.gate_up_proj": expected}, "f4E2M1FN")
            self.assertEqual((found["experts.gate_up_proj.scales"].dtype, len(found)), (ml_dtypes.float8_e8m0fnu, 3))

    def test_mxfp8(self):
        """A layer and experts, by each of the names and types of scales that checkpoints have; what is not quantized is copied."""
        random = numpy.random.default_rng(0)
        codes, bytes_of_scales, expected = {}, {}, {}
        for name in ("layers.0.q_proj", "layers.0.experts.0.up", "layers.0.experts.1.up"):
            codes[name] = random.integers(0, 0x7F, (N, K)).astype(numpy.uint8)
            codes[name][::2] |= 0x80
            bytes_of_scales[name] = random.integers(120, 134, (N, K // 32)).astype(numpy.uint8)
            expected[name] = numpy.empty((N, K))
            for n, k in numpy.ndindex(N, K):
                sign, exponent, mantissa = codes[name][n, k] >> 7, int(codes[name][n, k]) >> 3 & 15, int(codes[name][n, k]) & 7
                magnitude = (8 + mantissa) * 2.0 ** (exponent - 10) if exponent else mantissa * 2.0**-9
                expected[name][n, k] = (-1) ** int(sign) * magnitude * 2.0 ** (int(bytes_of_scales[name][n, k // 32]) - 127)
        whole = {"layers.0.q_proj": expected.pop("layers.0.q_proj"), "layers.0.experts.up": numpy.stack(list(expected.values()))}
        for ending, dtype in (("weight_scale", numpy.uint8), ("weight_scale_inv", numpy.uint8), ("weight_scale", ml_dtypes.float8_e8m0fnu)):
            with self.subTest(ending=ending, dtype=dtype):
                tensors = {"norm.weight": numpy.ones(K, numpy.float32)}
                for name, weight in codes.items():
                    tensors |= {f"{name}.weight": weight.view(ml_dtypes.float8_e4m3fn), f"{name}.{ending}": bytes_of_scales[name].view(dtype)}
                found, _ = self.check(tensors, "mxfp8", whole, "f8E4M3FN")
                self.assertEqual((found["layers.0.experts.up.scales"].dtype, len(found)), (ml_dtypes.float8_e8m0fnu, 5))

    def test_mxfp8_of_stacked_experts(self):
        weight, scales = numpy.ones((2, N, K), ml_dtypes.float8_e4m3fn), numpy.full((2, N, K // 32), 128, numpy.uint8)
        self.check({"up.weight": weight, "up.weight_scale": scales}, "mxfp8", {"up": numpy.full((2, N, K), 2.0)}, "f8E4M3FN")

    def test_tensors_of_both_names(self):
        """Each by its own; none is left as it is."""
        weight, scales = numpy.ones((N, K), ml_dtypes.float8_e4m3fn), numpy.full((N, K // 32), 128, numpy.uint8)
        tensors = {"a.weight": weight, "a.weight_scale": scales, "b.weight": weight, "b.weight_scale_inv": scales}
        twos = numpy.full((N, K), 2.0)
        found, _ = self.check(tensors, "mxfp8", {"a": twos, "b": twos}, "f8E4M3FN")
        self.assertEqual(set(found), {"a.weight", "a.scales", "b.weight", "b.scales"})

    def test_experts_are_stacked(self):
        """From several files, in the order of their numbers; where one has zero points all have."""
        ones = [Weights(seed, symmetric=seed != 10) for seed in range(12)]
        tensors = {}
        for index in (11, 2, 1, 10, 0, 9, 3, 4, 8, 7, 5, 6):
            tensors |= ones[index].gptq(f"layers.0.mlp.experts.{index}.down_proj")
        half = dict(list(tensors.items())[:20])
        save_file(half, self.folder / "1.safetensors")
        save_file({name: tensor for name, tensor in tensors.items() if name not in half}, self.folder / "2.safetensors")
        convert.convert_files([self.folder / "1.safetensors", self.folder / "2.safetensors"], self.folder / "out.safetensors", "gptq")
        found, metadata = read(self.folder / "out.safetensors")
        name = "layers.0.mlp.experts.down_proj"
        self.assertEqual({key: tensor.shape for key, tensor in found.items()}, {
            f"{name}.weight": (12, N, K // 2), f"{name}.scales": (12, N, K // 32), f"{name}.zero_points": (12, N, K // 32)
        })  # fmt: skip
        numpy.testing.assert_array_equal(values(found, metadata, name), numpy.stack([one.values for one in ones]))
        biases = {f"layers.0.mlp.experts.{index}.down_proj.bias": numpy.full(N, index, numpy.float16) for index in range(len(ones))}
        found, _ = self.check(tensors | biases, "gptq", {name: numpy.stack([one.values for one in ones])}, "ui4")
        numpy.testing.assert_array_equal(found[f"{name}.bias"], numpy.stack(list(biases.values())))
        self.assertFalse(biases.keys() & found.keys())
        del biases["layers.0.mlp.experts.0.down_proj.bias"]  # one without
        found, _ = self.check(tensors | biases, "gptq", {name: numpy.stack([one.values for one in ones])}, "ui4")
        self.assertTrue(biases.keys() <= found.keys())

    def test_larger_groups_become_several(self):
        """Of 256 columns two of 128, of 192 three of 64, but of a whole row one."""
        one = Weights(group=256, n=16, k=512)
        found, metadata = self.check(one.gptq("up"), "gptq", {"up": one.values}, "ui4")
        self.assertEqual((found["up.scales"].shape, metadata["up.weight.group_size"]), ((16, 4), "128"))
        one = Weights(group=192, n=16, k=384)
        found, metadata = self.check(one.gptq("up"), "gptq", {"up": one.values}, "ui4")
        self.assertEqual((found["up.scales"].shape, metadata["up.weight.group_size"]), ((16, 6), "64"))
        row = Weights(group=256, n=16, k=256)
        found, metadata = self.check(row.gptq("up"), "gptq", {"up": row.values}, "ui4")
        self.assertEqual((found["up.scales"].shape, metadata["up.weight.group_size"]), ((16, 1), "256"))

    def test_tensors_of_another_library(self):
        with self.assertRaisesRegex(convert.ConvertError, "tensor 'a.qweight': is a list; it must be a numpy array"):
            convert.convert({"a.qweight": [[1, 2]]}, "gptq")

    def test_one_expert_has_its_dimension(self):
        one = Weights()
        found, _ = self.check(one.gptq("experts.0.up"), "gptq", {"experts.up": one.values[None]}, "ui4")
        self.assertEqual(found["experts.up.scales"].shape, (1, N, K // 32))


MOE_OPT = pathlib.Path(__file__).resolve().parent.parent.parent / "build/bin/moe-opt"
SOURCE = """
#side_by_side = affine_map<(e, n, j) -> (e, j, n)>
func.func @pack_weights(%w: tensor<2x16x48xui8>) -> tensor<2x1x2x512xui8> {
  %packed = "scaled_grouped_mm.pack_weights"(%w) {layout = "LAYOUT"} : (tensor<2x16x48xui8>) -> tensor<2x1x2x512xui8>
  return %packed : tensor<2x1x2x512xui8>
}
"""
PRODUCT = """
func.func @mixed_mm(%w: tensor<2x1x2x512xui8>, %scales: tensor<2x16x3xSCALE, #side_by_side>, %x: tensor<?x96xbf16>, %offs: tensor<2xi32>)
    -> tensor<?x16xf32> {
  %out = "scaled_grouped_mm.mixed_mm"(%w, %scales, %x, %offs) {format = "FORMAT", group_size = 32 : i64, layout = "LAYOUT"}
      : (tensor<2x1x2x512xui8>, tensor<2x16x3xSCALE, #side_by_side>, tensor<?x96xbf16>, tensor<2xi32>) -> tensor<?x16xf32>
  return %out : tensor<?x16xf32>
}
"""
PRODUCT_ZEROS = """
func.func @mixed_mm(%w: tensor<2x1x2x512xui8>, %scales: tensor<2x16x3xSCALE, #side_by_side>, %zeros: tensor<2x16x3xui8, #side_by_side>,
                    %x: tensor<?x96xbf16>, %offs: tensor<2xi32>) -> tensor<?x16xf32> {
  %out = "scaled_grouped_mm.mixed_mm_zeros"(%w, %scales, %zeros, %x, %offs) {format = "ui4", group_size = 32 : i64, layout = "16x64"}
      : (tensor<2x1x2x512xui8>, tensor<2x16x3xSCALE, #side_by_side>, tensor<2x16x3xui8, #side_by_side>, tensor<?x96xbf16>, tensor<2xi32>)
      -> tensor<?x16xf32>
  return %out : tensor<?x16xf32>
}
"""


@unittest.skipUnless(MOE_OPT.exists(), "needs moe-opt")
class Products(Case):
    """What is converted goes through pack_weights and mixed_mm or mixed_mm_zeros, on the emulator. All sums are exact."""

    def check(self, tensors, metadata, scale):
        kind = metadata["experts.up.weight.format"]
        source = (SOURCE + (PRODUCT_ZEROS if kind == "ui4" else PRODUCT)).replace("FORMAT", kind).replace("SCALE", scale)
        source = source.replace("LAYOUT", "16x64_e2m1" if kind == "f4E2M1FN" else "16x64")
        subprocess.run([MOE_OPT, "-", "--emit=bundle", "-o", self.folder / "bundle"], input=source, text=True, check=True)
        program = moe_opt.load(self.folder / "bundle")
        tokens, ends = numpy.random.default_rng(1).integers(-4, 5, (5, K)), numpy.array([2, 5], numpy.int32)
        by_group = [tensors[f"experts.up.{what}"] for what in (("scales", "zero_points") if kind == "ui4" else ("scales",))]
        by_group = [numpy.ascontiguousarray(tensor.swapaxes(1, 2)).swapaxes(1, 2) for tensor in by_group]
        packed = program.pack_weights(tensors["experts.up.weight"])
        out = program.mixed_mm(packed, *by_group, tokens.astype(ml_dtypes.bfloat16), ends)
        weights = values(tensors, metadata, "experts.up")
        numpy.testing.assert_array_equal(out, numpy.concatenate([tokens[:2] @ weights[0].T, tokens[2:] @ weights[1].T]))

    def test_int4(self):
        tensors = {}
        for index in range(2):
            tensors |= Weights(index, symmetric=True, dtype=ml_dtypes.bfloat16).compressed(f"experts.{index}.up", None)
        self.check(*convert.convert(tensors, "compressed-tensors"), "bf16")

    def test_zero_points(self):
        tensors = {}
        for index in range(2):
            tensors |= Weights(index, dtype=ml_dtypes.bfloat16).gptq(f"experts.{index}.up")
        self.check(*convert.convert(tensors, "gptq"), "bf16")

    def test_mxfp4(self):
        random = numpy.random.default_rng(0)
        blocks = random.integers(0, 256, (2, N, K // 32, 16)).astype(numpy.uint8)
        exponents = random.integers(120, 134, (2, N, K // 32)).astype(numpy.uint8)
        self.check(*convert.convert({"experts.up_blocks": blocks, "experts.up_scales": exponents}, "gpt-oss"), "f8E8M0FNU")


class Refusals(Case):
    def refuses(self, tensors, source, message):
        save_file(tensors, self.folder / "in.safetensors")
        with self.assertRaisesRegex(convert.ConvertError, "in.safetensors: .*" + message):
            convert.convert_files([self.folder / "in.safetensors"], self.folder / "out.safetensors", source)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["in.safetensors"])

    def test_act_order(self):
        tensors = Weights().gptq("x")
        tensors["x.g_idx"] = tensors["x.g_idx"][::-1].copy()
        self.refuses(tensors, "gptq", r"'x.g_idx': puts columns into groups out of order \(act-order\), which is not supported")
        tensors = Weights().compressed("x") | {"x.weight_g_idx": tensors["x.g_idx"]}
        self.refuses(tensors, "compressed-tensors", r"'x.weight_g_idx': puts columns into groups out of order")
        tensors["x.weight_g_idx"] = numpy.full(K, -1, numpy.int32)  # of a checkpoint that was never reordered
        self.converted(tensors, "compressed-tensors")

    def test_other_bits_and_formats(self):
        one = Weights()
        eight = one.gptq("x") | {"x.qweight": numpy.zeros((K // 4, N), numpy.int32), "x.qzeros": numpy.zeros((3, N // 4), numpy.int32)}
        del eight["x.g_idx"]
        self.refuses(eight, "gptq", r"'x.qzeros': is \(3, 4\); it must be \(3, 2\), four bits each")
        self.refuses(one.awq("x"), "gptq", "'x.qweight': is .*four bits each")
        self.refuses(one.gptq("x"), "awq", "'x.qweight': is .*four bits each")
        self.refuses(one.compressed("x") | {"x.weight_shape": numpy.array([N, K // 2])}, "compressed-tensors", "'x.weight_packed': is .*four bits each")
        for wrong in (one.s[:-1], numpy.concatenate([one.s, one.s[:, :2]], axis=1)):  # rows; groups that do not divide K
            self.refuses(one.compressed("x") | {"x.weight_scale": numpy.ascontiguousarray(wrong)}, "compressed-tensors", "'x.weight_scale': is .*, of weights")
        self.refuses(one.gptq("x"), "compressed-tensors", r"there is no tensor '\*.weight_packed', as compressed-tensors has them")
        self.refuses(one.gptq("x"), "gguf", "the format is 'gguf'; it must be one of gptq, gptq_v2, awq, ")
        self.refuses(one.gptq("x"), "gpt-oss", r"there is no tensor '\*_blocks', as gpt-oss has them")
        self.refuses({"x_blocks": numpy.zeros((2, N, 3, 8), numpy.uint8), "x_scales": numpy.zeros((2, N, 3), numpy.uint8)}, "gpt-oss",
                     "'x_blocks': is .*; the last dimension must be 16")  # fmt: skip
        self.refuses({"x_blocks": numpy.zeros((2, N, 3, 16), numpy.uint8), "x_scales": numpy.full((2, N, 3), 159, numpy.uint8)}, "gpt-oss",
                     r"'x_scales': has a scale of 2\^32; mixed_mm takes up to 2\^31")  # fmt: skip

    def test_mxfp8(self):
        weight, scales = numpy.ones((N, K), ml_dtypes.float8_e4m3fn), numpy.full((N, K // 32), 127, numpy.uint8)
        for change, message in (
            ({"x.weight_scale": scales.astype(numpy.float32)}, r"'x.weight_scale': is float32 \(16, 3\); MXFP8 has E8M0 scales"),
            ({"x.weight_scale": scales[:, :1].copy()}, r"'x.weight_scale': is \(16, 1\), of weights \(16, 96\); it must be \(16, 3\)"),
            ({"x.weight_scale": scales[0].copy()}, "'x.weight_scale': has rank 1; it must be 2"),
            ({"x.weight": weight.astype(ml_dtypes.bfloat16)}, "'x.weight': has elements of bfloat16; they must be float8_e4m3fn"),
            ({"x.weight": weight[0].copy()}, "'x.weight': has rank 1; it must be 2 or 3"),
            ({"x.weight_scale": scales + numpy.uint8(38)}, r"'x.weight_scale': has a scale of 2\^38; mixed_mm takes up to 2\^37"),
            ({"x.weight_scale": scales + numpy.uint8(128)}, "'x.weight_scale': has a scale of NaN"),
        ):
            with self.subTest(message=message):
                self.refuses({"x.weight": weight, "x.weight_scale": scales} | change, "mxfp8", message)
        self.refuses({"x.weight_scale_inv": scales}, "mxfp8", "'x.weight': is missing")
        self.refuses({"x.weight": weight}, "mxfp8", r"there is no tensor '\*.weight_scale', as mxfp8 has them")

    def refuses_file(self, name, source, message):
        with self.assertRaisesRegex(convert.ConvertError, message):
            convert.convert_files([self.folder / name], self.folder / "out", source)
        self.assertFalse((self.folder / "out").exists())

    def test_experts_in_another_file(self):
        files = {}
        for number, experts in ((1, (0, 1)), (2, (2, 3))):
            tensors = {name: tensor for expert in experts for name, tensor in Weights().compressed(f"layers.0.experts.{expert}.up").items()}
            tensors |= Weights().compressed(f"layers.{number}.dense")
            files |= dict.fromkeys(tensors, f"model-{number}.safetensors")
            save_file(tensors, self.folder / f"model-{number}.safetensors")
        index = self.folder / "model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": files}))
        for number, expert, other in ((1, 2, 2), (2, 0, 1)):
            message = f"'layers.0.experts.{expert}.up.weight_packed': is in model-{other}.safetensors, by {index.name}; give all files of the layer"
            self.refuses_file(f"model-{number}.safetensors", "compressed-tensors", message)
        self.refuses_file(index.name, "compressed-tensors", "is an index; give the safetensors files")
        self.refuses_file(".", "compressed-tensors", "is a folder; give the safetensors files")
        both = [self.folder / f"model-{number}.safetensors" for number in (1, 2)]
        convert.convert_files(both, self.folder / "out", "compressed-tensors")
        self.assertEqual(read(self.folder / "out")[0]["layers.0.experts.up.weight"].shape[0], 4)
        cache = self.folder / "snapshot"  # as downloads are kept: links to files beside which there is no index
        cache.mkdir()
        (cache / "model-1.safetensors").symlink_to(self.folder / "model-1.safetensors")
        (cache / index.name).write_text(index.read_text())
        index.unlink()
        (self.folder / "out").unlink()
        self.refuses_file("snapshot/model-1.safetensors", "compressed-tensors", "is in model-2.safetensors")
        index.write_text("no JSON")  # which is not needed
        convert.convert_files(both, self.folder / "out", "compressed-tensors")

    def test_other_tensors_of_an_index(self):
        """Are none of this conversion's, whatever they are."""
        weight, scales = numpy.ones((N, K), ml_dtypes.float8_e4m3fn), numpy.full((N, K // 32), 127, numpy.uint8)
        save_file({"a.weight": weight, "a.weight_scale": scales}, self.folder / "model-1.safetensors")
        names = ["b.weight", "b.weight_scale", "b.weight_scale_inv", "a.other"]
        (self.folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": dict.fromkeys(names, "model-2.safetensors")}))
        convert.convert_files([self.folder / "model-1.safetensors"], self.folder / "out", "mxfp8")

    def test_versions_of_gptq(self):
        save_file(Weights().gptq("x"), self.folder / "in")
        for name, text in (("config.json", {"quantization_config": {"checkpoint_format": "gptq"}}), ("quantize_config.json", {"checkpoint_format": "gptq"})):
            (self.folder / name).write_text(json.dumps(text))
            self.refuses_file("in", "gptq_v2", f"{name}: says checkpoint_format 'gptq'; the format is 'gptq_v2'")
            convert.convert_files([self.folder / "in"], self.folder / "out", "gptq")
            for path in (self.folder / "out", self.folder / name):
                path.unlink()

    def test_two_names_of_scales(self):
        weight, scales = numpy.ones((N, K), ml_dtypes.float8_e4m3fn), numpy.full((N, K // 32), 127, numpy.uint8)
        both = {"x.weight": weight, "x.weight_scale": scales, "x.weight_scale_inv": scales}
        self.refuses(both, "mxfp8", "'x.weight_scale_inv': is there beside 'x.weight_scale'; which of the two holds cannot be told")
        tensors = {"x_blocks": numpy.zeros((2, N, 3, 16), numpy.uint8), "x_scales": numpy.zeros((2, N, 3), numpy.uint8)}
        tensors |= {name.replace("_", "."): tensor for name, tensor in tensors.items()}
        self.refuses(tensors, "gpt-oss", "'x.blocks': is there beside 'x_blocks'; which of the two holds cannot be told")

    def test_missing_and_wrong_tensors(self):
        tensors = Weights().gptq("x")
        del tensors["x.qzeros"]
        self.refuses(tensors, "gptq", "'x.qzeros': is missing")
        tensors = Weights().gptq("x")
        self.refuses(tensors | {"x.scales": tensors["x.scales"].astype(numpy.float64)}, "gptq", "'x.scales': has elements of float64; they must be")
        self.refuses(tensors | {"x.weight": numpy.ones(1)}, "gptq", "'x.weight': is in the checkpoint already")
        self.refuses(Weights(group=16).gptq("x"), "gptq", "'x': has groups of 16; they must be of a multiple of 32 or a whole row")
        twelve = {"x.qweight": numpy.zeros((12, 12), numpy.int32), "x.scales": tensors["x.scales"][:, :12].copy(), "x.qzeros": numpy.zeros((3, 1), numpy.int32)}
        self.refuses(twelve, "gptq", r"'x.qweight': is \(12, 12\); N must be a multiple of 8")
        self.refuses(Weights(n=8).gptq("x"), "gptq", "'x': is 8 x 96; N must be a multiple of 16 and K of 32")
        greatest = Weights()
        greatest.z[3, 1] = 16
        self.refuses(greatest.gptq("x"), "gptq", r"'x': has a zero point of 16; mixed_mm_zeros takes 0 to 15 \(gptq_v2 is the format that")

    def test_unknown_elements(self):
        header = b'{"y":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}'
        (self.folder / "in.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"0")
        with self.assertRaisesRegex(convert.ConvertError, "tensor 'y': has elements of F4, which are not known"):
            convert.convert_files([self.folder / "in.safetensors"], self.folder / "out.safetensors", "gptq")

    def test_experts(self):
        two = Weights().gptq("a.experts.0.up") | Weights().gptq("a.experts.2.up")
        self.refuses(two, "gptq", "'a.experts.up': of 3 experts, expert 1 is missing; give all files of the layer")
        one = Weights().gptq("a.experts.999999999.up")
        self.refuses(one, "gptq", "'a.experts.up': of 1000000000 experts, expert 0 is missing")
        two = Weights().gptq("a.experts.0.up") | Weights(k=64).gptq("a.experts.1.up")
        self.refuses(two, "gptq", "'a.experts.up': the experts' weight differ in shape or type")
        self.refuses(Weights().gptq("a.experts.0.up") | Weights().gptq("a.experts.up"), "gptq", "'a.experts.up': is there whole, and as experts, too")

    def test_stacked_experts_that_are_stacked(self):
        weight, scales = numpy.ones((2, N, K), ml_dtypes.float8_e4m3fn), numpy.full((2, N, K // 32), 127, numpy.uint8)
        tensors = {f"experts.{e}.up.{what}": tensor for e in range(2) for what, tensor in (("weight", weight), ("weight_scale", scales))}
        self.refuses(tensors, "mxfp8", "'experts.up': each of the experts' weights has rank 3; experts that are stacked have rank 2")

    def test_without_elements(self):
        for groups, experts in ((0, 2), (3, 0)):
            tensors = {"x_blocks": numpy.zeros((experts, N, groups, 16), numpy.uint8), "x_scales": numpy.zeros((experts, N, groups), numpy.uint8)}
            self.refuses(tensors, "gpt-oss", "'x_blocks': is .*, without elements")

    def test_zero_points_beyond_four_bits(self):
        one = Weights()
        for wrong in (-9, 8, 127):
            tensors = one.compressed("x", "bytes")
            tensors["x.weight_zero_point"][3, 1] = wrong
            self.refuses(tensors, "compressed-tensors", f"'x.weight_zero_point': has values from .*{wrong}.*; they must be -8 to 7")

    def test_a_target_that_is_no_plain_file(self):
        """A symbolic link stays one; a pipe, a device or a folder is not replaced."""
        save_file(Weights().gptq("x"), self.folder / "in.safetensors")
        (self.folder / "link").symlink_to(self.folder / "out.safetensors")
        convert.convert_files([self.folder / "in.safetensors"], self.folder / "link", "gptq")
        self.assertTrue((self.folder / "link").is_symlink() and (self.folder / "out.safetensors").is_file())
        os.mkfifo(self.folder / "pipe")
        for target in (self.folder / "pipe", self.folder):
            with self.assertRaisesRegex(convert.ConvertError, "is there, and is no file"):
                convert.convert_files([self.folder / "in.safetensors"], target, "gptq")
        self.assertTrue((self.folder / "pipe").is_fifo())

    def test_who_may_read_the_result(self):
        """The umask decides. It is not changed for a moment, in which other threads would make files by it."""
        save_file(Weights().gptq("x"), self.folder / "in.safetensors")
        self.addCleanup(os.umask, os.umask(0o027))
        with mock.patch.object(os, "umask", side_effect=AssertionError("the umask was changed")):
            convert.convert_files([self.folder / "in.safetensors"], self.folder / "out.safetensors", "gptq")
        self.assertEqual((self.folder / "out.safetensors").stat().st_mode & 0o777, 0o640)

    def test_a_full_disk(self):
        """What was there before stays. A limit on the size of files stands for the full disk."""
        save_file(Weights().gptq("x"), self.folder / "in.safetensors")
        (self.folder / "out.safetensors").write_bytes(b"before")

        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, limits[1]))
        try:
            with self.assertRaisesRegex(OSError, "out.safetensors: cannot write: .*File too large"):
                convert.convert_files([self.folder / "in.safetensors"], self.folder / "out.safetensors", "gptq")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        self.assertEqual((self.folder / "out.safetensors").read_bytes(), b"before")
        self.assertEqual({path.name for path in self.folder.iterdir()}, {"in.safetensors", "out.safetensors"})

    def test_command(self):
        def run(*arguments):
            environment = os.environ | {"PYTHONPATH": str(pathlib.Path(convert.__file__).parents[1])}
            command = [sys.executable, "-m", "moe_opt.convert", *arguments]
            return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)

        save_file(Weights().gptq("x"), self.folder / "in.safetensors")
        good = run("in.safetensors", "out.safetensors", "--from", "gptq")
        self.assertEqual((good.returncode, good.stdout), (0, "out.safetensors: 1 tensor of weights (1 ui4)\n"), good.stderr)
        before = (self.folder / "out.safetensors").read_bytes()
        (self.folder / "bad").write_bytes(b"no tensors")
        for arguments, message in (
            (("bad", "out.safetensors", "--from", "gptq"), "moe_opt.convert: bad: is no safetensors file"),
            (("nowhere", "out.safetensors", "--from", "gptq"), "moe_opt.convert: nowhere: No such file or directory"),
            (("in.safetensors", "in.safetensors", "--from", "gptq"), "in.safetensors: is an input, and would be overwritten"),
            (("in.safetensors", "no/out.safetensors", "--from", "gptq"), "no: there is no such folder"),
            (("in.safetensors", "in.safetensors", "out.safetensors", "--from", "gptq"), "is in another file, too"),
        ):
            failed = run(*arguments)
            self.assertEqual((failed.returncode, failed.stdout, failed.stderr.count("\n")), (1, "", 1))
            self.assertIn(message, failed.stderr)
        self.assertEqual(run("in.safetensors", "out.safetensors").returncode, 2)
        self.assertIn("mxfp8 is what compressed-tensors calls", run("--help").stdout)
        self.assertNotIn("SPDX", run("--help").stdout)
        self.assertEqual((self.folder / "out.safetensors").read_bytes(), before)
        self.assertEqual({path.name for path in self.folder.iterdir()}, {"in.safetensors", "out.safetensors", "bad"})


if __name__ == "__main__":
    unittest.main()
