"""`python -m judge_eval`, the same as the command `judge-eval`."""

from judge_eval.cli import main

if __name__ == "__main__":
    main()
