"""Codes from sketches: the principal subspace, whitened in part and rounded."""

from __future__ import annotations

import pytest
import torch

from rescnet.network.readout import Encoder, Quantised
from rescnet.training.readout.encoder import WHITENING, SketchRows, codes_of, decomposition_bytes
from rescnet.training.workers import Workers

CPU = torch.device("cpu")


def rows_of(x):
    return SketchRows(x, 0, len(x), CPU, Workers())


def made(images, numbers, generator, decay=0.7):
    """Return sketches (images, numbers) whose variances fall by a factor from one direction to the next."""
    turned = torch.linalg.qr(torch.randn(numbers, numbers, generator=generator)).Q
    x = torch.randn(images, numbers, generator=generator) * decay ** torch.arange(numbers)
    return 3 + x @ turned


def principal(x, size):
    """Return the largest variances and their directions, (size,) and (numbers, size)."""
    centred = (x - x.mean(0)).double()
    values, vectors = torch.linalg.eigh(centred.T @ centred / len(x))
    return values.flip(0)[:size].float(), vectors.flip(1)[:, :size].float()


def test_components_are_principal_directions_whitened_in_part(generator, monkeypatch):
    monkeypatch.setattr("rescnet.training.readout.encoder.ROWS", 37)  # several chunks
    x = made(400, 20, generator, decay=0.5)
    variances, directions = principal(x, 5)
    found = rows_of(x).components(5, 0)
    assert found.shape == (20, 5)
    norms = found.norm(dim=0)
    torch.testing.assert_close(norms, variances ** (-WHITENING / 2), rtol=0.01, atol=0)
    cosines = (found / norms).T @ directions
    torch.testing.assert_close(cosines @ cosines.T, torch.eye(5), rtol=0, atol=0.02)
    torch.testing.assert_close(cosines.abs()[:3, :3], torch.eye(3), rtol=0, atol=0.02)
    projected = (x - x.mean(0)) @ found
    torch.testing.assert_close(projected.var(0, correction=0), variances ** (1 - WHITENING), rtol=0.02, atol=0)


@pytest.mark.parametrize(("images", "numbers", "size"), [(12, 20, 12), (40, 8, 8), (12, 20, 4)])
def test_all_that_varies_is_kept_if_there_is_room(images, numbers, size, generator):
    """Images fewer than numbers vary in one direction fewer; no whitened distance is lost."""
    x = made(images, numbers, generator, decay=0.9)
    found = rows_of(x).components(size, 0)
    rank = min(images - 1, numbers, size)
    assert found.shape == (numbers, rank)
    if rank < size or size == numbers:
        variances, directions = principal(x, rank)
        whitened = (x - x.mean(0)) @ directions * variances ** (-WHITENING / 2)
        torch.testing.assert_close(torch.pdist(x @ found), torch.pdist(whitened), rtol=2e-3, atol=2e-3)


def test_components_of_few_images_are_exact(generator):
    """Fewer components than images, from products of the images: those of the covariance, to rounding."""
    x = made(60, 90, generator, decay=0.95)
    found = rows_of(x).components(25, 0)
    variances, directions = principal(x, 25)
    torch.testing.assert_close(found.norm(dim=0), variances ** (-WHITENING / 2), rtol=1e-3, atol=0)
    cosines = (found / found.norm(dim=0) * directions).sum(0).abs()
    torch.testing.assert_close(cosines, torch.ones(25), rtol=0, atol=1e-4)


