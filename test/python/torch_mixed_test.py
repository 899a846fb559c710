"""moe_opt.torch: four-bit weights and their products, one test for each promise.

    python3 -m pytest test/python/torch_mixed_test.py

With a CUDA device the tests run there, else on the CPU, by the emulator. Data have exact sums, so that results are compared bit for bit.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import contextlib
import copy
import importlib.util
import io
import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")

import moe_opt  # noqa: E402
import moe_opt.torch as moe  # noqa: E402
from moe_opt import _bundles, _library, _mixed, _recipes  # noqa: E402
from moe_opt.torch import _ops  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BF16, F16, E8M0 = torch.bfloat16, torch.float16, torch.float8_e8m0fnu
E, N, K = 3, 48, 128
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def plain(form="i4", group=32, experts=0, dtype=BF16, seed=0, columns=K):
    """weight, scales, zero points as a checkpoint has them, and the numbers that they stand for (..., N, K)."""
    generator = torch.Generator().manual_seed(seed)
    shape = (experts, N) if experts else (N,)
    bits = torch.randint(0, 16, (*shape, columns), generator=generator)
    weight = (bits[..., ::2] | bits[..., 1::2] << 4).to(torch.uint8)
    exponents = torch.randint(-2, 3, (*shape, columns // group), generator=generator)
    scales = 2.0**exponents
    zeros = torch.randint(0, 16, scales.shape, generator=generator, dtype=torch.uint8) if form == "ui4" else None
    if form == "f4E2M1FN":
        values = E2M1[bits & 7] * (1 - 2 * (bits >> 3))
    else:
        values = (bits ^ 8) - 8.0 if form == "i4" else bits - zeros.repeat_interleave(group, -1).float()
    values = values * scales.repeat_interleave(group, -1)
    given = (exponents + 127).to(torch.uint8).view(E8M0) if form == "f4E2M1FN" else scales.to(dtype)
    return weight.to(DEVICE), given.to(DEVICE), None if zeros is None else zeros.to(DEVICE), values.to(DEVICE)


def tokens(rows, dtype=BF16, seed=1, columns=K):
    return torch.randint(-1, 2, (rows, columns), generator=torch.Generator().manual_seed(seed)).to(dtype).to(DEVICE)


def ends(*sizes):
    return torch.tensor(sizes).cumsum(0).to(torch.int32).to(DEVICE)


def expected(x, values, offs=None, bias=None):
    if offs is None:
        out = x.double() @ values.double().t()
        return (out if bias is None else out + bias.double()).float().to(x.dtype)
    out = torch.zeros(x.shape[0], N, device=x.device, dtype=x.dtype)
    begin = 0
    for e, end in enumerate(offs.tolist()):
        out[begin:end] = expected(x[begin:end], values[e], None, None if bias is None else bias[e])
        begin = end
    return out


@pytest.mark.parametrize("form, group, dtype, biased", [("i4", 32, BF16, False), ("i4", 32, BF16, True), ("ui4", 64, F16, False), ("f4E2M1FN", 32, F16, True)])
@pytest.mark.parametrize("rows", [3, 30, 100])
def test_layer(form, group, dtype, biased, rows):
    weight, scales, zeros, values = plain(form, group, dtype=dtype)
    weights = moe.pack_mixed_weights(weight, scales, zeros, form)
    x = tokens(rows, dtype)
    bias = torch.arange(N, device=DEVICE).to(dtype) if biased else None
    out = moe.mixed_mm(x, weights, bias=bias)
    assert out.dtype == dtype and torch.equal(out, expected(x, values, None, bias))


@pytest.mark.parametrize("form, group, dtype, biased", [("i4", 32, BF16, False), ("ui4", 64, F16, False), ("f4E2M1FN", 32, F16, True)])
@pytest.mark.parametrize("sizes", [(5, 0, 9), (50, 1, 40), (0, 170, 3)])
def test_experts(form, group, dtype, biased, sizes):
    weight, scales, zeros, values = plain(form, group, E, dtype)
    weights = moe.pack_mixed_weights(weight, scales, zeros, form)
    x, offs = tokens(sum(sizes), dtype), ends(*sizes)
    bias = torch.arange(E * N, device=DEVICE).remainder(17).reshape(E, N).to(dtype) if biased else None
    assert torch.equal(moe.mixed_mm(x, weights, offs, bias), expected(x, values, offs, bias))


def fp8(experts=0, seed=0, columns=K):
    """MXFP8 weights and scales as a checkpoint has them, and the numbers that they stand for."""
    generator = torch.Generator().manual_seed(seed)
    shape = (experts, N) if experts else (N,)
    weight = torch.randint(-8, 9, (*shape, columns), generator=generator).float().to(torch.float8_e4m3fn)
    exponents = torch.randint(-2, 3, (*shape, columns // 32), generator=generator)
    values = weight.float() * (2.0**exponents).repeat_interleave(32, -1)
    return weight.to(DEVICE), (exponents + 127).to(torch.uint8).view(E8M0).to(DEVICE), values.to(DEVICE)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("rows", [3, 30, 100])
def test_fp8_layer(rows, biased):
    weight, scales, values = fp8()
    bias = torch.arange(N, device=DEVICE).to(BF16) if biased else None
    out = moe.mixed_mm(tokens(rows), moe.pack_mixed_weights(weight, scales, format="f8E4M3FN"), bias=bias)
    assert torch.equal(out, expected(tokens(rows), values, None, bias))


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("sizes", [(5, 0, 9), (50, 1, 40), (0, 170, 3)])
def test_fp8_experts(sizes, biased):
    weight, scales, values = fp8(E)
    weights = moe.pack_mixed_weights(weight, scales, format="f8E4M3FN")
    x, offs = tokens(sum(sizes)), ends(*sizes)
    bias = torch.arange(E * N, device=DEVICE).remainder(17).reshape(E, N).to(BF16) if biased else None
    assert torch.equal(moe.mixed_mm(x, weights, offs, bias), expected(x, values, offs, bias))


FORMS = [
    ("i4", 32, BF16, False), ("i4", 32, BF16, True), ("ui4", 64, F16, False), ("f4E2M1FN", 32, F16, True), ("f4E2M1FN", 32, BF16, False), ("f8E4M3FN", 32, BF16, False),
]  # fmt: skip
COLUMNS = 256  # the most that any product asks for


def weights_of(form, group, dtype, experts=0):
    """Packed, and the numbers that they stand for."""
    if form == "f8E4M3FN":
        weight, scales, values = fp8(experts, columns=COLUMNS)
        return moe.pack_mixed_weights(weight, scales, format=form), values
    weight, scales, zeros, values = plain(form, group, experts, dtype, columns=COLUMNS)
    return moe.pack_mixed_weights(weight, scales, zeros, form), values


@pytest.fixture
def asked(monkeypatch):
    """The attributes of the bundles of products that are called, and whether calls overlap."""
    found, function = [], _ops.function

    def recording(op, kind, attributes, *rest, **options):
        if "mixed_mm" in op:
            found.append(dict(attributes) | options)
        return function(op, kind, attributes, *rest, **options)

    monkeypatch.setattr(_ops, "function", recording)
    return found


@pytest.mark.parametrize("size", _mixed.LAYER_SIZES)
def test_each_product_of_a_layer(monkeypatch, asked, size):
    """Each takes any sizes; which one suits is another matter."""
    monkeypatch.setattr(_ops, "_layer_attributes", lambda *_: (("tokens", size[0]), ("rows", size[1])))
    for form, group, dtype, biased in FORMS:
        weights, values = weights_of(form, group, dtype)
        bias = torch.arange(N, device=DEVICE).to(dtype) if biased else None
        for rows in (1, 37):
            x = tokens(rows, dtype, columns=COLUMNS)
            assert torch.equal(moe.mixed_mm(x, weights, bias=bias), expected(x, values, None, bias)), (form, rows)
            assert (asked[-1]["tokens"], asked[-1]["rows"]) == size


def sizes_of_experts(form, group, dtype, biased):
    return _mixed.expert_sizes(form, group, {BF16: "bf16", F16: "f16"}[dtype], biased)


SIZES_OF_EXPERTS = sorted({size for form in FORMS for size in sizes_of_experts(*form)})


@pytest.mark.parametrize("size", SIZES_OF_EXPERTS)
def test_each_product_of_experts(monkeypatch, asked, size):
    monkeypatch.setattr(_ops, "_expert_attributes", lambda *_: _mixed.attributes_of(size))
    for form, group, dtype, biased in FORMS:
        if size not in sizes_of_experts(form, group, dtype, biased):
            continue
        weights, values = weights_of(form, group, dtype, E)
        bias = torch.arange(E * N, device=DEVICE).remainder(17).reshape(E, N).to(dtype) if biased else None
        x, offs = tokens(150, dtype, columns=COLUMNS), ends(5, 0, 145)  # tiles of several widths, and two of an expert
        assert torch.equal(moe.mixed_mm(x, weights, offs, bias), expected(x, values, offs, bias)), form
        assert dict(_mixed.attributes_of(size)).items() <= asked[-1].items()


def tiles_of(form, group, dtype="bf16", scales="bf16"):
    w = ("f8E4M3FN", 2) if form == "f8E4M3FN" else ("ui8", 3)
    return _bundles.layer_tiles("scaled_grouped_mm.mixed_mm", (("format", form), ("group_size", group)), (w, (scales, 2), (dtype, 2)), (dtype,))


def test_products_by_sizes(asked):
    """What is called is what suits the sizes of the call: tokens, rows and columns of a layer, tokens of each expert."""
    weights, _ = weights_of("i4", 32, BF16)
    for rows in (3, 70):
        moe.mixed_mm(tokens(rows, columns=COLUMNS), weights)
        assert (asked[-1]["tokens"], asked[-1]["rows"]) == _mixed.layer_size(tiles_of("i4", 32), rows, N, COLUMNS)
    weights, _ = weights_of("i4", 32, BF16, E)
    for sizes in ((5, 0, 37), (1, 1, 1), (70, 20, 0)):
        moe.mixed_mm(tokens(sum(sizes), columns=COLUMNS), weights, ends(*sizes))
        size = _mixed.expert_size(expert_tiles_of("i4", 32), sum(sizes), E, N, COLUMNS)
        assert dict(_mixed.attributes_of(size)).items() <= asked[-1].items()


def test_sizes():
    """Every size has a product that takes it, and some have those that were chosen for them: on both sides of each limit."""
    forms = [("i4", 32), ("f4E2M1FN", 32, "bf16", "f8E8M0FNU"), ("f8E4M3FN", 32, "bf16", "f8E8M0FNU")]
    for form in forms:
        tiles = tiles_of(*form)
        assert set(tiles) == set(_mixed.LAYER_SIZES)
        for m in (1, 8, 9, 64, 65, 128, 129, 1000, 1 << 20, (1 << 31) - 1):
            for n in (16, 2048, 4224, 8192, 16384, 28672, 1 << 24):
                for k in (32, 255, 256, 8192, 1 << 20):
                    assert tiles[_mixed.layer_size(tiles, m, n, k)]["columns"] <= k
    i4, mx, fp8 = (tiles_of(*form) for form in forms)
    rows = (2112, 2113, 4224, 4225, 6336, 8448, 8449)
    assert [_mixed.layer_size(i4, 1, n, 8192)[1] for n in rows] == [1024, 3584, 3584, 5120, 5120, 8192, 12288], "132 tiles of one panel, of two, three and four"
    assert [_mixed.layer_size(i4, m, 8192, 8192) for m in (1, 8, 9, 16, 17, 33)] == [(8, 8192), (8, 8192), (16, 8192), (16, 8192), (32, 8192), (64, 8192)]
    assert [_mixed.layer_size(mx, 40, 28672, k)[1] for k in (224, 8192)] == [14336, 28672], "two CTAs have rows in common, each half of the columns"
    for tiles, m in ((i4, 40), (fp8, 1)):
        assert tiles[_mixed.layer_size(tiles, m, 3584, 8192)]["ctas"] == 4
        ctas = [tiles[_mixed.layer_size(tiles, m, n, k)]["ctas"] for n in (1920, 1921, 3840, 3841) for k in (2048, 8192)]
        assert ctas == [8, 8, 4, 4, 4, 4, 2, 2], "15 clusters of eight CTAs and 30 of four are there at once"
    assert i4[_mixed.layer_size(i4, 100, 3584, 8192)]["ctas"] > 1, "28 tiles of 128 rows are few for 132 multiprocessors"
    many = i4[_mixed.layer_size(i4, 1000, 8192, 8192)]
    assert many["tokens"] * many["rows"] == 128 * 256 and many["f16"] and not many["divided"]
    assert _mixed.layer_size(mx, 3000, 28672, 8192)[0] >= 128


@pytest.mark.parametrize("form", ["i4", "f8E4M3FN"])
def test_no_rows(form):
    """Weights without rows give results without columns."""
    weight, scales = fp8()[:2] if form == "f8E4M3FN" else plain(form)[:2]
    assert moe.mixed_mm(tokens(5), moe.pack_mixed_weights(weight[:0], scales[:0], format=form)).shape == (5, 0)


def test_rounds():
    """Tiles of an H200: of 132 CTAs, of 66 clusters of two and of 30 of four; where all divide the last tiles, none is empty."""
    tile = {"tokens": 64, "rows": 128, "ctas": 4, "divided": 0, "f16": 0, "columns": 32}
    assert [_mixed.rounds(tile, 64, n) for n in (128, 3840, 3841)] == [(1, 1 / 30), (1, 1), (2, 31 / 60)]
    assert _mixed.rounds(tile | {"ctas": 1}, 65, 128 * 66) == (1, 1)
    assert _mixed.rounds(tile | {"ctas": 1, "divided": 1}, 1, 128 * 66) == (0.5, 1)
    assert _mixed.terms(tile, 64, 3841, 4000) == (1, 2, 8, 8 * 31 / 60)
    assert _mixed.terms(tile | {"ctas": 1, "divided": 1}, 1, 128 * 66, 4000) == (1, 2, 2, 0.5)
    assert _mixed.us_of_f16(tile, 700, 1000) == 0 and _mixed.us_of_f16(tile | {"f16": 1}, 700, 1000) == 4


def test_least_time():
    """The product that takes the least time, by its four numbers; of two that take as long that for the next number of tokens."""
    tile = {"tokens": 64, "rows": 128, "ctas": 1, "divided": 0, "f16": 0, "columns": 32}
    fast, slow = tile | {"us": [1, 1, 1, 0]}, tile | {"us": [2, 1, 1, 0]}
    assert _mixed.layer_size({(64, 8192): slow, (128, 8192): fast, (256, 8192): slow}, 200, 4096, 4096) == (128, 8192)
    assert _mixed.layer_size({(64, 8192): slow, (128, 8192): fast | {"f16": 1}, (256, 8192): slow}, 200, 4096, 4096) == (256, 8192), "f16 first takes 4 us"
    assert _mixed.layer_size({(64, 8192): fast, (128, 8192): fast, (256, 8192): fast}, 200, 4096, 4096) == (256, 8192)
    assert _mixed.layer_size({(64, 8192): slow, (128, 8192): fast}, 64, 4096, 4096) == (64, 8192), "it has no room for as many"


def script(name):
    """A script of the source tree as a module."""
    path = pathlib.Path(__file__).resolve().parents[2] / name
    if not path.exists():
        pytest.skip("needs the source tree")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_fit(monkeypatch):
    """bench/mixed_sizes.py finds the numbers that times were made of, and none below 0; of two that all times have alike each is a half."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(pathlib.Path(__file__).resolve().parents[2] / "bench")])  # a script finds its neighbors
    fit, tile = script("bench/mixed_sizes.py"), {"tokens": 64, "rows": 128, "ctas": 2, "divided": 0, "f16": 0, "columns": 32}
    terms = [_mixed.terms(tile, m, n, k) for m in (16, 100, 700) for n in (1024, 8192, 9000) for k in (2048, 8192)]
    numbers = [4.0, 1.5, 0.5, 0.25]
    us = [sum(number * term for number, term in zip(numbers, row)) for row in terms]
    assert fit.least_squares(terms, us) == numbers
    less = fit.least_squares(terms, [value - row[1] for value, row in zip(us, terms)])
    assert less == [4.0, 0.5, 0.5, 0.25]
    below = fit.least_squares(terms, [value - 1.6 * row[1] for value, row in zip(us, terms)])
    assert below[1] == 0 and min(below) >= 0 and below[0] > 0
    one_round = [_mixed.terms(tile, 64, n, k) for n in (1024, 8192) for k in (2048, 8192)]
    assert fit.least_squares(one_round, [6 + row[2] for row in one_round]) == [3.0, 3.0, 1.0, 0.0]


