"""One attempt at a job, on one rank: builds everything, trains, publishes, evaluates."""

from __future__ import annotations

import logging
import os
import warnings
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import torch
from lightning.pytorch import Callback, Trainer, seed_everything
from rich.console import Console

from .callbacks.kill import SelfKill
from .callbacks.progress import SampleProgress
from .callbacks.publishing import InlinePublish
from .callbacks.random_states import RandomStates
from .callbacks.saving import SynchronousCheckpoint
from .checkpoint_io import ShardedCheckpointIO, complete_checkpoints
from .data.loader import load
from .data.order import EndlessOrder, OnePass
from .data.sources import open_data
from .errors import ReferenceModelError
from .job import CHECKPOINTS, PUBLISHED, RESULT_FILE, Options, remember_job, write_json
from .module import ClickModel
from .shards import digest
from .strategy import TorchRecStrategy

if TYPE_CHECKING:
    from .data.samples import DataSet

EVALUATION_BATCH: Final = 2048
"""Samples per rank and batch when the model is evaluated."""
CHECKED_SAMPLES: Final = 2048
"""Held-out samples on which a published model is compared with the trained one."""
DATA_LEARNING_RATE: Final = {"movielens": 3e-4}
"""Of the dense part, where the default is not the best on validation data."""


def train(options: Options) -> None:
    """Train a job, from its newest complete checkpoint if it has one, to its end or to where it is killed.

    Args:
        options: The job's.

    Raises:
        ReferenceModelError: The data or the job directory cannot be used.

    *Runs on* every rank of an elastic launch, which sets the environment.
    """
    _quieten()
    rank, restart = int(os.environ["RANK"]), int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    seed_everything(options.seed, verbose=False)
    torch.set_num_threads(options.threads)
    if rank == 0:
        remember_job(options)
    console = Console(quiet=rank > 0)
    data = open_data(options.data, options.data_dir, options.sizes, seed=options.seed)
    module = ClickModel(
        data.schema,
        options.sizes,
        seed=options.seed,
        learning_rate=DATA_LEARNING_RATE.get(options.data, 1e-3),
        compiled=options.compiled,
    )
    try:
        order = EndlessOrder(
            len(data.train),
            batch_size=options.samples_per_batch,
            rank=rank,
            ranks=options.ranks,
            seed=options.seed,
            shuffled=data.shuffled,
        )
    except ValueError as error:
        raise ReferenceModelError(str(error)) from error
    steps = max(1, (options.max_samples or data.default_samples) // options.samples_per_step)
    publishing = _publishing(options, data)
    trainer = Trainer(
        accelerator="gpu" if torch.cuda.is_available() else "cpu",
        devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        num_nodes=options.ranks // int(os.environ["LOCAL_WORLD_SIZE"]),
        strategy=TorchRecStrategy(checkpoint_io=ShardedCheckpointIO()),
        use_distributed_sampler=False,
        max_steps=steps,
        callbacks=[*_callbacks(options, restart, steps, console), *publishing],
        default_root_dir=options.job_dir,
        logger=False,
        enable_checkpointing=True,
        enable_progress_bar=False,
        enable_model_summary=False,
        deterministic=True,
        benchmark=False,
    )
    newest = next(reversed(complete_checkpoints(options.job_dir / CHECKPOINTS)), None)
    if newest is not None:
        console.print(f"resuming from {newest}", highlight=False, soft_wrap=True)
    trainer.fit(module, load(data.train, order, workers=options.workers), ckpt_path=newest, weights_only=False)
    for callback in publishing:
        if not callback.done:
            callback.publish(trainer, module)
    weights = digest({"model": module.state_dict(), "tables": module.fused_state(), "dense": _optimizer_state(trainer)})
    evaluate(trainer, module, data, rank=rank, ranks=options.ranks)
    if rank == 0:
        _conclude(options, trainer, module, publishing, weights, console)


def evaluate(trainer: Trainer, module: ClickModel, data: DataSet, *, rank: int, ranks: int) -> None:
    """Compute the area under the curve on everything held out; it lands in ``module.auc``.

    *Runs on* every rank together.
    """
    orders = {
        name: OnePass(len(samples), batch_size=EVALUATION_BATCH, rank=rank, ranks=ranks)
        for name, samples in data.held_out.items()
        if len(samples)
    }
    module.held_out = {name: order.own for name, order in orders.items()}
    trainer.test(module, [load(data.held_out[name], order) for name, order in orders.items()], verbose=False)


def _callbacks(options: Options, restart: int, steps: int, console: Console) -> list[Callback]:
    callbacks: list[Callback] = []
    if "timeline" in options.plugins:
        from ett_timeline import EffectiveTrainingTime

        callbacks.append(EffectiveTrainingTime(options.job_dir))
    per_step = options.samples_per_step
    callbacks += [
        RandomStates(),
        SampleProgress(total_samples=steps * per_step, samples_per_step=per_step, console=console),
        SynchronousCheckpoint(
            options.job_dir / CHECKPOINTS, every_n_steps=options.save_every, keep_last=options.keep_last
        ),
    ]
    if restart < len(options.kill_at):
        callbacks.append(SelfKill(options.kill_at[restart], samples_per_step=per_step, console=console))
    return callbacks


def _publishing(options: Options, data: DataSet) -> list[InlinePublish]:
    held_out = next(reversed(data.held_out.values()))
    if not options.published or not len(held_out):
        return []
    sample = held_out.__getitems__(range(min(CHECKED_SAMPLES, len(held_out))))
    return [InlinePublish(options.job_dir / PUBLISHED, sample)]


def _conclude(
    options: Options,
    trainer: Trainer,
    module: ClickModel,
    publishing: list[InlinePublish],
    weights: str,
    console: Console,
) -> None:
    published: dict[str, Any] | None = None
    for callback in publishing:
        publication = callback.publication
        published = {"error": callback.error} if publication is None else asdict(publication)
    result = {
        "schema": "ett.reference/1",
        "data": options.data,
        "preset": options.preset,
        "seed": options.seed,
        "ranks": options.ranks,
        "batch_size": options.samples_per_batch,
        "steps": trainer.global_step,
        "samples": trainer.global_step * options.samples_per_step,
        "loss": None if module.last_loss is None else float(module.last_loss),
        "auc": module.auc,
        "weights_sha256": weights,
        "published": published,
    }
    write_json(options.job_dir / RESULT_FILE, result)
    if "timeline" in options.plugins:
        from ett_record import write_section

        aucs_by_name = {f"auc_{name}": value for name, value in module.auc.items()}
        write_section(options.job_dir, "reference_model", {**aucs_by_name, "loss": result["loss"]})
    aucs = ", ".join(f"{name} {value:.4f}" for name, value in module.auc.items())
    console.print(f"trained {result['samples']:,} samples; AUC on held-out data: {aucs}", highlight=False)
    for callback in publishing:
        if callback.publication is not None:
            console.print(
                f"published {callback.publication.path} ({callback.publication.table_dtype} tables, "
                f"{callback.publication.size_bytes / 1e6:.1f} MB, off by at most "
                f"{callback.publication.max_abs_error:.1e})",
                highlight=False,
                soft_wrap=True,
            )


def _optimizer_state(trainer: Trainer) -> dict[str, Any]:
    state: dict[str, Any] = trainer.optimizers[0].state_dict()["state"]
    return state


def _quieten() -> None:
    # They talk about their own insides at every start; their errors still come through.
    for name in ("torchrec", "torch.fx", "lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"(torch|torchrec|torchdata|lightning|fbgemm_gpu)(\..*)?")
