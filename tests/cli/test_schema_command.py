import json

import jsonschema
import pytest

from tests.support.command import FIXTURES, Shell


@pytest.mark.slow
def test_the_files_of_a_run_fit_the_schemas_that_are_printed(shell: Shell) -> None:
    """Manifest, results and dataset of a real run are valid under the exported schemas."""
    data = FIXTURES / "docs_qa.jsonl"
    assert shell("run", data, "--model", "fake/flaky", "--max-failures", "99", "-q").code == 0
    (folder,) = (shell.folder / "runs").iterdir()
    files = {
        "manifest": [json.loads((folder / "manifest.json").read_text())],
        "result": [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()],
        "trace": [json.loads(line) for line in data.read_text().splitlines()],
    }
    for name, documents in files.items():
        result = shell("runs", "schema", name)
        assert result.code == 0
        schema = json.loads(result.out)
        assert documents
        for document in documents:
            jsonschema.validate(document, schema)
    assert {document["v"] for name in ("manifest", "result") for document in files[name]} == {1}


def test_an_unknown_schema_is_advised_on(shell: Shell) -> None:
    """A typo in a schema's name is told with the nearest name."""
    result = shell("runs", "schema", "manifesto")
    assert (result.code, result.out) == (2, "")
    assert "did you mean 'manifest'?" in result.err
