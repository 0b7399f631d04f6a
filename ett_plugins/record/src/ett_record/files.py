"""Reads files that anybody may have put there, and nothing that is not a file; replaces small ones as a whole."""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn


def read_regular(path: Path) -> bytes:
    """A regular file's bytes.

    Raises:
        FileNotFoundError: There is none.
        OSError: It cannot be read.
        ValueError: It is a directory, a device or a pipe, which could be waited for without end.
    """
    with open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is not a regular file")
        return file.read()


def _without_waiting(path: str, flags: int) -> int:
    # Opening a pipe would wait for somebody at its other end.
    return os.open(path, flags | os.O_NONBLOCK)


def read_json(path: Path) -> Any:
    """A regular file's JSON value, without the numbers that JSON does not have.

    Raises:
        FileNotFoundError: There is none.
        OSError: It cannot be read.
        ValueError: It is not JSON in UTF-8, or too deep to be read.
    """
    return loads(read_regular(path))


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Put a JSON object in the place of a file: whole, or not at all.

    Raises:
        OSError: It cannot be written; what was there stays.
        ValueError: A number is NaN or infinite.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(json.dumps(dict(values), allow_nan=False) + "\n", encoding="utf-8")
    partial.replace(path)


def was_deleted(descriptor: int) -> bool:
    """Whether no directory has an open file any more; False where the disk does not say."""
    try:
        return os.fstat(descriptor).st_nlink == 0
    except OSError:
        return False


def loads(text: bytes) -> Any:
    """A JSON value.

    Raises:
        ValueError: It is none, holds NaN or an infinity, or is too deep to be read.
    """
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large a number")
    return number
