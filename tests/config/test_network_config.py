from __future__ import annotations

import dataclasses

import pytest

from rescnet import ComputeOptions, NetworkConfig, make_config, preset_names
from rescnet.config.banks import bank_of_layer
from rescnet.config.presets import SMALL_SIDE, make_compute
from rescnet.family import make_member
from rescnet.network.memory import class_sum_banks
from rescnet.report.filter_pictures import banks_of

PAPER = {  # Table 1 and section 3.2.1; steps and scales that work otherwise with our heads are left out
    "mnist": {
        "layers": 231, "filters": 60, "first_filter_size": 13, "filter_size": 3, "bank": "pca", "block_sizes": [7],
        "block_stride": 4, "pyramid": (4, 2, 1), "posterior": "softmax", "ceiling": 0.8,
        "head": "multiclass-lda", "scaling": "channel",  # which the paper leaves open
    },
    "cifar10": {
        "layers": 937, "filters": 50, "filter_size": 3, "bank": "pca + stacked-lda", "block_sizes": [16],
        "block_stride": 1, "pyramid": (4, 2, 1), "sigmoid_scale": 16, "ceiling": 0.8,
        "posterior": "normalised-sigmoid", "head": "multiclass-lda",
    },
    "cifar10-sigmoids": {
        "layers": 937, "filters": 50, "filter_size": 3, "bank": "pca + stacked-lda", "block_sizes": [16],
        "block_stride": 1, "pyramid": (4, 2, 1), "posterior": "sigmoid", "sigmoid_scale": 16, "ceiling": 0.8,
    },
    "cifar100": {
        "layers": 436, "filters": 50, "filter_size": 3, "bank": "pca + stacked-lda", "block_sizes": [16],
        "block_stride": 4, "pyramid": (4, 2, 1), "sigmoid_scale": 16, "ceiling": 0.8,
        "posterior": "normalised-sigmoid",  # our own: with plain sigmoids the paper's rates swing
        "head": "multiclass-lda",  # which the paper leaves open
    },
    "cifar100-sigmoids": {
        "layers": 436, "filters": 50, "filter_size": 3, "bank": "pca + stacked-lda", "block_sizes": [16],
        "block_stride": 4, "pyramid": (4, 2, 1), "posterior": "sigmoid", "sigmoid_scale": 16, "ceiling": 0.8,
    },
    "tiny-imagenet": {
        "layers": 512, "filters": 40, "filter_size": 3, "bank": "pca + stacked-lda", "block_sizes": [32],
        "block_stride": 8, "pyramid": (4, 2, 1), "sigmoid_scale": 16, "ceiling": 0.8,
        "posterior": "normalised-sigmoid", "head": "multiclass-lda",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", PAPER)
def test_presets_are_the_papers(name):
    config = make_config(name)
    for key, value in PAPER[name].items():
        assert getattr(config, key) == value, key
    assert (config.positives, config.negatives, config.tolerance) == (2, 32, 0)  # appendix A.4


@pytest.mark.parametrize(
    ("name", "layer", "rate"),
    [
        ("mnist", 1, 1), ("mnist", 231, 1), ("cifar10", 1, 0.4), ("cifar10", 937, 0.4),
        ("cifar100", 1, 1), ("cifar100", 11, 0.9), ("cifar100", 436, 0.9**9), ("tiny-imagenet", 512, 0.9**7),
    ],
)  # fmt: skip
def test_learning_rates_of_the_presets(name, layer, rate):
    assert make_config(name).rate_of(layer) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("name", "size", "features"),
    [
        ("mnist", (28, 28), 21 * 60 * 59 // 2),
        ("cifar10", (32, 32), 14 * 50 * 49 // 2),
        ("tiny-imagenet", (64, 64), 14 * 40 * 39 // 2),
    ],
)
def test_feature_counts(name, size, features):
    config = make_config(name)
    assert config.features(size) == features
    per_cell = config.filters * (config.filters + 1) // 2
    kept = make_config(name, diagonal="keep", pyramid_bins="adaptive")
    assert kept.features(size) == 21 * per_cell  # 38,430 on MNIST and 26,775 on CIFAR-10, as the paper counts


def test_file_and_keywords_override_the_preset(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("filters = 12\nridge = 0.5\n")
    config = make_config("cifar10", file, ridge=0.7)
    assert (config.filters, config.ridge, config.block_size) == (12, 0.7, 16)


def test_presets_exist():
    assert {"digits", "mnist", "cifar10", "cifar100", "tiny-imagenet"} <= set(preset_names())
    for name in preset_names():
        make_config(name)


def test_an_unknown_key_names_the_nearest(tmp_path):
    with pytest.raises(ValueError, match=r"unknown option 'filterz': did you mean 'filters'\?"):
        make_config("digits", filterz=3)
    file = tmp_path / "mine.toml"
    file.write_text("learning_rat = 0.5\n")
    with pytest.raises(
        ValueError, match=r"mine.toml has an unknown option 'learning_rat': did you mean 'learning_rate'"
    ):
        make_config("digits", file)
    with pytest.raises(ValueError, match=r"no preset 'cifar1': did you mean 'cifar10'"):
        make_config("cifar1")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"filters": 0}, "filters is 0: choose a finite value at least 1"),
        ({"layers": -1}, "layers is -1"),
        ({"learning_rate": -0.1}, "learning_rate is -0.1"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"learning_rate": float("inf")}, "learning_rate is inf"),
        ({"ceiling": 1.2}, "ceiling is 1.2: choose a finite value between 0 and 1"),
        ({"ridge": "much"}, "ridge is 'much': give a number"),
        ({"filters": 2.5}, "filters is 2.5: give a whole number"),
        ({"filters": True}, "filters is True: give a whole number"),
        ({"pyramid": ()}, "pyramid is empty"),
        ({"pyramid": (4, 0)}, "pyramid is 0"),
        ({"pooling": "maxx"}, "pooling is 'maxx', which is no choice: did you mean 'max'"),
        ({"head": 3}, "head is 3, which is no choice: choose from lda"),
        ({"standardise": "yes"}, "standardise is 'yes': choose true or false"),
        ({"bank": "pca + ldaa"}, "no filter bank 'ldaa'"),
        ({"shrinkage": "convex", "ridge": 2.0}, "convex shrinkage takes γ in"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**62}, "seed is 4.61169e"),
        ({"layers": float("inf")}, "layers is inf: give a whole number"),
    ],
    ids=str,
)
def test_bad_options_are_refused_in_one_sentence(options, message):
    with pytest.raises(ValueError, match=message) as error:
        NetworkConfig(**options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("asked", [{"loo_correction": True}, {"kernel_width": 2.0}, {"kernel_ridge": 0.1}], ids=str)
def test_options_of_a_readout_that_is_not_there_are_refused(asked, tmp_path):
    """Where someone asked for them; those of a preset are left aside with its readout."""
    (name,) = asked
    message = f"{name} is .* but there is no kernel readout: choose readout kernel too"
    for preset, options in (("cifar10", {}), ("cifar10-best", {"readout": "heads"})):
        with pytest.raises(ValueError, match=message):
            make_config(preset, **options, **asked)
    file = tmp_path / "mine.toml"
    file.write_text(f"{name} = {str(asked[name]).lower()}\n")
    with pytest.raises(ValueError, match=message):
        make_config("cifar10", file)
    assert getattr(make_config("cifar10", file, readout="kernel"), name) == asked[name]
    assert getattr(make_config("cifar10-best", **asked), name) == asked[name]
    assert make_config("cifar10-best", readout="heads").loo_correction
    assert not make_config("cifar10", loo_correction=False).loo_correction


def test_text_becomes_the_declared_type():
    config = NetworkConfig(pyramid="4,2,1", layers="7", ridge="0.5")
    assert (config.pyramid, config.layers, config.ridge) == ((4, 2, 1), 7, 0.5)


def test_every_option_says_what_it_means():
    for owner in (NetworkConfig, ComputeOptions):
        for entry in dataclasses.fields(owner):
            assert len(entry.metadata["help"]) > 8, entry.name


def test_a_configuration_survives_json():
    config = make_config("cifar100", ridge=0.25)
    assert NetworkConfig(**config.to_dict()) == config


def test_a_file_may_hold_options_of_the_machine_too(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('filters = 12\nmemory = "2GB"\n')
    assert make_config("digits", file).filters == 12
    assert make_compute(file, dtype="float64") == ComputeOptions(memory="2GB", dtype="float64")
    file.write_text('memry = "2GB"\n')
    with pytest.raises(ValueError, match=r"mine\.toml has an unknown option 'memry': did you mean 'memory'"):
        make_compute(file)


def test_a_folder_is_no_configuration_file(tmp_path):
    with pytest.raises(ValueError, match=r"cannot be read .* give a TOML file"):
        make_config("digits", tmp_path)


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 16, 20), (3, 32, 32), (3, 64, 64)])
def test_settings_suit_images_nobody_chose_settings_for(shape):
    config = make_config(image_shape=shape)
    config.check_images(shape[0], shape[1:])
    size = config.size_of_filter(1)
    assert shape[0] * size**2 >= config.filters // 2  # as many principal components as are asked for
    assert config.pca_signs == ("drawn" if shape[0] == 3 and min(shape[1:]) >= SMALL_SIDE else "fixed")