def test_all_are_timed():
    """python/mixed_times.json knows every product, and no others: none takes no time, or less with more columns."""
    make_bundles = script("python/make_bundles.py")
    products = {b.name: b for b in make_bundles.bundles() if getattr(b, "size", None)}
    for entry in _bundles.index():
        if "us" in entry.get("tile", ()) and make_bundles.has_own_times(entry["bundle"]):
            timed = make_bundles.timed(products[entry["bundle"]])
            assert entry["tile"] | timed["tile"] == entry["tile"] and entry["tile"]["us"] == timed["us"], f"{entry['bundle']} has another schedule than when it was timed"
    assert {(make_bundles.kind_of(b.name), make_bundles.name_of(b.size)) for b in products.values()} == {(kind, size) for kind, sizes in make_bundles.TIMES.items() for size in sizes}
    for begin, often, *work in (timed["us"] for sizes in make_bundles.TIMES.values() for timed in sizes.values()):
        assert 2 < begin + often < 40 and 0 < sum(work) < 40 and min(work) >= 0


def expert_tiles_of(form, group, dtype="bf16", scales="bf16"):
    w = ("f8E4M3FN", 3) if form == "f8E4M3FN" else ("ui8", 4)
    return _bundles.expert_tiles("scaled_grouped_mm.mixed_mm", (("format", form), ("group_size", group)), (w, (scales, 3), (dtype, 2), ("i32", 1)), (dtype,))


