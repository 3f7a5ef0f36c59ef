"""Presets, configuration files and keywords."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rescnet import ComputeOptions, Config, ConfigError, NetworkConfig, preset_names
from rescnet.config.choices import starting_point
from rescnet.config.defaults import QUALITIES, check_quality, default_settings
from rescnet.config.grammars import bank_of_layer, parse_mixture, share_out
from rescnet.config.presets import make_compute

PAPER = {  # Table 1 and section 3.2.1; steps and scales that work otherwise with our heads are left out
    "mnist": {
        "layers": 231, "filters": 60, "first_filter_size": 13, "filter_size": 3, "bank": "pca", "block_sizes": (7,),
        "block_stride": 4, "pyramid": (4, 2, 1), "posterior": "softmax", "ceiling": 0.8,
        "head": "multiclass-lda", "scaling": "channel",  # which the paper leaves open
    },
    "cifar10": {
        "layers": 937, "filters": 50, "filter_size": 3, "bank": "pca + stacked-lda", "block_sizes": (16,),
        "block_stride": 1, "pyramid": (4, 2, 1), "sigmoid_scale": 16, "ceiling": 0.8,
        "posterior": "normalised-sigmoid", "head": "multiclass-lda",
    },
    "cifar100": {
        "layers": 436, "filters": 50, "filter_size": 3, "bank": "pca + stacked-lda", "block_sizes": (16,),
        "block_stride": 4, "pyramid": (4, 2, 1), "sigmoid_scale": 16, "ceiling": 0.8,
        "posterior": "normalised-sigmoid",  # our own: with plain sigmoids the paper's rates swing
        "head": "multiclass-lda",  # which the paper leaves open
    },
    "tiny-imagenet": {
        "layers": 512, "filters": 40, "filter_size": 3, "bank": "pca + stacked-lda", "block_sizes": (32,),
        "block_stride": 8, "pyramid": (4, 2, 1), "sigmoid_scale": 16, "ceiling": 0.8,
        "posterior": "normalised-sigmoid", "head": "multiclass-lda",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", PAPER)
def test_presets_are_the_papers(name):
    config = Config(name).complete()
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
    assert Config(name).complete().rate_of(layer) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("name", "size", "features"),
    [
        ("mnist", (28, 28), 21 * 60 * 59 // 2),
        ("cifar10", (32, 32), 14 * 50 * 49 // 2),
        ("tiny-imagenet", (64, 64), 14 * 40 * 39 // 2),
    ],
)
def test_feature_counts(name, size, features):
    config = Config(name).complete()
    assert config.features(size) == features
    per_cell = config.filters * (config.filters + 1) // 2
    kept = Config(name, pooling="mean", matrix_log=True, pyramid_bins="adaptive").complete()
    assert kept.features(size) == 21 * per_cell  # 38,430 on MNIST and 26,775 on CIFAR-10, as the paper counts


def test_file_and_keywords_override_the_preset(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("filters = 12\nridge = 0.5\n")
    config = Config.read(file, "cifar10", ridge=0.7).complete()
    assert (config.filters, config.ridge, config.block_sizes) == (12, 0.7, (16,))


def test_an_unknown_key_names_the_nearest(tmp_path):
    with pytest.raises(
        ValueError, match=r"option names must be known, got 'filterz' in Config\. Did you mean 'filters'\?"
    ):
        Config("digits", filterz=3).complete()
    file = tmp_path / "mine.toml"
    file.write_text("learning_rat = 0.5\n")
    with pytest.raises(ValueError, match=r"'learning_rat' in .*mine.toml\. Did you mean 'learning_rate'\?"):
        Config.read(file, "digits").complete()
    with pytest.raises(ValueError, match=r"preset must be one of paper, cifar10, .*, got 'cifar1'\. Did you mean"):
        Config("cifar1").complete()


@pytest.mark.parametrize("asked", [{"loo_correction": True}, {"kernel_width": 2.0}, {"kernel_ridge": 0.1}], ids=str)
def test_readout_options_need_the_readout(asked, tmp_path):
    """Options of a preset are ignored if its readout is replaced."""
    (name,) = asked
    message = f"{name} must be used with readout 'kernel', got readout 'heads'"
    for preset, options in (("cifar10", {}), ("cifar10-best", {"readout": "heads"})):
        with pytest.raises(ValueError, match=message):
            Config(preset, **options, **asked).complete()
    file = tmp_path / "mine.toml"
    file.write_text(f"{name} = {str(asked[name]).lower()}\n")
    with pytest.raises(ValueError, match=message):
        Config.read(file, "cifar10").complete()
    assert getattr(Config.read(file, "cifar10", readout="kernel").complete(), name) == asked[name]
    assert getattr(Config("cifar10-best", **asked).complete(), name) == asked[name]
    assert Config("cifar10-best", readout="heads").complete().loo_correction
    assert not Config("cifar10", loo_correction=False).complete().loo_correction


def test_a_file_may_hold_options_of_the_machine_too(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('filters = 12\nmax_memory = "2GB"\n')
    assert Config.read(file, "digits").complete().filters == 12
    assert make_compute(file, dtype="float64") == ComputeOptions(max_memory="2GB", dtype="float64")
    file.write_text('max_memry = "2GB"\n')
    with pytest.raises(ValueError, match=r"'max_memry' in .*mine\.toml\. Did you mean 'max_memory'\?"):
        make_compute(file)


def test_a_folder_is_no_configuration_file(tmp_path):
    with pytest.raises(ValueError, match=r"configuration file must be readable, got .*directory"):
        Config.read(tmp_path, "digits").complete()


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 16, 20), (3, 32, 32), (3, 64, 64)])
def test_the_papers_network_suits_the_images(shape):
    config = Config("paper").complete(shape)
    config.check_images(shape[0], shape[1:])
    size = config.size_of_filter(1)
    assert shape[0] * size**2 >= config.filters // 2  # as many principal components as are asked for
    assert config.pca_signs == ("drawn" if shape[0] == 3 and min(shape[1:]) >= 16 else "fixed")


@pytest.mark.parametrize("quality", QUALITIES)
@pytest.mark.parametrize("images", [20, 1000, 50_000])
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 8, 8), (2, 17, 40), (3, 32, 32)])
def test_the_default_network_suits_the_images(shape, images, quality):
    """It can be built, mirrored or not; more images or quality never make it smaller."""
    for mirrored in (False, True):
        config = NetworkConfig(**default_settings(shape, images, 10, quality, mirrored))
        config.check_images(shape[0], shape[1:])
        assert config.mirrors_kernel == mirrored and images * config.rows_per_image <= max(images, 20_000)
    more = default_settings(shape, 10 * images, 10, quality)
    better = default_settings(shape, images, 10, "best")
    assert config.layers <= min(more["layers"], better["layers"])
    assert Config().complete(shape, 10, images, quality).layers == config.layers


@pytest.mark.parametrize(("images", "size"), [(1999, 3800), (2000, 400), (5000, 1000), (50_000, 3800)])
def test_many_images_have_one_component_per_five(images, size):
    assert default_settings((3, 32, 32), images, 10)["readout_size"] == size


def test_a_wrong_quality_is_named():
    with pytest.raises(ValueError, match=r"quality must be one of fast, balanced, best, got 'bets'\. Did"):
        check_quality("bets")
    with pytest.raises(ValueError, match="image_shape must be given with preset 'paper'"):
        Config("paper").complete()


def test_colour_and_many_classes_get_multiclass_scores():
    few, many = (Config("paper").complete((1, 28, 28), classes) for classes in (10, 11))
    assert few == Config("paper").complete((1, 28, 28)) and (few.head, few.posterior) == ("lda", "sigmoid")
    preset = Config("cifar10").complete()
    for config in (preset, many, Config("paper").complete((3, 32, 32), 2), Config("cifar100").complete()):
        assert (config.head, config.posterior) == ("multiclass-lda", "normalised-sigmoid")
    assert Config("paper", head="ridge").complete((3, 32, 32), 11).head == "ridge"  # keywords win
    small = Config("paper").complete((1, 8, 8), 11)
    assert small == Config("digits", head=preset.head, posterior=preset.posterior).complete()
    assert Config("mnist").complete((1, 28, 28), 11) == Config("mnist").complete()


SHAPES = {"cifar": (3, 32, 32), "mnist": (1, 28, 28), "fashion": (1, 28, 28), "tiny": (3, 64, 64), "digits": (1, 8, 8)}


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_asks_for_filters_its_patches_have(name):
    config = Config(name).complete()
    shape = next(shape for start, shape in SHAPES.items() if name.startswith(start))
    config.check_images(shape[0], shape[1:])
    parts = parse_mixture(bank_of_layer(config.bank, 1))
    counts = share_out(config.filters, [weight for weight, _ in parts])
    components = sum(count for count, (_, bank) in zip(counts, parts, strict=True) if bank == "pca")
    assert components <= shape[0] * config.size_of_filter(1) ** 2


def test_presets_import_no_torch():
    """A configuration is there without the seconds that torch takes to import."""
    code = "import sys, rescnet.config.choices as choices; choices.Config('cifar10').complete()"
    subprocess.run([sys.executable, "-c", f"{code}; assert not {{'torch', 'sklearn'}} & set(sys.modules)"], check=True)


def test_the_default_network_needs_images_and_a_known_quality():
    with pytest.raises(ValueError, match="image_shape must be given with no preset"):
        Config().complete()
    with pytest.raises(ValueError, match="quality must be one of fast, balanced, best, got 'Best'"):
        Config().complete((1, 8, 8), quality="Best")


@pytest.mark.parametrize("quality", ["fast", "best"])
def test_a_network_started_from_its_own_quality(quality):
    config = Config().complete((1, 8, 8), 10, 300, quality)
    about = {"images": {"train": 300}, "quality": quality}
    assert starting_point(config, about, (1, 8, 8), 10) == (None, config)
    assert starting_point(config, about | {"quality": "unknown"}, (1, 8, 8), 10)[1] != config


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel_copies": "3"}, r"kernel_copies must name a change, e\.g\. '4 shift 2', got '3'"),
        ({"kernel_copies": "4 flip"}, "kernel_copies must be one copy with 'flip' alone, got '4 flip'"),
        ({"bank": "dct; pca", "stack_depth": 1}, "bank must name at most 1 mixtures, one per layer of a stack, got 2"),
    ],
)
def test_options_without_an_effect_are_refused_but_loaded(options, message):
    """Models of earlier versions may have them."""
    with pytest.raises(ValueError, match=message):
        Config(**options).complete((1, 8, 8), images=300)
    NetworkConfig(**{"readout": "kernel", "filters": 4} | options).check_images(1, (32, 32))


@pytest.mark.parametrize("option", ["augment", "test_views", "kernel_copies"])
def test_changes_of_images_are_read_when_they_are_set(option):
    with pytest.raises(ConfigError, match=rf"^{option} must be a list of changes, .* got .*flop"):
        Config(**{option: "flop"})