def test_colour_and_many_classes_vote_as_cifar_does():
    few, many = (make_config(image_shape=(1, 28, 28), classes=classes) for classes in (10, 11))
    assert few == make_config(image_shape=(1, 28, 28)) and (few.head, few.posterior) == ("lda", "sigmoid")
    preset = make_config("cifar10")
    for config in (preset, many, make_config(image_shape=(3, 32, 32), classes=2), make_config("cifar100")):
        assert (config.head, config.posterior) == ("multiclass-lda", "normalised-sigmoid")
    assert make_config(image_shape=(3, 32, 32), classes=11, head="ridge").head == "ridge"  # what is asked for wins
    small = make_config(image_shape=(1, 8, 8), classes=11)
    assert small == make_config("digits", head=preset.head, posterior=preset.posterior)
    assert make_config("mnist", image_shape=(1, 28, 28), classes=11) == make_config("mnist")


SHAPES = {"cifar": (3, 32, 32), "mnist": (1, 28, 28), "fashion": (1, 28, 28), "tiny": (3, 64, 64), "digits": (1, 8, 8)}


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_asks_for_filters_its_patches_have(name):
    config = make_config(name)
    shape = next(shape for start, shape in SHAPES.items() if name.startswith(start))
    config.check_images(shape[0], shape[1:])
    components = sum(n for bank, n in banks_of(bank_of_layer(config.bank, 1), config.filters) if bank == "pca")
    assert components <= shape[0] * config.size_of_filter(1) ** 2


