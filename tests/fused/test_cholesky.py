"""The blocked Cholesky factorisation and its refinement against a plain solve, in float64."""

from __future__ import annotations

import pytest
import torch

from rescnet.fused.cholesky import blocked_cholesky, blocked_solver, inverse_of_lower, refine

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def relative_error(found, exact):
    return float((found.double() - exact).norm() / exact.norm())


def realistic_scatter(size, generator, ridge, decay=1.3):
    """Correlated unit-variance features whose spectrum falls off as that of real ones, plus a ridge."""
    basis = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64)).Q
    spectrum = size * torch.arange(1, size + 1).double() ** -decay
    scatter = basis * spectrum @ basis.T
    root = scatter.diagonal().sqrt()
    return scatter / root / root[:, None] + ridge * torch.eye(size, dtype=torch.float64)


@pytest.mark.parametrize("block", [64, 100, 1000])
@pytest.mark.parametrize("ridge", [0.03, 0.3])
def test_blocked_factor_solves_and_refinement_makes_it_exact(block, ridge, generator):
    matrix = realistic_scatter(300, generator, ridge)
    right = torch.randn(300, 4, generator=generator, dtype=torch.float64)
    exact = torch.linalg.solve(matrix, right).to(DEVICE)
    single = matrix.float().to(DEVICE)
    factor = blocked_cholesky(single.clone(), block)
    plain = factor.solve(right.float().to(DEVICE))
    refined, converged = refine(single.clone(), factor, right.float().to(DEVICE), tolerance=1e-5)
    assert converged
    assert relative_error(plain, exact) < 0.05
    assert relative_error(refined, exact) < 1e-4


def test_the_solution_is_as_good_as_the_features(generator):
    matrix = realistic_scatter(300, generator, 0.1)
    right = torch.randn(300, 4, generator=generator, dtype=torch.float64)
    found = blocked_solver(matrix.float().to(DEVICE), 64)(right.float().to(DEVICE))
    assert relative_error(matrix.to(DEVICE) @ found.double(), right.to(DEVICE)) < 1e-3


def test_the_upper_triangle_is_not_read(generator):
    matrix = realistic_scatter(300, generator, 0.1)
    right = torch.randn(300, 4, generator=generator, dtype=torch.float64)
    lower = matrix.float().tril() + torch.full((300, 300), torch.nan).triu(1)
    found = blocked_solver(lower.to(DEVICE), 64)(right.float().to(DEVICE)).cpu()
    assert relative_error(matrix @ found.double(), right) < 1e-3


def test_blocked_factorisation_notices_failure(generator):
    matrix = realistic_scatter(200, generator, 0.1).float()
    matrix[150, 150] = -1.0
    assert blocked_cholesky(matrix.to(DEVICE), 64) is None


def test_refinement_says_when_the_factor_is_too_poor(generator):
    matrix = realistic_scatter(200, generator, 1e-3).float().to(DEVICE)
    other = blocked_cholesky(realistic_scatter(200, generator, 0.1).float().to(DEVICE), 64)
    _, converged = refine(matrix.clone(), other, torch.randn(200, 2, generator=generator).to(DEVICE), 1e-6, 2)
    assert not converged


@pytest.mark.parametrize("ridge", [1e-6, 2e-5])
def test_where_blocks_fail_the_plain_factorisation_is_tried(ridge, generator):
    """A ridge below half precision's rounding: the blocked factor breaks down or is poor, the float32 one is not."""
    matrix = realistic_scatter(300, generator, ridge, decay=2).float().to(DEVICE)
    right = torch.randn(300, 2, generator=generator).to(DEVICE)
    factor = blocked_cholesky(matrix.clone(), 64)
    assert factor is None or not refine(matrix.clone(), factor, right)[1]
    found = blocked_solver(matrix.clone(), 64)(right)
    assert relative_error(matrix.double() @ found.double(), right.double()) < 0.05


@pytest.mark.parametrize("size", [1, 100, 128, 300, 1024])
def test_inverse_of_a_lower_factor(size, generator):
    factor = torch.linalg.cholesky(realistic_scatter(size, generator, 0.3))
    found = inverse_of_lower(factor.to(DEVICE)).cpu()
    assert relative_error(found @ factor, torch.eye(size, dtype=torch.float64)) < 1e-12
    assert bool((found.triu(1) == 0).all())
