"""The run, layer by layer: signs, steps, seconds by stage, memory, and where more ridge was needed."""

from __future__ import annotations

from typing import Any

from .model_view import TrainedModel, records_of

STAGES = {
    "scaling": "finding the range of the layer's input",
    "filters": "learning the filters from patches",
    "residual": "turning residuals into labels and signs",
    "convolution": "filtering the maps",
    "pooling": "second-order pooling and the pyramid",
    "moments": "adding up features and their products",
    "heads": "factorising once, solving all heads",
    "update": "adding the correction to every output",
}


def run_record(model: TrainedModel) -> dict[str, Any]:
    """Return the history as columns, for the layers the network has."""
    records = records_of(model)
    names = dict.fromkeys(stage for record in records for stage in record.seconds)
    totals = {name: sum(record.seconds.get(name, 0.0) for record in records) for name in names}
    asked = model.network.config.ridge
    return {
        "positive": [round(layer.positive_share, 4) for layer in model.network.layers],
        "rate": [round(layer.rate, 5) for layer in model.network.layers],
        "stages": [
            {
                "name": name,
                "meaning": STAGES.get(name, ""),
                "total": round(totals[name], 4),
                "seconds": [round(record.seconds.get(name, 0.0), 4) for record in records],
                "memory": max(record.memory.get(name, 0) for record in records),
            }
            for name in sorted(names, key=lambda name: -totals[name])
        ],
        "memory": [record.peak_memory for record in records],
        "ridge": asked,
        "retries": [[record.layer, record.ridge] for record in records if record.ridge > asked * (1 + 1e-9)],
    }