def test_copies_and_shifts_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="copies is 3 but augment names no change"):
        make_config("digits", copies=3)
    for name in ("augment", "test_views"):
        with pytest.raises(ValueError, match=rf"{name} moves images of 8×8 by 8 pixels"):
            make_config("digits", **{name: "shift 8"}).check_images(1, (8, 8))


def test_banks_are_named_stack_by_stack():
    config = NetworkConfig(bank="dct; pca | patches | lda", stack_depth=2, layers=8)
    assert [config.bank_of(layer) for layer in range(1, 9)] == ["dct", "pca", *["patches"] * 2, *["lda"] * 4]
    assert class_sum_banks(config.bank, 1) == class_sum_banks(config.bank, 2) == ["lda"]
    with pytest.raises(ValueError, match=r"bank is 'pca \| dct', stack by stack, but there is one stack"):
        NetworkConfig(bank="pca | dct")
    with pytest.raises(ValueError, match=r"bank is 'pca \| dct', but stages are one stack: part them by ';'"):
        make_member("pcanet", (3, 32, 32), {"bank": "pca | dct"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bank": "stacked-lda | pca", "grey_stack_every": 2, "filters": 28}, "28 PCA filters were asked of patches with 27"),
        (
            {"bank": "stacked-lda | stacked-lda | stacked-lda | lda", "grey_stack_every": 4, "filters": 50},
            "50 LDA .* with 49",
        ),
        ({"bank": "stacked-lda | dct", "filters": 27}, "27 DCT filters were asked of patches with 27 numbers: .* 26"),
        ({"bank": "stacked-lda | pca", "filters": 40, "layers": 2}, None),  # its second stack is not come to
    ],
)
def test_directions_a_stack_cannot_have_are_refused_before_any_layer(options, message):
    config = NetworkConfig(**{"stack_depth": 2, "layers": 8} | options)
    if message is None:
        return config.check_images(3, (32, 32))
    with pytest.raises(ValueError, match=message):
        config.check_images(3, (32, 32))


def test_banks_are_told_what_the_configuration_says():
    config = NetworkConfig(
        positives=3, negatives=5, tolerance=0.1, draw_ridge=0.2, most_draws=7, stacked_lda_bias="none", pca_bias="none",
        patch_ridge=0.3, filter_length="own", stacked_lda_signs="both", pca_signs="drawn",
    )  # fmt: skip
    told = config.bank_options
    assert (told.positives, told.negatives, told.tolerance, told.draw_ridge, told.most_draws) == (3, 5, 0.1, 0.2, 7)
    assert (told.bias, told.pca_bias, told.patch_ridge, told.length) == ("none", "none", 0.3, "own")
    assert (told.sides, told.pca_signs) == ("both", "drawn")
