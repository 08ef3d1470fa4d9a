"""The column of the matrix that needs a cluster: each kind of judge on two nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'context-judge[ray]'")

from tests.matrix.cells import cell, check, opened  # noqa: E402
from tests.matrix.features import FEATURES, Feature  # noqa: E402
from tests.matrix.kinds import KINDS, Kind  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # Ray's own
]
CELLS = [cell(kind, feature) for kind in KINDS for feature in FEATURES if feature.service == "ray"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[object]:
    """Two nodes of two CPUs on this machine."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "k")  # the workers' environment is the nodes'
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
        made.add_node(num_cpus=2)
        ray.init(address=made.address, log_to_driver=False)
        yield made
        ray.shutdown()
        made.shutdown()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("kind", "feature"), CELLS)
def test_each_kind_on_two_nodes(
    kind: Kind,
    feature: Feature,
    cluster: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The workers' verdicts, votes, means and totals are those of one process, and nothing is paid twice."""
    with opened(kind, tmp_path, monkeypatch, capsys) as case:
        check(feature, case)
