"""Options of a network: values, limits, declarations, and the images they suit."""

from __future__ import annotations

import pytest

from rescnet import ComputeOptions, Config, NetworkConfig
from rescnet.config.option import OptionError, check_unchanged, options_of
from rescnet.stages.filters import BankOptions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"filters": 0}, "filters must be between 1 and 10000, got 0"),
        ({"layers": -1}, "layers must be between 1 and 99999, got -1"),
        ({"learning_rate": -0.1}, "learning_rate must be between 0 and 100, got -0.1"),
        ({"learning_rate": float("nan")}, "learning_rate must be a number, got nan"),
        ({"learning_rate": float("inf")}, "learning_rate must be between 0 and 100, got inf"),
        ({"ceiling": 1.2}, "ceiling must be between 0 and 1, got 1.2"),
        ({"ridge": "much"}, "ridge must be a number, got 'much'"),
        ({"filters": 2.5}, "filters must be a whole number, got 2.5"),
        ({"filters": True}, "filters must be a whole number, got True"),
        ({"pyramid": ()}, r"pyramid must not be empty\. Use e\.g\. 4, 2, 1"),
        ({"augment": "flip", "copies": 2}, "copies must be 1 with augment 'flip' alone, got 2"),
        ({"pyramid": (4, 0)}, "pyramid must be between 1 and 64, got 0"),
        ({"pooling": "maxx"}, r"pooling must be one of max, mean, got 'maxx'\. Did you mean 'max'\?"),
        ({"head": 3}, "head must be one of lda, multiclass-lda, ridge, got 3"),
        ({"matrix_log": "yes"}, "matrix_log must be true or false, got 'yes'"),
        ({"bank": "pca + ldaa"}, r"bank must be one of .*, got 'ldaa'\. Did you mean 'lda'\?"),
        ({"bank": "pca + 2"}, "bank must be one of .*, got '2'"),
        ({"block_sizes": (8, 8)}, r"block_sizes must differ from each other, got \(8, 8\)"),
        ({"matrix_log": True}, "pooling must be mean with matrix_log, got 'max'"),
        ({"copies": 3}, r"augment must name a change with copies 3\. Use e\.g\. 'shift 2'"),
        ({"seed": -1}, "seed must be between 0 and .*, got -1"),
        ({"seed": 2**62}, "seed must be between 0 and .*, got 4.61169e"),
        ({"layers": float("inf")}, "layers must be a whole number, got inf"),
    ],
    ids=str,
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message) as error:
        NetworkConfig(**options)
    assert "\n" not in str(error.value)


def test_text_becomes_the_declared_type():
    config = NetworkConfig(pyramid="4,2,1", layers="7", ridge="0.5")
    assert (config.pyramid, config.layers, config.ridge) == ((4, 2, 1), 7, 0.5)


@pytest.mark.parametrize("owner", [NetworkConfig, ComputeOptions])
def test_every_option_is_declared_in_full(owner):
    for name, entry in options_of(owner).items():
        facts = entry.metadata
        assert len(facts["help"]) > 8 and facts["help"].endswith("."), name
        assert facts["help"][0].isupper() or facts["help"].split()[0].rstrip(",;") in ("cpu", "exact", "'heads'"), name
        assert facts["group"], name
        assert facts["fixed_by"] in ("layers", "run", "nothing"), name


def test_a_configuration_survives_json():
    config = Config("cifar100", ridge=0.25).complete()
    assert NetworkConfig(**config.to_dict()) == config


