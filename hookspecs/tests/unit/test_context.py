from __future__ import annotations

import pytest

from ett_hookspecs import JOB_DIR_VARIABLE, RunContext


def test_without_a_name_there_is_no_job_directory():
    assert RunContext().job_dir is None


def test_the_environment_names_it_where_no_callback_does(monkeypatch, tmp_path):
    monkeypatch.setenv(JOB_DIR_VARIABLE, str(tmp_path))
    assert RunContext().job_dir == tmp_path


def test_changing_the_working_directory_moves_no_job(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(JOB_DIR_VARIABLE, "job")
    context = RunContext()
    monkeypatch.chdir("/")
    assert context.job_dir == tmp_path / "job"


def test_an_empty_variable_names_nothing(monkeypatch):
    monkeypatch.setenv(JOB_DIR_VARIABLE, "")
    assert RunContext().job_dir is None


def test_a_callback_goes_before_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv(JOB_DIR_VARIABLE, str(tmp_path / "environment"))
    context = RunContext()
    context.name_job_dir(tmp_path / "callback", by="EffectiveTrainingTime")
    assert context.job_dir == tmp_path / "callback"


def test_it_is_absolute(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(JOB_DIR_VARIABLE, "there")
    context = RunContext()
    assert context.job_dir == tmp_path / "there"
    context.name_job_dir("here", by="A")
    assert context.job_dir == tmp_path / "here"


def test_two_callbacks_may_name_the_same_directory_in_their_own_ways(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    context = RunContext()
    context.name_job_dir("runs/job1", by="A")
    context.name_job_dir(tmp_path / "runs" / "job1", by="B")
    context.name_job_dir("runs/../runs/job1/", by="C")
    (tmp_path / "link").symlink_to(tmp_path / "runs")
    context.name_job_dir("link/job1", by="D")
    assert context.job_dir == tmp_path / "link" / "job1"


def test_two_callbacks_that_name_different_directories_are_an_error_that_names_both(tmp_path):
    context = RunContext()
    context.name_job_dir(tmp_path / "one", by="EffectiveTrainingTime")
    with pytest.raises(ValueError, match=r"EffectiveTrainingTime says .*one and AsyncSnapshot says .*two") as raised:
        context.name_job_dir(tmp_path / "two", by="AsyncSnapshot")
    assert "\n" not in str(raised.value)
    assert context.job_dir == tmp_path / "one"


def test_ranks_count_as_replicas_unless_the_strategy_says_otherwise():
    assert RunContext(rank=1, world_size=4).position.replicas == 4
    assert RunContext(rank=1, world_size=4, replicas=2).position.replicas == 2