def test_sizes_of_experts():
    """Every size has a product that takes it; few experts have tiles of fewer rows or divided columns, few tokens panels, many tokens wide tiles."""
    forms = [("i4", 32), ("f4E2M1FN", 32, "bf16", "f8E8M0FNU"), ("f8E4M3FN", 32, "bf16", "f8E8M0FNU")]
    for form in forms:
        tiles = expert_tiles_of(*form)
        assert set(tiles) == set(_mixed.expert_sizes(*form[:2], "bf16", False))
        for m in (1, 8, 100, 1000, 1 << 20, (1 << 31) - 1):
            for e in (1, 2, 8, 1000, 1 << 20):
                for n in (16, 4096, 1 << 24):
                    for k in (32, 256, 4096, 1 << 20):
                        assert tiles[_mixed.expert_size(tiles, m, e, n, k)]["columns"] <= k

    def chosen(tiles, each, experts, rows):
        return tiles[_mixed.expert_size(tiles, each * experts, experts, rows, 7168)]

    for form in forms:
        tiles = expert_tiles_of(*form)
        few, some, many = (chosen(tiles, 16, experts, 2048) for experts in (2, 8, 256))
        assert few["ctas"] > 1 and (some["ctas"], some["rows"]) == (1, 128) and (many["ctas"], many["rows"]) == (1, 256), "32, 128 and 4096 tiles of 128 rows"
        widths = [chosen(tiles, each, 256, 4096)["tokens"] for each in (1, 10, 30, 100)]
        assert widths == sorted(widths) and widths[0] == 8 < widths[-1]
    i4, mx = expert_tiles_of("i4", 32), expert_tiles_of("f4E2M1FN", 32, "bf16", "f8E8M0FNU")
    assert [chosen(i4, each, 256, 4096)["f16"] for each in (1, 12, 64, 512)] == [0, 0, 1, 1]
    assert chosen(mx, 1, 384, 4096)["divided"] and not chosen(mx, 1, 4, 512)["divided"], "all CTAs divide the last tiles where there are more than CTAs"


