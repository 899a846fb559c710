"""moe_opt.jax: products, gradients and quantizers, on JAX's default device; on the CPU that is the emulator.

    python3 test/python/jax_test.py

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import contextlib
import functools
import io
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")  # of the CPU, which then is two devices

import jax
import jax.numpy as jnp
import numpy
from jax import export

import moe_opt
import moe_opt.jax as moe
from core_test import BLOCK_GROUPS, blocks_of, reference_quantize

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NEAR = 0.045  # docs/numerics.md: an FP8 product keeps 28.5 dB, 0.0376 of the norm
E, M, N, K = 3, 64, 96, 32


def operands(rows=M, seed=0):
    keys = jax.random.split(jax.random.key(seed), 3)
    x, w, g = (jax.random.normal(key, shape, jnp.bfloat16) for key, shape in zip(keys, ((rows, K), (E, N, K), (rows, N))))
    return x, w, g


def ends(*sizes):
    return jnp.cumsum(jnp.array(sizes, jnp.int32), dtype=jnp.int32)


def reference(x, w, offs):
    start, pieces = 0, []
    for expert, end in zip(w, offs.tolist()):
        pieces.append(x[start:end].astype(jnp.float32) @ expert.astype(jnp.float32).T)
        start = end
    return jnp.concatenate(pieces)


def distance(found, expected):
    found, expected = found.astype(jnp.float32), expected.astype(jnp.float32)
    return float(jnp.linalg.norm((found - expected).ravel()) / jnp.linalg.norm(expected.ravel()))


def ours(x, w, offs, recipe="fp8_rowwise"):
    return moe.grouped_mm(x, w.transpose(0, 2, 1), offs, recipe)


def documented(page):
    """What the first example of a page prints, and what the page says."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    code, said = re.match(r".*?```python\n(.*?)```.*?```\n(.*?)```", text, re.S).groups()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    return printed.getvalue().split(), said.split()


class Documentation(unittest.TestCase):
    @unittest.skipUnless((ROOT / "build/bin/moe-opt").exists(), "needs moe-opt")
    def test_python_page(self):
        """That of python.md, here since it needs ml_dtypes, which JAX brings."""
        text = (ROOT / "docs/python.md").read_text(encoding="utf-8")
        code, said = re.search(r"```python\n(.*?)```\nprints `(.*?)`", text, re.S).groups()
        (bundle,) = re.findall(r'moe_opt\.load\("(.*?)"\)', code)
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([ROOT / "build/bin/moe-opt", ROOT / "examples/grouped_mm.mlir", "--emit=bundle", "-o", f"{folder}/bundle"], check=True)
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(code.replace(bundle, f"{folder}/bundle"), {})
        self.assertEqual(printed.getvalue().strip(), said)

    def test_example(self):
        printed, said = documented("jax.md")
        self.assertEqual((len(printed), len(said)), (20, 20))
        for found, expected in zip(printed[3::4], said[3::4]):
            self.assertLess(abs(float(found) / float(expected) - 1), 0.01)


