"""Makes a model for serving out of trained weights: int8 tables, traced, scripted, and tried against the original."""

from __future__ import annotations

import copy
import json
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import torch
from fbgemm_gpu.split_embedding_configs import SparseType
from torch import Tensor, nn
from torchrec.fx import Tracer
from torchrec.inference.modules import quantize_inference_model

from .batch import Batch
from .network import RankingNetwork
from .presets import Preset
from .schema import Schema

MODEL_FILE: Final = "model.pt"
DESCRIPTION_FILE: Final = "model.json"
TOLERANCE: Final = 0.02
"""How far a probability of the published model may be from the trained one's."""
_LEAF: Final = "IntNBitTableBatchedEmbeddingBagsCodegen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A published model.

    Attributes:
        path: Of the scripted model.
        size_bytes: Of its file.
        table_dtype: Of the tables' weights.
        max_abs_error: Largest difference between a probability it gives and the trained model's.
        checked_samples: On how many samples that was seen.
    """

    path: str
    size_bytes: int
    table_dtype: str
    max_abs_error: float
    checked_samples: int


class Scorer(nn.Module):
    """What is published: probabilities instead of logits.

    Args:
        network: Whose scores.
    """

    def __init__(self, network: RankingNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, dense: Tensor, values: Tensor, lengths: Tensor) -> Tensor:
        """Probabilities of a click, float32, shape (samples,); arguments as the network's."""
        return torch.sigmoid(self.network(dense, values, lengths))


def restore(schema: Schema, preset: Preset, weights: Mapping[str, Tensor]) -> Scorer:
    """An unsharded copy of a trained model on the CPU.

    Args:
        schema: Its features.
        preset: Its sizes.
        weights: As :func:`ett_reference.shards.whole` puts them together.
    """
    network = RankingNetwork(schema, preset, device=torch.device("cpu"))
    network.load_state_dict(dict(weights))
    return Scorer(network).eval()


def quantize(scorer: Scorer) -> torch.jit.ScriptModule:
    """A scripted copy with int8 tables; the one given stays as it is."""
    # The copy's modules are changed in place.
    small = quantize_inference_model(copy.deepcopy(scorer)).requires_grad_(False)
    graph = Tracer(leaf_modules=[_LEAF]).trace(small)
    for node in graph.nodes:
        # Our annotations are strings, which the generated code would quote; TorchScript takes Tensor where none is.
        node.type = None
    with warnings.catch_warnings():
        # About annotations in torchrec's own modules.
        warnings.simplefilter("ignore")
        return torch.jit.script(torch.fx.GraphModule(small, graph))


@torch.no_grad()
def publish(scorer: Scorer, folder: Path, sample: Batch) -> Publication:
    """Quantize, script, save, load again, and compare.

    Args:
        scorer: The trained model.
        folder: Where to; what was published there before is replaced when the new one is complete.
        sample: On which the two are compared.

    Raises:
        ValueError: The published model answers otherwise than the trained one.
    """
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    torch.jit.save(quantize(scorer), partial / MODEL_FILE)
    reloaded = torch.jit.load(partial / MODEL_FILE)  # type: ignore[no-untyped-call]
    inputs = (sample.dense, sample.values, sample.lengths)
    error = float((reloaded(*inputs) - scorer(*inputs)).abs().max())
    if not error <= TOLERANCE:
        raise ValueError(f"the published model is off by {error:.4f}, more than {TOLERANCE}")
    publication = Publication(
        path=str(folder / MODEL_FILE),
        size_bytes=(partial / MODEL_FILE).stat().st_size,
        table_dtype=table_dtype(reloaded),
        max_abs_error=error,
        checked_samples=sample.samples,
    )
    (partial / DESCRIPTION_FILE).write_text(json.dumps({"schema": "ett.published/1", **asdict(publication)}, indent=2))
    replaced = folder.with_name(f".{folder.name}.replaced")
    shutil.rmtree(replaced, ignore_errors=True)
    if folder.exists():
        folder.rename(replaced)
    partial.rename(folder)
    shutil.rmtree(replaced, ignore_errors=True)
    return publication


def table_dtype(model: Any) -> str:
    """What a published model's tables are made of."""
    kinds = [
        kind for name, buffer in model.named_buffers() if name.endswith(".weights_tys") for kind in buffer.tolist()
    ]
    return ", ".join(sorted({str(SparseType.from_int(kind).value) for kind in kinds}))
