"""Batches of sparse rows for many models, prepared many at a time.

The first layer sums the weight rows of a sample's entries; its gradient sums, for each column, the slopes of the
samples that hold it. Both are one ``embedding_bag``; the second needs the entries by column, got by counting sort.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.nn.functional import embedding_bag

from discreet._types import Float, Int, Num
from discreet.sparse_inputs import SparseRows
from discreet.training_paths import Epoch

__all__ = ["BagRows", "sparse_batches"]

_CELLS = 2**22  # column starts held at a time: 16 MB


@dataclass(frozen=True)
class BagRows:
    """Inputs of one batch; the weight is [model, in, out].

    Attributes:
        columns, starts, values: Entries by sample: model times width plus column, where each sample begins, values.
        samples, column_starts, column_values: Entries by column: model times batch plus row, and so on.
        models: How many models.
    """

    columns: Int[Tensor, " entries"]
    starts: Int[Tensor, " model_batch"]
    values: Float[Tensor, " entries"] | None
    samples: Int[Tensor, " entries"]
    column_starts: Int[Tensor, " model_in"]
    column_values: Float[Tensor, " entries"] | None
    models: int

    def times(
        self, weight: Float[Tensor, " model in out"], bias: Float[Tensor, "model out"]
    ) -> Float[Tensor, "model batch out"]:
        """``x W + b``."""
        sums = _bags(self.columns, weight.flatten(0, 1), self.starts, self.values)
        return sums.view(self.models, -1, weight.shape[2]).add_(bias[:, None])

    def weight_gradient(self, slope: Float[Tensor, "model batch out"]) -> Float[Tensor, " model in out"]:
        """``x' slope``."""
        slopes = slope.contiguous().flatten(0, 1)
        return _bags(self.samples, slopes, self.column_starts, self.column_values).view(
            self.models, -1, slope.shape[2]
        )


def sparse_batches(
    x: SparseRows, y: Num[Tensor, " sample *target"], epoch: Epoch
) -> Iterator[tuple[BagRows, Tensor]]:
    """Cut an epoch into batches of inputs and labels."""
    cells = len(epoch.models) * x.width
    together = epoch.batch_size * max(1, _CELLS // cells)
    for samples in epoch.samples.split(together, dim=1):
        yield from _block(x, y, samples.split(epoch.batch_size, dim=1))


def _block(
    x: SparseRows, y: Num[Tensor, " sample *target"], parts: Sequence[Tensor]
) -> Iterator[tuple[BagRows, Tensor]]:
    """Prepare successive batches together: one gather and one sort for all of them."""
    models = len(parts[0])
    cells = models * x.width
    # Batch after batch, and within one model after model, so that each batch is a slice of everything below.
    order = torch.cat([part.reshape(-1) for part in parts])
    edges = np.cumsum([0, *(part.numel() for part in parts)], dtype=np.int32)
    first_cell = [cells * number + x.width * model for number in range(len(parts)) for model in range(models)]
    rows = x.take(order.numpy())
    starts = rows.starts.numpy()
    each = np.repeat([part.shape[1] for part in parts], models)
    offset = np.repeat(np.repeat(np.array(first_cell, np.int32), each), np.diff(starts))
    keys = rows.columns.numpy() + offset
    columns = keys % np.int32(cells)
    marks = np.ones(len(keys), np.int8) if rows.values is None else np.arange(len(keys), dtype=np.int32)
    by_column = sparse.csr_array((marks, keys, starts), shape=(len(rows), len(parts) * cells)).tocsc()
    column_starts = by_column.indptr.astype(np.int32, copy=False)
    samples = by_column.indices - np.repeat(edges[:-1], np.diff(column_starts[::cells]))
    values = None if rows.values is None else rows.values[torch.from_numpy(by_column.data)]
    for number, part in enumerate(parts):
        first, last = edges[number : number + 2]
        entries = slice(starts[first], starts[last])
        block = column_starts[number * cells : (number + 1) * cells]
        bags = BagRows(
            columns=torch.from_numpy(columns[entries]),
            starts=torch.from_numpy(starts[first:last] - starts[first]),
            values=None if rows.values is None else rows.values[entries],
            samples=torch.from_numpy(samples[entries]),
            column_starts=torch.from_numpy(block - block[0]),
            column_values=None if values is None else values[entries],
            models=models,
        )
        yield bags, y.index_select(0, order[first:last]).view(*part.shape, *y.shape[1:])


def _bags(
    index: Int[Tensor, " entries"],
    table: Float[Tensor, "row out"],
    starts: Int[Tensor, " bag"],
    values: Float[Tensor, " entries"] | None,
) -> Float[Tensor, "bag out"]:
    if not len(index):
        return table.new_zeros(len(starts), table.shape[1])
    return embedding_bag(index, table, starts, mode="sum", per_sample_weights=values)
