"""Cholesky factors in place, by blocks that divide no matrix evenly."""

from __future__ import annotations

import pytest
import torch

from rescnet.numerics.linear_algebra import NotPositiveDefiniteError, cholesky_, factor_solve, inverse_blocks

BLOCKS = pytest.mark.parametrize("block", [1, 4, 7, 23, 50])


@pytest.fixture
def matrix(generator):
    x = torch.randn(23, 30, generator=generator, dtype=torch.float64)
    return x @ x.T


@BLOCKS
def test_a_factor_in_place(matrix, block):
    """Only the lower triangle is read."""
    found = matrix.tril()
    found += torch.full_like(found, torch.nan).triu(1)
    cholesky_(found, block)
    torch.testing.assert_close(found.tril(), torch.linalg.cholesky(matrix))


@BLOCKS
def test_solution_and_diagonal_of_the_inverse(matrix, block, generator):
    """Neither reads the upper triangle."""
    factor = torch.linalg.cholesky(matrix) + torch.full_like(matrix, torch.nan).triu(1)
    inverse = torch.linalg.inv(matrix)
    torch.testing.assert_close(inverse_blocks(factor, 1, block).flatten(), inverse.diagonal())
    wanted = torch.stack([inverse[i : i + 23, i : i + 23] for i in (0,)])
    torch.testing.assert_close(inverse_blocks(factor, 23, block), wanted)
    right = torch.randn(23, 3, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(factor_solve(factor, right), torch.linalg.solve(matrix, right))


@BLOCKS
def test_an_indefinite_matrix_is_refused(matrix, block):
    for bad in (matrix - 2 * matrix.diagonal().max() * torch.eye(23), matrix * torch.nan):
        with pytest.raises(NotPositiveDefiniteError):
            cholesky_(bad.clone(), block)