def test_terms_of_experts():
    """What the five numbers of a product are multiplied by, where it is known: without tokens that differ, and with tiles for each group."""
    tile = {"tokens": 64, "rows": 128, "ctas": 1, "at_once": 2, "divided": 0, "f16": 0, "columns": 32}

    def terms(tokens, experts, rows, **changes):
        return pytest.approx(_mixed.expert_terms(tile | changes, tokens, experts, rows, 4000), rel=2e-3)

    assert (1, 1, 4, 4 / 264, 4 * 0.32) == terms(32, 1, 128), "of one expert"
    assert (1, 2, 8, 4 * 300 / 264, 8 * 0.64) == terms(64, 1, 128 * 300), "of 300 tiles 264 are there at once"
    assert (1, 3, 12, 4 * 300 / 132, 12 * 0.64) == terms(64, 1, 128 * 300, at_once=1)
    assert (1, 10, 40, 40, 40 * 0.64) == terms(64, 1, 128 * 300, ctas=4, at_once=1)
    assert (1, 1, 4, 4 * 2 / 264, 4 * 0.5) == terms(100, 1, 128), "two tiles of 50 tokens"
    assert (1, 2, 2, 0.5, 2 * 0.64) == terms(64, 1, 128 * 66, at_once=1, divided=1), "two CTAs have a tile"
    chosen = 256 * (1 - (255 / 256) ** 8)  # experts of eight tokens
    assert (1, 1, 4, 4 * chosen / 264, 4 * 8 / chosen / 100) == terms(8, 256, 128), "fewer tokens than experts"
    assert (1, 1, 4 * 300 / 132, 300 / 132, 4 * 300 / 132 * 0.64) == terms(64, 1, 128 * 300, at_once=1, divided=1), "a round and more"
    often = [_mixed.expert_terms(tile | {"at_once": 1}, each * 132, 132, 128, 4000)[1] for each in (20, 40, 64)]
    assert often == [pytest.approx(1, abs=0.01), pytest.approx(1.3, abs=0.2), pytest.approx(2, abs=0.01)], "the more groups there are with more tokens than a tile has"


