"""Torn and damaged files: read as far as they go, and said so."""

from __future__ import annotations

import contextlib
import json
import random
import shutil

import pytest

from ett_hookspecs import EttError, Stage
from ett_record import read_job
from ett_record.state import read_state


@pytest.fixture
def killed(job):
    """A rank that was killed with most of its log written."""
    rank = job.launch(imports=1.0)
    for index in range(6):
        rank.step(0.5, load=0.25)
        if index == 3:
            with rank.span("validation"):
                rank.wait_for(1.0)
        rank.beat()
    rank.step(0.5)
    return rank


@pytest.fixture
def finished(job):
    rank = job.launch(imports=1.0)
    for index in range(6):
        rank.step(1.0, load=0.25)
        if index == 3:
            with rank.span("validation"):
                rank.wait_for(1.0)
    rank.leave()
    return rank


def test_a_kill_in_the_middle_of_an_update_leaves_the_state_before_it(job):
    """Every byte of the update at which the writer may die."""
    rank = job.launch()
    rank.step(1.0)
    rank.step(1.0)
    rank.recorder.flush()
    before = rank.state_path.read_bytes()
    was = read_state(rank.state_path)
    rank.recorder.open(Stage.VALIDATION, "validate", "test")
    after = rank.state_path.read_bytes()
    now = read_state(rank.state_path)
    assert was.current != now.current
    changed = [index for index, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    first, last = changed[0], changed[-1]
    copy = rank.state_path.with_name("copy.state")
    for cut in range(first, last + 1):
        for rest in (before[cut:], bytes(last + 1 - cut) + before[last + 1 :]):
            copy.write_bytes(after[:cut] + rest)
            assert read_state(copy).current in (was.current, now.current)
    copy.write_bytes(after)
    assert read_state(copy).current == now.current


def test_a_torn_last_line_is_skipped_wherever_it_is_torn(job, killed, survive):
    whole = killed.log.read_bytes()
    expected = job.report().to_json()
    last = whole.rindex(b"\n", 0, -1) + 1
    for cut in range(1, len(whole) - last):
        killed.log.write_bytes(whole + whole[last : last + cut])
        assert job.report().to_json() == expected


def test_a_log_cut_anywhere_is_a_report_or_one_clear_line(job, finished, survive):
    whole = finished.log.read_bytes()
    header = whole.index(b"\n") + 1
    for cut in range(0, len(whole), 7):
        finished.log.write_bytes(whole[:cut])
        if cut < header:
            with pytest.raises(EttError, match="holds no attempt that can be read: attempt 1, rank 0: its log cannot"):
                job.read()
        else:
            report = survive(job)
            assert report.samples.new <= 60


def test_a_damaged_line_in_the_middle_is_reported_with_its_number_and_its_time_is_unknown(job, finished):
    lines = finished.log.read_bytes().split(b"\n")
    number = next(i for i, line in enumerate(lines, start=1) if b'"steps"' in line)
    took = json.loads(lines[number - 1])
    lines[number - 1] = lines[number - 1][:-9] + b"\x00"
    finished.log.write_bytes(b"\n".join(lines))
    report = job.report()
    assert [line for line in report.warnings if f"line {number} of its log is damaged" in line]
    assert report.stages["unknown"] == pytest.approx((took["t1"] - took["t0"]) / 1e9)
    assert report.samples.new == 60 - (took["p1"] - took["p0"])
    assert report.samples.skipped == 0


@pytest.mark.parametrize(
    "line",
    [
        b"[]", b"3", b"null", b'"steps"', b"{}", b'{"k":["steps"]}', b'{"k":"steps"}', b"\xff\xfe", b"",
        b'{"k":"steps","t0":"1","t1":2,"n":1,"wait":0,"p0":0,"p1":1}',
        b'{"k":"steps","t0":5,"t1":2,"n":1,"wait":0,"p0":0,"p1":1}',
        b'{"k":"steps","t0":1.5,"t1":2,"n":1,"wait":0,"p0":0,"p1":1}',
        b'{"k":"steps","t0":1,"t1":99999999999999999999,"n":1,"wait":0,"p0":0,"p1":1}',
        b'{"k":"steps","t0":1,"t1":2,"n":-1,"wait":0,"p0":0,"p1":1}',
        b'{"k":"phase","t":null,"phase":"training"}',
        b'{"k":"phase","t":1,"phase":"trainjng"}',
        b'{"k":"span","t0":1,"t1":2,"stage":"nonsense","name":"a","plugin":"b"}',
        b'{"k":"span","t0":1,"t1":2,"stage":["training"],"name":"a","plugin":"b"}',
        b'{"k":"span","t0":1,"t1":2,"stage":"training","name":["a"],"plugin":"b"}',
        b'{"k":"span","t0":3,"t1":2,"stage":"training","name":"a","plugin":"b"}',
        b'{"k":"outcome","t":1,"end":"unheard of"}',
        b'{"k":"note","t":1,"text":7}',
        b'{"k":"position","t":1,"p":-1}',
        b'{"k":"end"}',
    ],
)  # fmt: skip
def test_a_line_that_says_what_cannot_be_is_damaged_and_changes_nothing(job, finished, line):
    expected = job.report().to_json()
    lines = finished.log.read_bytes().split(b"\n")
    lines.insert(3, line)
    finished.log.write_bytes(b"\n".join(lines))
    found = job.report().to_json()
    (warning,) = found.pop("warnings")
    expected.pop("warnings")
    assert "line 4 of its log is" in warning
    assert found == expected


def test_a_line_of_a_kind_to_come_is_passed_over_and_fields_to_come_are_ignored(job, finished):
    expected = job.report().to_json()
    lines = finished.log.read_bytes().split(b"\n")
    lines = [line.replace(b'"k":', b'"later":{"a":1},"k":') for line in lines]
    lines.insert(3, b'{"k":"later","t":1}')
    finished.log.write_bytes(b"\n".join(lines))
    found = job.report().to_json()
    (warning,) = found.pop("warnings")
    expected.pop("warnings")
    assert "line 4 of its log is of a kind that this version does not know" in warning
    assert found == expected


@pytest.mark.parametrize("which", ["log", "state_path"])
def test_bytes_that_flip_anywhere_never_break_the_report(job, killed, survive, which):
    path = getattr(killed, which)
    whole = path.read_bytes()
    dice = random.Random(7)
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(dice.randint(1, 3)):
            data[dice.randrange(len(data) if which == "log" else 1500)] = dice.randrange(256)
        path.write_bytes(data)
        with contextlib.suppress(EttError):
            survive(job)


@pytest.mark.parametrize("content", [b"", b"ETTSTAT1", b"garbage" * 1000])
def test_a_state_file_that_is_none_is_said_so_and_the_log_stands(job, finished, content, stages):
    finished.state_path.write_bytes(content)
    report = job.report()
    assert any("its state file cannot be used" in line for line in report.warnings)
    stages(report, initialization=1.0, input_wait=1.5, training=6.0, validation=1.0)


def test_a_missing_state_file_of_a_killed_rank_is_said_so(job, killed):
    killed.state_path.unlink()
    report = job.report()
    assert any("its state file is missing" in line for line in report.warnings)
    assert report.state == "killed"


def test_a_newer_schema_is_named_with_what_to_do(job, finished):
    finished.log.write_bytes(finished.log.read_bytes().replace(b"ett.log/1", b"ett.log/9", 1))
    with pytest.raises(EttError, match=r"it was written with schema 'ett.log/9' and this version reads 'ett.log/1'"):
        job.read()


def test_one_rank_of_a_newer_schema_leaves_the_other_ranks(job):
    for rank in job.launch(world=2):
        rank.step(1.0)
        rank.leave()
    rank.log.write_bytes(rank.log.read_bytes().replace(b"ett.log/1", b"ett.log/9", 1))
    report = job.report()
    assert report.rank_seconds["unknown"] == pytest.approx(1.0)
    assert [line for line in report.warnings if "attempt 1, rank 1" in line and "upgrade ett-record" in line]


def test_a_job_directory_that_is_none_is_one_clear_line(tmp_path):
    with pytest.raises(EttError, match="does not exist"):
        read_job(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(EttError, match="is not a directory"):
        read_job(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    with pytest.raises(EttError, match="holds no timeline"):
        read_job(tmp_path / "empty")
    (tmp_path / "hollow" / "timeline" / "attempt-0001").mkdir(parents=True)
    with pytest.raises(EttError, match="no attempt that can be read: attempt 1: no rank left a log"):
        read_job(tmp_path / "hollow")


def test_an_attempt_without_a_readable_log_is_downtime_between_the_others(job, stages):
    rank = job.launch()
    rank.step(1.0)
    rank.beat()
    lost = job.launch(at=5.0)
    lost.step(1.0)
    lost.log.unlink()
    rank = job.launch(at=10.0)
    rank.recorder.move_to(10)
    rank.step(1.0)
    rank.leave()
    report = job.report()
    assert any(line.startswith("attempt 2: no rank left a log") for line in report.warnings)
    stages(report, training=2.0, downtime=9.0)


def test_a_section_that_cannot_be_read_is_said_so(job, finished):
    from ett_record import write_section

    write_section(job.dir, "publish", {"time_to_published_s": 3.0})
    (job.dir / "sections" / "broken.json").write_text("{")
    report = job.report()
    assert report.sections["publish"] == {"time_to_published_s": 3.0}
    assert any("sections/broken.json cannot be used" in line for line in report.warnings)


def test_the_high_water_mark_survives_the_loss_of_the_state_file(job):
    """Where the state is torn or gone, the log says how far the job had come."""
    from ett_record.recording import high_water_mark

    rank = job.launch()
    for _ in range(3):
        rank.step(1.0)
    rank.beat()
    assert high_water_mark(job.dir) == 30
    content = bytearray(rank.state_path.read_bytes())
    content[128:1000] = b"\xff" * 872
    rank.state_path.write_bytes(content)
    # The last stretch was still open.
    assert high_water_mark(job.dir) == 20
    rank.state_path.unlink()
    assert high_water_mark(job.dir) == 20
    shutil.rmtree(job.dir)
    assert high_water_mark(job.dir) == 0
