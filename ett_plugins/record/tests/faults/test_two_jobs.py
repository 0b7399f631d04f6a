"""One job directory, one writer."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from ett_record import job as job_module
from ett_record import open_recording
from ett_record.clock import boot_id
from ett_record.job import Claim, JobDirectoryInUse, claim, process_is_gone, release, renew

TRAINING = """
recording = open_recording(Path(sys.argv[1]))
print("unmeasured" if recording is None else recording.attempt, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def lock(job):
    """Edits the lock of a job whose writer is this process."""
    claim(job.dir, {})
    path = job.dir / "timeline" / "writer.json"

    def edit(*, age_s: float = 0.0, **changes) -> None:
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
        os.utime(path, (time.time() - age_s,) * 2)

    edit.path = path
    return edit


def test_a_second_job_trains_unmeasured_and_is_told_who_writes_there(job, start):
    first = start(TRAINING, job.dir)
    assert first.stdout.readline() == "1\n"
    second = start(TRAINING, job.dir)
    out, errors = second.communicate("")
    assert (second.returncode, out) == (0, "unmeasured\n")
    (warning,) = errors.splitlines()
    assert f"process {first.pid} on host {socket.gethostname()}" in warning
    assert "trains unmeasured" in warning
    first.communicate("")
    assert job.report().state == "interrupted"
    assert len(job.report().attempts) == 1


def test_a_dead_writer_is_taken_over_at_once(job, start):
    first = start(TRAINING, job.dir)
    first.stdout.readline()
    first.kill()
    second = start(TRAINING, job.dir)
    # The first one is a zombie by now.
    assert second.stdout.readline() == "2\n"
    second.communicate("")
    first.wait()
    report = job.report()
    assert [attempt.end for attempt in report.attempts] == ["killed", "interrupted"]


def test_a_writer_that_left_in_order_is_followed_without_a_word(job, start):
    for attempt in ("1\n", "2\n"):
        process = start(TRAINING, job.dir)
        out, errors = process.communicate("")
        assert (out, errors) == (attempt, "")


@pytest.mark.parametrize(
    "environ",
    [{"TORCHELASTIC_RUN_ID": "run-7"}, {"SLURM_JOB_ID": "31", "SLURM_STEP_ID": "0"}],
)
def test_the_same_launcher_run_takes_over_at_once(job, start, environ):
    first = start(TRAINING, job.dir, **environ)
    first.stdout.readline()
    second = start(TRAINING, job.dir, **environ)
    out, errors = second.communicate("")
    assert (out, errors) == ("2\n", "")
    # It still runs, and may not take the lock from its successor when it ends.
    third = start(TRAINING, job.dir)
    first.communicate("")
    third.communicate("")


def test_a_writer_that_was_taken_over_leaves_the_lock_to_its_successor(job):
    first = claim(job.dir, {"TORCHELASTIC_RUN_ID": "run-7"})
    second = claim(job.dir, {"TORCHELASTIC_RUN_ID": "run-7"})
    assert second == Claim(first.job_id, 2, "same_run")
    release(job.dir, first.attempt)
    with pytest.raises(JobDirectoryInUse):
        claim(job.dir, {})
    release(job.dir, second.attempt)
    assert claim(job.dir, {}).predecessor == "ended"


def test_a_writer_that_is_overtaken_while_it_leaves_does_not_take_the_lock_away(job, monkeypatch):
    run = {"TORCHELASTIC_RUN_ID": "run-7"}
    claim(job.dir, run)
    read = job_module._read_owner
    successor = threading.Thread(target=claim, args=(job.dir, run))

    def read_slowly(path, *notes):
        owner = read(path, *notes)
        if successor.ident is None:
            successor.start()
            successor.join(0.3)
        return owner

    monkeypatch.setattr(job_module, "_read_owner", read_slowly)
    release(job.dir, 1)
    successor.join()
    assert read(job.dir / "timeline" / "writer.json").attempt == 2


@pytest.mark.parametrize("run", ["none", ""])
def test_what_torchrun_calls_every_run_is_no_run(job, run):
    claim(job.dir, {"TORCHELASTIC_RUN_ID": run})
    with pytest.raises(JobDirectoryInUse):
        claim(job.dir, {"TORCHELASTIC_RUN_ID": run})


@pytest.mark.parametrize("elsewhere", [{"host": "elsewhere"}, {"boot": "another boot"}])
def test_a_writer_elsewhere_is_believed_for_thirty_seconds(job, lock, elsewhere):
    lock(**elsewhere, age_s=29)
    with pytest.raises(JobDirectoryInUse, match=f"process {os.getpid()} on host {elsewhere.get('host', '')}"):
        claim(job.dir, {})
    lock(age_s=31)
    assert claim(job.dir, {}).predecessor == "expired"


def test_a_sign_of_life_renews_the_lease_and_only_the_writers_own(job, lock):
    lock(host="elsewhere", age_s=31)
    renew(job.dir, 2)
    assert time.time() - lock.path.stat().st_mtime > 30
    renew(job.dir, 1)
    assert time.time() - lock.path.stat().st_mtime < 5
    with pytest.raises(JobDirectoryInUse):
        claim(job.dir, {})


def test_a_process_id_that_was_given_to_another_process_is_a_dead_writer(job, lock):
    lock(started_ticks=1)
    assert claim(job.dir, {}).predecessor == "dead"


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"host": "a"}', b"null", b"\xff\xfe", b"[" * 100_000, b'{"a": 1e999}'],
    ids=["empty", "torn", "list", "fields missing", "null", "no text", "deep", "other fields"],
)  # fmt: skip
def test_a_lock_that_cannot_be_read_holds_nobody_up_and_is_noted(job, lock, content):
    lock.path.write_bytes(content)
    taken = claim(job.dir, {})
    assert taken.attempt == 2
    (note,) = taken.notes
    assert str(lock.path) in note