class Product(unittest.TestCase):
    def test_gradients_are_those_of_the_product(self):
        for recipe in moe.RECIPES:
            for sizes in ((16, 32, 16), (1, 0, 63), (0, 0, 64)):
                with self.subTest(recipe=recipe, sizes=sizes):
                    self.check(recipe, M, ends(*sizes))

    def test_any_number_of_tokens(self):
        self.check("fp8_rowwise", M - 3, ends(20, 0, M - 23))

    def check(self, recipe, rows, offs):
        x, w, g = operands(rows)
        y, pull = jax.vjp(lambda x, w: ours(x, w, offs, recipe), x, w)
        expected, pull_expected = jax.vjp(lambda x, w: reference(x, w, offs), x, w)
        self.assertEqual((y.shape, y.dtype), ((rows, N), jnp.bfloat16))
        self.assertLess(distance(y, expected), NEAR)
        for found, wanted in zip(pull(g), pull_expected(g.astype(jnp.float32))):
            self.assertEqual(found.shape, wanted.shape)
            self.assertLess(distance(found, wanted), NEAR)

    def test_few_tokens_and_experts(self):
        """No tokens at all, none that chose an expert, one token, one expert."""
        for recipe in moe.RECIPES:
            for rows, sizes in ((0, [0] * E), (17, [0] * E), (17, [17]), (17, [0]), (0, [0]), (17, [0, 1])):
                with self.subTest(recipe=recipe, rows=rows, sizes=sizes):
                    x, w, g = operands(max(rows, 1))
                    x, w, g, offs, used = x[:rows], w[: len(sizes)], g[:rows], ends(*sizes), sum(sizes)
                    y, pull = jax.vjp(lambda x, w: ours(x, w, offs, recipe), x, w)
                    dx, dw = pull(g)
                    self.assertEqual((y.shape, dx.shape, dw.shape), ((rows, N), (rows, K), w.shape))
                    if used:
                        expected, pull = jax.vjp(lambda x, w: reference(x, w, offs), x[:used], w)
                        for found, wanted in zip((y[:used], dx[:used], dw), (expected, *pull(g[:used].astype(jnp.float32)))):
                            self.assertLess(distance(found, wanted), NEAR if used > 1 else 2 * NEAR)  # errors of one row do not average
                    else:
                        self.assertFalse(numpy.asarray(dw, numpy.float32).any())
                    if recipe == "fp8_tensorwise":
                        self.assertFalse(numpy.asarray(y[used:], numpy.float32).any() or numpy.asarray(dx[used:], numpy.float32).any())

    def test_no_columns(self):
        """A sum over no columns of weights is zero."""
        x, w, _ = operands()
        y, pull = jax.vjp(lambda x, w: ours(x, w, ends(10, 22, 32)), x, w[:, :0])
        dx, dw = pull(y)
        self.assertEqual((y.shape, dw.shape), ((M, 0), (E, 0, K)))
        self.assertFalse(numpy.asarray(dx, numpy.float32).any())

    def test_one_gradient_alone(self):
        """Of an operand without a gradient, none is computed, and nothing is saved for it."""
        x, w, g = operands()
        offs = ends(10, 22, 32)
        for recipe in moe.RECIPES:
            _, pull = jax.vjp(lambda x, w: ours(x, w, offs, recipe), x, w)
            both = pull(g)
            for gradient, found in ((0, "a"), (1, "b")):
                with self.subTest(recipe=recipe, gradient=found):
                    alone = (lambda x: ours(x, w, offs, recipe)) if gradient == 0 else (lambda w: ours(x, w, offs, recipe))
                    argument = (x, w)[gradient]
                    numpy.testing.assert_array_equal(
                        numpy.asarray(jax.vjp(alone, argument)[1](g)[0]).view(numpy.uint16), numpy.asarray(both[gradient]).view(numpy.uint16)
                    )
                    text = str(jax.make_jaxpr(lambda argument, alone=alone: jax.vjp(alone, argument)[1](g))(argument))
                    functions = re.findall(r"bundles/grouped_mm-(\w+-grad_[ab])", text)
                    self.assertEqual(functions, [f"{recipe}-grad_{found}"] * 2)

    def test_jit_has_the_bits_of_eager(self):
        x, w, g = operands()
        offs = ends(10, 22, 32)

        def step(x, w, offs):
            y, pull = jax.vjp(lambda x, w: ours(x, w, offs), x, w)
            return y, *pull(g)

        for found, expected in zip(jax.jit(step)(x, w, offs), step(x, w, offs)):
            numpy.testing.assert_array_equal(numpy.asarray(found).view(numpy.uint16), numpy.asarray(expected).view(numpy.uint16))

    def test_jit_of_weights_in_the_other_order(self):
        x, w, _ = operands()
        offs = ends(10, 22, 32)
        b = jnp.asarray(numpy.ascontiguousarray(numpy.asarray(w).transpose(0, 2, 1)))
        same = jax.jit(moe.grouped_mm, static_argnums=3)(x, b, offs, "fp8_rowwise")
        numpy.testing.assert_array_equal(numpy.asarray(same).view(numpy.uint16), numpy.asarray(ours(x, w, offs)).view(numpy.uint16))

    @unittest.skipIf(len(jax.devices()) < 2, "needs two devices")
    def test_devices(self):
        """Arrays say where a step runs; one step may run on several devices, each with its part of the experts."""
        x, w, g = operands()
        offs = ends(10, 22, 32)

        def step(x, w, g, offs, recipe):
            y, pull = jax.vjp(lambda x, w: ours(x, w, offs, recipe), x, w)
            return y, *pull(g)

        for recipe in moe.RECIPES:
            with self.subTest(recipe=recipe):
                expected = step(x, w, g, offs, recipe)
                found = step(*jax.device_put((x, w, g, offs), jax.devices()[1]), recipe)
                pairs = [jnp.stack([array, array]) for array in (x, w, g, offs)]
                both = jax.pmap(functools.partial(step, recipe=recipe), devices=jax.devices()[:2])(*pairs)
                for one, two, wanted in zip(found, both, expected):
                    self.assertEqual(one.devices(), {jax.devices()[1]})
                    for array in (one, two[0], two[1]):
                        numpy.testing.assert_array_equal(numpy.asarray(array).view(numpy.uint16), numpy.asarray(wanted).view(numpy.uint16))

    def test_shard_map(self):
        """Each device has its part of the tokens, all have the weights, whose gradient is the sum of what each finds."""
        x, w, g = operands()
        count = min(2, len(jax.devices()))
        mesh, parts = jax.sharding.Mesh(numpy.array(jax.devices()[:count]), ("tokens",)), jax.sharding.PartitionSpec("tokens")
        whole, rows = jax.sharding.PartitionSpec(), M // count
        offs = ends(10, 0, rows - 10)
        for recipe in moe.RECIPES:
            with self.subTest(recipe=recipe):
                layer = functools.partial(ours, recipe=recipe)
                mapped = jax.shard_map(layer, mesh=mesh, in_specs=(parts, whole, whole), out_specs=parts)
                y, pull = jax.vjp(jax.jit(lambda x, w: mapped(x, w, offs)), x, w)
                alone = [jax.vjp(lambda x, w: layer(x, w, offs), *pair) for pair in zip(jnp.split(x, count), [w] * count)]
                gradients = [pull(part) for (_, pull), part in zip(alone, jnp.split(g, count))]
                expected = (
                    jnp.concatenate([y for y, _ in alone]), jnp.concatenate([dx for dx, _ in gradients]),
                    functools.reduce(jnp.add, [dw for _, dw in gradients]),
                )  # fmt: skip
                for found, wanted in zip((y, *pull(g)), expected):
                    numpy.testing.assert_array_equal(numpy.asarray(found).view(numpy.uint16), numpy.asarray(wanted).view(numpy.uint16))
        mapped = jax.shard_map(lambda x, offs: tuple(moe.quantize_mx(x, axis=0, offs=offs)), mesh=mesh, in_specs=(parts, whole), out_specs=parts)
        self.assertEqual(mapped(x, offs)[1].shape, (count * moe.quantize_mx(x[:rows], axis=0, offs=offs).scales.shape[0], K))

    def test_explicit_axes(self):
        """Gradients are sharded as what they are for."""
        x, w, _ = operands()
        count, P = min(2, len(jax.devices())), jax.sharding.PartitionSpec
        mesh = jax.make_mesh((count,), ("d",), axis_types=(jax.sharding.AxisType.Explicit,))
        total = lambda x, w, offs: (ours(x, w, offs).astype(jnp.float32) ** 2).sum()
        expected = jax.grad(total, (0, 1))(x, w, ends(20, 20, 24))
        for specs in ((P("d", None), P(None, None, None)), (P(None, None), P(None, "d", None))):
            with self.subTest(specs=specs), jax.set_mesh(mesh):
                given = [jax.device_put(array, jax.sharding.NamedSharding(mesh, spec)) for array, spec in zip((x, w), specs)]
                found = jax.jit(jax.grad(total, (0, 1)))(*given, jax.device_put(ends(20, 20, 24), jax.sharding.NamedSharding(mesh, P())))
                for gradient, wanted, spec in zip(found, expected, specs):
                    self.assertEqual(gradient.sharding.spec, spec)
                    numpy.testing.assert_array_equal(numpy.asarray(gradient).view(numpy.uint16), numpy.asarray(wanted).view(numpy.uint16))

    def test_ends_that_decrease(self):
        """Are those before them: results are there up to the greatest."""
        x, w, _ = operands()
        wrong = jnp.array([5, 20, 9, 9, 9, 9, 9, 9][: w.shape[0]], jnp.int32)
        right = jnp.maximum(wrong, jnp.array([5] + [20] * (w.shape[0] - 1), jnp.int32))
        for recipe in moe.RECIPES:
            found, expected = (numpy.asarray(ours(x, w, offs, recipe))[:20].view(numpy.uint16) for offs in (wrong, right))
            numpy.testing.assert_array_equal(found, expected, recipe)
            self.assertTrue(found.any(-1).all(), recipe)

    def test_what_has_no_derivative_says_so(self):
        x, w, _ = operands()
        offs = ends(20, 20, 24)

        def total(f):
            return lambda x: f(x).astype(jnp.float32).sum()

        gradient = jax.grad(total(lambda x: ours(x, w, offs)))
        for message, f in (
            ("grouped_mm has no second derivative; jax.lax.stop_gradient", gradient),
            ("quantize_mx has no derivative; jax.lax.stop_gradient", lambda x: moe.quantize_mx(x).q),
            ("quantize_fp8 has no derivative", lambda x: moe.quantize_fp8(x).scales),
        ):
            with self.assertRaisesRegex(TypeError, message):
                jax.grad(total(f))(x)
            with self.assertRaisesRegex(TypeError, message):
                jax.jit(jax.grad(total(f)))(x)
        through = jax.jit(jax.grad(lambda x: (x * moe.quantize_mx(jax.lax.stop_gradient(x)).q.astype(x.dtype)).astype(jnp.float32).sum()))
        self.assertTrue((through(x) == moe.quantize_mx(x).q.astype(x.dtype)).all())

    def test_messages_name_what_is_wrong(self):
        x, w, _ = operands()
        with self.assertRaisesRegex(ValueError, "recipe is 'fp4'; it must be one of"):
            ours(x, w, ends(16, 32, 16), "fp4")
        with self.assertRaisesRegex(ValueError, "a and b are float32 and bfloat16; both must be bfloat16"):
            ours(x.astype(jnp.float32), w, ends(16, 32, 16))
        with self.assertRaisesRegex(ValueError, "offs is int8; it must be int32"):
            ours(x, w, ends(16, 32, 16).astype(jnp.int8))
        with self.assertRaisesRegex(ValueError, "multiples of 16"):
            ours(x[:, :24], w[:, :, :24], ends(16, 32, 16))
        with self.assertRaisesRegex(TypeError, "offs is a list; it must be a tensor"):
            ours(x, w, [16, 48, 64])
        with self.assertRaisesRegex(TypeError, "axis is None; it must be a number"):
            moe.quantize_mx(x, axis=None)
        with self.assertRaisesRegex(moe_opt.InvalidArgument, "axis is 0; it must be one of the last two dimensions"):
            moe.quantize_fp8(w, axis=0)
        for align in (128.0, [128]):
            with self.assertRaisesRegex(TypeError, "align is .*128.*; it must be a name or a number"):
                moe.quantize_mx(x, 0, offs=ends(20, 30), align=align)
        with self.assertRaisesRegex(moe_opt.NotFound, "and results int8"):
            moe.quantize_mx(x, dtype=jnp.int8)
        with self.assertRaisesRegex(moe_opt.NotFound, "mode = 'round'"):
            moe.quantize_mx(x, mode="round")
        with self.assertRaisesRegex(Exception, "it must be a multiple of 32"):
            jax.block_until_ready(moe.quantize_mx(x[:, :16]))


