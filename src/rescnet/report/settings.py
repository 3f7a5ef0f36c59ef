"""The configuration against what it started from, and the command that trains such a network."""

from __future__ import annotations

import dataclasses
import shlex
from typing import Any

from ..config.network import NetworkConfig
from ..config.presets import make_config, preset_names
from .model_view import TrainedModel


def settings(model: TrainedModel, name: str) -> dict[str, Any]:
    """Return every option with its meaning, the base's value, and whether they differ; and the command."""
    config = model.network.config
    preset = preset_of(model, name)
    base = make_config(preset)
    rows = []
    for entry in dataclasses.fields(NetworkConfig):
        value, usual = getattr(config, entry.name), getattr(base, entry.name)
        rows.append(
            {
                "name": entry.name,
                "value": show_value(value),
                "base": show_value(usual),
                "differs": value != usual,
                "meaning": entry.metadata["help"],
            }
        )
    command = model.about.get("command")
    if isinstance(command, list | tuple):
        command = shlex.join(map(str, command))
    return {
        "base": f"the preset {preset}" if preset else "the defaults",
        "rows": rows,
        "command": str(command) if command else rebuilt_command(config, base, preset, name),
        "rebuilt": not command,
    }


def preset_of(model: TrainedModel, name: str) -> str | None:
    """Return the preset the training started from: the one it noted, else the dataset's own, else none."""
    noted = model.about.get("preset")
    for candidate in (noted, name):
        if candidate in preset_names():
            return str(candidate)
    return None


def rebuilt_command(config: NetworkConfig, base: NetworkConfig, preset: str | None, name: str) -> str:
    """Return a command that trains with this configuration: the preset, then each option that differs from it."""
    words = ["rescnet", "train", name]
    if preset and preset != name:
        words += ["--preset", preset]
    for entry in dataclasses.fields(NetworkConfig):
        value = getattr(config, entry.name)
        if value == getattr(base, entry.name):
            continue
        flag = entry.name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            words += [f"--{flag}", ",".join(map(str, value)) if isinstance(value, tuple) else str(value)]
    return shlex.join(words)


def show_value(value: Any) -> str:
    """Write an option's value as it stands in a file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
