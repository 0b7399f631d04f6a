"""The ``ett-reference`` program."""

from __future__ import annotations

import importlib.util
import os
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import click

from .data.sources import SOURCES, check_data
from .errors import ReferenceModelError
from .job import Options, check_same_job, remember_job
from .launch import launch, launched, ranks_launched
from .presets import PRESETS

AVAILABLE: Final = ("timeline",)
PLANNED: Final = ("wandb", "snapshot", "compile_cache", "init_overlap", "recovery", "publish")
WRONG_USAGE: Final = 2
_AS_RAISED: Final = f"{ReferenceModelError.__module__}.{ReferenceModelError.__name__}: "

_PRESET_HELP = "; ".join(f"{preset.name}: {preset.says}" for preset in PRESETS.values())


class _JobDir(click.Path):
    """A directory's path; what a script left empty is not the current one."""

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not os.fspath(value):
            self.fail("it is empty: give a directory", param, ctx)
        return super().convert(value, param, ctx)


class _Numbers(click.ParamType[tuple[int, ...]]):
    """Ascending sample counts, separated by commas."""

    name = "S1,S2"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(int(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list of sample counts such as 20000,50000", param, ctx)
        if any(number < 1 for number in numbers) or list(numbers) != sorted(set(numbers)):
            self.fail(f"{value!r}: the sample counts must be positive and ascending", param, ctx)
        return numbers


class _Plugins(click.ParamType[tuple[str, ...]]):
    """Names of parts of ETT, separated by commas."""

    name = "NAME,NAME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        names = tuple(part.strip() for part in str(value).split(",") if part.strip() not in {"", "none"})
        for name in names:
            if name in PLANNED:
                self.fail(f"{name!r} is not available in this version; choose from {', '.join(AVAILABLE)}", param, ctx)
            if name not in AVAILABLE:
                self.fail(f"{name!r} is not a part of ETT; choose from {', '.join(AVAILABLE)}, or none", param, ctx)
        return tuple(dict.fromkeys(names))


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("ett-reference-model"), prog_name="ett-reference")
def program() -> None:
    """A TorchRec DLRM under Lightning, for trying ETT on: trained on real data, killed, restarted."""


@program.command(
    epilog="Example: ett-reference train --job-dir runs/job1 --kill-at 20000,50000; then: ett report runs/job1"
)
@click.option(
    "--job-dir",
    type=_JobDir(path_type=Path, file_okay=False),
    required=True,
    help="Where checkpoints, the timeline, the published model and reference.json go. Give it again to resume the job.",
)
@click.option(
    "--data",
    type=click.Choice(SOURCES),
    default="movielens",
    show_default=True,
    help="movielens: MovieLens-100k, a rating of 4 or 5 is a click. criteo: click logs in Criteo's format. "
    "synthetic: a made-up stream of any length.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    help="movielens: a GroupLens ml-100k folder; without it, the copy in recbole's wheel. "
    "criteo: a folder of uncompressed files.",
)
@click.option("--preset", type=click.Choice(list(PRESETS)), default="small", show_default=True, help=f"{_PRESET_HELP}.")
@click.option("--max-samples", type=click.IntRange(min=1), help="Samples to train, over all ranks and restarts.")
@click.option(
    "--ranks", type=click.IntRange(min=1), default=1, show_default=True, help="Processes that train together."
)
@click.option("--batch-size", type=click.IntRange(min=1), help="Samples per rank and step; the preset's by default.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Same seed, same weights.")
@click.option(
    "--save-every", type=click.IntRange(min=1), default=200, show_default=True, help="Steps between two checkpoints."
)
@click.option(
    "--keep-last", type=click.IntRange(min=1), default=2, show_default=True, help="How many checkpoints are kept."
)
@click.option(
    "--with",
    "plugins",
    type=_Plugins(),
    help=f"Parts of ETT that take part: {', '.join(AVAILABLE)}; none for a training without any.",
)
@click.option(
    "--baseline",
    is_flag=True,
    help="What optimized runs are compared with: the timeline measures, checkpoints and publishing block the "
    "training. The default, as long as no other part of ETT is available.",
)
@click.option(
    "--kill-at",
    type=_Numbers(),
    default=(),
    help="The process sends itself SIGKILL when that many samples are trained, and torchrun starts it again; once for "
    "each number, which must ascend and lie below --max-samples.",
)
@click.option("--no-compile", is_flag=True, help="Do not compile the dense part.")
@click.option("--no-publish", is_flag=True, help="Do not publish the model at the end.")
@click.option(
    "--workers", type=click.IntRange(min=0), default=0, show_default=True, help="Processes per rank that load data."
)
def train(
    *,
    job_dir: Path,
    data: str,
    data_dir: Path | None,
    preset: str,
    max_samples: int | None,
    ranks: int,
    batch_size: int | None,
    seed: int,
    save_every: int,
    keep_last: int,
    plugins: tuple[str, ...] | None,
    baseline: bool,
    kill_at: tuple[int, ...],
    no_compile: bool,
    no_publish: bool,
    workers: int,
) -> None:
    """Train a job, or go on with it from its newest complete checkpoint.

    Called as it is, it starts torchrun on this machine. Called by torchrun, on any number of machines, it is one rank.
    """
    if baseline and plugins is not None:
        raise click.UsageError("--baseline and --with exclude each other")
    if max_samples is not None and kill_at and kill_at[-1] >= max_samples:
        raise click.UsageError(f"--kill-at {kill_at[-1]} would never come: the training ends at {max_samples} samples")
    options = Options(
        job_dir=job_dir,
        data=data,
        data_dir=data_dir,
        preset=preset,
        max_samples=max_samples,
        ranks=ranks,
        batch_size=batch_size,
        seed=seed,
        save_every=save_every,
        keep_last=keep_last,
        plugins=_installed(plugins),
        kill_at=kill_at,
        compiled=not no_compile,
        published=not no_publish,
        workers=workers,
    )
    if launched():
        from .train import train as train_here

        options = replace(options, ranks=ranks_launched())
        check_same_job(options)
        train_here(options)
        return
    check_needs()
    check_data(data, data_dir)
    check_same_job(options)
    remember_job(options)
    launch(sys.argv[1:], ranks=ranks, restarts=len(kill_at), threads=options.threads)


def _installed(plugins: tuple[str, ...] | None) -> tuple[str, ...]:
    wanted = AVAILABLE if plugins is None else plugins
    if "timeline" in wanted and importlib.util.find_spec("ett_timeline") is None:
        raise ReferenceModelError(
            "ett-timeline is not installed: pip install ett-timeline to measure the job, "
            "or give --with none to train it unmeasured"
        )
    return wanted


def check_needs() -> None:
    """Look whether the packages are there that cannot be named as dependencies.

    Raises:
        ReferenceModelError: One is missing.
    """
    missing = [name for name in ("torchrec", "fbgemm_gpu") if importlib.util.find_spec(name) is None]
    if missing:
        raise ReferenceModelError(
            f"{' and '.join(missing)} not installed: pip install --no-deps torchrec==1.8.0 fbgemm-gpu-cpu==1.8.0 "
            f"(on CPU; README.md says the rest)"
        )


def main() -> None:
    """Run the program; what it cannot do is one line, and exit code 2."""
    try:
        program.main()
    except ReferenceModelError as error:
        # A loader's worker passes an error on with its own traceback before it.
        click.echo(f"Error: {str(error).strip().splitlines()[-1].removeprefix(_AS_RAISED)}", err=True)
        sys.exit(WRONG_USAGE)
