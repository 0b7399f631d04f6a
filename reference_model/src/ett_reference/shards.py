"""State with sharded tensors in it: taken apart for one rank's file, and put back into the live tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True, slots=True)
class LocalShards:
    """What one rank holds of a sharded tensor.

    Attributes:
        shape: Of the whole tensor.
        offsets: Of each shard in it.
        shards: On the CPU.
    """

    shape: tuple[int, ...]
    offsets: tuple[tuple[int, ...], ...]
    shards: tuple[Tensor, ...]


def is_sharded(value: Any) -> bool:
    """Whether this is a ``ShardedTensor``: a subclass of Tensor whose size and data cannot be asked for as usual."""
    return hasattr(value, "local_shards")


def take_apart(state: Any) -> Any:
    """Replace each sharded tensor in a nested state by what this rank holds of it. Nothing is copied on the CPU."""
    if is_sharded(state):
        shards = state.local_shards()
        return LocalShards(
            shape=tuple(state.metadata().size),
            offsets=tuple(tuple(shard.metadata.shard_offsets) for shard in shards),
            shards=tuple(shard.tensor.detach().cpu() for shard in shards),
        )
    if isinstance(state, Mapping):
        return {key: take_apart(value) for key, value in state.items()}
    if isinstance(state, (list, tuple)) and type(state) in {list, tuple}:
        return type(state)(take_apart(value) for value in state)
    return state


@torch.no_grad()
def put_back(live: Mapping[str, Any], saved: Mapping[str, Any]) -> None:
    """Copy saved tensors into the live ones, sharded or not.

    Args:
        live: As ``state_dict()`` gives it: its tensors are those of the model or optimizer.
        saved: The same with :class:`LocalShards` or sharded tensors in it.

    Raises:
        ValueError: The two do not fit: other keys, shapes or shards.
    """
    if live.keys() != saved.keys():
        raise ValueError(
            f"missing in the checkpoint: {sorted(live.keys() - saved.keys())}; "
            f"unknown to the model: {sorted(saved.keys() - live.keys())}"
        )
    for key, into in live.items():
        of = saved[key]
        if isinstance(into, Mapping):
            put_back(into, of)
        elif is_sharded(into):
            _put_back_shards(key, take_apart(into), take_apart(of), into.local_shards())
        elif isinstance(into, Tensor):
            if into.shape != of.shape:
                raise ValueError(f"{key} has shape {tuple(into.shape)}, in the checkpoint {tuple(of.shape)}")
            into.copy_(of)


def _put_back_shards(key: str, live: LocalShards, saved: LocalShards, into: list[Any]) -> None:
    if (live.shape, live.offsets) != (saved.shape, saved.offsets):
        raise ValueError(
            f"{key} of shape {live.shape} has shards at {live.offsets} here; the checkpoint has shape {saved.shape} "
            f"and shards at {saved.offsets}"
        )
    for shard, tensor in zip(into, saved.shards, strict=True):
        shard.tensor.copy_(tensor)


@torch.no_grad()
def spread(live: Mapping[str, Any], full: Mapping[str, Tensor]) -> None:
    """Copy from whole tensors what this rank holds of them.

    Args:
        live: As a sharded model's ``state_dict()`` gives it.
        full: Its tensors as :func:`whole` puts them together.
    """
    for key, into in live.items():
        if not is_sharded(into):
            into.copy_(full[key])
            continue
        for shard in into.local_shards():
            shard.tensor.copy_(full[key][_place(shard.metadata.shard_offsets, shard.metadata.shard_sizes)])


def _place(offsets: Sequence[int], sizes: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(at, at + size) for at, size in zip(offsets, sizes, strict=True))


def whole(state: Mapping[str, Any]) -> dict[str, Tensor] | None:
    """Put the shards of all ranks together.

    Args:
        state: Flat, as a model's ``state_dict()``.

    Returns:
        On rank 0 the tensors on the CPU, none of them sharded and none of them the live one; None on the others.

    *Runs on* every rank together.
    """
    local = take_apart(state)
    gathered: list[Any] = [local]
    if dist.is_initialized() and dist.get_world_size() > 1:
        first = dist.get_rank() == 0
        # Dense tensors are the same everywhere: only rank 0's are needed.
        own = {key: value for key, value in local.items() if first or isinstance(value, LocalShards)}
        gathered = [None] * dist.get_world_size()
        dist.gather_object(own, gathered if first else None, dst=0)
        if not first:
            return None
    full: dict[str, Tensor] = {}
    for key, value in gathered[0].items():
        if not isinstance(value, LocalShards):
            full[key] = value.detach().cpu().clone()
            continue
        parts = [rank[key] for rank in gathered]
        dtype = next(shard.dtype for part in parts for shard in part.shards)
        full[key] = torch.empty(value.shape, dtype=dtype)
        for part in parts:
            for offsets, shard in zip(part.offsets, part.shards, strict=True):
                full[key][_place(offsets, shard.shape)] = shard
    return full


def digest(state: Mapping[str, Any]) -> str:
    """A SHA-256 over every bit of a nested state: of all ranks' parts, in the order of the ranks.

    *Runs on* every rank together; the answer is the same on all.
    """
    own = hashlib.sha256()
    for key, value in _leaves(take_apart(state)):
        own.update(key.encode())
        for tensor in value.shards if isinstance(value, LocalShards) else [value]:
            if isinstance(tensor, Tensor):
                own.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
                own.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
            else:
                own.update(repr(tensor).encode())
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return own.hexdigest()
    parts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(parts, own.hexdigest())
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def _leaves(state: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(state, Mapping):
        for key in sorted(state, key=str):
            yield from _leaves(state[key], f"{path}/{key}")
    elif isinstance(state, (list, tuple)):
        for position, value in enumerate(state):
            yield from _leaves(value, f"{path}/{position}")
    else:
        yield path, state
