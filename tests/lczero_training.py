"""lczero-training's own code, run outside the project: its older loader's Python, its newer loader's formula in C++."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "VALUEREPAIR_LCZERO_TRAINING"


def repository() -> Path:
    """A clone of lczero-training (bare or not); the test is skipped where there is none."""
    named = os.environ.get(VARIABLE)
    if not named or not Path(named).is_dir() or shutil.which("git") is None:
        pytest.skip(f"{VARIABLE} names no clone of github.com/LeelaChessZero/lczero-training")
    return Path(named)


def take(folder: Path, *names: str) -> None:
    """Copies files of the repository's HEAD into a folder."""
    for name in names:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        source = ["git", "-C", str(repository()), "show", f"HEAD:{name}"]
        target.write_bytes(subprocess.run(source, capture_output=True, check=True).stdout)


def run_python(folder: Path, program: str, *arguments: str) -> Any:
    """Runs a program beside tf/chunkparser.py and its shuffle buffer; returns what it prints, read as JSON."""
    take(folder, "tf/chunkparser.py", "tf/shufflebuffer.py")
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False, cwd=folder / "tf"
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


_STUB = """
#pragma once
namespace lczero { namespace training {
struct FrameType { float best_q, orig_q, policy_kld; };
}}
"""
_CONFIG = """
#pragma once
#include <algorithm>
namespace lczero { namespace training {
struct PositionSamplingConfig {
  float v[7];
  bool has_diff_focus_q_weight() const { return true; }
  bool has_diff_focus_pol_scale() const { return true; }
  float diff_focus_q_weight() const { return v[0]; }
  float diff_focus_pol_scale() const { return v[1]; }
  float diff_focus_alpha() const { return v[2]; }
  float diff_focus_beta() const { return v[3]; }
  float diff_focus_gamma() const { return v[4]; }
  float diff_focus_tau() const { return v[5]; }
  float default_weight() const { return v[6]; }
};
}}
"""
_MAIN = """
#include <cstdio>
#include <cstdlib>
#include "loader/stages/position_sampling.h"
int main(int argc, char** argv) {
  lczero::training::PositionSamplingConfig config;
  for (int i = 0; i < 7; ++i) config.v[i] = strtof(argv[i + 1], nullptr);
  lczero::training::FrameType frame;
  while (fread(&frame, sizeof frame, 1, stdin) == 1)
    printf("%.9g\\n", lczero::training::ComputePositionSamplingWeight(frame, config));
}
"""


def compile_position_sampling(folder: Path) -> Path:
    """The newer loader's position_sampling.cc as a program: 7 parameters, frames of 3 floats in, weights out."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ on this machine")
    take(folder, "csrc/loader/stages/position_sampling.cc", "csrc/loader/stages/position_sampling.h")
    source = folder / "csrc"
    (source / "proto").mkdir()
    (source / "loader" / "frame_type.h").write_text(_STUB)
    (source / "proto" / "data_loader_config.pb.h").write_text(_CONFIG)
    (source / "main.cc").write_text(_MAIN)
    files = [str(source / "main.cc"), str(source / "loader" / "stages" / "position_sampling.cc")]
    subprocess.run(["g++", "-std=c++17", "-I", str(source), "-o", str(folder / "weigh"), *files], check=True)
    return folder / "weigh"
