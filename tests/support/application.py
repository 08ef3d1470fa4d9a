"""The whole command line, every verb loaded, for tests that call it in their own process."""

from judge_eval.cli.verbs import make_app

app = make_app()
