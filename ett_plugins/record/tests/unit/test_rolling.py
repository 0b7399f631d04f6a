"""The rolling window."""

from __future__ import annotations

import pytest


def test_the_rolling_window_looks_back_ten_minutes(job):
    rank = job.launch()
    rank.train(1200)
    rank.recorder.end_training()
    rank.wait_for(600.0)
    rank.recorder.finish()
    section = job.report().sections["timeline"]
    assert section["rolling_window_s"] == 600
    assert section["rolling_ett_percent"] == pytest.approx(0, abs=0.1)
    assert section["rolling"][100][1] == pytest.approx(100, abs=0.1)


def test_the_rolling_window_of_a_job_of_a_week_is_ten_minutes_too(job):
    rank = job.launch()
    rank.train(7 * 24, 3600.0)
    rank.recorder.end_training()
    rank.wait_for(450.0)
    rank.recorder.finish()
    section = job.report().sections["timeline"]
    assert section["rolling_ett_percent"] == pytest.approx(25, abs=0.1)
