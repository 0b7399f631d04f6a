"""The module under a Trainer, in this process."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning.pytorch import Callback, Trainer

from ett_hookspecs import Attempt, EttManager
from ett_reference.callbacks.publishing import InlinePublish
from ett_reference.callbacks.random_states import RandomStates
from ett_reference.callbacks.saving import SynchronousCheckpoint
from ett_reference.checkpoint_io import ShardedCheckpointIO
from ett_reference.data.loader import load
from ett_reference.data.order import EndlessOrder
from ett_reference.data.samples import DataSet
from ett_reference.data.sources import open_data
from ett_reference.module import ClickModel
from ett_reference.presets import PRESETS
from ett_reference.shards import digest
from ett_reference.strategy import TorchRecStrategy

pytestmark = pytest.mark.usefixtures("one_rank")
PRESET = PRESETS["small"]


@pytest.fixture(scope="module")
def data() -> DataSet:
    return open_data("synthetic", None, PRESET, seed=1)


def fit(data: DataSet, steps: int, *callbacks: Callback, resume: Path | None = None) -> tuple[ClickModel, Trainer]:
    module = ClickModel(data.schema, PRESET, compiled=False)
    trainer = Trainer(
        accelerator="cpu",
        devices=1,
        strategy=TorchRecStrategy(checkpoint_io=ShardedCheckpointIO()),
        use_distributed_sampler=False,
        max_steps=steps,
        callbacks=list(callbacks),
        logger=False,
        enable_checkpointing=any(isinstance(callback, SynchronousCheckpoint) for callback in callbacks),
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    order = EndlessOrder(len(data.train), batch_size=16, shuffled=False)
    trainer.fit(module, load(data.train, order), ckpt_path=resume, weights_only=False)
    return module, trainer


def bits(module: ClickModel) -> str:
    return digest({"weights": module.state_dict(), "tables": module.fused_state()})


class Draws(Callback):
    """Draws from every generator in each step."""

    def __init__(self) -> None:
        self.drawn: dict[int, tuple[float, float, float]] = {}

    def on_train_batch_start(self, trainer: Trainer, *args: Any) -> None:
        self.drawn[trainer.global_step] = (float(torch.rand(())), float(np.random.rand()), random.random())


def test_training_moves_dense_weights_tables_and_the_fused_optimizer(data: DataSet) -> None:
    module, _ = fit(data, 1)
    before = {key: value.clone() for key, value in flat(module).items()}
    module, _ = fit(data, 5)
    after = flat(module)
    assert {key.split(".")[0] for key in before} == {"sparse", "dense", "state"}
    for key, value in after.items():
        assert not torch.equal(value, before[key]), key


def flat(module: ClickModel) -> dict[str, torch.Tensor]:
    tensors = {}
    state = {**module.state_dict(), **{f"state.{key}": value for key, value in nested(module.fused_state())}}
    for key, value in state.items():
        tensors[key] = value.local_shards()[0].tensor if hasattr(value, "local_shards") else value
    return tensors


def nested(state: dict[str, Any], path: str = "") -> list[tuple[str, Any]]:
    found = []
    for key, value in state.items():
        found += nested(value, f"{path}{key}/") if isinstance(value, dict) else [(f"{path}{key}", value)]
    return found


def test_publishing_in_the_middle_of_a_run_leaves_the_training_bitwise_as_it_was(data: DataSet, tmp_path: Path) -> None:
    """B17."""

    class InTheMiddle(InlinePublish):
        def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *args: Any) -> None:
            if trainer.global_step == 10:
                self.publish(trainer, pl_module)

        def on_train_end(self, *args: Any) -> None:
            pass

    publishing = InTheMiddle(tmp_path / "published", data.held_out["test"].__getitems__(range(100)))
    published, _ = fit(data, 20, publishing)
    plain, _ = fit(data, 20)
    assert publishing.publication is not None
    assert publishing.publication.table_dtype == "int8"
    assert bits(published) == bits(plain)


def test_a_publication_that_fails_harms_nothing_that_was_trained(
    data: DataSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B20, as far as it concerns publishing inline."""
    monkeypatch.setattr("ett_reference.publish.TOLERANCE", -1.0)
    publishing = InlinePublish(tmp_path / "published", data.held_out["test"].__getitems__(range(10)))
    module, trainer = fit(data, 3, publishing)
    assert trainer.state.finished
    assert publishing.publication is None
    assert "is off by" in str(publishing.error)
    assert not (tmp_path / "published").exists()
    assert bits(module)


