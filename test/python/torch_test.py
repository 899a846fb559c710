"""moe_opt.torch: each thing that its documentation promises, one test each.

    python3 -m pytest test/python/torch_test.py

With a CUDA device the tests run there, else on the CPU, by the emulator; those that need a GPU are skipped then.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import contextlib
import copy
import io
import pathlib
import re
import threading

import numpy
import pytest

torch = pytest.importorskip("torch")

import moe_opt  # noqa: E402
import moe_opt.torch as moe  # noqa: E402
from core_test import BLOCK_GROUPS, blocks_of  # noqa: E402
from moe_opt.torch import _ops  # noqa: E402

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
BF16, FP8 = torch.bfloat16, torch.float8_e4m3fn
on_gpu = pytest.mark.skipif(not GPU, reason="needs a CUDA device")
on_two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
RECIPES = pytest.mark.parametrize("recipe", moe.RECIPES)
# Three that save tokens otherwise: as they are, with groups that begin at multiples of 128, and in bf16.
SAVED = pytest.mark.parametrize("recipe", ["fp8_rowwise", "fp8_blockwise", "mxfp8"])
# An FP8 product keeps 28.5 dB of normal data (docs/numerics.md), of each operand 31.5 dB: 0.0376 of the norm.
NEAR = 0.045

E, M, N, K = (8, 512, 256, 128) if GPU else (3, 64, 96, 32)
SIZES = {
    "equal": [M // E // 16 * 16] * (E - 1),
    "odd": [1, 0, 17, 3, 0, 1, 2][: E - 1],
    "first empty": [0] * (E - 1),
}


def ends(kind="equal", rows=M, device=DEVICE):
    """The ends of the groups, up to the last row."""
    sizes = SIZES[kind]
    return torch.tensor([*sizes, rows - sum(sizes)]).cumsum(0).to(torch.int32).to(device)


def operands(rows=M, device=DEVICE, seed=0):
    """Tokens (M, K) and weights (E, N, K), both with gradients."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, K, generator=generator).to(BF16).to(device).requires_grad_()
    w = torch.randn(E, N, K, generator=generator).to(BF16).to(device).requires_grad_()
    return x, w


def reference(x, w, offs):
    """The product in fp32, group by group."""
    pieces = x.float().tensor_split(offs[:-1].tolist())
    return torch.cat([piece @ expert.float().t() for piece, expert in zip(pieces, w)])


def distance(found, expected):
    """The part of the norm that differs. NaN is far from everything."""
    found, expected = found.detach().float(), expected.detach().float()
    return float((found - expected).norm() / expected.norm())


def step(x, w, offs, recipe="fp8_rowwise", seed=1):
    """The product and both gradients for a random gradient of it."""
    y = moe.grouped_mm(x, w.transpose(1, 2), offs, recipe)
    grad = torch.randn(y.shape, generator=torch.Generator().manual_seed(seed)).to(BF16).to(y.device)
    return y, *torch.autograd.grad(y, (x, w), grad)


def same_bits(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        assert torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))


# ---- The product and its gradient ----


@RECIPES
@pytest.mark.parametrize("kind", SIZES)
def test_gradients_are_those_of_the_product(recipe, kind):
    x, w = operands()
    offs = ends(kind)
    y, dx, dw = step(x, w, offs, recipe)
    expected = reference(x, w, offs)
    grad = torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(BF16).to(DEVICE)
    expected_dx, expected_dw = torch.autograd.grad(expected, (x, w), grad.float())
    assert distance(y, expected) < NEAR
    assert distance(dx, expected_dx) < NEAR
    assert distance(dw, expected_dw) < NEAR
    assert dx.shape == x.shape and dw.shape == w.shape and dw.is_contiguous()
    empty = [e for e, size in enumerate(SIZES[kind]) if size == 0]
    assert not dw[empty].any()


@RECIPES
def test_inference_has_the_bits_of_training(recipe):
    x, w = operands()
    with torch.no_grad():
        alone = moe.grouped_mm(x, w.transpose(1, 2), ends(), recipe)
    assert not alone.requires_grad
    same_bits([alone], [moe.grouped_mm(x, w.transpose(1, 2), ends(), recipe)])


@pytest.mark.parametrize("rows", [M - 1, M - 15, M - 8])
def test_any_number_of_tokens(rows):
    x, w = operands(rows)
    offs = ends(rows=rows)
    y, dx, dw = step(x, w, offs)
    assert y.shape == (rows, N) and dx.shape == (rows, K)
    assert distance(y, reference(x, w, offs)) < NEAR
    grad = torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(BF16).to(DEVICE)
    for found, expected in zip((dx, dw), torch.autograd.grad(reference(x, w, offs), (x, w), grad.float())):
        assert distance(found, expected) < NEAR


def test_ends_that_lie_anywhere():
    """A row of a matrix of ends, say: kernels read them 16 bytes at a time."""
    x, w = operands()
    offs = torch.cat([ends()[:1], ends()])[1:]
    assert offs.data_ptr() % 16
    same_bits(step(x, w, offs), step(x, w, ends()))
    strided = torch.stack([ends(), ends()], 1)[:, 1]
    same_bits(step(x, w, strided), step(x, w, ends()))


def anywhere(tensor):
    """The same tensor at an address that no kernel reads from."""
    room = tensor.new_empty(tensor.numel() + 1)[1:]
    moved = room.as_strided(tensor.shape, tensor.stride()).copy_(tensor)
    assert moved.data_ptr() % 16
    return moved


def test_operands_that_begin_anywhere():
    """Parts of other tensors: of a buffer of all parameters, say."""
    x, w = operands()
    offs, grad = ends(), torch.ones(M, N, dtype=BF16, device=DEVICE)
    for order in (w.transpose(1, 2), w.detach().transpose(1, 2).contiguous().requires_grad_()):
        leaf = anywhere(order.detach()).requires_grad_()
        tokens = anywhere(x.detach()).requires_grad_()
        found = moe.grouped_mm(tokens, leaf, anywhere(offs))
        expected = moe.grouped_mm(x, order, offs)
        same_bits([found, *torch.autograd.grad(found, (tokens, leaf), anywhere(grad))], [expected, *torch.autograd.grad(expected, (x, order), grad)])


def test_quantizers_and_products_of_parts():
    """Ends of groups that begin anywhere, or lie apart: those of a row or a column of a matrix of ends."""
    x, w = (tensor.detach() for tensor in operands())
    column = torch.stack([ends(), ends()], 1)[:, 1]
    for offs in (anywhere(ends()), column):
        same_bits([moe.quantize_mx(anywhere(x), 0, offs=offs).q[:M]], [moe.quantize_mx(x, 0, offs=ends()).q[:M]])
        same_bits([moe.quantize_fp8(x, axis=0, offs=offs).q[:M]], [moe.quantize_fp8(x, axis=0, offs=ends()).q[:M]])
        same_bits([moe.quantize_fp8_dual(x, offs).q_t[:M]], [moe.quantize_fp8_dual(x, ends()).q_t[:M]])
        (qa, sa), (qb, sb) = moe.quantize_fp8(x), moe.quantize_fp8(w)
        expected = moe.scaled_grouped_mm(qa, qb.transpose(1, 2), sa, sb, ends())
        for _ in range(2):  # the second one is past torch's dispatcher
            same_bits([moe.scaled_grouped_mm(anywhere(qa), anywhere(qb).transpose(1, 2), anywhere(sa), anywhere(sb), offs)], [expected])
    with pytest.raises(moe_opt.InvalidArgument, match="argument 'qb': dimension 1 has stride"):
        moe.scaled_grouped_mm(qa, anywhere(qb.transpose(1, 2).contiguous()), sa, sb, offs)


@RECIPES
def test_rows_of_no_group(recipe):
    """They change nothing, and layers can follow one another: with one scale of all tokens they must not hold what was there before."""
    x, w = operands()
    offs = ends() - 16
    found = step(x, w, offs, recipe)
    rows = int(offs[-1])
    y, dx, _ = (tensor.detach() for tensor in found)
    if recipe == "fp8_tensorwise":
        assert not y[rows:].any() and not dx[rows:].any()
    assert distance(y[:rows], reference(x, w, offs)[:rows]) < NEAR


