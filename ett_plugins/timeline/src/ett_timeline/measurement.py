"""The measuring of one Trainer: what the callback does when Lightning calls it."""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec

from ett_hookspecs import Attempt, AttemptEnd, EttPluginError, Run, SamplePosition, Stage
from ett_record import OpenSpan, Recorder, Recording, open_recording

from .counting import BatchCount
from .outcomes import classify, one_line
from .probes.checkpoint import measure_checkpoints, stop_measuring_checkpoints, stop_measuring_when_torn_down
from .probes.compilation import CompilationWatch
from .probes.loader import listen, stop_listening
from .probes.progress import begins_an_epoch_anew, is_running
from .saved import SavedPosition
from .spans import PLUGIN, SpanObserver, Spans

log = logging.getLogger(__name__)

_MEASURED_WITH: Final = ("ett-timeline", "ett-record", "lightning", "torch")

_P = ParamSpec("_P")


def _harmless(
    method: Callable[Concatenate[Measurement, _P], None],
) -> Callable[Concatenate[Measurement, _P], None]:
    """Whatever goes wrong with the measuring ends the measuring, not the training."""

    @functools.wraps(method)
    def guarded_method(self: Measurement, /, *args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except EttPluginError:
            raise
        except Exception as error:  # noqa: BLE001  (measuring never harms a training)
            self.give_up(error)

    return guarded_method


_MEASURED_BY: weakref.WeakKeyDictionary[Recorder, weakref.ref[Any]] = weakref.WeakKeyDictionary()
"""The Trainer that each recorder of this process was last told about."""


class Measurement:
    """Measures one Trainer, over all its fits.

    Args:
        run: What the Trainer's ETT callbacks share.
        trainer: A ``lightning.pytorch.Trainer``, its strategy's environment set up.
    """

    def __init__(self, run: Run, trainer: Any) -> None:
        self.run = run
        self._trainer = weakref.ref(trainer)
        self._position: SamplePosition = run.context.position
        self._count = BatchCount(self._position)
        self._recording: Recording | None = None
        self._recorder: Recorder | None = None
        self._spans: Spans | None = None
        self._compilations: CompilationWatch | None = None
        self._evaluation: OpenSpan | None = None
        self._carried_job_id: str | None = None
        self._failed = False
        self._announced = False
        try:
            self._recording = self._open(trainer)
            if self._recording is not None:
                self._take_up(self._recording)
        except EttPluginError:
            raise
        except Exception as error:  # noqa: BLE001  (measuring never harms a training)
            self.give_up(error)

    def _open(self, trainer: Any) -> Recording | None:
        context = self.run.context
        # Rank zero's directory is everybody's: a rank that was not told of it may not leave the others waiting.
        job_dir: Path | None = trainer.strategy.broadcast(context.job_dir)
        if job_dir is None:
            if context.rank == 0:
                log.warning(
                    "%s has no job directory: this job trains unmeasured; name one in a callback or set ETT_JOB_DIR",
                    PLUGIN,
                )
            return None
        if context.job_dir is None:
            context.name_job_dir(job_dir, "rank zero")
        return open_recording(
            job_dir,
            rank=context.rank,
            world_size=context.world_size,
            share=trainer.strategy.broadcast,
            versions=_versions(),
        )

    def _take_up(self, recording: Recording) -> None:
        context = self.run.context
        context.job_id, context.attempt = recording.job_id, recording.attempt
        self._spans = Spans(recording.recorder, self.run.manager, self.give_up)
        self._compilations = CompilationWatch(self._spans)
        self.run.manager.register(SpanObserver(self._spans))

    @_harmless
    def begin(self, trainer: Any) -> None:
        """A fit, validate, test or predict is being set up."""
        self._recorder = None
        if self._failed or self._recording is None or self._spans is None or self._compilations is None:
            return
        recorder = self._recording.recorder
        if _inside_another(recorder, trainer):
            log.warning(
                "%s does not measure a Trainer that runs inside another one's fit on the same job directory: its time "
                "counts as what the outer one was doing; give it a directory of its own",
                PLUGIN,
            )
            return
        _MEASURED_BY[recorder] = weakref.ref(trainer)
        self._recorder = recorder
        if recorder.finished_a_fit:
            # Perhaps another Trainer's: what comes after a fit that ended well is more of the job.
            self._position.move_to(recorder.position)
        else:
            recorder.move_to(self._position.samples)
        recorder.begin_fit()
        listen(trainer, self._spans)
        measure_checkpoints(trainer, self._spans)
        self._compilations.watch()

    @_harmless
    def begin_training(self, trainer: Any) -> None:
        """Everything is restored; the first batch is next."""
        self._count.begin_training(trainer, self.run.manager)
        if self._recorder is not None and begins_an_epoch_anew(trainer):
            self._recorder.note(
                "resumed in the middle of an epoch with a data loader that cannot resume (no state_dict and "
                "load_state_dict): Lightning starts the epoch's data anew, so that new and repeated count positions, "
                "not items"
            )
        if self._recorder is not None and self._compilations is not None:
            self._compilations.watch()
        self._announce()

    def begin_step(self, trainer: Any, batch: Any) -> None:
        """A batch is about to be trained. Paid for every batch."""
        try:
            if self._count.begin_batch(trainer, batch) and self._recorder is not None:
                if self._count.fetches_itself:
                    # The loader began the epoch; this step will ask it for a batch.
                    self._recorder.end_wait()
                self._recorder.begin_step()
        except Exception as error:  # noqa: BLE001  (measuring never harms a training)
            self.give_up(error)

    def end_step(self, trainer: Any) -> None:
        """The batch was trained. Paid for every batch."""
        try:
            if self._count.end_batch(trainer) and self._recorder is not None:
                self._recorder.end_step(self._position.samples)
        except Exception as error:  # noqa: BLE001  (measuring never harms a training)
            self.give_up(error)

    @_harmless
    def end_training(self) -> None:
        """The training loop is over."""
        if self._recorder is not None:
            self._recorder.end_training()

    @_harmless
    def begin_evaluation(self, name: str) -> None:
        """A validate, test or predict begins."""
        self._announce()
        if self._recorder is not None and self._spans is not None:
            self._evaluation = self._spans.open(Stage.VALIDATION, name)

    @_harmless
    def end_evaluation(self) -> None:
        """It is over."""
        if self._spans is not None and self._evaluation is not None:
            self._spans.close(self._evaluation)
            self._evaluation = None

    @_harmless
    def end(self, trainer: Any, end: AttemptEnd, failure_class: str | None = None, error: str | None = None) -> None:
        """A fit, validate, test or predict has been torn down, or has raised."""
        self._evaluation = None
        # A callback before ours may have raised before we heard that the batch was trained.
        self._count_what_was_trained(trainer)
        self._position.drop_batch()
        if error is None:
            self._let_go(trainer)
        else:
            self._stop_probes(trainer)
            stop_measuring_when_torn_down(trainer)
        recorder = self._recorder
        if recorder is None and self._failed and self._recording is not None:
            # How it ended is worth knowing, and where, though nothing was measured for a while.
            recorder = self._recording.recorder
            recorder.move_to(self._position.samples)
        if recorder is not None:
            recorder.end_fit(recorder.outcome(end.value, failure_class, error))

    @_harmless
    def fail(self, trainer: Any, exception: BaseException) -> None:
        """An exception has ended a fit, validate, test or predict."""
        self.end(trainer, *classify(exception))

    def state(self) -> dict[str, Any]:
        """What a checkpoint carries: the job's id and the position as of the batches the Trainer has processed."""
        trainer = self._trainer()
        if trainer is not None:
            self._count_what_was_trained(trainer)
        job_id = self.run.context.job_id
        if job_id is None:
            return SavedPosition(self._carried_job_id, self._position.samples, measured=False).to_state()
        return SavedPosition(job_id, self._position.samples, measured=not self._failed).to_state()

    @_harmless
    def _count_what_was_trained(self, trainer: Any) -> None:
        """Whoever saves before others hear that the batch is over: a kill in the save must not take the batch back."""
        if self._count.was_trained(trainer):
            self.end_step(trainer)

    @_harmless
    def load(self, state: dict[str, Any]) -> None:
        """Go on where a checkpoint was saved; another job's checkpoint begins at 0."""
        trainer = self._trainer()
        if trainer is None or trainer.state.fn != "fit":
            return
        try:
            saved = SavedPosition.from_state(state)
        except ValueError as error:
            self._warn(f"the checkpoint's sample position is damaged ({error}): this attempt's data counts from 0")
            saved = SavedPosition(None, 0)
        job_id = self.run.context.job_id
        if job_id is None:
            self._carried_job_id = saved.job_id
        elif saved.job_id != job_id:
            saved = SavedPosition(job_id, 0)
        self._position.move_to(saved.samples)
        if self._recorder is not None:
            self._recorder.move_to(saved.samples)
            if not saved.measured:
                self._recorder.note(
                    "resumed from a checkpoint of an attempt that was not measured: what that trained counts as skipped"
                )

    def give_up(self, error: Exception) -> None:
        """Measure no more, and say so once; the position is followed as long as that works."""
        trainer = self._trainer()
        if trainer is not None:
            self._let_go(trainer)
        if self._failed:
            # Nothing was left but the counting.
            self._count.stop()
            return
        self._failed = True
        log.warning("%s failed (%s): training goes on, and is not measured from here on", PLUGIN, one_line(error))
        log.debug("how it failed", exc_info=error)
        recorder, self._recorder = self._recorder, None
        if self._spans is not None:
            self._spans.stop()
        if recorder is not None:
            recorder.note("the measuring failed here; what follows counts as what was open then")

    def _warn(self, text: str) -> None:
        """Say something now and in the report."""
        log.warning("%s: %s", PLUGIN, text)
        if self._recorder is not None:
            self._recorder.note(text)

    def _let_go(self, trainer: Any) -> None:
        self._stop_probes(trainer)
        stop_measuring_checkpoints(trainer)

    def _stop_probes(self, trainer: Any) -> None:
        """Stop watching what only a running loop does."""
        if self._compilations is not None:
            self._compilations.stop()
        stop_listening(trainer)

    def _announce(self) -> None:
        """Tell the other plugins, once, that the attempt has begun."""
        context = self.run.context
        if self._announced or self._recording is None or context.job_dir is None:
            return
        self._announced = True
        self.run.manager.hook.ett_attempt_started(
            attempt=Attempt(
                job_id=self._recording.job_id,
                job_dir=context.job_dir,
                number=self._recording.attempt,
                rank=context.rank,
                world_size=context.world_size,
                resumed_from_samples=self._position.samples,
                high_water_samples=self._recording.high_water,
            )
        )


def _inside_another(recorder: Recorder, trainer: Any) -> bool:
    """Whether the recorder is being told about another Trainer, in whose fit this one runs."""
    known = _MEASURED_BY.get(recorder)
    outer = None if known is None else known()
    return outer is not None and outer is not trainer and is_running(outer)


def _versions() -> dict[str, str]:
    versions = {}
    for name in _MEASURED_WITH:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