class QuantizedProduct(unittest.TestCase):
    def operands(self, rows):
        """Integers, whose sums are exact: tokens, weights, the gradient of the product, in fp32 of numpy; ends, and the groups as slices."""
        random = numpy.random.default_rng(0)
        tensors = [random.integers(-2, 3, shape).astype(numpy.float32) for shape in ((rows, K), (E, N, K), (rows, N))]
        bounds = [0, 2, 2, rows - 2]
        return *tensors, jnp.array(bounds[1:], jnp.int32), [slice(*pair) for pair in zip(bounds, bounds[1:])]

    def same(self, found, expected):
        numpy.testing.assert_array_equal(numpy.asarray(found, numpy.float32), expected.astype(found.dtype).astype(numpy.float32))

    def test_mx_blocks(self):
        """Forward, both gradients, batched, with few tokens, with some, by blocks still, and many, by jit and alone."""
        for rows in (3 * E, 65 * E + 1, 257 * E + 1):
            x, w, dy, offs, groups = self.operands(rows)
            tokens, weights, gradient = (jnp.asarray(values, jnp.bfloat16) for values in (x, w, dy))
            a, b = moe.quantize_mx(tokens), moe.quantize_mx(weights)
            forward = (a.q, b.q.transpose(0, 2, 1), a.scales, b.scales.transpose(0, 2, 1), offs)
            for accumulate in ("fast", "promoted"):
                for run in (moe.scaled_mm, jax.jit(moe.scaled_mm, static_argnums=5)):
                    with self.subTest(rows=rows, accumulate=accumulate):
                        self.same(run(*forward, accumulate)[: rows - 2], numpy.concatenate([x[g] @ w[e].T for e, g in enumerate(groups)]))
            a, b = moe.quantize_mx(gradient), moe.quantize_mx(weights, axis=1)  # summed over N
            found = jax.jit(moe.scaled_mm)(a.q, b.q, a.scales, b.scales, offs)
            self.same(found[: rows - 2], numpy.concatenate([dy[g] @ w[e] for e, g in enumerate(groups)]))
            a, b = moe.quantize_mx(gradient, 0, offs=offs), moe.quantize_mx(tokens, 0, offs=offs)
            self.same(moe.scaled_mm(a.q.T, b.q, a.scales, b.scales, offs), numpy.stack([dy[g].T @ x[g] for g in groups]))
            stacked = numpy.stack([x, 2 * x, x])
            a, b = moe.quantize_mx(jnp.asarray(stacked, jnp.bfloat16)), moe.quantize_mx(weights)
            product = moe.scaled_mm(a.q, b.q.transpose(0, 2, 1), a.scales, b.scales.transpose(0, 2, 1))
            self.same(product, stacked @ w.transpose(0, 2, 1))

    def test_fp8_blocks(self):
        """As checkpoints have them, from the fewest tokens to many."""
        for groups in BLOCK_GROUPS:
            *operands, expected = blocks_of(numpy.random.default_rng(5), groups, 208, 336, sum(groups) + 2)
            qa, qb, sa, sb = map(jnp.asarray, operands)
            qa, qb = (jax.lax.bitcast_convert_type(q, jnp.float8_e4m3fn) for q in (qa, qb))
            given = qa, qb.transpose(0, 2, 1), sa, sb.transpose(0, 2, 1), jnp.cumsum(jnp.array(groups, jnp.int32), dtype=jnp.int32)
            for run in (moe.scaled_mm, jax.jit(moe.scaled_mm)):
                self.same(run(*given)[: sum(groups)], expected)

    def test_weights_that_become_bf16_in_the_product(self):
        """Of one expert, with some tokens and with more."""
        random = numpy.random.default_rng(0)
        for rows in (70, 385):
            x, w = (random.integers(-2, 3, shape).astype(numpy.float32) for shape in ((rows, 1024), (1, 48, 1024)))
            a, b = moe.quantize_mx(jnp.asarray(x, jnp.bfloat16)), moe.quantize_mx(jnp.asarray(w, jnp.bfloat16))
            found = jax.jit(moe.scaled_mm)(a.q, b.q.transpose(0, 2, 1), a.scales, b.scales.transpose(0, 2, 1), jnp.array([rows - 2], jnp.int32))
            self.same(found[: rows - 2], x[: rows - 2] @ w[0].T)

    def test_fp32_scales(self):
        """Of rows, by jit and by vmap over a batch of scales of tokens."""
        x, w, _, offs, groups = self.operands(M)
        qa, qb = jnp.asarray(x, jnp.float8_e4m3fn), jnp.asarray(w, jnp.float8_e4m3fn).transpose(0, 2, 1)
        sa, sb = 2.0 ** (numpy.arange(M, dtype=numpy.float32) % 3), 2.0 ** (numpy.arange(E * N, dtype=numpy.float32).reshape(E, N) % 5)
        expected = numpy.concatenate([(x[g] @ w[e].T) * sa[g, None] * sb[e] for e, g in enumerate(groups)])
        for dtype in (jnp.bfloat16, jnp.float32):
            found = jax.jit(lambda *operands, dtype=dtype: moe.scaled_mm(*operands, out_dtype=dtype))(qa, qb, sa, sb, offs)
            self.assertEqual(found.dtype, dtype)
            self.same(found[: M - 2], expected)
        both = jax.vmap(lambda sa: moe.scaled_mm(qa, qb, sa, sb, offs))(jnp.stack([sa, 2 * sa]))
        self.same(both[:, : M - 2], numpy.stack([expected, 2 * expected]))

    def test_no_tokens(self):
        x, w, _, offs, _ = self.operands(M)
        a, b = moe.quantize_mx(jnp.asarray(x[:0], jnp.bfloat16)), moe.quantize_mx(jnp.asarray(w, jnp.bfloat16))
        for sa, sb in ((a.scales, b.scales.transpose(0, 2, 1)), (jnp.ones(0), jnp.ones((E, N)))):
            self.assertEqual(moe.scaled_mm(a.q, b.q.transpose(0, 2, 1), sa, sb, 0 * offs).shape, (0, N))

    def test_exported_for_any_number_of_tokens(self):
        x, w, _, offs, groups = self.operands(M)
        a, b = moe.quantize_mx(jnp.asarray(x, jnp.bfloat16)), moe.quantize_mx(jnp.asarray(w, jnp.bfloat16))
        operands = (a.q, b.q.transpose(0, 2, 1), a.scales, b.scales.transpose(0, 2, 1), offs)
        (rows,) = export.symbolic_shape("rows")
        shapes = [jax.ShapeDtypeStruct((rows, *o.shape[1:]) if i in (0, 2) else o.shape, o.dtype) for i, o in enumerate(operands)]
        unchecked = [export.DisabledSafetyCheck.custom_call("moe_opt_run")]
        exported = export.export(jax.jit(moe.scaled_mm), disabled_checks=unchecked)(*shapes)
        expected = numpy.concatenate([x[g] @ w[e].T for e, g in enumerate(groups)])
        self.same(exported.call(*operands)[: M - 2], expected)

    def test_messages_name_what_is_wrong(self):
        """While it is traced, before anything runs."""
        x, w, _, offs, _ = self.operands(M)
        x = jnp.asarray(x, jnp.bfloat16)
        a, b = moe.quantize_mx(x), moe.quantize_mx(jnp.asarray(w, jnp.bfloat16))
        qa, qb, sa, sb = a.q, b.q.transpose(0, 2, 1), a.scales, b.scales.transpose(0, 2, 1)
        for kind, message, change in (
            (ValueError, "argument 'sa': dimension 0 is 5; it must be 64, the value of 'qa.0'", {"sa": sa[:5]}),
            (ValueError, "argument 'sb': dimension 2 is 1; it must be 96", {"sb": b.scales}),
            (ValueError, "argument 'offs': dimension 0 is 2; it must be 3", {"offs": offs[:2]}),
            (moe_opt.NotFound, "bf16 of rank 2, f8E4M3FN of rank 3", {"qa": x}),
            (moe_opt.NotFound, "f8E8M0FNU of rank 2, f32 of rank 3", {"sb": sb.astype(jnp.float32)}),
            (moe_opt.NotFound, "i32 of rank 0", {"offs": jnp.int32(0)}),
            (moe_opt.NotFound, "accumulate can be 'fast', 'promoted'", {"accumulate": "slow"}),
            (moe_opt.NotFound, "and results int8", {"out_dtype": jnp.int8}),
            (TypeError, "sa is a list; it must be a tensor", {"sa": [1.0]}),
            (TypeError, "accumulate is None; it must be a name or a number", {"accumulate": None}),
        ):
            operands = {"qa": qa, "qb": qb, "sa": sa, "sb": sb, "offs": offs}
            with self.subTest(message=message), self.assertRaisesRegex(kind, re.escape(message)):
                jax.eval_shape(lambda operands=operands, change=change: moe.scaled_mm(**operands | change))
        with self.assertRaisesRegex(TypeError, "scaled_mm has no derivative; jax.lax.stop_gradient"):
            jax.grad(lambda scales: moe.scaled_mm(qa, qb, scales, jnp.ones((E, N)), offs).astype(jnp.float32).sum())(jnp.ones(M))