@RECIPES
@pytest.mark.parametrize("rows,experts,sizes", [(0, E, [0] * E), (17, E, [0] * E), (17, 1, [17]), (17, 1, [0]), (0, 1, [0]), (17, 2, [0, 1])])
def test_few_tokens_and_experts(recipe, rows, experts, sizes):
    """No tokens at all, none that chose an expert, one token, one expert: with both gradients, and with each alone."""
    x, w = (tensor.detach()[:count].requires_grad_() for tensor, count in zip(operands(max(rows, 1)), (rows, experts)))
    offs = torch.tensor(sizes, device=DEVICE).cumsum(0).to(torch.int32)
    y, dx, dw = step(x, w, offs, recipe)
    used = sum(sizes)
    expected = reference(x[:used], w, offs)
    grad = torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(BF16).to(DEVICE)
    expected_dx, expected_dw = torch.autograd.grad(expected, (x, w), grad[:used].float())
    assert y.shape == (rows, N) and dx.shape == (rows, K) and dw.shape == (experts, N, K)
    if used:
        for found, wanted in ((y, expected), (dx, expected_dx)):
            assert distance(found[:used], wanted[:used]) < (NEAR if used > 1 else 2 * NEAR)
        assert distance(dw, expected_dw) < (NEAR if used > 1 else 2 * NEAR)  # errors of one row do not average
    else:
        assert not dw.any()
    if recipe == "fp8_tensorwise":
        assert not y[used:].any() and not dx[used:].any()
    alone = moe.grouped_mm(x, w.detach().transpose(1, 2), offs, recipe)
    same_bits(torch.autograd.grad(alone, x, grad)[0][:used], dx[:used])
    alone = moe.grouped_mm(x.detach(), w.transpose(1, 2), offs, recipe)
    same_bits(torch.autograd.grad(alone, w, grad), [dw])


def test_no_columns():
    """A sum over no columns of weights is zero."""
    x, w = operands()
    y = moe.grouped_mm(x, w[:, :0].transpose(1, 2), ends())
    dx, dw = torch.autograd.grad(y, (x, w), torch.empty_like(y))
    assert y.shape == (M, 0) and not dx.any() and not dw.any()


