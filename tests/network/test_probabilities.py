from __future__ import annotations

import pytest
import torch

from rescnet.network.probabilities import probabilities


def test_rows_sum_to_one_and_rank_classes_as_outputs_do(generator):
    for scale in (1e-3, 0.3, 4.0):
        outputs = scale * torch.randn(300, 7, generator=generator) - 0.2
        shares = probabilities(outputs, 0.8)
        torch.testing.assert_close(shares.sum(1), torch.ones(300, dtype=torch.float64))
        assert torch.equal(shares.argmax(1), outputs.argmax(1))
        assert bool((shares >= 0).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_outputs_next_to_zero_are_told_apart(dtype):
    """Sigmoids of log-odds of minus thousands are: the largest leads, no more than one of 0.1 λ does."""
    rows = [1e-30, 1e-9, 1e-20, 0.0], [3e-36, 1e-36, 2e-36, 0.0], [-4e-9, -1e-9, -2e-9, -3e-9]
    shares = probabilities(torch.tensor(rows, dtype=dtype), 0.8).to(dtype)
    assert shares.argmax(1).tolist() == [1, 0, 1]
    expected = probabilities(torch.tensor([[0.0, 0.08, 0, 0], [0.08, 0.08 / 3, 0.16 / 3, 0]]), 0.8).to(dtype)
    torch.testing.assert_close(shares[:2], expected)


def test_an_image_that_is_claimed_has_the_softmax_at_one_temperature(generator):
    """From an output of 0.1 λ on, be it of two classes that are nearly equal."""
    outputs = 0.3 * torch.randn(300, 7, generator=generator, dtype=torch.float64)
    outputs[:, 0] = 0.0801
    outputs[:100] = 0.2 + 1e-3 * outputs[:100]
    torch.testing.assert_close(probabilities(outputs, 0.8), torch.softmax(outputs / 0.04, 1))


def test_equal_outputs_are_equally_likely():
    for value in (0.0, 1e-30, -1e-3, 0.4):
        shares = probabilities(torch.full((1, 5), value), 0.8)
        torch.testing.assert_close(shares, torch.full((1, 5), 0.2, dtype=torch.float64))


def test_neighbouring_numbers_are_told_apart_and_nothing_overflows():
    near = torch.tensor([[0.5, torch.nextafter(torch.tensor(0.5), torch.tensor(1.0)), 0.1]])
    assert int(probabilities(near, 0.8).argmax()) == 1
    assert bool(probabilities(torch.tensor([[1e30, -1e30], [0.0, 0.0]]), 0.8).isfinite().all())


def test_only_the_lead_in_units_of_the_ceiling_counts():
    outputs = torch.tensor([[0.1, 0.3, -0.2]], dtype=torch.float64)
    torch.testing.assert_close(probabilities(outputs + 5, 0.8), probabilities(outputs, 0.8))
    torch.testing.assert_close(probabilities(outputs / 2, 0.4), probabilities(outputs, 0.8))


def test_outputs_beside_a_much_larger_one_are_ranked_too():
    """As from the second layer on, where some class has been pushed below zero; equals keep their order."""
    outputs = torch.tensor([[1e-30, 1e-20, -0.2, 1e-9, 1e-20]], dtype=torch.float64)
    assert probabilities(outputs, 0.8).argsort(descending=True).tolist() == [[3, 1, 4, 0, 2]]
