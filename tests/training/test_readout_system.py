"""The readout's system of equations: one Cholesky factor, and conjugate gradients that agree with it."""

from __future__ import annotations

import pytest
import torch

from rescnet.numerics.code_kernel import Codes, code_kernel
from rescnet.numerics.linear_algebra import factor_solve
from rescnet.training.readout import system
from rescnet.training.readout.iterative import TOLERANCE, KernelProducts, NystromPreconditioner, solve_iteratively
from rescnet.training.readout.system import exact_bytes, solve_exactly
from rescnet.training.workers import Workers

SCALE, RIDGE = 0.1, 0.05


def problem(generator, images=200, dtype=torch.float64):
    codes = Codes.of(torch.randn(images, 6, generator=generator).to(dtype))
    right = torch.randn(images, 4, generator=generator).to(torch.promote_types(dtype, torch.float32))
    return codes, right


def products_of(codes, ridge=RIDGE, tile=2**20):
    return KernelProducts(codes, SCALE, ridge, Workers(), tile)


def test_an_exact_solution(generator, monkeypatch):
    monkeypatch.setattr(system, "PANEL", 7)
    codes, right = problem(generator, 30)
    matrix = code_kernel(codes, codes, SCALE) + RIDGE * torch.eye(30)
    found = solve_exactly(codes, right, SCALE, RIDGE)
    torch.testing.assert_close(found.columns, torch.linalg.solve(matrix, right))
    torch.testing.assert_close(found.blocks.flatten(), torch.linalg.inv(matrix).diagonal())
    assert (found.ridge, found.steps, found.residual) == (RIDGE, 0, 0.0)
    pairs = solve_exactly(codes, right, SCALE, RIDGE, 2).blocks
    torch.testing.assert_close(pairs[3], torch.linalg.inv(matrix)[6:8, 6:8])
    assert exact_bytes(30, 8) > matrix.nbytes


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_duplicates_without_a_ridge_are_met_by_more(generator, dtype):
    codes, right = problem(generator, 20, dtype)
    twice = Codes.of(codes.values.repeat(2, 1))
    found = solve_exactly(twice, right.repeat(2, 1), SCALE, 0.0)
    assert 1e-3 <= found.ridge <= 0.1
    matrix = code_kernel(twice, twice, SCALE).double() + found.ridge * torch.eye(40)
    torch.testing.assert_close(matrix @ found.columns.double(), right.repeat(2, 1).double(), rtol=0, atol=1e-2)
    assert solve_exactly(twice, right.repeat(2, 1), SCALE, 0.01).ridge == 0.01


def test_codes_that_are_no_numbers_are_refused(generator):
    codes, right = problem(generator, 5)
    bad = Codes.of(codes.values * torch.nan)
    for solve in (
        lambda: solve_exactly(bad, right, SCALE, RIDGE),
        lambda: solve_iteratively(products_of(bad), right, 5, 0, False),
    ):
        with pytest.raises(FloatingPointError, match=r"could not be solved\. Check the images"):
            solve()


