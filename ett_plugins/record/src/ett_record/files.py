"""Reads small files that anybody may have put there, and nothing that is not a file."""

from __future__ import annotations

import json
import math
import os
import stat
from pathlib import Path
from typing import Any, NoReturn


def read_regular(path: Path) -> bytes:
    """A regular file's bytes.

    Raises:
        FileNotFoundError: There is none.
        OSError: It cannot be read.
        ValueError: It is a directory, a device or a pipe, which could be waited for without end.
    """
    # Opening a pipe would wait for somebody at its other end.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is not a regular file")
        return file.read()


def read_json(path: Path) -> Any:
    """A regular file's JSON value, without the numbers that JSON does not have.

    Raises:
        FileNotFoundError: There is none.
        OSError: It cannot be read.
        ValueError: It is not JSON in UTF-8, or too deep to be read.
    """
    return loads(read_regular(path))


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
