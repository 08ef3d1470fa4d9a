"""Names that the parts of the plugin share; light, since every test run imports it."""

PROPERTY = "judge_eval"
"""The name of the user property in which a test's scores travel to the summary, across processes too."""
