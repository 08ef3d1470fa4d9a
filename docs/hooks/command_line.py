"""The whole command line, every verb loaded, for the page that is written out of it."""

from judge_eval.cli.verbs import make_app

app = make_app()