def test_least_time_of_experts():
    """The product that takes the least time; not one for other numbers of tokens, nor where fewer tiles than CTAs would be divided."""
    tile = {"tokens": 64, "rows": 128, "ctas": 1, "at_once": 1, "divided": 0, "f16": 0, "columns": 32}
    fast, slow = tile | {"us": [1, 1, 1, 0, 0]}, tile | {"us": [2, 1, 1, 0, 0]}
    assert _mixed.expert_size({(12,): slow, (40,): fast, (384,): slow}, 320, 8, 4096, 4096) == (40,)
    assert _mixed.expert_size({(12,): fast, (40,): slow, (384,): fast}, 320, 8, 4096, 4096) == (40,), "384 are too many, and 12 too few"
    assert _mixed.expert_size({(12,): slow, (40,): fast | {"f16": 1}, (36, 1, 2): slow}, 320, 8, 4096, 4096) == (36, 1, 2), "f16 first takes 4 us"
    assert _mixed.expert_size({(12,): fast, (40,): fast, (384,): slow}, 8 * 2000, 8, 4096, 4096) == (384,), "the one for the most tokens is for any"
    assert _mixed.expert_size({(12,): slow, (40,): fast, (384,): fast}, 8, 8, 4096, 4096) == (12,), "and so is the one for the fewest"
    divided = fast | {"divided": 1}
    assert [_mixed.expert_size({(40,): divided, (36, 1, 2): slow}, 320, 8, rows, 4096) for rows in (1024, 4096)] == [(36, 1, 2), (40,)]
    assert _mixed.expert_size({(40,): fast | {"columns": 1024}, (36, 1, 2): slow}, 320, 8, 4096, 512) == (36, 1, 2)
    assert [_mixed.expert_size({(40, 2, 2): fast | {"ctas": 2}, (36, 1, 2): slow}, 40, 1, 4096, columns) for columns in (480, 512)] == [(36, 1, 2), (40, 2, 2)]


@contextlib.contextmanager
def package_of(monkeypatch, entries):
    """While it lasts the package's index has these entries, and nothing that was chosen by another one is kept."""
    caches = (_bundles.layer_tiles, _bundles.expert_tiles, _bundles.mx_tiles, _ops._layer_attributes, _ops._expert_attributes, _recipes._fastest)
    monkeypatch.setattr(_bundles, "index", lambda: entries)
    for cache in caches:
        cache.cache_clear()
    try:
        yield
    finally:
        for cache in caches:
            cache.cache_clear()


@pytest.mark.parametrize("left", ["some", "no tiles"])
@pytest.mark.parametrize("experts, lost", [(0, {"tokens": 1024, "rows": 8192}), (E, {"tokens": 16, "ctas": 2, "warpgroups": 2})])
def test_packages_with_some_products(monkeypatch, left, experts, lost):
    """A package of some bundles, or of another version, says what it lacks."""
    weights, _ = weights_of("i4", 32, BF16, experts)
    entries = [entry for entry in _bundles.index() if left == "no tiles" or not lost.items() <= entry["attributes"].items()]
    if left == "no tiles":
        entries = [{name: value for name, value in entry.items() if name != "tile"} for entry in entries]
    missing = ", ".join(f"{name} = {number}" for name, number in lost.items())
    with package_of(monkeypatch, entries), pytest.raises(moe_opt.NotFound, match=f"no bundle of .* {missing}" if left == "some" else "does not say how long"):
        moe.mixed_mm(tokens(4, columns=COLUMNS), weights, ends(1, 0, 3) if experts else None)


def test_packages_with_some_products_of_blocks(monkeypatch):
    """The same of products whose tokens and weights are MX blocks, which are chosen by time."""
    lost = {"accumulate": "fast", "tokens": 36, "ctas": 1, "warpgroups": 4}
    entries = [entry for entry in _bundles.index() if not lost.items() <= entry["attributes"].items()]
    (qa, sa), (qb, sb) = moe.quantize_mx(tokens(4, columns=512)), moe.quantize_mx(torch.ones(2, 32, 512, dtype=BF16, device=DEVICE))
    with package_of(monkeypatch, entries), pytest.raises(moe_opt.NotFound, match="no bundle of .* tokens = 36, ctas = 1, warpgroups = 4"):
        moe.scaled_grouped_mm(qa, qb.mT, sa, sb.mT, ends(1, 3))


def test_fp8_refused():
    weight, scales, _ = fp8()
    for arguments, text in [
        ((weight.view(torch.uint8), scales), "it must be torch.float8_e4m3fn of rank 2 or 3"),
        ((weight, scales[:, :2]), "32 weights must share a scale"),
        ((weight, scales.float()), "they must be torch.float8_e8m0fnu"),
        ((weight, torch.full_like(scales.view(torch.uint8), 165).view(E8M0)), r"scales have 2\^38; .* they must be at most 2\^37"),
        ((weight, torch.full_like(scales.view(torch.uint8), 255).view(E8M0)), "scales have NaN"),
    ]:
        with pytest.raises(ValueError, match=text):
            moe.pack_mixed_weights(*arguments, format="f8E4M3FN")
    codes, large = torch.zeros(16, 16, dtype=torch.uint8, device=DEVICE), torch.full((16, 1), 159, dtype=torch.uint8, device=DEVICE).view(E8M0)
    with pytest.raises(ValueError, match=r"scales have 2\^32; with format 'f4E2M1FN' they must be at most 2\^31"):
        moe.pack_mixed_weights(codes, large, format="f4E2M1FN")
    with pytest.raises(ValueError, match="x is torch.float16; it must be torch.bfloat16"):
        moe.mixed_mm(tokens(4, F16), moe.pack_mixed_weights(weight, scales, format="f8E4M3FN"))


def test_no_tokens():
    weight, scales, _, _ = plain()
    assert moe.mixed_mm(tokens(0), moe.pack_mixed_weights(weight, scales)).shape == (0, N)


def test_no_gradient():
    """A bias that is a parameter does not disturb; a gradient that would be lost is an error."""
    weight, scales, _, values = plain()
    bias = torch.nn.Parameter(torch.ones(N, device=DEVICE, dtype=BF16))
    out = moe.mixed_mm(tokens(4), moe.pack_mixed_weights(weight, scales), bias=bias)
    assert torch.equal(out, expected(tokens(4), values, None, bias))
    with pytest.raises(NotImplementedError, match="mixed_mm has no gradient; .* torch.no_grad"):
        out.sum().backward()
    with torch.no_grad():
        assert not moe.mixed_mm(tokens(4), moe.pack_mixed_weights(weight, scales), bias=bias).requires_grad
    weights = moe.pack_mixed_weights(weight, torch.nn.Parameter(scales))
    with pytest.raises(NotImplementedError, match="mixed_mm has no gradient"):
        moe.mixed_mm(tokens(4), weights).sum().backward()
    with pytest.raises(NotImplementedError, match="mixed_mm has no derivative by torch.func"):
        torch.func.grad(lambda given: moe.mixed_mm(tokens(4), weights._replace(scales=given)).sum())(weights.scales.detach())


