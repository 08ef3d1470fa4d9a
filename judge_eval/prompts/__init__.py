"""The prompt files: found, checked, fingerprinted, made into forms that render requests."""

from judge_eval.prompts.cells import CellForm, CellPrompt
from judge_eval.prompts.chat import READING, Prompt, PromptForm, Repair
from judge_eval.prompts.claims import CLAIM_READING, ClaimsForm, ClaimsPrompt
from judge_eval.prompts.decision import ASKING, DecisionForm, DecisionLayout, DecisionPrompt, GradeLevel
from judge_eval.prompts.shipped import (
    AnyForm,
    AnyPrompt,
    check_lock,
    form_of_version,
    load_form,
    load_prompt,
    load_repair,
    lock,
    prompt_ids,
    prompt_versions,
)

__all__ = [
    "ASKING",
    "CLAIM_READING",
    "READING",
    "AnyForm",
    "AnyPrompt",
    "CellForm",
    "CellPrompt",
    "ClaimsForm",
    "ClaimsPrompt",
    "DecisionForm",
    "DecisionLayout",
    "DecisionPrompt",
    "GradeLevel",
    "Prompt",
    "PromptForm",
    "Repair",
    "check_lock",
    "form_of_version",
    "load_form",
    "load_prompt",
    "load_repair",
    "lock",
    "prompt_ids",
    "prompt_versions",
]
