"""The training, where one rank of several has ETT_JOB_DIR: the arguments before the training's are it and the rank."""

import os
import runpy
import sys
from pathlib import Path

job_dir, rank = sys.argv[1:3]
if os.environ["RANK"] == rank:
    os.environ["ETT_JOB_DIR"] = job_dir
del sys.argv[1:3]
runpy.run_path(str(Path(__file__).with_name("train.py")), run_name="__main__")
