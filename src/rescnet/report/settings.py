"""The configuration compared with its preset, and the command that trains such a network."""

from __future__ import annotations

import dataclasses
import shlex
from typing import Any

from ..config.network import NetworkConfig
from ..config.presets import make_config, preset_names
from .model_view import TrainedModel


def settings(model: TrainedModel, name: str) -> dict[str, Any]:
    """Return every option with its meaning and its value in the preset, and the training command."""
    config = model.network.config
    preset = preset_of(model, name)
    base = make_config(preset)
    rows = []
    for entry in dataclasses.fields(NetworkConfig):
        value, default = getattr(config, entry.name), getattr(base, entry.name)
        rows.append(
            {
                "name": entry.name,
                "value": show_value(value),
                "base": show_value(default),
                "differs": value != default,
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
    """Return the recorded preset, or else the preset of the data set, or else None."""
    for candidate in (model.about.get("preset"), name):
        if candidate in preset_names():
            return str(candidate)
    return None


def rebuilt_command(config: NetworkConfig, base: NetworkConfig, preset: str | None, name: str) -> str:
    """Return a command that trains with this configuration: the preset and each option that differs."""
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
    """Return an option's value as it is written in a configuration file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