def test_saved_and_loaded():
    """By torch.save, packed, and back without a word about trust."""
    weight, scales, _, values = plain()
    file = io.BytesIO()
    torch.save({"proj": moe.pack_mixed_weights(weight, scales)}, file)
    file.seek(0)
    weights = torch.load(file, weights_only=True)["proj"]
    assert torch.equal(moe.mixed_mm(tokens(4), weights), expected(tokens(4), values))


def test_constant(asked):
    """Weights are constant when the host has seen them written, and then products may start before the kernel before them has ended."""
    weight, scales, _, values = plain()
    weights = moe.pack_mixed_weights(weight, scales)
    assert weights.constant and weights.to(DEVICE).constant
    assert not weights._replace(constant=False).to(DEVICE).constant, "nothing is copied"
    assert not moe.MixedWeights(*weights[:5]).constant
    assert not moe.pack_mixed_weights(weight.to("meta"), scales.to("meta")).constant
    for given in (weights, weights._replace(constant=False)):
        x = tokens(4)
        assert torch.equal(moe.mixed_mm(x, given), expected(x, values))
        assert asked[-1]["overlap"] == given.constant
    packed = torch.compile(lambda: moe.pack_mixed_weights(weight, scales), fullgraph=True, backend="aot_eager")()
    assert not packed.constant and torch.equal(packed.w, weights.w)


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a CUDA device")
def test_packed_in_a_graph():
    """Each replay writes the weights again."""
    weight, scales, _, values = plain()
    x = tokens(4)
    moe.mixed_mm(x, moe.pack_mixed_weights(weight, scales)._replace(constant=False))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        weights = moe.pack_mixed_weights(weight, scales)
        out = moe.mixed_mm(x, weights)
    graph.replay()
    assert not weights.constant and torch.equal(out, expected(x, values))


