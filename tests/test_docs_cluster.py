"""The files of docs/cluster.md are whole: what a shell, Python or a YAML parser refuses is a fault of the page."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from valuerepair.cli import COMMANDS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "cluster.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.M | re.S)


def blocks(language: str) -> list[str]:
    texts = [text for kind, text in BLOCKS if kind == language]
    assert texts
    return texts


def test_shell() -> None:
    for text in blocks("sh"):
        done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
        assert done.returncode == 0, f"{done.stderr}\n{text}"
        if shutil.which("shellcheck"):
            subprocess.run(["shellcheck", "-s", "bash", "-"], input=text, text=True, check=True)


def test_python() -> None:
    for text in blocks("python"):
        compile(text, "cluster.md", "exec")


def test_kubernetes() -> None:
    cluster, job = [
        document for text in blocks("yaml") if "apiVersion" in text for document in yaml.safe_load_all(text)
    ]
    assert (cluster["kind"], cluster["apiVersion"]) == ("DaskCluster", "kubernetes.dask.org/v1")
    scheduler, worker = (cluster["spec"][part]["spec"]["containers"][0] for part in ("scheduler", "worker"))
    (driver,) = job["spec"]["template"]["spec"]["containers"]
    assert scheduler["image"] == worker["image"] == driver["image"], "versions that differ are refused"
    # Every word is a string: numbers that YAML made would be refused by Kubernetes.
    assert all(isinstance(word, str) for part in (scheduler, worker, driver) for word in part["args"])
    address = driver["args"][driver["args"].index("--cluster") + 1]
    assert address == f"tcp://{cluster['metadata']['name']}-scheduler:8786"
    served = {port["name"]: port["containerPort"] for port in scheduler["ports"]}
    assert {port["targetPort"] for port in cluster["spec"]["scheduler"]["service"]["ports"]} == set(served)


def test_tls_options_are_those_that_dask_knows() -> None:
    dask = pytest.importorskip("dask")
    pytest.importorskip("distributed")
    (text,) = [text for text in blocks("yaml") if "tls" in text]
    for part in ("ca-file", "client.cert", "scheduler.key", "worker.cert"):
        assert dask.config.get(f"distributed.comm.tls.{part}", "absent") is None, part
    options = yaml.safe_load(text)["distributed"]["comm"]["tls"]
    assert set(options) <= set(dask.config.get("distributed.comm.tls"))


def test_dask_commands_have_the_options_that_are_given() -> None:
    pytest.importorskip("distributed")
    from distributed.cli import dask_scheduler, dask_worker

    options = {
        name: {word for option in command.params for word in (*option.opts, *option.secondary_opts)}
        for name, command in (("worker", dask_worker.main), ("scheduler", dask_scheduler.main))
    }
    lines = re.findall(r"dask\"? (worker|scheduler)( [^;\n`)]*)", PAGE)
    lists = [(name, rest) for name, rest in re.findall(r"\[dask, (worker|scheduler),([^\]]*)\]", PAGE)]
    assert len(lines) + len(lists) > 4
    for name, rest in (*lines, *lists):
        for option in re.findall(r"(?<!\w)--[a-z-]+", rest):
            assert option in options[name], f"dask {name} {option}"


def test_dockerfile_and_vr_commands() -> None:
    (text,) = blocks("dockerfile")
    assert {line.split()[0] for line in text.splitlines()} <= {"FROM", "RUN", "ENV", "COPY"}
    copied = [name for line in text.splitlines() if line.startswith("COPY ") for name in line.split()[1:-1]]
    assert all((ROOT / name).exists() for name in copied)
    assert {"pyproject.toml", "valuerepair"} <= set(copied)
    named = set(re.findall(r"\bvr (\w+)", "\n".join(text for _, text in BLOCKS)))
    assert named <= {name for section in COMMANDS.values() for name in section}
