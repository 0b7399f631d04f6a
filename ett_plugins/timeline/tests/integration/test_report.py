"""``ett report``, as people and programs call it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from ett_hookspecs import report_json_schema
from ett_hookspecs.cli import run
from ett_record import report_of


@pytest.fixture
def ett(capsys, monkeypatch):
    """Runs the program here; answers with exit status, output and errors."""
    monkeypatch.setenv("COLUMNS", "100")

    def ett(*arguments):
        capsys.readouterr()
        status = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return ett


def one_line(errors):
    (line,) = errors.splitlines()
    assert line.startswith("Error: ")
    return line


def test_people_get_a_report(job, lab, ett):
    job.train(lab.Model())
    status, out, errors = ett("report", job.dir)
    assert (status, errors) == (0, "")
    for text in ("ETT", "finished", "1 attempt", "1 rank", "Where the time went", "training", "initialization", "40"):
        assert text in out
    assert "\x1b" not in out


def test_programs_get_json_that_keeps_to_the_schema_and_nothing_else(job, lab, ett):
    job.train(lab.Model())
    status, out, errors = ett("report", job.dir, "--json")
    assert (status, errors) == (0, "")
    report = json.loads(out)
    jsonschema.validate(report, report_json_schema())
    assert report["schema"] == "ett.report/1"
    assert report["steps"] == {"new": 10, "repeated": 0}
    assert report["samples"] == {"new": 40, "repeated": 0, "skipped": 0}
    assert sum(report["stages"].values()) == pytest.approx(report["wall_s"], abs=1e-3)


def test_json_gives_a_line_to_each_number_and_to_each_series(job, lab, ett):
    job.train(lab.Model())
    job.train(lab.Model())
    _, out, _ = ett("report", job.dir, "--json")
    assert json.loads(out) == json.loads(json.dumps(report_of(job.dir).to_json()))
    (series,) = [line for line in out.splitlines() if '"rolling": [' in line]
    assert series.endswith("]]")
    assert len(re.findall(r'^ {6}"number": [12],$', out, re.MULTILINE)) == 2
    assert max(map(len, out.replace(series, "").splitlines())) < 120


def test_a_running_job_can_be_reported_on(job, lab, ett):
    seen = []
    job.train(lab.Model(), lab.At(5, lambda trainer: seen.append(ett("report", job.dir, "--json")[:2])))
    ((status, out),) = seen
    report = json.loads(out)
    jsonschema.validate(report, report_json_schema())
    assert (status, report["state"]) == (0, "running")
    # The fifth batch is not over where a callback listed before ours hears of it.
    assert report["steps"]["new"] == 4


def test_a_missing_directory_is_wrong_usage(ett, tmp_path):
    status, out, errors = ett("report", tmp_path / "nowhere")
    assert (status, out) == (2, "")
    assert "nowhere does not exist" in one_line(errors)


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_an_empty_name_is_wrong_usage_and_not_the_current_directory(ett, options):
    status, out, errors = ett("report", "", *options)
    assert (status, out) == (2, "")
    assert "it is empty: name the directory" in one_line(errors)


def test_an_empty_directory_is_nothing_to_report_on(ett, tmp_path):
    status, out, errors = ett("report", tmp_path)
    assert (status, out) == (1, "")
    assert "holds no timeline" in one_line(errors)
    assert "EffectiveTrainingTime" in errors


def test_a_file_in_the_place_of_the_directory_is_wrong_usage(ett, tmp_path):
    (tmp_path / "rank-00000.jsonl").touch()
    status, out, errors = ett("report", tmp_path / "rank-00000.jsonl", "--json")
    assert (status, out) == (2, "")
    assert "not a file in it" in one_line(errors)


def test_without_a_directory_it_says_what_is_missing(ett):
    status, out, errors = ett("report")
    assert (status, out) == (2, "")
    assert "JOB_DIR" in one_line(errors)


def test_a_timeline_of_a_newer_version_is_not_read_as_if_it_were_of_this_one(job, lab, ett):
    job.train(lab.Model())
    (log,) = job.dir.glob("timeline/attempt-0001/rank-*.jsonl")
    log.write_text(log.read_text().replace("ett.log/1", "ett.log/9"))
    status, out, errors = ett("report", job.dir)
    assert (status, out) == (1, "")
    assert "ett.log/9" in one_line(errors)
    assert "upgrade" in errors


def test_its_help_teaches(ett):
    status, out, _ = ett("report", "--help")
    assert status == 0
    for text in ("JOB_DIR", "--json", "EffectiveTrainingTime", "Examples:", "ett report runs/job1", "Exit status"):
        assert text in out


def test_the_program_lists_it(ett):
    status, out, _ = ett("--help")
    assert status == 0
    assert "Say where a job's time went, and who owns it." in out


@pytest.mark.parametrize("output", ["closed pipe", "full disk", "ascii"])
def test_a_report_copes_with_where_it_is_printed(job, lab, output):
    job.train(lab.Model())
    program = [Path(sys.executable).with_name("ett"), "report", job.dir]
    if output == "ascii":
        done = subprocess.run(program, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"})
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.isascii()
        assert re.search(rb"^ +initialization +#+", done.stdout, re.MULTILINE)
        return
    if output == "full disk":
        target, expected = os.open("/dev/full", os.O_WRONLY), (1, 1)
    else:
        reading, target = os.pipe()
        os.close(reading)
        expected = (141, 0)
    done = subprocess.run(program, stdout=target, stderr=subprocess.PIPE, text=True)
    os.close(target)
    assert (done.returncode, done.stderr.count("\n")) == expected


def test_the_installed_program_reports_without_importing_torch(job, lab):
    job.train(lab.Model())
    program = (
        "import sys\nfrom ett_hookspecs.cli import run\n"
        "status = run(sys.argv[1:])\nsys.exit(9 if 'torch' in sys.modules or 'lightning' in sys.modules else status)"
    )
    done = subprocess.run([sys.executable, "-c", program, "report", job.dir], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    program = Path(sys.executable).with_name("ett")
    done = subprocess.run([program, "report", job.dir, "--json"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["state"] == "finished"
