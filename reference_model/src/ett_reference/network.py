"""The DLRM: embeddings beside a dense part.

*Source*: Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation Systems",
arXiv 1906.00091.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn
from torchrec.modules.embedding_configs import EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from .presets import Preset
from .schema import Schema


def _layers(widths: list[int]) -> nn.Sequential:
    pairs = itertools.pairwise(widths)
    return nn.Sequential(*(part for wide, narrow in pairs for part in (nn.Linear(wide, narrow), nn.ReLU())))


class DenseNetwork(nn.Module):
    """Everything but the embeddings: dense layers, pairwise dot products, layers over those. This part is compiled.

    Args:
        dense: Number of dense features.
        embeddings: Pooled embeddings per sample.
        preset: Widths.
    """

    def __init__(self, dense: int, embeddings: int, preset: Preset) -> None:
        super().__init__()
        dim = preset.embedding_dim
        self.bottom = _layers([dense, *preset.bottom_layers, dim])
        vectors = embeddings + 1
        # A row and column for each pair: a buffer, so that it follows the module to its device.
        self.register_buffer("pairs", torch.triu_indices(vectors, vectors, offset=1), persistent=False)
        self.pairs: Tensor
        self.top = _layers([dim + vectors * (vectors - 1) // 2, *preset.top_layers])
        self.score = nn.Linear(preset.top_layers[-1], 1)

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        """Scores.

        Args:
            dense: float32, shape (samples, dense features).
            embedded: Pooled embeddings, float32, shape (samples, embeddings, embedding dim).

        Returns:
            Logits of a click, float32, shape (samples,).
        """
        below = self.bottom(dense)
        vectors = torch.cat((below.unsqueeze(1), embedded), dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        interactions = products[:, self.pairs[0], self.pairs[1]]
        return self.score(self.top(torch.cat((below, interactions), dim=1))).squeeze(1)  # type: ignore[no-any-return]


class RankingNetwork(nn.Module):
    """Scores a batch.

    Args:
        schema: Features of the data.
        preset: Sizes.
        device: Where the parameters are made.
    """

    def __init__(self, schema: Schema, preset: Preset, *, device: torch.device | None = None) -> None:
        super().__init__()
        self.names: list[str] = [feature.name for feature in schema.features]
        self.embedding_dim: int = preset.embedding_dim
        self.sparse = EmbeddingBagCollection(
            tables=[
                EmbeddingBagConfig(
                    name=f"{feature.name}_{copy}",
                    num_embeddings=feature.rows,
                    embedding_dim=preset.embedding_dim,
                    feature_names=[feature.name],
                )
                for feature in schema.features
                for copy in range(preset.tables_per_feature)
            ],
            device=device,
        )
        self.embeddings: int = len(schema.features) * preset.tables_per_feature
        self.dense = DenseNetwork(schema.dense, self.embeddings, preset).to(device)

    def forward(self, dense: Tensor, values: Tensor, lengths: Tensor) -> Tensor:
        """Scores.

        Args:
            dense: float32, shape (samples, dense features).
            values: Ids, int64, feature by feature.
            lengths: Ids per feature and sample, int32, shape (features x samples,).

        Returns:
            Logits of a click, float32, shape (samples,).
        """
        features = KeyedJaggedTensor(keys=self.names, values=values, lengths=lengths)
        embedded = self.sparse(features).values().view(-1, self.embeddings, self.embedding_dim)
        return self.dense(dense, embedded)  # type: ignore[no-any-return]
