"""The whole application, with every verb loaded; the command loads the one that is called."""

from judge_eval.cli.verbs import make_app

app = make_app()