@pytest.mark.parametrize("form", ["i4", "f8E4M3FN"])
@pytest.mark.parametrize("rows", [1, 16, 64, 200])
def test_layers_in_a_row(form, rows):
    """Each layer multiplies what the one before has just written, into memory of one before that. On a GPU they overlap, in a graph too, and give the bits that
    they give in order."""
    size, count, repeats = (2048, 16, 200) if DEVICE == "cuda" else (128, 3, 1)
    torch.manual_seed(rows)
    layers = []
    for _ in range(count):
        scales = torch.randint(118, 122, (size, size // 32), dtype=torch.uint8, device=DEVICE)
        if form == "i4":
            weight, scales = torch.randint(0, 256, (size, size // 2), dtype=torch.uint8, device=DEVICE), (scales.float() - 117).mul(size**-0.5 / 16).to(BF16)
        else:
            weight, scales = torch.randn(size, size, device=DEVICE).to(torch.float8_e4m3fn), scales.view(E8M0)
        layers.append(moe.pack_mixed_weights(weight, scales, format=form))
    first = torch.randn(rows, size, device=DEVICE).to(BF16)

    def run(constant):
        x = first
        for weights in layers:
            x = moe.mixed_mm(x, weights._replace(constant=constant))
        return x

    wanted = run(False).clone()
    assert wanted.isfinite().all() and wanted.abs().max() > 0
    different = sum(((run(True) != wanted).sum() for _ in range(repeats)), torch.zeros((), dtype=torch.int64, device=DEVICE))
    if DEVICE == "cuda":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = run(True)
        for _ in range(repeats):
            out.fill_(0)
            graph.replay()
            different += (out != wanted).sum()
    assert different == 0


def test_calls_in_order(monkeypatch):
    """The library is told to run a product in order where its weights are not constant, and where they have just been copied."""
    told, object_call = [], _library.object_call

    def recording(program, function, table, in_order):
        run = object_call(program, function, table, in_order)
        return lambda *tensors: told.append(in_order) or run(*tensors)

    monkeypatch.setattr(_library, "object_call", recording)
    _ops.function.cache_clear()
    weight, scales, _, values = plain()
    weights = moe.pack_mixed_weights(weight, scales)
    x = tokens(4)
    for given, expects in ((weights, [False]), (weights._replace(constant=False), [True])):
        told.clear()
        assert torch.equal(moe.mixed_mm(x, given), expected(x, values))
        assert told == expects
    moved = torch.empty(weights.w.numel() + 1, dtype=torch.uint8, device=DEVICE)[1:].view(weights.w.shape).copy_(weights.w)
    told.clear()
    assert torch.equal(moe.mixed_mm(x, weights._replace(w=moved)), expected(x, values))
    assert told == [False, True]
    _ops.function.cache_clear()


def test_compiled():
    """Traced whole, with any number of tokens, and the same bits as eager."""
    weight, scales, _, values = plain(experts=E)
    weights, offs = moe.pack_mixed_weights(weight, scales), ends(4, 0, 6)
    compiled = torch.compile(lambda x: moe.mixed_mm(x * 1, weights, offs) + 0, fullgraph=True, backend="aot_eager", dynamic=True)
    for rows in (10, 12):
        x = tokens(rows)
        assert torch.equal(compiled(x)[:10], expected(x, values, offs)[:10])


def test_fake():
    weight, scales, _, _ = plain(experts=E)
    weights = moe.pack_mixed_weights(weight.to("meta"), scales.to("meta"))
    assert weights.w.shape == (E, N // 16, K // 64, 512) and weights.scales.stride() == (N * K // 32, 1, N)
    out = moe.mixed_mm(tokens(7).to("meta"), weights, ends(1, 2, 3).to("meta"))
    assert out.shape == (7, N) and out.dtype == BF16
    for arguments in ((tokens(7), weights, ends(1, 2, 3).to("meta")), (tokens(7).to("meta"), weights, ends(1, 2, 3))):
        with pytest.raises(ValueError, match="all must be on one device"):
            moe.mixed_mm(*arguments)
    with pytest.raises(ValueError, match="all must be on one device"):
        moe.pack_mixed_weights(weight, scales.to("meta"))


def test_fake_tensors_are_checked():
    weight, scales, _, _ = plain()
    weights = moe.pack_mixed_weights(weight.to("meta"), scales.to("meta"))
    x = tokens(7).to("meta")
    for wrong in (weights._replace(w=weights.w[:-1]), weights._replace(group_size=16), weights._replace(scales=weights.scales[:, :-1])):
        with pytest.raises(ValueError):
            moe.mixed_mm(x, wrong)
    for wrong in (weight[:17], weight[:, :5], weight.float()):
        with pytest.raises(ValueError, match="w is "):
            torch.ops.moe_opt.pack_weights(wrong.to("meta"))


@pytest.mark.parametrize("form, group, dtype", [("ui4", 64, F16), ("f4E2M1FN", 32, F16)])
def test_packed_where_values_are_unknown(form, group, dtype):
    """By torch.compile and of tensors without data, the values of zero points and E8M0 scales are not looked at."""
    weight, scales, zeros, _ = plain(form, group, dtype=dtype)
    packed = moe.pack_mixed_weights(weight, scales, zeros, form)
    compiled = torch.compile(lambda *given: moe.pack_mixed_weights(*given, form)[:3], fullgraph=True, backend="aot_eager")
    for one, other in zip(compiled(weight, scales, zeros), packed[:3]):
        assert one is other is None or torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))
    with torch._subclasses.FakeTensorMode() as mode:
        given = [None if tensor is None else mode.from_tensor(tensor) for tensor in (weight, scales, zeros)]
        assert moe.pack_mixed_weights(*given, form).w.shape == packed.w.shape


def test_scales_of_larger_groups():
    """Those of a whole row are those of each 128 of its columns."""
    weight, scales, zeros, _ = plain("ui4", 256, columns=256)
    found = moe.pack_mixed_weights(weight, scales, zeros, "ui4")
    expected = moe.pack_mixed_weights(weight, scales.expand(N, 2), zeros.expand(N, 2), "ui4")
    assert found.group_size == 128 and all(torch.equal(one, other) for one, other in zip(found[:3], expected[:3]))
    weight, scales, zeros, _ = plain("ui4", 192, columns=384)
    found = moe.pack_mixed_weights(weight, scales, zeros, "ui4")
    assert found.group_size == 64 and torch.equal(found.scales, scales.repeat_interleave(3, 1))
    with pytest.raises(ValueError, match="a multiple of 32 weights must share a scale"):
        moe.pack_mixed_weights(weight[:, :24], scales)


def test_moved_and_copied():
    weight, scales, zeros, values = plain("ui4", 64, dtype=F16)
    weights = moe.pack_mixed_weights(weight, scales, zeros, "ui4")
    assert weights.to(DEVICE) is weights and weights.to(F16) is weights
    rounded = weights.to(dtype=BF16)
    assert rounded.scales.dtype == BF16 and rounded.w is weights.w and rounded.constant
    assert torch.equal(rounded.to(F16).scales, scales)  # powers of two
    written = weights._replace(constant=False)  # a kernel writes them
    assert not written.to(BF16).constant and not copy.deepcopy(written).constant
    copied = copy.deepcopy(weights)
    assert copied.w.data_ptr() != weights.w.data_ptr() and torch.equal(moe.mixed_mm(tokens(3, F16), copied), expected(tokens(3, F16), values))
    for wrong in (torch.uint8, torch.float32):
        with pytest.raises(TypeError, match="have no scales of"):
            weights.to(wrong)
    great = moe.pack_mixed_weights(weight, torch.full_like(scales, 2.0**17, dtype=BF16), zeros, "ui4")
    with pytest.raises(ValueError, match="a scale is 131072; torch.float16 has at most 65504"):
        great.to(F16)
    with pytest.raises(TypeError, match="have no scales of"):
        moe.pack_mixed_weights(*plain("f4E2M1FN")[:2], format="f4E2M1FN").to(F16)


def test_file(tmp_path):
    torch_files = pytest.importorskip("safetensors.torch")
    weight, scales, zeros, values = plain("ui4", 64, dtype=F16)
    path = tmp_path / "weights.safetensors"
    tensors = {"up.weight": weight.cpu(), "up.scales": scales.cpu(), "up.zero_points": zeros.cpu()}
    torch_files.save_file(tensors, str(path), metadata={"up.weight.format": "ui4", "up.weight.group_size": "64"})
    x = tokens(5, F16)
    assert torch.equal(moe.mixed_mm(x, moe.load_mixed_weights(path, "up", DEVICE)), expected(x, values))
    # Behind one number of four bytes, nothing lies at a multiple of 16.
    torch_files.save_file(tensors | {"more": torch.zeros(1)}, str(path), metadata={"up.weight.format": "ui4", "up.weight.group_size": "64"})
    assert torch.equal(moe.mixed_mm(x, moe.load_mixed_weights(path, "up", DEVICE)), expected(x, values))
    with pytest.raises(KeyError, match="there are no weights 'down'; there are up"):
        moe.load_mixed_weights(path, "down")
    with pytest.raises(ValueError, match="device is meta"):
        moe.load_mixed_weights(path, "up", "meta")
    torch_files.save_file(tensors | {"up.scales": scales.cpu().float()}, str(path), metadata={"up.weight.format": "ui4"})
    with pytest.raises(ValueError, match="weights.safetensors: weights 'up': scales are torch.float32"):
        moe.load_mixed_weights(path, "up")
    assert moe.load_mixed_weights(path, "up", dtype=BF16).scales.dtype == BF16
    with pytest.raises(TypeError, match="it must be torch.bfloat16 or torch.float16"):
        moe.load_mixed_weights(path, "up", dtype=torch.float32)
    torch_files.save_file(tensors, str(path))
    with pytest.raises(KeyError, match="have no metadata 'up.weight.format'"):
        moe.load_mixed_weights(path, "up")
    with pytest.raises(KeyError, match="no four-bit or MXFP8 weights 'down'"):
        moe.load_mixed_weights(path, "down")
    with pytest.raises(RuntimeError, match="device type at start of device string: nowhere"):
        moe.load_mixed_weights(path, "up", "nowhere")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(IsADirectoryError, match=f"{tmp_path}: is a folder"):
        moe.load_mixed_weights(tmp_path, "x")
    with pytest.raises(ValueError, match="weights.safetensors: is no safetensors file"):
        moe.load_mixed_weights(path, "up")


@pytest.mark.parametrize("name, dtype", [("weight_scale", torch.uint8), ("weight_scale", E8M0), ("weight_scale_inv", torch.uint8)])
def test_fp8_checkpoint(tmp_path, name, dtype):
    """A layer as checkpoints have it, without the converter; experts by way of it."""
    torch_files = pytest.importorskip("safetensors.torch")
    from moe_opt import convert

    weight, scales, values = (tensor.cpu() for tensor in fp8(E))
    path, converted = tmp_path / "model.safetensors", tmp_path / "converted.safetensors"
    stored = {"norm.weight": torch.ones(K)}
    for e in range(E):
        stored |= {f"mlp.experts.{e}.up.weight": weight[e], f"mlp.experts.{e}.up.{name}": scales[e].view(dtype).clone()}
    torch_files.save_file(stored, str(path))
    for e in range(E):
        out = moe.mixed_mm(tokens(5), moe.load_mixed_weights(path, f"mlp.experts.{e}.up", DEVICE))
        assert torch.equal(out, expected(tokens(5), values[e].to(DEVICE)))
    convert.convert_files([path], converted, "mxfp8")
    x, offs = tokens(14), ends(5, 0, 9)
    assert torch.equal(moe.mixed_mm(x, moe.load_mixed_weights(converted, "mlp.experts.up", DEVICE), offs), expected(x, values.to(DEVICE), offs))
    with pytest.raises(KeyError, match="no four-bit or MXFP8 weights 'norm'"):
        moe.load_mixed_weights(path, "norm")
    for wrong, text in (
        (torch.ones(1, dtype=torch.uint8), "scales are .1,.; all dimensions but the last must be the same"),
        (torch.ones(N, 1, dtype=torch.uint8), "32 weights must share a scale"),
        (torch.ones(N, K // 32, dtype=torch.float16), "scales are torch.float16 .*; MXFP8 has E8M0 scales"),
        (torch.ones(1, 1), r"scales are torch.float32 \(1, 1\); MXFP8 has E8M0 scales \(N, K/32\); FP8 weights with fp32 scales of 128 x 128"),
    ):
        torch_files.save_file({"up.weight": weight[0], f"up.{name}": wrong}, str(path))
        with pytest.raises(ValueError, match=f"model.safetensors: weights 'up': .*{text}"):
            moe.load_mixed_weights(path, "up")


def test_refused():
    """What does not fit is one error that says what would: nothing reaches a kernel."""
    weight, scales, _, _ = plain()
    zeros = torch.zeros(N, K // 32, dtype=torch.uint8, device=DEVICE)
    for arguments, text in [
        ((weight.int(), scales), "weight is torch.int32 of rank 2"),
        ((weight, scales[:16]), "all dimensions but the last must be the same"),
        ((weight[:, :0], scales[:, :0]), "; K must not be 0"),
        ((weight, scales[:, :3]), "must share a scale"),
        ((weight[:24], scales[:24]), "N must be a multiple of 16"),
        ((weight, scales.float()), "scales are torch.float32"),
        ((weight, scales, zeros), 'must be "ui4" with zero_points'),
        ((weight, scales, None, "ui4"), "zero_points are needed"),
        ((weight, scales, zeros[:, :1], "ui4"), "zero_points are torch.uint8"),
        ((weight, scales, zeros + 16, "ui4"), "zero_points have a 16; they must be 0 to 15"),
        ((weight, scales, None, "i8"), "format is 'i8'"),
    ]:
        with pytest.raises(ValueError, match=text):
            moe.pack_mixed_weights(*arguments)
    layer = moe.pack_mixed_weights(weight, scales)
    experts = moe.pack_mixed_weights(*plain(experts=E)[:2])
    x, offs = tokens(4), ends(1, 1, 2)
    for arguments, text in [
        ((x[:, :64], layer), r"it must be \(M, 128\)"),
        ((x.to(F16), layer), "the type of the scales"),
        ((x, layer, offs), "offs must not be there"),
        ((x, experts), "offs is needed"),
        ((x, experts, offs[:2]), r"it must be torch.int32 \(3,\)"),
        ((x, experts, offs.long()), "offs is torch.int64"),
        ((x, layer, None, x[0, :16]), r"bias is torch.bfloat16 \(16,\)"),
        ((x, layer, None, torch.zeros(N, device=DEVICE)), "bias is torch.float32"),
    ]:
        with pytest.raises(ValueError, match=text):
            moe.mixed_mm(*arguments)
    for arguments, text in [
        ((x.tolist(), layer), "x is of type list; it must be a torch.Tensor"),
        ((x, weight), "weights are of type Tensor; pack_mixed_weights makes them"),
        ((x, experts, offs.tolist()), "offs is of type list"),
    ]:
        with pytest.raises(TypeError, match=text):
            moe.mixed_mm(*arguments)
    with pytest.raises(TypeError, match="scales is of type NoneType"):
        moe.pack_mixed_weights(weight, None)