class Quantizers(unittest.TestCase):
    def same_bits(self, found, expected):
        for one, other in zip(found, expected, strict=True):
            numpy.testing.assert_array_equal(numpy.asarray(one).view(numpy.uint8), numpy.asarray(other).view(numpy.uint8))

    def test_mx_has_the_bits_of_the_reference(self):
        x, w, _ = operands()
        for array, axis in ((x, -1), (x, 0), (w, -1)):
            values = numpy.asarray(array)
            found = jax.jit(lambda array, axis=axis: moe.quantize_mx(array, axis))(array)
            self.assertEqual(found.q.dtype, jnp.float8_e4m3fn)
            self.same_bits(found, reference_quantize(values.view(numpy.uint16), axis % values.ndim, "rceil"))

    def test_mx_of_groups_has_the_bits_of_each(self):
        x, _, _ = operands()
        found = jax.jit(lambda x, offs: moe.quantize_mx(x, 0, offs=offs))(x, ends(7, 0, 48))
        for group, (start, end) in enumerate(((0, 7), (7, 7), (7, 55))):
            blocks = -(-(end - start) // 32)
            if blocks:
                rows = numpy.zeros((32 * blocks, K), numpy.uint16)
                rows[: end - start] = numpy.asarray(x[start:end]).view(numpy.uint16)
                q, scales = reference_quantize(rows, 0, "rceil")
                first = start // 32 + group
                self.same_bits((found.q[start:end], found.scales[first : first + blocks]), (q[: end - start], scales))

    def test_fp8_dequantizes(self):
        x, _, _ = operands()
        q, scales = moe.quantize_fp8(x)
        self.assertLess(distance(q.astype(jnp.float32) * scales[:, None], x), 0.04)


if __name__ == "__main__":
    unittest.main()