def test_duplicates_and_constants_are_sound(generator):
    x = made(6, 10, generator, decay=0.9).repeat(5, 1)
    found = rows_of(x).components(20, 0)
    assert found.shape == (10, 5) and bool(found.isfinite().all())
    projected = (x - x.mean(0)) @ found
    assert bool((projected[:6] == projected[6:12]).all()) and float(torch.pdist(projected[:6]).min()) > 0.1
    constant = rows_of(torch.full((9, 10), 0.3))
    none = constant.components(4, 0)
    assert none.shape[0] == 10 and bool(none.isfinite().all())
    codes = constant.codes(Quantised.of(none)).values(torch.float32)
    assert len(codes) == 9 and bool((codes == codes[0]).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_rounding_is_at_most_half_a_step(generator, dtype):
    matrix = torch.randn(50, 6, generator=generator, dtype=dtype) * torch.tensor([1e-6, 1, 1e5, 0, 1e-30, 3])
    rounded = Quantised.of(matrix)
    assert rounded.integers.dtype == torch.int8 and int(rounded.integers.abs().max()) == 127
    steps = rounded.steps.double()
    assert bool(((rounded.values(torch.float64) - matrix).abs() <= 0.5001 * steps).all())
    torch.testing.assert_close(steps, matrix.abs().amax(0).double() / 127, rtol=1e-5, atol=1e-37)
    given = Quantised.of(matrix[:5], matrix.abs().amax(0))  # the same steps for other rows
    assert torch.equal(given.integers, rounded.integers[:5])


def test_codes_of_the_encoder_are_those_of_training_to_rounding(generator, monkeypatch):
    monkeypatch.setattr("rescnet.training.readout.encoder.ROWS", 7)
    x, offset = made(40, 12, generator), torch.randn(12, generator=generator)
    rows = rows_of(x)
    projection = Quantised.of(rows.components(6, 0))
    rounded = rows.codes(projection)
    encoder = Encoder(torch.ones(3, 9), rows.centre + offset, projection, False)
    assert encoder.sketch_size == 4
    for dtype in (torch.float64, torch.float32, torch.float16):
        found = codes_of(encoder, x, offset, dtype).values
        assert found.dtype == dtype
        slack = 0.52 if dtype == torch.float16 else 0.501
        assert bool(((found.float() - rounded.values(torch.float32)).abs() <= slack * rounded.steps + 1e-5).all())


@pytest.mark.parametrize(("size", "by_products"), [(10, False), (55, True)])
def test_many_components_come_from_products_and_few_from_a_subspace(size, by_products, monkeypatch):
    called = []
    monkeypatch.setattr(SketchRows, "_components_of_few", lambda self, size: called.append(size))
    rows_of(torch.randn(60, 200)).components(size, 0)
    assert called == [size] * by_products


def test_products_that_do_not_fit_into_memory_are_not_decomposed(generator, monkeypatch):
    rows, called = rows_of(made(60, 200, generator)), []
    whole = rows.components(55, 0)
    monkeypatch.setattr(SketchRows, "_components_of_few", lambda self, size: called.append(size))
    found = rows.components(55, 0, decomposition_bytes(60, 200) - 1)
    assert called == []
    torch.testing.assert_close(found[:, :5].abs(), whole[:, :5].abs(), rtol=0.01, atol=0.01)
    rows.components(55, 0, decomposition_bytes(60, 200))
    rows.components(60, 0, 0)  # one per image
    assert called == [55, 60]


def test_workers_find_the_components_of_one(generator):
    """Two threads of one process stand in for two workers."""
    from threading import Barrier, Thread

    x, barrier, shared, found = made(30, 10, generator), Barrier(2), {}, {}

    class Pair(Workers):
        def all_reduce(self, *tensors):
            for tensor in tensors:
                shared[self.rank] = tensor.clone()
                barrier.wait()
                tensor.copy_(shared[0] + shared[1])
                barrier.wait()

        def reduce_range(self, values):
            for name in ("low", "high"):
                shared[self.rank, name] = getattr(values, name)
            barrier.wait()
            low, high = (torch.stack([shared[0, name], shared[1, name]]) for name in ("low", "high"))
            barrier.wait()
            return type(values)(low.amin(0), high.amax(0))

    def work(rank):
        part = slice(0, 13) if rank == 0 else slice(13, 30)
        rows = SketchRows(x[part], part.start, 30, CPU, Pair(rank, 2))
        components = rows.components(4, 0)
        found[rank] = components, rows.codes(Quantised.of(components)).values(torch.float32)

    threads = [Thread(target=work, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    alone = rows_of(x)
    components = alone.components(4, 0)
    assert torch.equal(found[0][0], found[1][0])
    signs = (found[0][0] * components).sum(0).sign()
    torch.testing.assert_close(found[0][0] * signs, components, rtol=0, atol=1e-4)
    codes = found[0][1]
    assert torch.equal(codes, found[1][1])
    wanted = alone.codes(Quantised.of(components)).values(torch.float32)
    torch.testing.assert_close(torch.pdist(codes), torch.pdist(wanted), rtol=0.02, atol=0.02)