@pytest.mark.parametrize(
    ("options", "image", "message"),
    [
        ({"augment": "shift 8"}, (1, 8, 8), "augment must shift images of 8×8 by fewer pixels, got 8"),
        ({"test_views": "shift 8"}, (1, 8, 8), "test_views must shift images of 8×8 by fewer pixels, got 8"),
        ({"filter_size": 9}, (3, 8, 8), "filter_size must be at most 8 on images of 8×8, got 9"),
        ({"block_sizes": (4, 20)}, (3, 12, 12), "block_sizes must be at most 12 on images of 12×12, got 20"),
        ({"grey_stack_every": 1}, (1, 12, 12), "grey_stack_every must be 0 on grey images, got 1"),
        ({"grey_stack_every": 1}, (3, 6, 6), "must be 0 on images of 6×6: filters of a grey stack are 7×7"),
        ({"grey_stack_every": 2}, (3, 12, 12), "stack_depth must be set with grey_stack_every 2"),
        ({"bank": "pca", "filters": 28}, (3, 12, 12), "at most 27 PCA filters for patches of 27 numbers, got 28"),
        ({"bank": "dct", "filters": 27}, (3, 12, 12), "at most 26 DCT filters for patches of 27 numbers, got 27"),
        ({"bank": "lda", "filters": 50, "grey_stack_every": 2, "stack_depth": 1, "layers": 4, "first_filter_size": 5},
         (3, 12, 12), r"at most 49 LDA filters .* got 50\. Use fewer filters\.$"),
    ],
    ids=str,
)  # fmt: skip
def test_images_that_a_network_cannot_be_built_on(options, image, message):
    config = NetworkConfig(**({"filters": 8, "block_sizes": (4,), "block_stride": 1} | options))
    with pytest.raises(ValueError, match=message):
        config.check_images(image[0], image[1:])


def test_only_stacks_that_are_trained_are_checked():
    grey = {"bank": "lda", "filters": 50, "grey_stack_every": 2, "stack_depth": 1, "first_filter_size": 5}
    config = NetworkConfig(**grey, layers=1, block_sizes=(4,), block_stride=1)
    config.check_images(3, (12, 12))


def test_banks_of_a_stack_restart_with_it():
    config = NetworkConfig(bank="dct; pca", stack_depth=3, layers=8)
    assert [config.bank_of(layer) for layer in range(1, 8)] == ["dct", "pca", "pca", "dct", "pca", "pca", "dct"]


def test_bank_options_are_those_of_the_configuration():
    config = NetworkConfig(
        positives=3, negatives=5, tolerance=0.1, draw_ridge=0.2, stacked_lda_bias="lda", pca_bias="none",
        stacked_lda_signs="both", pca_signs="drawn",
    )  # fmt: skip
    found = BankOptions.of(config)
    assert (found.positives, found.negatives, found.tolerance, found.draw_ridge) == (3, 5, 0.1, 0.2)
    assert (found.stacked_lda_bias, found.stacked_lda_signs) == ("lda", "both")
    assert (found.pca_bias, found.pca_signs) == ("none", "drawn")


def test_check_unchanged_names_the_first_fixed_option():
    """``layers`` may always change, ``ridge`` only at a warm start, ``sigmoid_scale`` never."""
    before = Config("digits").complete()
    for change, fixed_by, is_error in (
        ({"layers": 99}, ("layers", "run"), False),
        ({"ridge": 0.7}, ("layers",), False),
        ({"ridge": 0.7}, ("layers", "run"), True),
        ({"sigmoid_scale": 3.0}, ("layers",), True),
    ):
        (name,) = change
        after = Config("digits", **change).complete()
        if not is_error:
            check_unchanged(before, after, fixed_by, "Train again.")
            continue
        with pytest.raises(OptionError, match=rf"^{name} must stay .*, got .*\. Train again\.$") as error:
            check_unchanged(before, after, fixed_by, "Train again.")
        assert error.value.name == name
        assert str(error.value.under_name("other")).startswith("other must stay")


def test_many_stacks_are_checked_at_once(monkeypatch):
    config = NetworkConfig(layers=99_999, stack_depth=1, filters=8, block_sizes=(4,), block_stride=1)
    asked = []
    monkeypatch.setattr(NetworkConfig, "bank_of", lambda self, layer: asked.append(layer) or "pca")
    config.check_images(3, (12, 12))
    assert len(asked) <= 2


@pytest.mark.parametrize("changes", ["rotate nan", "jitter nan"])
def test_amounts_must_be_numbers(changes):
    with pytest.raises(ValueError, match="augment must be a list of changes"):
        NetworkConfig(augment=changes)