def test_quantizers_of_no_tokens():
    x, offs = torch.empty(0, K, dtype=BF16, device=DEVICE), torch.zeros(E, dtype=torch.int32, device=DEVICE)
    assert [tuple(tensor.shape) for tensor in moe.quantize_mx(x)] == [(0, K), (0, K // 32)]
    assert [tuple(tensor.shape) for tensor in moe.quantize_fp8(x)] == [(0, K), (0,)]
    both = moe.quantize_fp8_dual(x, offs)
    assert [tuple(tensor.shape) for tensor in both] == [(0, K), (0,), (0, K), (E, K)]


def test_weights_in_either_order():
    x, w = operands()
    y = moe.grouped_mm(x, w.transpose(1, 2), ends())
    other = w.detach().transpose(1, 2).contiguous().requires_grad_()  # (E, K, N), row-major
    same = moe.grouped_mm(x, other, ends())
    same_bits([same], [y])
    same_bits([torch.autograd.grad(same.sum(), other)[0].transpose(1, 2)], torch.autograd.grad(y.sum(), w))


@pytest.fixture(name="kinds")
def _kinds(monkeypatch):
    """Which functions of bundles products run, in order."""
    found, original = [], moe._ops.grouped_mm_function

    def record(kind, recipe, swapped):
        found.append(kind)
        return original(kind, recipe, swapped)

    monkeypatch.setattr(moe._ops, "grouped_mm_function", record)
    return found


def weights_of(w, order):
    """The leaf, and it as (E, K, N): weights (E, N, K), (E, K, N), or in an order of memory that is copied."""
    if order == "swapped":
        return w, w.transpose(1, 2)
    leaf = w.detach().transpose(1, 2).contiguous().requires_grad_()
    if order == "row-major":
        return leaf, leaf
    leaf = w.detach().permute(2, 0, 1).contiguous().requires_grad_()
    return leaf, leaf.permute(1, 0, 2)


@RECIPES
@pytest.mark.parametrize("order", ["swapped", "row-major", "copied"])
def test_one_gradient_alone(recipe, order, kinds):
    """Of an operand without a gradient, none is computed, and nothing is saved for it."""
    x, w = operands()
    leaf, b = weights_of(w, order)
    offs, grad = ends("odd"), torch.randn(M, N, generator=torch.Generator().manual_seed(1)).to(BF16).to(DEVICE)
    both = torch.autograd.grad(moe.grouped_mm(x, b, offs, recipe), (x, leaf), grad)
    assert kinds == ["forward", "backward"]
    saved, kept = [], BF16 if recipe == "mxfp8" else torch.uint8
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: saved.append(tensor) or tensor, lambda tensor: tensor):
        of_tokens = moe.grouped_mm(x, b.detach(), offs, recipe)
        assert {tensor.dim() for tensor in saved if tensor.dtype == kept and tensor.numel()} == {3}  # of the weights
        saved.clear()
        of_weights = moe.grouped_mm(x.detach(), b, offs, recipe)
        assert {tensor.dim() for tensor in saved if tensor.dtype == kept and tensor.numel()} == {2}  # of the tokens
    kinds.clear()
    same_bits(torch.autograd.grad(of_tokens, x, grad), both[:1])
    same_bits(torch.autograd.grad(of_weights, leaf, grad), both[1:])
    assert kinds == ["backward_a", "backward_b"]
    for wanted, expected in ((x, both[:1]), (leaf, both[1:])):
        same_bits(torch.autograd.grad(moe.grouped_mm(x, b, offs, recipe), wanted, grad), expected)


def step_of_ones(x, w):
    return torch.autograd.grad(moe.grouped_mm(x, w.transpose(1, 2), ends()).sum(), (x, w))


def test_no_second_derivative():
    x, w = operands()
    y = moe.grouped_mm(x, w.transpose(1, 2), ends())
    (dx,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="no second derivative"):
        dx.sum().backward()


def test_quantizers_and_products_of_their_results_have_no_gradient():
    """Asking for one is an error, in the first call and in those that go past torch's dispatcher; torch would take it to be zero. Where none
    is asked for all goes on."""
    x, w = operands()
    plain = x.detach()
    a, b = moe.quantize_fp8(plain), moe.quantize_fp8(w.detach())
    sa = a.scales.clone().requires_grad_()

    def product(sa):
        return moe.scaled_grouped_mm(a.q, b.q.transpose(1, 2), sa, b.scales, ends())

    for name, function, operand in (
        ("quantize_mx", lambda x: moe.quantize_mx(x).q, x),
        ("quantize_mx_dual", lambda x: moe.quantize_mx_dual(x).scales_t, x),
        ("quantize_fp8", lambda x: moe.quantize_fp8(x).scales, x),
        ("quantize_fp8_dual", lambda x: moe.quantize_fp8_dual(x, ends()).scales, x),
        ("scaled_grouped_mm", product, sa),
        ("scaled_grouped_mm", product, sa),
    ):
        with pytest.raises(NotImplementedError, match=f"{name} has no gradient; .*torch.no_grad"):
            function(operand).float().sum().backward()
        with pytest.raises(NotImplementedError, match=f"{name} has no derivative by torch.func"):
            torch.func.grad(lambda operand, function=function: function(operand).float().sum())(operand.detach())
        with torch.no_grad():
            found = function(operand)
        assert not found.requires_grad
        same_bits([found], [function(operand.detach())])
    with pytest.raises(NotImplementedError, match="grouped_mm has no derivative by torch.func"):
        torch.vmap(torch.func.grad(lambda x: moe.grouped_mm(x, w.detach().transpose(1, 2), ends()).float().sum()))(plain[None])
    frozen = torch.func.grad(lambda scale: scale * moe.grouped_mm(plain, w.detach().transpose(1, 2), ends()).float().sum())
    assert torch.isfinite(frozen(torch.ones((), device=DEVICE)))


@pytest.mark.parametrize("wanted", ["weights", "tokens", "both"])
def test_gradients_through_vmap(wanted):
    """Also of tensors that vmap has wrapped, which do not say that they need one."""
    x, w = operands()
    x, w = x.detach().requires_grad_(wanted != "weights"), torch.stack([w, 2 * w]).detach().requires_grad_(wanted != "tokens")
    leaves = [tensor for tensor in (x, w) if tensor.requires_grad]
    product = torch.vmap(lambda each: moe.grouped_mm(x, each.transpose(1, 2), ends()))
    found = torch.autograd.grad(product(w).float().square().sum(), leaves)
    one_by_one = torch.stack([moe.grouped_mm(x, each.transpose(1, 2), ends()) for each in w])
    same_bits(found, torch.autograd.grad(one_by_one.float().square().sum(), leaves))
    compiled = torch.compile(lambda w: torch.vmap(lambda each: moe.grouped_mm(x.detach(), each.transpose(1, 2), ends()))(w), fullgraph=True, backend="aot_eager")
    same_bits([compiled(w.detach())], [product(w).detach()])
    with pytest.raises(NotImplementedError, match="quantize_mx has no gradient"):
        torch.vmap(lambda each: moe.quantize_mx(each).q.float())(leaves[-1] if leaves[-1].dim() == 4 else leaves[-1][None]).sum().backward()


def test_no_forward_mode():
    """A product with a tangent is refused, where torch would take the result's tangent to be zero; one without goes on."""
    x, w = operands()
    x, w = x.detach(), w.detach()
    products = [lambda a: moe.grouped_mm(a, w.transpose(1, 2), ends()), lambda a: moe.quantize_fp8(a).scales]
    for product in products:
        for transformed in (product, torch.vmap(product)):
            tokens = x if transformed is product else x[None]
            with pytest.raises(NotImplementedError, match="no forward-mode derivative"):
                torch.func.jvp(transformed, (tokens,), (tokens,))
        with torch.autograd.forward_ad.dual_level():
            assert torch.equal(product(x), product(x.clone()))
            with pytest.raises(NotImplementedError, match="no forward-mode derivative"):
                product(torch.autograd.forward_ad.make_dual(x, x))


def test_types_of_attributes():
    x, w = (tensor.detach() for tensor in operands())
    a, b = moe.quantize_fp8(x), moe.quantize_fp8(w)
    given = (a.q, b.q.transpose(1, 2), a.scales, b.scales, ends())
    with pytest.raises(TypeError, match="out_dtype is 'bf16'; it must be a torch.dtype"):
        moe.scaled_grouped_mm(*given, out_dtype="bf16")
    with pytest.raises(TypeError, match="accumulate is False; it must be a name"):
        moe.scaled_grouped_mm(*given, accumulate=False)
    with pytest.raises(TypeError, match="dtype is 'f8E4M3FN'; it must be a torch.dtype"):
        moe.quantize_fp8(x, dtype="f8E4M3FN")
    with pytest.raises(TypeError, match="mode is 3; it must be a name"):
        moe.quantize_mx(x, mode=3)


def test_quantized_operands_are_told_apart():
    """By types that an earlier call had, and by a sign that a view stands for."""
    x, w = (tensor.detach() for tensor in operands())
    a, b = moe.quantize_fp8(x), moe.quantize_fp8(w)
    qb = b.q.transpose(1, 2)
    product = moe.scaled_grouped_mm(a.q, qb, a.scales, b.scales, ends())
    same_bits([moe.scaled_grouped_mm(a.q, qb, torch._neg_view(a.scales), b.scales, ends())], [moe.scaled_grouped_mm(a.q, qb, -a.scales, b.scales, ends())])
    assert not torch.equal(product, moe.scaled_grouped_mm(a.q, qb, -a.scales, b.scales, ends()))
    with pytest.raises(moe_opt.NotFound):
        moe.scaled_grouped_mm(a.q.view(torch.uint8), qb.view(torch.uint8), a.scales, b.scales, ends())
    with pytest.raises(ValueError, match="negative view"):
        moe_opt.quantize_mx(torch._neg_view(x))


def test_messages_name_what_is_wrong():
    x, w = operands()
    b = w.transpose(1, 2)
    with pytest.raises(ValueError, match="recipe is 'fp4'; it must be one of"):
        moe.grouped_mm(x, b, ends(), "fp4")
    with pytest.raises(ValueError, match="both must be torch.bfloat16"):
        moe.grouped_mm(x.float(), b, ends())
    with pytest.raises(ValueError, match="it must be torch.int32"):
        moe.grouped_mm(x, b, ends().long())
    with pytest.raises(ValueError, match=f"offs has {E - 1} ends of groups; b has {E} experts"):
        moe.grouped_mm(x, b, ends()[:-1])
    with pytest.raises(ValueError, match="multiples of 16"):
        moe.grouped_mm(x[:, :24].contiguous(), b[:, :24], ends())
    with pytest.raises(ValueError, match="multiples of 32 for mxfp8"):
        moe.grouped_mm(x, b[:, :, :16], ends(), "mxfp8")
    with pytest.raises(TypeError, match="x is of type list; it must be a torch.Tensor"):
        moe.quantize_mx([1.0])
    for quantizer in (moe.quantize_mx, moe.quantize_fp8, moe.quantize_fp8_dual):
        with pytest.raises(TypeError, match="offs is of type list; it must be a torch.Tensor"):
            quantizer(x.detach(), offs=[1, 2])
    with pytest.raises(TypeError, match="A is of type list; it must be a torch.Tensor"):
        moe.to_fp8_rowwise_then_scaled_grouped_mm([1.0], b, ends())
    with pytest.raises(TypeError, match="sb is of type NoneType; it must be a torch.Tensor"):
        moe.scaled_grouped_mm(x, b, x, None, ends())
    with pytest.raises(TypeError, match="axis is 1.0; it must be a number"):
        moe.quantize_mx(x, 1.0)
    with pytest.raises(ValueError, match="axis is 0; it must be one of the last two dimensions"):
        moe.quantize_fp8(w, axis=0)
    qx, qw = moe.quantize_mx(x.detach()), moe.quantize_mx(w.detach())
    for device in (DEVICE, "meta"):
        short = [tensor.to(device) for tensor in (qx.q, qw.q.transpose(1, 2), qx.scales[:5], qw.scales.transpose(1, 2), ends())]
        with pytest.raises(ValueError, match=f"argument 'sa': dimension 0 is 5; it must be {M}, the value of 'qa.0'"):
            moe.scaled_grouped_mm(*short)
        with pytest.raises(ValueError, match="argument 'x': dimension 1 is 16; it must be a multiple of 32"):
            moe.quantize_mx(x.detach().to(device)[:, :16])
    with pytest.raises(LookupError, match="i32 of rank 0"):
        moe.scaled_grouped_mm(qx.q, qw.q.transpose(1, 2), qx.scales, qw.scales.transpose(1, 2), ends()[0])
    with pytest.raises(LookupError, match="and results torch.int8; results can be bf16"):
        moe.scaled_grouped_mm(x.to(FP8), b.to(FP8), torch.ones(M, device=DEVICE), torch.ones(E, N, device=DEVICE), ends(), out_dtype=torch.int8)


def test_saved_bytes():
    """At most 55 % of what the bf16 product saves."""
    x, w = operands()
    saved = {}

    def count(key):
        def keep(tensor):
            saved[key] = saved.get(key, 0) + tensor.numel() * tensor.element_size()
            return tensor

        return torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)

    # Long sums: the scales weigh as in practice.
    rows, n, k = (4096, 1024, 1024) if GPU else (128, 128, 128)
    x = torch.randn(rows, k, device=DEVICE, dtype=BF16, requires_grad=True)
    w = torch.randn(2, n, k, device=DEVICE, dtype=BF16, requires_grad=True)
    offs = torch.tensor([rows // 2, rows], dtype=torch.int32, device=DEVICE)
    with count("bf16"):
        torch._grouped_mm(x, w.transpose(1, 2), offs=offs)
    with count("ours"):
        moe.grouped_mm(x, w.transpose(1, 2), offs)
    assert saved["bf16"] >= 2 * (x.numel() + w.numel())
    assert saved["ours"] <= 0.55 * saved["bf16"]


def test_saved_tokens_have_room_for_groups():
    """Those with scales of blocks, whose groups begin at multiples of 128 tokens; also before there is data."""
    x, w = (tensor.detach() for tensor in operands(M - 15))
    b, offs = w.transpose(1, 2), ends("odd", rows=M - 15)
    room = 128 * (-(-x.shape[0] // 128) + E)
    for tensors in ((x, b, offs), tuple(tensor.to("meta") for tensor in (x, b, offs))):
        _, q, scales, *_ = torch.ops.moe_opt.grouped_mm_forward.default(*tensors, "fp8_blockwise")
        assert q.shape == (room, K) and q.t().is_contiguous() and scales.shape == (room // 128, K)


# ---- Ops of torch ----


@RECIPES
def test_opcheck(recipe):
    if recipe == "fp8_blockwise":
        pytest.skip("scales of blocks of tokens have rows that nobody writes, and opcheck compares them")
    rows = -(-M // 128) * 128  # of others the tensors that are saved have room behind the last token, and opcheck compares that too
    x, w = operands(rows)
    b, offs = w.transpose(1, 2), ends(rows=rows)
    torch.library.opcheck(torch.ops.moe_opt.grouped_mm_forward.default, (x, b, offs, recipe))
    with torch.no_grad():
        torch.library.opcheck(torch.ops.moe_opt.grouped_mm.default, (x, b, offs, recipe))
        _, *saved = torch.ops.moe_opt.grouped_mm_forward.default(x, b, offs, recipe)
        grad = torch.randn(rows, N, device=DEVICE).to(BF16)
        torch.library.opcheck(torch.ops.moe_opt.grouped_mm_backward.default, (offs, *saved, grad, recipe, True))
        torch.library.opcheck(torch.ops.moe_opt.grouped_mm_backward_a.default, (offs, *saved[2:], grad, recipe, True))
        torch.library.opcheck(torch.ops.moe_opt.grouped_mm_backward_b.default, (offs, *saved[:2], grad, recipe, True))
    torch.library.opcheck(torch.ops.moe_opt.grouped_mm_forward_a.default, (x, b.detach(), offs, recipe))
    torch.library.opcheck(torch.ops.moe_opt.grouped_mm_forward_b.default, (x.detach(), b, offs, recipe))


@pytest.mark.parametrize("rows", [3 * E, 65 * E + 1, 257 * E + 1])
def test_products_in_mx_blocks(rows):
    """Of integers, whose sums are exact: forward, both gradients, batched, with few tokens, with some, by blocks still, and many."""
    generator = torch.Generator().manual_seed(0)

    def integers(*shape):
        return torch.randint(-2, 3, shape, generator=generator).to(BF16).to(DEVICE)

    offs = ends("first empty", rows - 2)
    bounds = [0, *offs.tolist()]
    groups = [slice(*pair) for pair in zip(bounds, bounds[1:])]
    x, w, dy = integers(rows, K), integers(E, N, K), integers(rows, N)
    a, b = moe.quantize_mx(x), moe.quantize_mx(w)
    for accumulate in ("fast", "promoted"):
        y = moe.scaled_grouped_mm(a.q, b.q.transpose(1, 2), a.scales, b.scales.transpose(1, 2), offs, accumulate)
        assert torch.equal(y[: rows - 2].float(), torch.cat([x[g].float() @ w[e].float().T for e, g in enumerate(groups)]))
    a, b = moe.quantize_mx(dy), moe.quantize_mx(w, axis=1)  # summed over N
    dx = moe.scaled_grouped_mm(a.q, b.q, a.scales, b.scales, offs)
    assert torch.equal(dx[: rows - 2].float(), torch.cat([dy[g].float() @ w[e].float() for e, g in enumerate(groups)]))
    a, b = moe.quantize_mx(dy, axis=0, offs=offs), moe.quantize_mx(x, axis=0, offs=offs)
    dw = moe.scaled_grouped_mm(a.q.t(), b.q, a.scales, b.scales, offs)
    assert torch.equal(dw, torch.stack([dy[g].float().T @ x[g].float() for g in groups]).to(BF16))
    x3 = integers(E, rows, K)
    a, b = moe.quantize_mx(x3), moe.quantize_mx(w)
    y = moe.scaled_grouped_mm(a.q, b.q.transpose(1, 2), a.scales, b.scales.transpose(1, 2))
    assert torch.equal(y, (x3.float() @ w.float().transpose(1, 2)).to(BF16))


@pytest.mark.parametrize("groups", BLOCK_GROUPS)
def test_products_of_fp8_blocks(groups):
    """Of weights as checkpoints have them: from the fewest tokens to many, scales in any order, compiled."""
    *arrays, expected = blocks_of(numpy.random.default_rng(5), groups, 208, 336, sum(groups) + 2)
    qa, qb, sa, sb = (torch.from_numpy(array).to(DEVICE) for array in arrays)
    qa, qb, sb = qa.view(FP8), qb.view(FP8).transpose(1, 2), sb.transpose(1, 2)
    offs = torch.tensor(groups, device=DEVICE).cumsum(0, dtype=torch.int32)
    expected = torch.from_numpy(expected).to(DEVICE, BF16)
    for scales in ((sa, sb), (sa.t().contiguous().t(), sb.contiguous())):
        assert torch.equal(moe.scaled_grouped_mm(qa, qb, *scales, offs)[: sum(groups)], expected)
    with pytest.raises((moe_opt.NotFound, moe_opt.InvalidArgument), match="rank 0"):
        moe.scaled_grouped_mm(qa, qb, sa, sb, offs[0])
    with pytest.raises(moe_opt.InvalidArgument, match="argument 'sa': has rank 1; it must be 2"):
        moe.scaled_grouped_mm(qa, qb, sa[:, 0], sb, offs)
    compiled = torch.compile(lambda *given: moe.scaled_grouped_mm(*given), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(qa, qb, sa, sb, offs)[: sum(groups)], expected)


def test_quantized_tokens_times_fp8_blocks():
    """What quantize_fp8 gives is what the product reads, without a copy."""
    generator = torch.Generator().manual_seed(0)
    x, w = (torch.randn(shape, generator=generator).to(BF16).to(DEVICE) for shape in ((M, 336), (E, N, 336)))
    a, b = moe.quantize_fp8(x, "1x128"), moe.quantize_fp8(w, "128x128")
    assert a.scales.stride() == (1, M) and _ops._side_by_side(a.scales) is a.scales
    out = moe.scaled_grouped_mm(a.q, b.q.transpose(1, 2), a.scales, b.scales.transpose(1, 2), ends())
    values = a.q.float() * a.scales.repeat_interleave(128, 1)[:, : x.shape[1]]
    scales = b.scales.repeat_interleave(128, 1)[:, : w.shape[1]].repeat_interleave(128, 2)[..., : w.shape[2]]
    assert distance(out, reference(values, b.q.float() * scales, ends())) < 0.004


@pytest.mark.parametrize("rows", [70, 385])
def test_weights_that_become_bf16_in_the_product(rows):
    """Of one expert: with some tokens and with more, of weights quantized as (E, N, K) and as (E, K, N)."""
    generator = torch.Generator().manual_seed(0)
    x, w = (torch.randint(-2, 3, shape, generator=generator).to(BF16).to(DEVICE) for shape in ((rows, 1024), (1, 48, 1024)))
    offs = torch.tensor([rows - 2], dtype=torch.int32, device=DEVICE)
    expected = (x[: rows - 2].float() @ w[0].float().T).to(BF16)
    a, b, c = moe.quantize_mx(x), moe.quantize_mx(w), moe.quantize_mx(w.transpose(1, 2).contiguous(), axis=1)
    for q, scales in ((b.q.transpose(1, 2), b.scales.transpose(1, 2)), (c.q, c.scales)):
        same_bits([moe.scaled_grouped_mm(a.q, q, a.scales, scales, offs)[: rows - 2]], [expected])


def test_opcheck_of_quantizers_and_products():
    x, w = (tensor.detach() for tensor in operands())
    ops = torch.ops.moe_opt
    a, b, c, d = moe.quantize_fp8(x), moe.quantize_fp8(w), moe.quantize_mx(x), moe.quantize_mx(w)
    # The other checks compute with inputs and results; torch has no arithmetic for eight-bit floats.
    tests = ("test_autograd_registration", "test_faketensor")
    for op, arguments in (
        (ops.quantize, (x, None, 1, "rceil", None, FP8)),
        (ops.quantize, (x, ends(), 0, "rceil", 128, FP8)),
        (ops.quantize_dual, (x, "rceil", FP8)),
        (ops.quantize_fp8, (x, None, "row", 1, True, False, None, FP8)),
        (ops.quantize_fp8_dual, (x, ends(), True, False, 128, FP8)),
        (ops.scaled_mm, (a.q, b.q.transpose(1, 2), a.scales, b.scales, ends())),
        (ops.scaled_mm, (c.q, d.q.transpose(1, 2), c.scales, d.scales.transpose(1, 2), ends())),
    ):
        torch.library.opcheck(op.default, arguments, test_utils=tests)


@SAVED
def test_compile_fullgraph(recipe):
    backend = "inductor" if GPU else "aot_eager"
    x, w = operands()
    torch._dynamo.reset()

    def layer(x, w, offs):
        return torch.nn.functional.silu(moe.grouped_mm(x, w.transpose(1, 2), offs, recipe)).square().sum()

    eager = torch.autograd.grad(layer(x, w, ends()), (x, w))
    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    for found, expected in zip(torch.autograd.grad(compiled(x, w, ends()), (x, w)), eager):
        assert distance(found, expected) < 0.01  # elementwise code rounds to bf16 at other places


def test_compile_product_of_quantized_operands():
    """Eager calls go past torch's dispatcher; traced ones do not."""
    x, w = (tensor.detach() for tensor in operands())
    a, b = moe.quantize_fp8(x), moe.quantize_fp8(w)

    def product(qa, qb, sa, sb, offs):
        return moe.scaled_grouped_mm(qa, qb.transpose(1, 2), sa, sb, offs)

    arguments = (a.q, b.q, a.scales, b.scales, ends())
    eager = [product(*arguments) for _ in range(2)]  # by the dispatcher, then directly
    same_bits(eager[:1], eager[1:])
    same_bits([torch.compile(product, fullgraph=True, backend="aot_eager")(*arguments)], eager[:1])
    without_data = product(*[tensor.to("meta") for tensor in arguments])
    assert without_data.is_meta and without_data.shape == eager[0].shape


def test_compile_quantizers():
    x, offs = operands()[0].detach(), ends()
    for quantizer, arguments in (
        (moe.quantize_mx, (x,)), (moe.quantize_mx_dual, (x,)), (moe.quantize_fp8, (x,)), (moe.quantize_fp8_dual, (x, offs)),
    ):  # fmt: skip
        compiled = torch.compile(lambda *given, quantizer=quantizer: quantizer(*given), fullgraph=True, backend="inductor" if GPU else "aot_eager")
        found, expected = compiled(*arguments), quantizer(*arguments)
        assert type(found) is type(expected)
        same_bits([found.q], [expected.q])  # whose rows are all written
        same_bits([found.scales], [expected.scales])


def test_without_data_sizes_are_checked():
    """As with data: sizes that are numbers, before a model runs for real."""
    x, w, offs = (torch.empty(size, dtype=dtype, device="meta") for size, dtype in (((2**31, K), BF16), ((E, N, K), BF16), ((E,), torch.int32)))
    for tokens in (x, x.detach().requires_grad_()):
        with pytest.raises(moe_opt.InvalidArgument, match="argument 'a': dimension 0 is 2147483648; it must be 0 to 2147483647"):
            moe.grouped_mm(tokens, w.transpose(1, 2), offs)
    with pytest.raises(moe_opt.InvalidArgument, match="argument 'b': dimension 0 is 2000; it must be 1 to 1024"):
        moe.grouped_mm(x[:M], w[:1].expand(2000, N, K).transpose(1, 2), offs[:1].expand(2000))


def test_compile_dynamic_tokens():
    compiled = torch.compile(moe.grouped_mm, fullgraph=True, dynamic=True, backend="aot_eager")
    for rows in (M, M - 16, M - 32):
        x, w = operands(rows)
        same_bits([compiled(x, w.transpose(1, 2), ends(rows=rows))], [moe.grouped_mm(x, w.transpose(1, 2), ends(rows=rows))])


@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpointing(reentrant):
    x, w = operands()

    def layer(x, w):
        return moe.grouped_mm(x, w.transpose(1, 2), ends())

    y = torch.utils.checkpoint.checkpoint(layer, x, w, use_reentrant=reentrant)
    same_bits(torch.autograd.grad(y.sum(), (x, w)) if not reentrant else backward_of(y.sum(), x, w), step_of_ones(x, w))


def backward_of(loss, *tensors):
    loss.backward()
    return [tensor.grad for tensor in tensors]


@on_gpu
@SAVED
def test_cuda_graph(recipe):
    x, w = operands()
    offs, grad = ends(), torch.randn(M, N, device="cuda", dtype=BF16)

    def run():
        y = moe.grouped_mm(x, w.transpose(1, 2), offs, recipe)
        return y, *torch.autograd.grad(y, (x, w), grad)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = run()
    for seed in range(3):
        with torch.no_grad():
            for mine, other in zip((x, w), operands(seed=seed + 5)):
                mine.copy_(other)
        grad.normal_()
        for tensor in captured:
            tensor.fill_(float("nan"))
        graph.replay()
        same_bits(captured, run())


@on_gpu
def test_cuda_graph_of_parts():
    """What a copy has to move into place is copied in the graph: a replay sees what is there then."""
    x, part = operands()[0].detach(), torch.cat([ends()[:1], ends()])[1:]
    moe.quantize_fp8_dual(x, part)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = moe.quantize_fp8_dual(x, part)
    for kind in ("odd", "first empty"):
        part.copy_(ends(kind))
        x.normal_()
        graph.replay()
        same_bits(captured[:2], moe.quantize_fp8_dual(x, ends(kind))[:2])
        same_bits([captured.q_t[:M], captured.scales_t], [tensor[:size] for tensor, size in zip(moe.quantize_fp8_dual(x, ends(kind))[2:], (M, E))])


@on_gpu
def test_no_host_synchronization():
    x, w = operands()
    step(x, w, ends())
    offs, grad = ends(), torch.randn(M, N, device="cuda", dtype=BF16)
    part = torch.cat([offs[:1], offs])[1:]  # which is copied
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        y = moe.grouped_mm(x, w.transpose(1, 2), offs)
        torch.autograd.grad(y, (x, w), grad)
        moe.quantize_mx(x)
        moe.quantize_fp8(w, axis=1)
        moe.quantize_fp8_dual(x, part)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@on_gpu
def test_streams():
    """Steps on several streams at once, from several threads, have the bits of steps alone."""
    cases = [operands(seed=seed) for seed in range(4)]
    expected = [step(x, w, ends()) for x, w in cases]
    torch.cuda.synchronize()
    found = [None] * len(cases)

    def work(index):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(20):
                found[index] = step(*cases[index], ends())
        stream.synchronize()

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(cases))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, other in zip(found, expected):
        same_bits(one, other)


def mx_product(seed):
    """A fast product in MX blocks of many tokens, which takes room for both operands in bf16 while it runs, as a function."""
    x, w = (tensor.detach() for tensor in operands(257 * E, seed=seed))
    a, b = moe.quantize_mx(x), moe.quantize_mx(w)
    offs = ends(rows=257 * E)
    return lambda: moe.scaled_grouped_mm(a.q, b.q.transpose(1, 2), a.scales, b.scales.transpose(1, 2), offs)


def test_room_of_several_threads():
    """Products that take room while they run, at once, on the GPU on a stream each: each has its own."""
    products = [mx_product(seed) for seed in range(4)]
    expected = [product() for product in products]
    if GPU:
        torch.cuda.synchronize()
    found = [[] for _ in products]

    def work(index):
        with torch.cuda.stream(torch.cuda.Stream()) if GPU else contextlib.nullcontext():
            for _ in range(50 if GPU else 3):
                found[index].append(products[index]())
        if GPU:
            torch.cuda.synchronize()

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(products))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for results, wanted in zip(found, expected):
        for result in results:
            same_bits([result], [wanted])


@on_gpu
def test_room_in_a_cuda_graph():
    """Of two products in one graph, while others run outside of it between replays."""
    products = [mx_product(seed) for seed in range(3)]
    expected = [product() for product in products]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = [products[0](), products[1]()]
    for _ in range(3):
        for tensor in captured:
            tensor.fill_(float("nan"))
        other = products[2]()
        graph.replay()
        same_bits([*captured, other], expected)


@on_two_gpus
@RECIPES
def test_devices(recipe):
    """Tensors say where a step runs, whatever device is current."""
    expected = step(*operands(), ends(), recipe)
    for current in (0, 1):
        with torch.cuda.device(current):
            x, w = operands(device="cuda:1")
            found = step(x, w, ends(device="cuda:1"), recipe)
        assert all(tensor.device == torch.device("cuda:1") for tensor in found)
        same_bits([tensor.cpu() for tensor in found], [tensor.cpu() for tensor in expected])


@on_two_gpus
def test_devices_at_once():
    """A thread for each device, and a graph on each."""
    cases = [(f"cuda:{device}", recipe) for device in (0, 1) for recipe in moe.RECIPES]
    expected = {recipe: [tensor.cpu() for tensor in step(*operands(), ends(), recipe)] for recipe in moe.RECIPES}
    found = {}

    def work(device, recipe):
        with torch.cuda.device(device), torch.cuda.stream(torch.cuda.Stream(device)):
            x, w = operands(device=device)
            for _ in range(20):
                found[device, recipe] = step(x, w, ends(device=device), recipe)
            torch.cuda.current_stream().synchronize()

    threads = [threading.Thread(target=work, args=case) for case in cases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for device, recipe in cases:
        same_bits([tensor.cpu() for tensor in found[device, recipe]], expected[recipe])
    x, w = operands(device="cuda:1")
    offs, grad = ends(device="cuda:1"), torch.randn(M, N, device="cuda:1", dtype=BF16)
    with torch.cuda.device(1):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = moe.grouped_mm(x, w.transpose(1, 2), offs)
            captured = y, *torch.autograd.grad(y, (x, w), grad)
        graph.replay()
    y = moe.grouped_mm(x, w.transpose(1, 2), offs)
    same_bits(captured, (y, *torch.autograd.grad(y, (x, w), grad)))


@on_two_gpus
def test_tensors_of_two_devices():
    x, w = operands()
    with pytest.raises((ValueError, RuntimeError), match="device"):
        moe.grouped_mm(x.detach(), w.detach().to("cuda:1").transpose(1, 2), ends())


def test_some_tensors_without_data():
    """Torch asks the kernel for tensors without data where one of them has none. Then the result would be whatever lies in memory."""
    x, w = operands()
    a, b = moe.quantize_fp8(x.detach()), moe.quantize_fp8(w.detach())
    for function, arguments in (
        (moe.grouped_mm, (x.detach(), w.detach().transpose(1, 2), ends())),
        (moe.grouped_mm, (x, w.transpose(1, 2), ends())),
        (moe.scaled_grouped_mm, (a.q, b.q.transpose(1, 2), a.scales, b.scales, ends())),
        (lambda x, offs: moe.quantize_mx(x, 0, offs=offs), (x.detach(), ends())),
    ):
        for place in range(len(arguments)):
            some = [tensor.to("meta") if index == place else tensor for index, tensor in enumerate(arguments)]
            with pytest.raises(ValueError, match="tensors are on .*meta.*; all must be on one device"):
                function(*some)


@on_gpu
def test_cpu_and_gpu_have_the_same_bits():
    """The emulator runs what the GPU runs."""
    x, w = operands(64)
    offs = ends("odd", 64)
    found = step(x, w, offs)
    x, w = (tensor.detach().cpu().requires_grad_() for tensor in (x, w))
    emulated = step(x, w, offs.cpu())
    assert max(distance(one.cpu(), other) for one, other in zip(found, emulated)) < 1e-3


# ---- Quantizers ----


def mx_reference(x):
    """MXFP8 along the last dimension, RCEIL."""
    blocks = x.float().unflatten(-1, (-1, 32))
    scaled = blocks.abs().amax(-1) * torch.tensor(1 / 448, dtype=torch.float32, device=x.device)
    bits = scaled.view(torch.int32)
    scales = torch.where(bits <= 0x400000, 0, (bits + 0x7FFFFF) >> 23)
    q = (blocks * ((254 - scales) << 23).view(torch.float32)[..., None]).to(FP8)
    return q.flatten(-2), scales.to(torch.uint8).view(torch.float8_e8m0fnu)


@pytest.mark.parametrize("axis", [-1, -2])
def test_mx_quantizer_has_the_bits_of_the_formula(axis):
    for x in (tensor.detach() for tensor in operands()):
        if x.shape[axis] % 32:
            continue
        q, scales = mx_reference(x if axis == -1 else x.transpose(-1, -2).contiguous())
        found = moe.quantize_mx(x, axis)
        if axis == -2:
            q, scales = q.transpose(-1, -2), scales.transpose(-1, -2)
        same_bits(found, (q, scales))


def test_mx_of_groups_has_the_bits_of_each():
    x = operands()[0].detach()
    found, starts = moe.quantize_mx(x, 0, offs=ends("odd")), [0, *ends("odd").tolist()]
    for group, (start, end) in enumerate(zip(starts, starts[1:])):
        rows = torch.nn.functional.pad(x[start:end], (0, 0, 0, (start - end) % 32))
        if end > start:
            q, scales = moe.quantize_mx(rows, 0)
            first = start // 32 + group
            same_bits((found.q[start:end], found.scales[first : first + len(scales)]), (q[: end - start], scales))


def test_aligned_groups_have_the_bits_of_others():
    x, offs = operands()[0].detach(), ends("odd")
    starts = [0, *offs.tolist()]
    kinds = [lambda **align: moe.quantize_mx(x, 0, offs=offs, **align).q, lambda **align: moe.quantize_fp8(x, axis=0, offs=offs, **align).q,
             lambda **align: moe.quantize_fp8_dual(x, offs, **align).q_t]
    for kind in kinds:
        plain, aligned = kind(), kind(align=128)
        assert aligned.shape == ((-(-M // 128) + E) * 128, K)
        for group, (start, end) in enumerate(zip(starts, starts[1:])):
            first = (start // 128 + group) * 128
            rows = aligned[first : first + -(-(end - start) // 128) * 128].view(torch.uint8)
            same_bits([rows[: end - start]], [plain[start:end].view(torch.uint8)])
            assert not rows[end - start :].any()


def test_dual_quantizers_have_the_bits_of_single_ones():
    x = operands()[0].detach()
    both = moe.quantize_mx_dual(x)
    same_bits(both, (*moe.quantize_mx(x), *moe.quantize_mx(x, axis=0)))
    both, alone = moe.quantize_fp8_dual(x, ends()), moe.quantize_fp8(x, axis=0, offs=ends())
    assert both.q_t.shape == alone.q.shape and both.q_t.shape[0] % 128 == 0
    same_bits((*both[:2], both.q_t[:M], both.scales_t), (*moe.quantize_fp8(x), alone.q[:M], alone.scales))


def test_product_of_quantized_operands():
    x, w = (tensor.detach() for tensor in operands())
    a, b = moe.quantize_fp8(x), moe.quantize_fp8(w)
    y = moe.scaled_grouped_mm(a.q, b.q.transpose(1, 2), a.scales, b.scales, ends())
    same_bits([y], [moe.grouped_mm(x, w.transpose(1, 2), ends())])


# ---- Drop-ins ----


def test_takes_the_place_of_torchao():
    x, w = operands()
    b = w.transpose(1, 2)
    y = moe.to_fp8_rowwise_then_scaled_grouped_mm(x, b, ends(), BF16, FP8, False)
    same_bits([y], [moe.grouped_mm(x, b, ends())])
    odd = moe.to_fp8_rowwise_then_scaled_grouped_mm(A=x, B_t=b, offs=ends("odd"))
    assert distance(odd, reference(x, w, ends("odd"))) < NEAR


@on_gpu
def test_has_the_bits_of_torchao():
    """y and dx of the same bits; sums over tokens come in another order, which is 0.2 % of the norm of dw."""
    torchao = pytest.importorskip("torchao.prototype.moe_training")
    x, w = operands()
    grad = torch.randn(M, N, device="cuda", dtype=BF16)
    y = torchao._to_fp8_rowwise_then_scaled_grouped_mm(x, w.transpose(1, 2), ends(), pad_token_groups_for_grouped_mm=False)
    theirs = torch.autograd.grad(y, (x, w), grad)
    ours = moe.to_fp8_rowwise_then_scaled_grouped_mm(x, w.transpose(1, 2), ends())
    grads = torch.autograd.grad(ours, (x, w), grad)
    same_bits((ours, grads[0]), (y, theirs[0]))
    assert distance(grads[1], theirs[1]) < 0.01


class Experts(torch.nn.Module):
    """As models have them: fp32 weights, cast and transposed in forward."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(2)
        self.w1 = torch.nn.Parameter(torch.randn(E, N, K, generator=generator) * 0.1)
        self.w2 = torch.nn.Parameter(torch.randn(E, K, N, generator=generator) * 0.1)
        self.gate = torch.nn.Linear(K, E)

    def forward(self, x, offs):
        h = torch._grouped_mm(x, self.w1.bfloat16().transpose(-2, -1), offs=offs)
        return torch._grouped_mm(torch.nn.functional.silu(h), self.w2.bfloat16().transpose(-2, -1), offs=offs)


def by_hand(model, x, offs, recipe):
    h = moe.grouped_mm(x, model.w1.bfloat16().transpose(-2, -1), offs, recipe)
    return moe.grouped_mm(torch.nn.functional.silu(h), model.w2.bfloat16().transpose(-2, -1), offs, recipe)


@RECIPES
def test_converted_experts_use_the_recipe(recipe):
    plain = Experts().to(DEVICE)
    model = moe.convert_experts_(copy.deepcopy(plain), recipe)
    assert type(model.gate.weight) is torch.nn.Parameter
    x = operands()[0].detach()
    y, expected = model(x, ends()), by_hand(plain, x, ends(), recipe)
    same_bits([y], [expected])
    y.sum().backward()
    expected.sum().backward()
    same_bits((model.w1.grad, model.w2.grad), (plain.w1.grad, plain.w2.grad))
    assert type(model.w1.grad) is torch.Tensor


def test_filter_chooses_experts():
    model = moe.convert_experts_(Experts(), filter=lambda name, _: name == "w2")
    assert type(model.w1) is torch.nn.Parameter and type(model.w2) is not torch.nn.Parameter
    with pytest.raises(ValueError, match="no parameters to convert"):
        moe.convert_experts_(torch.nn.Linear(2, 2))
    with pytest.raises(TypeError, match="module is of type list"):
        moe.convert_experts_([model])


def test_conversion_is_in_place():
    """Optimizers, hooks and what others have put on parameters stay."""
    model, seen = Experts().to(DEVICE), []
    before = dict(model.named_parameters())
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model.w1.allreduce = False
    model.w1.register_hook(lambda grad: seen.append("hook"))
    model.w1.register_post_accumulate_grad_hook(lambda parameter: seen.append("accumulated"))
    moe.convert_experts_(model)
    assert all(parameter is before[name] for name, parameter in model.named_parameters()) and not model.w1.allreduce
    assert isinstance(model.w1, torch.nn.Parameter) and "w1" in dict(model.named_parameters())
    values = model.w1.detach().clone()
    model(operands()[0].detach(), ends()).sum().backward()
    optimizer.step()
    assert seen == ["hook", "accumulated"] and not torch.equal(model.w1, values)


def test_nothing_is_converted_where_one_parameter_cannot_be():
    model = Experts()
    model.w3 = torch.nn.UninitializedParameter()
    with pytest.raises(TypeError, match="w3 is of type UninitializedParameter; it must be a torch.nn.Parameter"):
        moe.convert_experts_(model, filter=lambda name, _: name.startswith("w"))
    assert type(model.w1) is torch.nn.Parameter

    class Slotted(torch.nn.Parameter):
        __slots__ = ("tag",)

    class Answering(torch.nn.Parameter):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return super().__torch_function__(function, types, args, kwargs or {})

    for kind in (Slotted, Answering):
        model.w3 = kind(torch.zeros(E, N, K))
        with pytest.raises(TypeError, match=f"w3 is of type {kind.__name__}"):
            moe.convert_experts_(model)
        assert type(model.w1) is torch.nn.Parameter

    def fails(name, parameter):
        if name == "w2":
            raise KeyError(name)
        return True

    with pytest.raises(KeyError):
        moe.convert_experts_(Experts(), filter=fails)


def test_filter_knows_all_names():
    """Of a module that is registered twice, and of a parameter that has two names."""
    model = torch.nn.Module()
    model.a = model.b = Experts()
    model.c = Experts()
    model.c.w1 = model.a.w1
    moe.convert_experts_(model, filter=lambda name, _: name == "b.w1")
    assert model.c.w1 is model.a.w1 and type(model.c.w1) is not torch.nn.Parameter and type(model.a.w2) is torch.nn.Parameter


def test_loading_keeps_the_conversion():
    """Also where torch swaps tensors."""
    plain, model = Experts(), moe.convert_experts_(Experts())
    with torch.no_grad():
        plain.w1.mul_(2)
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        model.load_state_dict(plain.state_dict())
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    assert type(model.w1).__name__ == "ExpertWeights_fp8_rowwise" and isinstance(model.w1, torch.nn.Parameter)
    same_bits([model.w1.detach().as_subclass(torch.Tensor)], [plain.w1.detach()])


@pytest.mark.parametrize("way", [lambda w: w.mT, lambda w: w.mH, lambda w: w.data.mT, lambda w: w.transpose(1, 2)])
def test_converted_experts_are_compiled(way):
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = Experts().w1

        def forward(self, x, offs):
            return torch._grouped_mm(x, way(self.weight), offs=offs)

    model = moe.convert_experts_(Layer().to(DEVICE).bfloat16())
    x = operands()[0].detach()
    plain = model.weight.detach().as_subclass(torch.Tensor)
    torch._dynamo.reset()
    same_bits([torch.compile(model, fullgraph=True, backend="eager")(x, ends())], [moe.grouped_mm(x, plain.mT, ends())])


def test_converted_experts_of_other_types():
    model = moe.convert_experts_(Experts().to(DEVICE))
    x = operands()[0].detach().float()
    with pytest.raises(ValueError, match="tokens are torch.float32 and weights torch.float32: products of weights that convert_experts_ converted take"):
        torch._grouped_mm(x, model.w1.float().mT, offs=ends())


def test_converted_experts_answer_torch_by_any_name():
    model = moe.convert_experts_(Experts().to(DEVICE).bfloat16())
    x = operands()[0].detach()
    expected = [moe.grouped_mm(x, model.w1.detach().as_subclass(torch.Tensor).mT, ends())]
    with torch.no_grad():
        same_bits([torch._grouped_mm(input=x, mat2=model.w1.mT, offs=ends(), out_dtype=BF16)], expected)
        for op in (torch.ops.aten._grouped_mm, torch.ops.aten._grouped_mm.default):
            same_bits([op(x, model.w1.mT, offs=ends())], expected)
        if hasattr(torch.nn.functional, "grouped_mm"):
            same_bits([torch.nn.functional.grouped_mm(mat_a=x, mat_b=model.w1.mT, offs=ends())], expected)
    assert model.w1.type() == model.w1.data.type() == torch.empty(0, dtype=BF16, device=DEVICE).type()
    assert f"{model.w1[0, 0, 0]:.2f}" == f"{model.w1[0, 0, 0].item():.2f}"


def test_shared_experts_stay_shared():
    """Under two names of one module, and in two modules."""
    model = torch.nn.ModuleList([Experts(), Experts()])
    model[0].also, model[1].w1 = model[0].w1, model[0].w1
    moe.convert_experts_(model)
    assert type(model[0].w1) is not torch.nn.Parameter
    assert model[0].also is model[0].w1 and model[1].w1 is model[0].w1


def test_converted_experts_are_saved_as_plain_tensors():
    plain = Experts()
    model = moe.convert_experts_(copy.deepcopy(plain))
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    assert list(state) == list(plain.state_dict())
    assert all(type(tensor) is torch.Tensor for tensor in state.values())
    same_bits(state.values(), plain.state_dict().values())
    with torch.no_grad():
        model.w1.zero_()
    model.load_state_dict(state)
    same_bits([model.w1], [plain.w1])


def test_parts_of_converted_experts_are_converted():
    weights = moe.convert_experts_(Experts()).w1
    parts = *weights.chunk(2, 1), *torch.split(weights, 1), weights[1:], weights.reshape(E, 2, -1, K)[:, 0]
    assert all(type(part) is type(weights) for part in parts)


def test_converted_experts_are_copied():
    model = moe.convert_experts_(Experts())
    model.tied = model.w1
    model.w1.grad = torch.ones_like(model.w1)
    copied = copy.deepcopy(model)
    assert isinstance(copied.w1, torch.nn.Parameter) and type(copied.w1) is type(model.w1) and copied.tied is copied.w1
    assert copied.w1.requires_grad and copied.w1.is_leaf and copied.w1.data_ptr() != model.w1.data_ptr()
    same_bits([copied.w1, copied.w1.grad], [model.w1, model.w1.grad])


@pytest.mark.parametrize("fused", [False, True])
def test_converted_experts_are_trained(fused):
    plain = Experts().to(DEVICE)
    model = moe.convert_experts_(copy.deepcopy(plain))
    x = operands()[0].detach()
    optimizers = [torch.optim.AdamW(each.parameters(), lr=1e-2, fused=fused) for each in (model, plain)]
    for _ in range(2):
        for each, run, optimizer in zip((model, plain), (model, lambda x, o: by_hand(plain, x, o, "fp8_rowwise")), optimizers):
            optimizer.zero_grad()
            run(x, ends()).float().square().mean().backward()
            optimizer.step()
    same_bits((model.w1, model.w2), (plain.w1, plain.w2))
    assert isinstance(model.w1, torch.nn.Parameter) and type(model.w1) is not torch.nn.Parameter


@contextlib.contextmanager
def process_group():
    """Of this process alone."""
    import torch.distributed as distributed

    distributed.init_process_group("nccl" if GPU else "gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        yield torch.distributed.init_device_mesh(DEVICE, (1,))
    finally:
        distributed.destroy_process_group()


def losses_of(model):
    """Of three steps."""
    x, losses = operands()[0].detach(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=10.0)
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(x, ends()).float().square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    "way",
    [
        lambda w: w.swapdims(1, 2), lambda w: torch.swapdims(w, 1, 2), lambda w: w.movedim(1, 2), lambda w: torch.movedim(w, 1, 2),
        lambda w: w.moveaxis(1, 2), lambda w: w.mH, lambda w: w.adjoint(), lambda w: torch.transpose_copy(w, 1, 2), lambda w: w.double().bfloat16().mT,
        lambda w: w.unsqueeze(0).squeeze(0).mT, lambda w: w.expand(E, N, K).mT, lambda w: w.flatten().view(E, N, K).mT,
        lambda w: w.index_select(0, torch.arange(E, device=w.device)).mT, lambda w: torch.reshape(input=w, shape=(E, N, K)).mT,
        lambda w: w.tensor_split(1)[0].mT, lambda w: w.broadcast_to(E, N, K).mT, lambda w: w.ravel().reshape_as(w).mT, lambda w: w.hsplit(1)[0].mT,
        lambda w: w.as_strided(w.size(), w.stride()).mT, lambda w: w.narrow_copy(0, 0, E).mT, lambda w: w.unsafe_chunk(1)[0].mT,
    ],
)  # fmt: skip
def test_converted_experts_in_another_form(way):
    model = moe.convert_experts_(Experts().to(DEVICE).bfloat16())
    x = operands()[0].detach()
    plain = model.w1.detach().as_subclass(torch.Tensor)
    same_bits([torch._grouped_mm(x, way(model.w1), offs=ends())], [moe.grouped_mm(x, plain.mT, ends())])


def test_converted_experts_are_sharded():
    """By FSDP and as DTensors: converted after that they are experts, converted before that is an error."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Shard, distribute_tensor

    plain = Experts().to(DEVICE)
    alone = moe.convert_experts_(copy.deepcopy(plain))
    expected = losses_of(copy.deepcopy(alone))
    assert expected != losses_of(copy.deepcopy(plain))
    with process_group() as mesh:
        assert losses_of(moe.convert_experts_(fully_shard(copy.deepcopy(plain), mesh=mesh))) == expected
        model = copy.deepcopy(plain)
        for name in ("w1", "w2"):
            setattr(model, name, torch.nn.Parameter(distribute_tensor(getattr(model, name).detach(), mesh, [Shard(0)])))
        moe.convert_experts_(model)
        assert type(model.w1.to_local()).__name__ == type(model.w1.to_local().bfloat16().transpose(1, 2)).__name__ == "ExpertWeights_fp8_rowwise"
        with torch.device("meta"):
            empty = fully_shard(Experts(), mesh=mesh)
        with pytest.raises(ValueError, match="w1 is sharded and on the meta device.*call convert_experts_ after it"):
            moe.convert_experts_(empty)
        with pytest.raises(RuntimeError, match="call convert_experts_ after them"):
            fully_shard(copy.deepcopy(alone), mesh=mesh)
        with pytest.raises(RuntimeError, match="call convert_experts_ after them"):
            distribute_tensor(alone.w1.detach(), mesh, [Shard(0)])


def test_converted_experts_with_checkpointing():
    model = moe.convert_experts_(Experts().to(DEVICE))
    x = operands()[0].detach()
    torch.utils.checkpoint.checkpoint(model, x, ends(), use_reentrant=False).sum().backward()
    found = [model.w1.grad.clone(), model.w2.grad.clone()]
    model.zero_grad()
    model(x, ends()).sum().backward()
    same_bits(found, (model.w1.grad, model.w2.grad))


@pytest.mark.parametrize("recipe", ["fp8_rowwise", "fp8_tensorwise"])
def test_compiled_code_knows_the_conversion(recipe):
    """Also of a module that was compiled before, as it was and by another recipe."""
    model, x = Experts().to(DEVICE), operands()[0].detach()
    compiled = torch.compile(model, backend="aot_eager")
    with torch.no_grad():
        before = compiled(x, ends())
        for each in ("fp8_blockwise", recipe):
            moe.convert_experts_(model, each)
            found = compiled(x, ends())
            same_bits([found], [model(x, ends())])
            assert not torch.equal(found, before)


def test_converted_experts_compile():
    model = moe.convert_experts_(Experts().to(DEVICE))
    x = operands()[0].detach()
    compiled = torch.compile(model, fullgraph=True, backend="inductor" if GPU else "aot_eager")
    found, expected = compiled(x, ends()), model(x, ends())
    assert distance(found, expected) < 0.02  # silu of the compiled code rounds elsewhere
    found.sum().backward()
    gradient = model.w1.grad.clone()
    model.zero_grad()
    expected.sum().backward()
    assert distance(gradient, model.w1.grad) < 0.02


def documented(page):
    """What the first example of a page prints, and what the page says."""
    text = (pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / page).read_text(encoding="utf-8")
    code, said = re.match(r".*?```python\n(.*?)```.*?```\n(.*?)```", text, re.S).groups()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    return printed.getvalue().split(), said.split()


def test_documentation():
    printed, said = documented("pytorch.md")
    assert len(printed) == len(said) == 20
    for found, expected in zip(printed[3::4], said[3::4]):
        assert float(found) == pytest.approx(float(expected), rel=0.01)


def test_documentation_of_four_bit_weights():
    text = (pathlib.Path(__file__).resolve().parent.parent.parent / "docs/pytorch.md").read_text(encoding="utf-8")
    code, said = re.search(r"```python\n((?:(?!```).)*)```\nprints `(.*?)`", text, re.S).groups()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    assert printed.getvalue().strip() == said


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-q"]))
