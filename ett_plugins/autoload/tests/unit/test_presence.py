"""Ranks of a torchrun launch tell one another, through the agent's store, that they measure."""

from __future__ import annotations

import pytest
from torch.distributed import TCPStore

from ett_autoload import callback, callbacks, presence


@pytest.fixture
def launch(monkeypatch):
    """A launch of two ranks by torchrun; this process is whichever rank it is asked to be."""
    agent = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    for name, value in {
        "TORCHELASTIC_USE_AGENT_STORE": "True", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(agent.port), "TORCHELASTIC_RESTART_COUNT": "0",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    presence.announce.cache_clear()
    yield agent
    presence.announce.cache_clear()


def become_another_process(monkeypatch, restart="0"):
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", restart)
    presence.announce.cache_clear()


def test_ranks_count_those_that_have_a_trainer_to_measure(launch, job_dir, monkeypatch):
    callbacks()
    callbacks()
    assert presence.missing(2) == 1
    become_another_process(monkeypatch)
    callbacks()
    assert presence.missing(2) == 0


def test_a_restart_of_the_ranks_counts_anew(launch, job_dir, monkeypatch):
    for restart, absent in (("0", 1), ("0", 0), ("1", 1), ("1", 0)):
        become_another_process(monkeypatch, restart)
        callbacks()
        assert presence.missing(2) == absent


def test_trainers_of_one_rank_each_need_no_other(launch, job_dir):
    callbacks()
    assert presence.missing(1) == 0


def test_elsewhere_environments_are_believed_to_be_the_same(job_dir):
    presence.announce.cache_clear()
    callbacks()
    assert presence.missing(8) == 0


def test_a_store_that_cannot_be_reached_is_one_warning(launch, job_dir, monkeypatch, warned):
    monkeypatch.setenv("MASTER_PORT", "1")
    monkeypatch.setattr(presence, "_WAIT", presence.timedelta(seconds=1))
    assert callbacks() == []
    (warning,) = warned()
    assert "trains unmeasured" in warning


def test_a_store_that_answers_no_more_is_a_warning_and_no_end_of_the_training(
    job_dir, monkeypatch, make_trainer, model, warned
):
    def fails(world_size):
        raise RuntimeError("connection reset")

    monkeypatch.setattr(callback, "missing", fails)
    trainer = make_trainer()
    trainer.fit(model())
    assert trainer.global_step == 3
    (warning,) = warned()
    assert "connection reset" in warning
    assert not job_dir.exists()