@pytest.mark.parametrize(
    "changes",
    [
        {"pid": "1"}, {"pid": None}, {"pid": True}, {"pid": 0}, {"pid": -1}, {"pid": 2**31}, {"pid": 10**30},
        {"run": 7}, {"host": []}, {"attempt": "2"},
    ],
)  # fmt: skip
def test_a_lock_whose_fields_are_of_another_type_or_cannot_be_holds_nobody_up_and_is_noted(job, lock, changes):
    lock(**changes)
    (note,) = claim(job.dir, {}).notes
    assert f"its {next(iter(changes))} is" in note


@pytest.mark.parametrize("pid", [0, -1, 2**31, 10**30])
def test_a_process_id_that_cannot_be_is_no_process_and_is_sent_no_signal(monkeypatch, pid):
    monkeypatch.setattr(os, "kill", lambda *arguments: pytest.fail("sent a signal"))
    assert process_is_gone(socket.gethostname(), boot_id(), pid, None) is True


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_in_the_place_of_the_lock_holds_nobody_up_and_is_noted(job, lock, make):
    lock.path.unlink()
    make(lock.path)
    (note,) = claim(job.dir, {}).notes
    assert str(lock.path) in note
    with pytest.raises(JobDirectoryInUse):
        claim(job.dir, {})


def test_a_lock_that_may_not_be_read_may_be_somebodys(job, lock, monkeypatch):
    def refuse(path):
        raise PermissionError(path)

    monkeypatch.setattr(job_module, "read_json", refuse)
    with pytest.raises(PermissionError):
        claim(job.dir, {})


def test_a_lock_that_says_more_than_this_version_knows_is_a_lock(job, lock):
    lock(written_by="a later version")
    with pytest.raises(JobDirectoryInUse):
        claim(job.dir, {})


def test_a_writer_whose_directory_was_deleted_and_made_anew_leaves_the_lock_to_the_one_that_made_it(job, start):
    first = start(TRAINING, job.dir)
    first.stdout.readline()
    shutil.rmtree(job.dir)
    second = start(TRAINING, job.dir)
    assert second.stdout.readline() == "1\n"
    first.communicate("")
    with pytest.raises(JobDirectoryInUse, match=f"process {second.pid}"):
        claim(job.dir, {})


def test_a_child_that_was_forked_during_a_claim_holds_nobody_up(job, monkeypatch):
    children = []
    write = job_module._write_atomically

    def write_and_fork(path, values):
        write(path, values)
        if not (child := os.fork()):
            time.sleep(60)
            os._exit(0)
        children.append(child)

    monkeypatch.setattr(job_module, "_write_atomically", write_and_fork)
    monkeypatch.setattr(job_module, "_GUARD_WAIT_S", 0.0)
    try:
        claim(job.dir, {"TORCHELASTIC_RUN_ID": "run-7"})
        assert claim(job.dir, {"TORCHELASTIC_RUN_ID": "run-7"}).attempt == 2
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def test_a_job_keeps_its_identity_over_attempts(job):
    first = claim(job.dir, {})
    release(job.dir, 1)
    second = claim(job.dir, {})
    assert first.job_id == second.job_id
    assert (first.predecessor, second.predecessor) == (None, "ended")


@pytest.mark.parametrize(
    "content",
    [None, "dir", b"", b"{", b"[]", b"{}", b'{"job_id": ""}', b'{"job_id": null}', b'{"job_id": 7}', b"[" * 100_000],
    ids=["missing", "directory", "empty", "torn", "list", "no id", "empty id", "null", "number", "deep"],
)  # fmt: skip
def test_a_job_whose_name_was_lost_is_still_the_job_that_its_logs_name(job, content):
    job.launch()
    path = job.dir / "job.json"
    if content == "dir":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    found = claim(job.dir, {})
    assert found.job_id == "job-1"
    assert any("identity was taken from" in note and "rank-00000.jsonl" in note for note in found.notes)
    release(job.dir, found.attempt)
    assert claim(job.dir, {}) == Claim("job-1", 3, "ended")


