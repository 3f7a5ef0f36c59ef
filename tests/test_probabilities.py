from __future__ import annotations

import torch

from rescnet.probabilities import probabilities


def test_rows_sum_to_one_and_rank_classes_as_outputs_do(generator):
    for scale in (1e-3, 0.3, 4.0):
        outputs = scale * torch.randn(300, 7, generator=generator) - 0.2
        shares = probabilities(outputs, 0.8)
        torch.testing.assert_close(shares.sum(1), torch.ones(300, dtype=torch.float64))
        assert torch.equal(shares.argmax(1), outputs.argmax(1))
        assert bool((shares >= 0).all())


def test_neighbouring_numbers_are_told_apart_and_nothing_overflows():
    near = torch.tensor([[0.5, torch.nextafter(torch.tensor(0.5), torch.tensor(1.0)), 0.1]])
    assert int(probabilities(near, 0.8).argmax()) == 1
    assert bool(probabilities(torch.tensor([[1e30, -1e30], [0.0, 0.0]]), 0.8).isfinite().all())


def test_only_the_lead_in_units_of_the_ceiling_counts():
    outputs = torch.tensor([[0.1, 0.3, -0.2]], dtype=torch.float64)
    torch.testing.assert_close(probabilities(outputs + 5, 0.8), probabilities(outputs, 0.8))
    torch.testing.assert_close(probabilities(outputs / 2, 0.4), probabilities(outputs, 0.8))
