"""Every kind of judge crossed with every feature: `kinds` are the rows, `features` the columns."""

import pytest

pytest.register_assert_rewrite("tests.matrix.case", "tests.matrix.cells", "tests.matrix.features")