@pytest.mark.parametrize("tile", [1, 300, 5000, 2**20])
def test_products_do_not_depend_on_tiles(generator, tile):
    codes, right = problem(generator, 40)
    wanted = code_kernel(codes, codes, SCALE) @ right + RIDGE * right
    torch.testing.assert_close(products_of(codes, tile=tile).times(right), wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("landmarks", [20, 200])
def test_conjugate_gradients_agree_with_the_factor(generator, dtype, landmarks):
    codes, right = problem(generator, dtype=dtype)
    wanted, heard = solve_exactly(codes, right, SCALE, RIDGE), []
    found = solve_iteratively(products_of(codes), right, landmarks, 0, True, lambda *step: heard.append(step))
    assert found.columns.shape == right.shape and found.ridge == RIDGE
    close = 0.05 if dtype == torch.float16 else 1e-2  # K is rounded to half precision too
    assert float((found.columns - wanted.columns).norm() / wanted.columns.norm()) < close
    assert float((found.blocks / wanted.blocks - 1).abs().mean()) < 0.2
    assert 1 <= found.steps == len(heard) < 100 and heard[-1][:2] == (found.steps, found.residual)
    assert found.residual <= TOLERANCE
    assert solve_iteratively(products_of(codes), right, landmarks, 0, False).blocks is None


def test_more_landmarks_take_fewer_steps(generator):
    codes, right = problem(generator)
    steps = [solve_iteratively(products_of(codes, 1e-2), right, m, 0, False).steps for m in (10, 60, 200)]
    assert steps[0] > steps[1] > steps[2]


def test_the_preconditioner_keeps_the_largest_eigenvector(generator):
    # The mean of x is nearly along it. Without the rest of the middle factor the sum is wrong by 9e-4 of the length.
    codes, x = Codes.of(torch.randn(4000, 64, generator=generator)), torch.randn(4000, 4, generator=generator)
    precondition = NystromPreconditioner(KernelProducts(codes, SCALE / 64, 0.01, Workers(), 2**22), 400, 0)
    near = torch.cat([part for _, part in precondition._parts()]).double()
    wanted = x.double() - near @ factor_solve(precondition._factor, near.T @ x.double())
    assert float((precondition(x) - wanted).sum(0).norm() / x.norm()) < 2e-4


def test_an_interrupted_solution_is_continued(generator):
    codes, right = problem(generator)
    solutions = []
    whole = solve_iteratively(products_of(codes), right, 10, 0, True, lambda *step: solutions.append(step[2].clone()))
    rest = solve_iteratively(products_of(codes), right, 10, 0, True, start=solutions[-3])
    assert 0 < rest.steps < whole.steps and rest.residual <= TOLERANCE
    assert solve_iteratively(products_of(codes), right, 10, 0, True, start=solutions[-1]).steps == 0
    other = solve_iteratively(products_of(codes), right, 10, 0, True, start=solutions[-1][1:])
    assert torch.equal(other.columns, whole.columns)  # of another problem: not used


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_conjugate_gradients_of_duplicates_and_of_equal_codes_are_sound(generator, dtype):
    """Also with a right side that is zero, and hardly a ridge."""
    codes, right = problem(generator, 50, dtype)
    right[:, 1] = 0
    for some in (codes.values.repeat(8, 1), codes.values[:1].expand(400, -1), codes.values[:, :0].repeat(8, 1)):
        several, both = Codes.of(some.contiguous()), right.repeat(8, 1)
        for ridge in (1e-6, 0.01):
            found = solve_iteratively(products_of(several, ridge), both, 400, 0, True)
            assert bool(found.columns.isfinite().all()) and bool(found.blocks.isfinite().all())
            assert bool((found.columns[:, 1] == 0).all())
        wanted = solve_exactly(several, both, SCALE, 0.01).columns
        assert float((found.columns - wanted).norm() / wanted.norm()) < 0.05


def test_a_row_of_weight_two_is_that_row_twice(generator):
    """A repeated row leaves the other coefficients as they are; exactly, and by conjugate gradients."""
    codes, right = problem(generator, 30)
    weights = 1.0 + torch.arange(30) % 3
    twice = Codes.of(codes.values.repeat_interleave(weights.long(), 0))
    wanted = solve_exactly(twice, right.repeat_interleave(weights.long(), 0), SCALE, RIDGE).columns
    near = code_kernel(codes, twice, SCALE) @ wanted
    found = solve_exactly(codes, right, SCALE, RIDGE, 1, 1 / weights).columns
    torch.testing.assert_close(code_kernel(codes, codes, SCALE) @ found, near)
    products = KernelProducts(codes, SCALE, RIDGE, Workers(), 2**20, 1 / weights)
    by_steps = solve_iteratively(products, right, 10, 0, False).columns
    torch.testing.assert_close(code_kernel(codes, codes, SCALE) @ by_steps, near, rtol=0, atol=0.02)
