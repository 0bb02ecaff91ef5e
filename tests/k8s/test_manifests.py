"""Each manifest that users apply is accepted by a real API server, and each bad example is not."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from local.base import REPO
from tests.k8s.control_plane import ControlPlane

BASE = REPO / "k8s" / "base"
BAD = sorted((Path(__file__).parent / "bad_examples").glob("*.yaml"))
EXPECTED = "# Rejected: "


def test_the_base_is_accepted_as_it_is_written_and_applying_it_again_changes_nothing(
    control_plane: ControlPlane,
) -> None:
    for _ in range(2):
        done = control_plane.kubectl("apply", "--server-side", "--validate=strict", "-k", str(BASE))
        assert done.returncode == 0, done.stderr
    done = control_plane.kubectl("diff", "--server-side", "-k", str(BASE))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_each_file_of_the_base_is_one_resource_and_is_applied() -> None:
    listed = yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"]
    files = sorted(path.name for path in BASE.glob("*.yaml") if path.name != "kustomization.yaml")
    assert sorted(listed) == files
    for name in files:
        (document,) = yaml.safe_load_all((BASE / name).read_text())
        kind, meta = document["kind"].lower(), document["metadata"]
        assert name == f"{kind}.yaml" or name == f"{kind}-{meta['name'].removeprefix('sluice-')}.yaml"


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_bad_example_is_rejected_with_its_reason(control_plane: ControlPlane, path: Path) -> None:
    said = path.read_text().splitlines()[0]
    assert said.startswith(EXPECTED)
    done = control_plane.kubectl(
        "apply", "--server-side", "--validate=strict", "--dry-run=server", "-f", str(path)
    )
    assert done.returncode != 0, done.stdout
    assert said.removeprefix(EXPECTED) in done.stderr