@pytest.mark.parametrize(
    "header",
    [b"", b"\xff\n", b"[" * 60_000 + b"\n", b'{"k": "attempt"}\n', None],
    ids=["empty", "no text", "deep", "fields missing", "no name"],
)
def test_a_log_that_does_not_name_the_job_leaves_that_to_an_earlier_one(job, header):
    job.launch()
    nameless = job.launch()
    whole = nameless.log.read_bytes()
    nameless.log.write_bytes(whole.replace(b'"job":"job-1"', b'"job":" "') if header is None else header)
    assert claim(job.dir, {}).job_id == "job-1"


def test_a_job_whose_name_nothing_tells_is_told_its_new_one(job):
    job.launch().log.unlink()
    new = claim(job.dir, {})
    (note,) = new.notes
    assert f"it is {new.job_id} from here on" in note


def test_a_note_about_the_claim_is_in_the_report(job):
    job.launch().leave()
    (job.dir / "job.json").write_text("{")
    open_recording(job.dir, environ={}).recorder.finish()
    assert any("job.json cannot be read" in warning for warning in job.report().warnings)


def test_of_many_that_race_for_a_directory_one_wins(job, start, tmp_path):
    gate = tmp_path / "gate"
    racers = [
        start("while not os.path.exists(sys.argv[2]):\n    time.sleep(0.0005)\n" + TRAINING, job.dir, gate)
        for _ in range(5)
    ]
    time.sleep(0.8)
    gate.write_text("")
    said = [racer.stdout.readline() for racer in racers]
    assert sorted(said) == ["1\n", *["unmeasured\n"] * 4]
    for racer in racers:
        _, errors = racer.communicate("")
        assert errors.count("WARNING") == (said[racers.index(racer)] != "1\n")


def test_every_rank_gets_what_rank_zero_was_given(job, tmp_path):
    """The broadcast is called by every rank, also where rank zero was refused."""
    calls = []

    def share(opening):
        calls.append(opening)
        return "rank zero was refused"

    assert open_recording(job.dir, rank=1, world_size=2, share=share, environ={}) is None
    assert calls == ["rank zero decides"]
    assert not job.dir.exists()


def test_one_directory_is_one_attempt_however_it_is_spelt(job, tmp_path, monkeypatch):
    job.dir.mkdir()
    (tmp_path / "link").symlink_to(job.dir)
    monkeypatch.chdir(tmp_path)
    spellings = [job.dir, tmp_path / "link", job.dir / ".." / job.dir.name, Path("job")]
    recordings = {id(open_recording(spelling, environ={})) for spelling in spellings}
    assert len(recordings) == 1
    assert len(list((job.dir / "timeline").glob("attempt-*"))) == 1


def test_two_threads_that_open_one_directory_get_one_attempt(job):
    opened = []
    threads = [threading.Thread(target=lambda: opened.append(open_recording(job.dir, environ={}))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 8
    assert len({id(recording) for recording in opened}) == 1


def test_every_rank_takes_part_each_time_whatever_it_has_open(job):
    """A rank that skipped the broadcast would leave the others waiting in it."""
    calls = []

    def share(opening):
        calls.append(opening)
        return first

    first = open_recording(job.dir, environ={}, share=lambda opening: calls.append(opening) or opening) and calls.pop()
    opened = [open_recording(job.dir, rank=1, world_size=2, share=share, environ={}) for _ in range(2)]
    again = open_recording(job.dir, environ={}, share=lambda opening: calls.append(opening) or opening)
    assert calls == ["rank zero decides", "rank zero decides", first]
    assert opened[0] is opened[1] is again


def test_two_programs_of_one_slurm_job_without_steps_are_two_jobs_while_both_live(job, start):
    first = start(TRAINING, job.dir, SLURM_JOB_ID="77")
    first.stdout.readline()
    second = start(TRAINING, job.dir, SLURM_JOB_ID="77")
    out, errors = second.communicate("")
    assert out == "unmeasured\n"
    assert f"process {first.pid} on host" in errors
    first.kill()
    first.wait()
    third = start(TRAINING, job.dir, SLURM_JOB_ID="77")
    assert third.communicate("") == ("2\n", "")


def test_a_slurm_job_without_steps_that_was_requeued_elsewhere_takes_over_at_once(job, lock):
    lock(host="elsewhere", run="slurm:77.")
    assert claim(job.dir, {"SLURM_JOB_ID": "77"}).predecessor == "same_run"


def test_a_directory_of_a_newer_version_is_not_written_to(job, start):
    job.dir.mkdir()
    (job.dir / "job.json").write_text('{"schema": "ett.job/2", "job_id": "a"}')
    out, errors = start(TRAINING, job.dir).communicate("")
    assert out == "unmeasured\n"
    (warning,) = errors.splitlines()
    assert "written with schema 'ett.job/2'" in warning
    assert (job.dir / "job.json").read_text() == '{"schema": "ett.job/2", "job_id": "a"}'