def test_generators_go_on_after_a_resume_as_if_never_interrupted(data: DataSet, tmp_path: Path) -> None:
    whole = Draws()
    torch.manual_seed(5)
    np.random.seed(5)
    random.seed(5)
    fit(data, 8, RandomStates(), whole, SynchronousCheckpoint(tmp_path, every_n_steps=4))
    torch.manual_seed(6)
    resumed = Draws()
    fit(data, 8, RandomStates(), resumed, resume=tmp_path / "step-000000004")
    assert resumed.drawn == {step: drawn for step, drawn in whole.drawn.items() if step >= 4}


def test_only_the_last_checkpoints_are_kept_and_the_last_step_is_always_one(data: DataSet, tmp_path: Path) -> None:
    fit(data, 11, SynchronousCheckpoint(tmp_path, every_n_steps=3, keep_last=2))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000000009", "step-000000011"]


def test_a_delegating_checkpoint_io_changes_nothing(data: DataSet, tmp_path: Path) -> None:
    class Delegating(Callback):
        saved = 0

        def setup(self, trainer: Trainer, *args: Any, **kwargs: Any) -> None:
            outer, inner = self, trainer.strategy.checkpoint_io

            class Wrapper:
                def __getattr__(self, name: str) -> Any:
                    return getattr(inner, name)

                def save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
                    outer.saved += 1
                    inner.save_checkpoint(*args, **kwargs)

            trainer.strategy.checkpoint_io = Wrapper()

    wrapped = Delegating()
    fit(data, 4, wrapped, SynchronousCheckpoint(tmp_path, every_n_steps=2))
    assert wrapped.saved == 2
    module, trainer = fit(data, 6, Delegating(), resume=tmp_path / "step-000000004")
    assert trainer.global_step == 6
    assert bits(module) == bits(fit(data, 6)[0])


def test_the_module_answers_hooks_for_its_trainer(data: DataSet) -> None:
    manager = EttManager()
    module = ClickModel(data.schema, PRESET)
    manager.register_participant(module)
    count = manager.hook.ett_choose_batch_samples()
    assert count(data.train.__getitems__(range(13))) == 13


@pytest.mark.parametrize(("rank", "number", "says"), [(0, 2, "goes on at 1,280 samples; 320"), (1, 2, ""), (0, 1, "")])
def test_rank_0_says_where_a_restart_goes_on(
    data: DataSet, capsys: pytest.CaptureFixture[str], rank: int, number: int, says: str
) -> None:
    manager = EttManager()
    module = ClickModel(data.schema, PRESET)
    manager.register_participant(module)
    attempt = Attempt(
        job_id="job", job_dir=Path("job"), number=number, rank=rank, world_size=2,
        resumed_from_samples=1280, high_water_samples=1600,
    )  # fmt: skip
    manager.hook.ett_attempt_started(attempt=attempt)
    said = capsys.readouterr().out
    assert (says in said) if says else (said == "")


def test_names_of_compiled_parameters_are_those_of_plain_ones(data: DataSet) -> None:
    """B21: no ``_orig_mod.`` in the way of whoever resumes or publishes without compiling."""
    plain, _ = fit(data, 1)
    compiled = ClickModel(data.schema, PRESET, compiled=True)
    compiled.trainer = plain.trainer
    compiled.configure_model()
    assert compiled.state_dict().keys() == plain.state_dict().keys()
    compiled.load_state_dict(plain.state_dict())
    assert digest(compiled.state_dict()) == digest(plain.state_dict())


def test_initial_weights_depend_on_the_seed_alone(data: DataSet) -> None:
    class Initial(Callback):
        def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
            self.bits = bits(pl_module)

    seen = []
    for _ in range(2):
        initial = Initial()
        torch.rand(3)
        fit(data, 1, initial)
        seen.append(initial.bits)
    assert seen[0] == seen[1]
