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

from .probes.batches import LeadingDimension, guarded
from .probes.checkpoint import measure_checkpoints, stop_measuring_checkpoints, stop_measuring_when_torn_down
from .probes.compilation import CompilationWatch
from .probes.loader import listen, stop_listening
from .probes.progress import fetched_batch, fetches_itself, processed_batches
from .spans import SpanObserver, Spans

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
        self._recorder: Recorder | None = None
        self._spans: Spans | None = None
        self._compilations: CompilationWatch | None = None
        self._evaluation: OpenSpan | None = None
        self._samples: Callable[[Any], int] | None = None
        self._samples_fetched: Callable[[Any], int] | None = None
        self._processed_before = 0
        self._in_step = False
        self._announced = False
        try:
            recording = self._open(trainer)
            if recording is not None:
                self._take_up(recording)
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
                log.warning("no job directory: this job trains unmeasured; name one in a callback or set ETT_JOB_DIR")
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
        recorder = recording.recorder
        if recorder.finished_a_fit:
            # Another Trainer of this process: what comes after a fit that ended well is more of the job.
            self._position.move_to(recorder.position)
        else:
            recorder.move_to(0)
        self._recorder = recorder
        self._high_water = recording.high_water
        self._spans = Spans(recorder, self.run.manager, self.give_up)
        self._compilations = CompilationWatch(self._spans)
        self.run.manager.register(SpanObserver(self._spans))

    @_harmless
    def begin(self, trainer: Any) -> None:
        """A fit, validate, test or predict is being set up."""
        if self._recorder is None or self._spans is None or self._compilations is None:
            return
        self._recorder.begin_fit()
        listen(trainer, self._spans)
        measure_checkpoints(trainer, self._spans)
        self._compilations.watch()

    @_harmless
    def begin_training(self, trainer: Any) -> None:
        """Everything is restored; the first batch is next."""
        answer = self.run.manager.hook.ett_choose_batch_samples()
        if answer is None:
            self._samples = LeadingDimension(trainer.train_dataloader)
        else:
            self._samples = guarded(answer)
        self._samples_fetched = None
        if fetches_itself(trainer.lightning_module):
            self._samples, self._samples_fetched = _none_yet, self._samples
        if self._compilations is not None:
            self._compilations.watch()
        self._announce()

    def begin_step(self, trainer: Any, batch: Any) -> None:
        """A batch is about to be trained. Paid for every batch."""
        if self._samples is None:
            return
        try:
            self._in_step = True
            self._processed_before = processed_batches(trainer)
            self._position.start_batch(self._samples(batch), self._processed_before)
            if self._recorder is not None:
                if self._samples_fetched is not None:
                    # The loader began the epoch; this step will ask it for a batch.
                    self._recorder.end_wait()
                self._recorder.begin_step()
        except Exception as error:  # noqa: BLE001  (measuring never harms a training)
            self.give_up(error)

    def end_step(self, trainer: Any) -> None:
        """The batch was trained. Paid for every batch."""
        try:
            if self._in_step and self._samples_fetched is not None:
                batch = fetched_batch(trainer)
                self._position.start_batch(self._samples_fetched(batch), self._processed_before)
            self._close_step()
        except Exception as error:  # noqa: BLE001  (measuring never harms a training)
            self.give_up(error)

    @_harmless
    def end_epoch(self) -> None:
        """An epoch is over. A module may end it in ``on_train_batch_start``: then nothing said that the batch is."""
        if self._in_step:
            self._close_step()

    def _close_step(self) -> None:
        self._in_step = False
        position = self._position.end_batch()
        if self._recorder is not None:
            self._recorder.end_step(position)

    @_harmless
    def end_training(self) -> None:
        """The training loop is over."""
        if self._recorder is not None:
            self._recorder.end_training()

    @_harmless
    def begin_evaluation(self, name: str) -> None:
        """A validate, test or predict begins."""
        self._announce()
        if self._spans is not None:
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
        self._in_step = False
        if error is None:
            self._let_go(trainer)
        else:
            self._stop_probes(trainer)
            stop_measuring_when_torn_down(trainer)
        if self._recorder is not None:
            self._recorder.end_fit(self._recorder.outcome(end.value, failure_class, error))

    def state(self) -> dict[str, Any]:
        """What a checkpoint carries: the job's id and the position as of the batches the Trainer has processed."""
        trainer = self._trainer()
        if trainer is not None and self._in_step and processed_batches(trainer) > self._processed_before:
            # Whoever saves before others hear that the batch is over: a kill in the save must not take the batch back.
            self.end_step(trainer)
        return {"job_id": self.run.context.job_id, "samples": self._position.samples}

    @_harmless
    def load(self, state: dict[str, Any]) -> None:
        """Go on where a checkpoint was saved; another job's checkpoint begins at 0."""
        trainer = self._trainer()
        if trainer is None or trainer.state.fn != "fit":
            return
        own = state.get("job_id") is not None and state["job_id"] == self.run.context.job_id
        self._position.move_to(int(state.get("samples", 0)) if own else 0)
        if self._recorder is not None:
            self._recorder.move_to(self._position.samples)

    def give_up(self, error: Exception) -> None:
        """Measure no more, and say so once."""
        log.warning("the timeline failed: training goes on, and is not measured from here on", exc_info=error)
        if self._recorder is not None:
            self._recorder.note("the measuring failed here; what follows counts as what was open then")
        self._recorder = self._spans = None
        self._samples = None
        trainer = self._trainer()
        if trainer is not None:
            self._let_go(trainer)

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
        if self._announced or context.job_id is None or context.attempt is None or context.job_dir is None:
            return
        self._announced = True
        self.run.manager.hook.ett_attempt_started(
            attempt=Attempt(
                job_id=context.job_id,
                job_dir=context.job_dir,
                number=context.attempt,
                rank=context.rank,
                world_size=context.world_size,
                resumed_from_samples=self._position.samples,
                high_water_samples=self._high_water,
            )
        )


def _none_yet(batch: Any) -> int:
    """What a batch holds that its step has yet to fetch."""
    del batch
    return 0


def _versions() -> dict[str, str]:
    versions = {}
    for name in _MEASURED_WITH:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
